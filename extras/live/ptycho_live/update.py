"""One update of a live object: new patterns are fitted with their neighbours, the rest is held.

Every cycle takes new patterns and the old ones nearest to them. If there are no new ones, it takes the
pattern that was fitted least often and those nearest to it. It minimises

    −log p(those) + ½ Σ w |O − O₀|²,   w = 2 Σ_k Σ_m |P_m|² / f²

where the sum runs over the *other* patterns that illuminate a pixel. Their likelihood is approximated by a
normal distribution about the present object (recursive Bayesian estimation with Laplace's approximation). So
new patterns do not spoil the known part of the object, and a pixel that only they illuminate is refined. It
starts from the mean of the illuminated pixels near it, phase included. The probe is refined with the object;
its change is multiplied by the fraction of the patterns that this update fits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from ptycho.reconstruction.blocks import Block, block_of, cut
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.prior import Anchor
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.scan.windows import add_windows_to
from ptycho_live.context import LiveContext
from ptycho_live.options import LiveOptions
from ptycho_live.state import LiveState, fill


def choose(state: LiveState, most: int, sweep: bool = False) -> np.ndarray:
    """Return the indices ``(n,)`` of at most so many patterns that are fitted together.

    New ones, the oldest first, and those nearest to them; in a ``sweep``, or where all were used, the pattern
    that was fitted least often of those that were, and those nearest to it.
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


def steps_of(state: LiveState, budget: float, options: LiveOptions) -> int:
    """Return the steps of a cycle: fewer where more new patterns wait than its budget can take."""
    return options.steps if options.steps * len(state.waiting) <= budget else options.hurried_steps


def improve(state: LiveState, context: LiveContext, budget: float, sweep: bool = False) -> LiveState:
    """Return the state after one cycle.

    Args:
        budget: about so many pattern-steps: patterns times steps of the solver.
        sweep: of patterns that were used before, though there may be new ones.
    """
    options = context.options
    if state.patterns["held_out"].all():
        return state
    steps = steps_of(state, budget, options)
    most = int(np.clip(budget / steps, options.fewest, options.batch_pixels // context.N**2))
    chosen = choose(state, most, sweep)
    amplitudes = context.read(state.patterns["row"][chosen])
    patterns = state.patterns.copy()
    patterns["visits"][chosen] += 1
    state = replace(state, patterns=patterns)
    sound = np.isfinite(amplitudes).all(axis=(1, 2))
    if not sound.any():
        return state
    return _fit(state, context, chosen[sound], amplitudes[sound], steps)


def _fit(
    state: LiveState, context: LiveContext, chosen: np.ndarray, amplitudes: np.ndarray, steps: int
) -> LiveState:
    """Fit patterns, on the part of the object that they illuminate."""
    options, visits = context.options, state.patterns["visits"][chosen]
    block = block_of(state.estimate, chosen)
    start = cut(state.estimate, block)
    illumination = state.illumination[block.window]
    start = replace(start, object=fill(start.object, illumination, context.N, context.options))
    likelihood = context.likelihood_of(amplitudes, start)
    others = np.maximum(illumination - _illumination_of(state, block, visits > 1), 0)
    anchor = Anchor(start.object, np.float32(2 / likelihood.photon**2) * others)
    objective = Objective(likelihood, options.regulariser, "independent", context.support, anchor=anchor)
    if not state.illumination.any():
        first, steps = options.first_steps
        start = fit(objective, start, OBJECT_ALONE, first, 0.0).estimate
    settled = bool(visits.min() > options.visits)
    refined = replace(context.refined, positions=context.refined.positions and settled)
    return _taken(state, fit(objective, start, refined, steps, 0.0).estimate, block, options)


def _illumination_of(state: LiveState, block: Block, counted: np.ndarray) -> np.ndarray:
    """The illumination by those of a block's patterns that are ``counted (n,)``, on its window."""
    illumination = np.zeros(block.shape, np.float32)
    corners = np.round(state.nominal[block.patterns[counted]] - block.corner).astype(int)
    intensity = np.sum(np.abs(state.estimate.modes) ** 2, axis=0)
    add_windows_to(illumination, np.broadcast_to(intensity, (len(corners), *intensity.shape)), corners)
    return illumination


def _taken(state: LiveState, fitted: Estimate, block: Block, options: LiveOptions) -> LiveState:
    """The state with what a fit of a block's patterns has found."""
    old, illumination = state.estimate, state.illumination.copy()
    image, positions = old.object.copy(), old.positions.copy()
    illumination[block.window] += _illumination_of(
        state, block, state.patterns["visits"][block.patterns] == 1
    )
    image[block.window] = fitted.object
    positions[block.patterns] = fitted.positions + np.array(block.corner)
    share = np.clip(len(block.patterns) / max(state.used, 1), options.least_probe_change, 1.0)
    modes = (old.modes + np.float32(share) * (fitted.modes - old.modes)).astype(np.complex64)
    estimate = replace(old, object=image, positions=positions, modes=modes)
    return replace(state, estimate=estimate, illumination=illumination)


def held_out(state: LiveState, context: LiveContext, most: int | None = None) -> np.ndarray:
    """Return the indices ``(n,)`` of held-out patterns among fitted ones; n ≤ ``most``, None: all."""
    chosen = np.flatnonzero(state.patterns["held_out"])
    if not len(chosen) or not state.illumination.any():
        return chosen[:0]
    illumination, centres = state.illumination, np.round(state.nominal[chosen]).astype(int) + state.N // 2
    typical = np.median(illumination[illumination > 0.1 * illumination.max()])
    chosen = chosen[illumination[centres[:, 0], centres[:, 1]] > 0.5 * typical]
    chosen = chosen[:: max(1, -(-len(chosen) // (most or len(chosen) or 1)))]
    if not len(chosen):
        return chosen
    return chosen[np.isfinite(context.read(state.patterns["row"][chosen])).all(axis=(1, 2))]


def score(state: LiveState, context: LiveContext) -> float | None:
    """Return the deviance per pixel of held-out patterns at their nominal positions; None: too few."""
    chosen = held_out(state, context, context.options.most_held_out)
    if not len(chosen):
        return None
    there = at(state, context, chosen, state.nominal)
    likelihood = context.likelihood_of(context.read(state.patterns["row"][chosen]), there)
    return float(np.mean(likelihood.evaluate(there).deviance)) / likelihood.pixels


def at(state: LiveState, context: LiveContext, chosen: np.ndarray, positions: np.ndarray) -> Estimate:
    """Return the estimate of some patterns, in their places among ``positions (J, 2)``, the object filled."""
    old = state.estimate
    image = fill(old.object, state.illumination, context.N, context.options)
    return replace(old, object=image, positions=positions[chosen], flux=old.flux[chosen])
