"""The patterns of a scan together, once all have come: what no part of it determines is found.

The object alone (phases that vary slowly over the scan), then what else is refined, then the object near what
a network takes it for; of each the share of the time that is left for it. A stage after the first is kept
where the held-out patterns are explained better. A scan that is too large to be held goes on in parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ptycho.config.memory import block_patterns
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.holdout import HoldOut
from ptycho.reconstruction.learned import Learned, StoredNetwork
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, Watch, fit, fit_learned, normalise
from ptycho_live.state import LiveOptions, LiveState
from ptycho_live.update import held_out, improve, put_back, score, subproblem


class Over(Exception):
    """Signal that the time of a stage is over."""


class Stage(NamedTuple):
    """A fit of all patterns."""

    share: float  # of the time; those of all stages add up to one
    refined: Refine
    fit: Callable[[Objective, Estimate, Watch], Estimate]


def finish(
    state: LiveState, seconds: float, speed: float, stages: Sequence[Stage] = ()
) -> Iterator[LiveState]:
    """Yield what all patterns lead to, after every stage, in about so many seconds.

    Args:
        speed: pattern-steps per second, of a scan that goes on in parts.
        stages: in place of the usual ones.
    """
    fitted, refined = np.flatnonzero(~state.patterns["held_out"]), state.refined
    large = len(fitted) > block_patterns(state.N)
    whole = None if large else subproblem(state, fitted, state.options.final_regulariser)
    if whole is None:
        yield from _in_parts(state, seconds, speed)
        return
    block, objective, reached = whole
    refined = replace(refined, positions=refined.positions and not is_still(state))
    until, left, best = time.monotonic() + seconds, 1.0, np.inf  # the first stage is kept in any case
    for stage in stages or stages_of(refined, state.options):
        limit = time.monotonic() + (until - time.monotonic()) * stage.share / left
        left -= stage.share
        estimate = within(limit, stage, objective, reached)
        candidate = put_back(state, block, estimate)
        deviance = score(candidate, stage.refined) or 0.0
        if deviance <= best:
            state, reached, best = candidate, estimate, deviance
            yield state


def final_positions(state: LiveState) -> np.ndarray:
    """Return corrections of the positions ``(J, 2)`` in object pixels, those of held-out patterns included.

    Zero where positions were not refined, or hardly moved: what is left then is noise.
    """
    moves = state.moves
    if not moves.any() or is_still(state):
        return np.zeros_like(moves)
    if (part := held_out(state)) is not None:
        holdout = HoldOut(part.objective.likelihood)
        placed = holdout.places(part.start, Refine(False, True, object=False))
        moves[part.block.patterns] = placed.positions - part.start.positions
    return moves


def is_still(state: LiveState) -> bool:
    """Return whether positions were refined while the object grew, and hardly moved."""
    moves = np.linalg.norm(state.moves, axis=1)
    moved = moves[moves > 0]
    return len(moved) > len(moves) / 2 and float(np.median(moved)) < state.options.still_px


def within(limit: float, stage: Stage, objective: Objective, start: Estimate) -> Estimate:
    """Return where a stage is at a moment, or at its end if that comes before."""
    reached = start

    def watch(estimate: Estimate, value: float) -> None:
        nonlocal reached
        reached = estimate
        if time.monotonic() > limit:
            raise Over

    try:
        return stage.fit(objective, start, watch)
    except Over:
        return normalise(reached, float(np.sum(np.abs(start.modes) ** 2, dtype=float)), stage.refined)


def stages_of(refined: Refine, options: LiveOptions) -> list[Stage]:
    """Return the usual stages, of which some are left out where their parameters are not refined."""

    def plain(share: float, wanted: Refine) -> Stage:
        def run(objective: Objective, start: Estimate, watch: Watch) -> Estimate:
            return fit(objective, start, wanted, options.most_steps, watch=watch).estimate

        return Stage(share, wanted, run)

    def learned(objective: Objective, start: Estimate, watch: Watch) -> Estimate:
        near = replace(objective, learned=Learned(StoredNetwork(), options.denoiser_weight))
        return fit_learned(near, start, 1, watch, options.most_steps).estimate

    stages = [plain(0.4, OBJECT_ALONE)]
    stages += [plain(0.2, Refine(True))] if refined.probe else []
    stages += [plain(0.1, Refine(refined.probe, True))] if refined.positions else []
    stages += [Stage(0.3, OBJECT_ALONE, learned)]
    total = sum(stage.share for stage in stages)
    return [stage._replace(share=stage.share / total) for stage in stages]


def _in_parts(state: LiveState, seconds: float, speed: float) -> Iterator[LiveState]:
    options, until = state.options, time.monotonic() + seconds
    while time.monotonic() < until:
        picture = min(until, time.monotonic() + options.part_s)
        while time.monotonic() < picture:
            state = improve(state, options.part_cycle_s * speed)
        yield state
