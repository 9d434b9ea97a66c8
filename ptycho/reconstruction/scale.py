"""Would positions of another scale explain the patterns? A probe that is free to change hides a wrong one.

A beam that is out of focus and positions that are too far apart explain nearly the same patterns, by an
object that is stretched: where the probe is found, a wrong distance or pixel size leaves little to see. But
the probe as it was told explains them well with positions of the right scale alone. So objects are fitted to
some patterns in the middle of the scan, under the told beam, with positions of several scales; the best goes
on with an affine map of the positions free, and is compared with the reconstruction, pattern by pattern.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ptycho.progress import silent
from ptycho.reconstruction.judge import Comparison, compare_shares
from ptycho.reconstruction.solver import OBJECT_ALONE, Terms, fit
from ptycho.reconstruction.state import Freedom, State
from ptycho.scan.dataset import Dataset

SCALES = (0.67, 0.74, 0.82, 0.9, 1.11, 1.22, 1.35, 1.5)
PATTERNS = 36  # in the middle of the scan
STEPS, MORE_STEPS = 15, 40  # of each scale, and of the best
MOVED = 0.05  # of a scale, below which it is no other


@dataclass(frozen=True)
class Scale:
    """Of the positions, how much better it explains the patterns than the reconstruction does, in logarithms
    of the deviance, and the reconstruction's mean deviance."""

    factor: float
    gain: Comparison
    before: float

    @property
    def clear(self) -> bool:
        return abs(self.factor - 1) > MOVED and self.gain.matters


def better_scale(told: Dataset, terms: Terms, state: State) -> Scale:
    """The best of some scales, against a reconstruction of all patterns of a dataset.

    Args:
        told: the patterns, with the beam as it is told.
        terms: what they were fitted by.
        state: what was found.
    """
    chosen = told.central(PATTERNS)
    part = told.subset(chosen, 1)
    likelihood = replace(terms.likelihood, data=part, instead=None, advance=silent)
    small = replace(terms, likelihood=likelihood, moves="affine")
    here = replace(state, positions=state.positions[chosen], flux=state.flux[chosen])
    found = likelihood.evaluate(here).deviance / likelihood.pixels
    trials = [
        fit(small, _scaled(part, factor, likelihood.normalisation), OBJECT_ALONE, STEPS) for factor in SCALES
    ]
    best = min(trials, key=lambda trial: trial.course[-1])
    last = fit(small, best.state, Freedom(False, positions=True), MORE_STEPS).state
    deviance = likelihood.evaluate(last).deviance / likelihood.pixels
    return Scale(
        _factor(part.positions, last.positions),
        compare_shares(deviance, found),
        float(np.exp(np.log(found).mean())),
    )


def _scaled(part: Dataset, factor: float, normalisation: float) -> State:
    """A constant object under the told beam, at positions that are so many times as far apart."""
    positions = factor * (part.positions - part.positions.min(axis=0)).astype(float)
    room = np.ceil(0.1 * np.ptp(positions, axis=0).max()) + 2
    positions += room
    side = part.N + int(np.ceil(positions.max()) + room) + 1
    state = State.of(part, np.ones((side, side)), normalisation=normalisation)
    return replace(state, positions=positions)


def _factor(told: np.ndarray, found: np.ndarray) -> float:
    """By what the first are multiplied, mostly: ``Σ r·r' / Σ r·r`` of both without their means."""
    one, two = (positions - positions.mean(axis=0) for positions in (told, found))
    return float(np.sum(one * two) / np.sum(one * one))
