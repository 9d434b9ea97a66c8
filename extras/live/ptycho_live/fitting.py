"""Fits of a live object: new patterns with their neighbours while the rest is held; all in the end.

Every cycle takes new patterns and the old ones nearest to them. If there are no new ones, it takes the
pattern that was fitted least often and those nearest to it. It minimises

    −log p(those) + ½ Σ w |O − O₀|²,   w = 2 Σ_k Σ_m |P_m|² / f²

where the sum runs over the *other* patterns that illuminate a pixel. Their likelihood is approximated by a
normal distribution about the present object (recursive Bayesian estimation with Laplace's approximation). So
new patterns do not spoil the known part of the object, and a pixel that only they illuminate is refined. It
starts from the mean of the illuminated pixels near it, phase included. The probe is refined with the object;
its change is multiplied by the fraction of the patterns that this update fits.

Once all patterns have come, they are fitted together, because no part of them determines phases that vary
slowly over the scan: the object alone, then what else is refined, then the object near what a network takes
it for; of each the share of the time that is left for it. A stage after the first is kept where the held-out
patterns are explained better. A scan that is too large to be held goes on in parts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from ptycho.config.memory import block_patterns
from ptycho.reconstruction.blocks import Block, block_of, cut
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.holdout import HoldOut
from ptycho.reconstruction.learned import Learned, StoredNetwork
from ptycho.reconstruction.parameters import object_illumination
from ptycho.reconstruction.prior import NO_PRIOR, Anchor, Prior
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit, fit_learned, normalise
from ptycho_live.state import LiveOptions, LiveState


class Part(NamedTuple):
    """Some patterns of a scan on the part of the object that they illuminate."""

    block: Block
    objective: Objective
    start: Estimate  # the object filled where it is not illuminated


def choose(state: LiveState, most: int, sweep: bool = False) -> np.ndarray:
    """Return the indices ``(n,)`` of at most so many patterns that are fitted together: new, and near ones.

    In a ``sweep``, or where all were used, the pattern that was fitted least often replaces new ones.
    """
    visits, new = state.patterns["visits"], state.waiting[:most]
    used = np.flatnonzero((visits > 0) & ~state.patterns["held_out"])
    if len(used) and (sweep or not len(new)):
        new = used[[np.argmin(visits[used])]]
    old = np.setdiff1d(used, new)
    if not len(old):
        return new
    distance = cKDTree(state.nominal[new]).query(state.nominal[old])[0]
    near = old[np.argsort(distance, kind="stable")[: most - len(new)]]
    return np.sort(np.concatenate([new, near]))


def steps_of(state: LiveState, budget: float) -> int:
    """Return the steps of a cycle: fewer where more new patterns wait than its budget can take."""
    options = state.options
    return options.steps if options.steps * len(state.waiting) <= budget else options.hurried_steps


def improve(state: LiveState, budget: float, sweep: bool = False) -> LiveState:
    """Return the state after one cycle of about ``budget`` pattern-steps: patterns times steps of the solver.

    ``sweep``: of patterns that were used before, though there may be new ones.
    """
    options = state.options
    if state.patterns["held_out"].all():
        return state
    steps = steps_of(state, budget)
    most = int(np.clip(budget / steps, options.fewest, options.batch_pixels // state.N**2))
    chosen, patterns = choose(state, most, sweep), state.patterns.copy()
    patterns["visits"][chosen] += 1
    state = replace(state, patterns=patterns)
    part = subproblem(state, chosen, options.regulariser)
    return state if part is None else _fit(state, part, steps)


def subproblem(state: LiveState, chosen: np.ndarray, prior: Prior = NO_PRIOR) -> Part | None:
    """Return the fit of patterns ``(n,)``, without those that are not finite; None: none is left."""
    amplitudes = state.read(state.patterns["row"][chosen])
    sound = np.isfinite(amplitudes).all(axis=(1, 2))
    if not sound.any():
        return None
    block = block_of(state.estimate, chosen[sound])
    start = replace(cut(state.estimate, block), object=state.filled(block.window))
    objective = state.objective_of(amplitudes[sound], start)
    return Part(block, replace(objective, prior=prior), start)


def _fit(state: LiveState, part: Part, steps: int) -> LiveState:
    """Fit patterns while the others, by an anchor, hold the object where they illuminate it."""
    (block, objective, start), options = part, state.options
    visits, illumination = state.patterns["visits"][block.patterns], state.illumination.copy()
    others = np.maximum(illumination[block.window] - _illumination_of(state, part, visits > 1), 0)
    anchor = Anchor(start.object, np.float32(2 / objective.likelihood.photon**2) * others)
    objective = replace(objective, anchor=anchor)
    if not illumination.any():
        first, steps = options.first_steps
        start = fit(objective, start, OBJECT_ALONE, first, 0.0).estimate
    settled = bool(visits.min() > options.visits)
    refined = replace(state.refined, positions=state.refined.positions and settled)
    fitted = fit(objective, start, refined, steps, 0.0).estimate
    illumination[block.window] += _illumination_of(state, part, visits == 1)
    share = np.clip(len(block.patterns) / max(state.used, 1), options.least_probe_change, 1.0)
    return replace(put_back(state, block, fitted, share), illumination=illumination)


def _illumination_of(state: LiveState, part: Part, counted: np.ndarray) -> np.ndarray:
    """The illumination by those of a part's patterns that are ``counted (n,)``, on its window."""
    nominal = state.nominal[part.block.patterns[counted]] - part.block.corner
    return object_illumination(replace(part.start.at(np.flatnonzero(counted)), positions=nominal))


def put_back(state: LiveState, block: Block, fitted: Estimate, share: float = 1.0) -> LiveState:
    """Return the state with object and positions of a block's fit, and a ``share`` of its modes' change."""
    old = state.estimate
    image, positions = old.object.copy(), old.positions.copy()
    image[block.window] = fitted.object
    positions[block.patterns] = fitted.positions + np.array(block.corner)
    modes = (old.modes + np.float32(share) * (fitted.modes - old.modes)).astype(np.complex64)
    return replace(state, estimate=replace(old, object=image, positions=positions, modes=modes))


def held_out(state: LiveState, most: int | None = None) -> Part | None:
    """Return held-out patterns among fitted ones, at most so many; None: there are none."""
    chosen = np.flatnonzero(state.patterns["held_out"])
    illumination = state.illumination
    if not len(chosen) or not illumination.any():
        return None
    centres = np.round(state.nominal[chosen]).astype(int) + state.N // 2
    typical = np.median(illumination[illumination > 0.1 * illumination.max()])
    chosen = chosen[illumination[centres[:, 0], centres[:, 1]] > 0.5 * typical]
    chosen = chosen[:: max(1, -(-len(chosen) // (most or len(chosen) or 1)))]
    return subproblem(state, chosen) if len(chosen) else None


def score(state: LiveState, refined: Refine = OBJECT_ALONE) -> float | None:
    """Return the deviance per pixel of held-out patterns, their positions ``refined`` if need be; or None."""
    part = held_out(state, state.options.most_held_out)
    if part is None:
        return None
    return float(HoldOut(part.objective.likelihood).score(part.start, refined).mean())


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
    """Return corrections of all positions ``(J, 2)`` in object pixels, those of held-out patterns, too."""
    moves = state.moves
    if not moves.any() or is_still(state):  # what is left then is noise
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
