"""The patterns of a scan together, once all have come: what no part of it determines is found.

The object alone (phases that vary slowly over the scan), then what else is refined, then the object near what
a network takes it for; of each the share of the time that is left for it. A stage after the first is kept
where the held-out patterns are explained better. A scan that is too large to be held goes on in parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ptycho.config.memory import block_patterns
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.holdout import HoldOut
from ptycho.reconstruction.learned import Learned, StoredNetwork
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit, fit_learned, normalise
from ptycho_live.context import LiveContext
from ptycho_live.options import LiveOptions
from ptycho_live.state import LiveState
from ptycho_live.update import at, held_out, improve

Watch = Callable[[Estimate, float], object]
Stage = Callable[[Estimate, Watch], Estimate]


class Over(Exception):
    """Signal that the time of a stage is over."""


def finish(state: LiveState, context: LiveContext, seconds: float, speed: float) -> Iterator[LiveState]:
    """Yield what all patterns lead to, after every stage, in about so many seconds.

    Args:
        speed: pattern-steps per second, of a scan that goes on in parts.
    """
    fitted = np.flatnonzero(~state.patterns["held_out"])
    if len(fitted) > block_patterns(context.N):
        yield from _in_parts(state, context, seconds, speed)
        return
    fitted = fitted[np.isfinite(context.read(state.patterns["row"][fitted])).all(axis=(1, 2))]
    objective, reached = _together(state, context, fitted, state.estimate.positions)
    holdout = _holdout(state, context, held_out(state, context, context.options.most_held_out))
    refined = context.refined
    refined = replace(refined, positions=refined.positions and not is_still(state, context.options))
    until, left, best = time.monotonic() + seconds, 1.0, np.inf  # the first stage is kept in any case
    for share, wanted, stage in _stages(objective, refined, context.options):
        limit = time.monotonic() + (until - time.monotonic()) * share / left
        left -= share
        candidate = within(limit, stage, reached, wanted)
        score = 0.0 if holdout is None else float(holdout.score(candidate, wanted).mean())
        if score <= best:
            reached, best = candidate, score
            state = _placed(state, reached, fitted)
            yield state


def final_positions(state: LiveState, context: LiveContext) -> np.ndarray:
    """Return corrections of the positions ``(J, 2)`` in object pixels, those of held-out patterns included.

    Zero where positions were not refined, or hardly moved: what is left then is noise.
    """
    moves = state.estimate.positions - state.nominal
    if not moves.any() or is_still(state, context.options):
        return np.zeros_like(moves)
    chosen = held_out(state, context)
    holdout = _holdout(state, context, chosen)
    if holdout is not None:
        estimate = holdout.places(state.estimate, Refine(False, True, object=False))
        moves[chosen] = estimate.positions - state.nominal[chosen]
    return moves


def is_still(state: LiveState, options: LiveOptions) -> bool:
    """Return whether positions were refined while the object grew, and hardly moved."""
    moves = np.linalg.norm(state.estimate.positions - state.nominal, axis=1)
    moved = moves[moves > 0]
    return len(moved) > len(moves) / 2 and float(np.median(moved)) < options.still_px


def within(limit: float, stage: Stage, start: Estimate, refined: Refine) -> Estimate:
    """Return where a stage is at a moment, or at its end if that comes before."""
    reached = start

    def watch(estimate: Estimate, value: float) -> None:
        nonlocal reached
        reached = estimate
        if time.monotonic() > limit:
            raise Over

    try:
        return stage(start, watch)
    except Over:
        return normalise(reached, float(np.sum(np.abs(start.modes) ** 2, dtype=float)), refined)


def _stages(
    objective: Objective, refined: Refine, options: LiveOptions
) -> Iterator[tuple[float, Refine, Stage]]:
    """Share of the time, what is refined, and the fit; the shares of all add up to one."""

    def plain(wanted: Refine) -> Stage:
        return lambda estimate, watch: (
            fit(objective, estimate, wanted, options.most_steps, watch=watch).estimate
        )

    def learned(estimate: Estimate, watch: Watch) -> Estimate:
        network = Learned(StoredNetwork(), options.denoiser_weight)
        return fit_learned(
            replace(objective, learned=network), estimate, 1, watch, options.most_steps
        ).estimate

    all_of_it = Refine(refined.probe, True)
    stages = [(0.4, OBJECT_ALONE, plain(OBJECT_ALONE))]
    stages += [(0.2, Refine(True), plain(Refine(True)))] if refined.probe else []
    stages += [(0.1, all_of_it, plain(all_of_it))] if refined.positions else []
    stages += [(0.3, OBJECT_ALONE, learned)]
    total = sum(share for share, _, _ in stages)
    return ((share / total, wanted, stage) for share, wanted, stage in stages)


def _together(
    state: LiveState, context: LiveContext, chosen: np.ndarray, positions: np.ndarray
) -> tuple[Objective, Estimate]:
    """What is minimised for some patterns, and their estimate, on a square object."""
    start = at(state, context, chosen, positions)
    side = max(start.object.shape)
    start = replace(start, object=np.pad(start.object, [(0, side - n) for n in start.object.shape], "edge"))
    likelihood = context.likelihood_of(context.read(state.patterns["row"][chosen]), start)
    return Objective(likelihood, context.options.final_regulariser, "independent", context.support), start


def _holdout(state: LiveState, context: LiveContext, chosen: np.ndarray) -> HoldOut | None:
    """Held-out patterns at their nominal positions; None: there are none."""
    return HoldOut(_together(state, context, chosen, state.nominal)[0].likelihood) if len(chosen) else None


def _placed(state: LiveState, estimate: Estimate, fitted: np.ndarray) -> LiveState:
    height, width = state.illumination.shape
    positions = state.estimate.positions.copy()
    positions[fitted] = estimate.positions
    image = estimate.object[:height, :width]
    return replace(
        state, estimate=replace(state.estimate, object=image, modes=estimate.modes, positions=positions)
    )


def _in_parts(state: LiveState, context: LiveContext, seconds: float, speed: float) -> Iterator[LiveState]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        picture = min(until, time.monotonic() + context.options.part_s)
        while time.monotonic() < picture:
            state = improve(state, context, context.options.part_cycle_s * speed)
        yield state
