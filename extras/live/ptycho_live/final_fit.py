"""The patterns of a scan together, once all have come: what no part of it determines is found.

The object alone (phases that vary slowly over the scan), then what else is refined, then the object near what
a network takes it for; of each the share of the time that is left for it. A stage after the first is kept
where the held-out patterns are explained better. A scan that is too large to be held goes on in parts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ptycho.config.memory import block_patterns
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.holdout import HoldOut
from ptycho.reconstruction.learned import Learned, StoredNetwork
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit, fit_learned, normalise
from ptycho_live.state import LiveOptions, LiveState
from ptycho_live.update import held_out, improve, put_back, score, subproblem


class Over(Exception):
    """Signal that the time of a stage is over."""


class Stage(NamedTuple):
    """A fit of all patterns."""

    share: float  # of the time
    refined: Refine
    near_network: bool = False  # the object near what a network takes it for


def finish(state: LiveState, seconds: float, speed: float) -> Iterator[LiveState]:
    """Yield what all patterns lead to, after every stage, in about so many seconds.

    ``speed``: pattern-steps per second, of a scan that goes on in parts.
    """
    options, until = state.options, time.monotonic() + seconds
    fitted = np.flatnonzero(~state.patterns["held_out"])
    large = len(fitted) > block_patterns(state.N)
    whole = None if large else subproblem(state, fitted, options.final_regulariser)
    if whole is None:
        while time.monotonic() < until:
            picture = min(until, time.monotonic() + options.part_s)
            while time.monotonic() < picture:
                state = improve(state, options.part_cycle_s * speed)
            yield state
        return
    block, objective, reached = whole
    stages, best = stages_of(state), np.inf  # the first stage is kept in any case
    for k, stage in enumerate(stages):
        left = sum(other.share for other in stages[k:])
        limit = time.monotonic() + (until - time.monotonic()) * stage.share / left
        estimate = fit_until(limit, stage, objective, reached, options)
        candidate = put_back(state, block, estimate)
        deviance = score(candidate, stage.refined) or 0.0
        if deviance <= best:
            state, reached, best = candidate, estimate, deviance
            yield state


def stages_of(state: LiveState) -> list[Stage]:
    """Return the stages, without those whose parameters are not refined."""
    refined = state.refined
    stages = [Stage(0.4, OBJECT_ALONE)]
    stages += [Stage(0.2, Refine(True))] if refined.probe else []
    stages += [Stage(0.1, Refine(refined.probe, True))] if refined.positions and not is_still(state) else []
    return [*stages, Stage(0.3, OBJECT_ALONE, near_network=True)]


def fit_until(
    limit: float, stage: Stage, objective: Objective, start: Estimate, options: LiveOptions
) -> Estimate:
    """Return where a stage is at the moment ``limit``, or at its end if that comes before."""
    reached = start

    def watch(estimate: Estimate, value: float) -> None:
        nonlocal reached
        reached = estimate
        if time.monotonic() > limit:
            raise Over

    try:
        if stage.near_network:
            near = replace(objective, learned=Learned(StoredNetwork(), options.denoiser_weight))
            return fit_learned(near, start, 1, watch, options.most_steps).estimate
        return fit(objective, start, stage.refined, options.most_steps, watch=watch).estimate
    except Over:
        return normalise(reached, float(np.sum(np.abs(start.modes) ** 2, dtype=float)), stage.refined)


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
