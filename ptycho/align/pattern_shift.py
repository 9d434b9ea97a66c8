"""Find a shift of the patterns on the detector that is linear in the position: an uncorrected descan.

    d_j = S (r_j − r̄),   patterns |F ψ_j|²(q − d_j)

Microscopes bring the beam back to the axis behind the sample; what their coils miss shifts the patterns with
the position. A beam whose direction drifts during a raster does nearly the same. Centres of mass of the
patterns have the trend S: the object, whose phase gradients move them as well, has none as a rule. A lens has
one. So S counts only if it explains held-out patterns far better.

**What cannot be distinguished.** A symmetric S has the same patterns as none, with another object and probe:

    O exp(−iπ Xᵀ S X / N),   P exp(iπ xᵀ S x / N)

So only an S with an antisymmetric part explains more; that part is then found by short fits. The symmetric
part is that under which the specified probe explains the patterns. Where it does not explain them, or none is
specified, the trend is taken, and the object has no mean curvature of its phase. Samples in an electron
microscope have none: there a symmetric S is taken, too, unless the patterns contradict it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ptycho.align.scan_rotation import centres_of_mass
from ptycho.reconstruction.scan_likelihood import side_by_side
from ptycho.reconstruction.trial import (
    Sample,
    Trial,
    TrialOptions,
    expected_noise,
    middle_patterns,
    place_anew,
)
from ptycho.scan.comparison import Rule
from ptycho.scan.dataset import Dataset
from ptycho.scan.positions import rotation


@dataclass(frozen=True)
class ShiftOptions:
    """Limits of which shifts are tried and accepted, measured on simulated scans."""

    z: float = 5.0  # standard errors of the trend
    least: float = 0.25  # detector pixels across the scan
    first: tuple[int, int] = (10, 20)  # steps of the object alone, then with the probe,
    last: tuple[int, int] = (20, 80)  # and of the fits that decide, which refine a wrong curvature
    better: Rule = Rule(4.0, 0.01)
    clear: Rule = Rule(8.0, 0.05)  # whatever remains: few photons predict held-out patterns badly
    worse: Rule = Rule(2.0, 0.002)
    spread: float = 2.0  # standard errors of the trend, between fits along its antisymmetric part
    rounds: int = 2
    alone: tuple[int, int] = (30, 0)  # steps of the fits under a specified probe,
    wider: float = 4.0  # and how many times as far apart they begin
    as_good: float = 0.5  # more that it may leave than a refined one, in logarithms of held-out deviances
    remaining: float = 0.5  # of the held-out deviance beyond photon noise, at most


OPTIONS = ShiftOptions()
WAYS = np.array([[[0, 1], [-1, 0]], [[1, 0], [0, 1]], [[1, 0], [0, -1]], [[0, 1], [1, 0]]])
"""Of which S is a sum; the first is antisymmetric."""


Tried = Callable[[np.ndarray, tuple[int, int]], Trial]
"""Trial of a shift S ``(2, 2)``, by so many steps of the object alone, then with the probe."""


class PatternShift(NamedTuple):
    """A shift of the patterns, and the trials with it and without."""

    matrix: np.ndarray  # S, ``(2, 2)``, detector pixels for one of the object
    trial: Trial
    none: Trial


def find_pattern_shift(
    data: Dataset,
    degrees: float = 0.0,
    uncurved: bool = False,
    specified: bool = True,
    options: ShiftOptions = OPTIONS,
) -> PatternShift | None:
    """Return the shift that explains patterns of one object in a far field far better than none, or None.

    Args:
        degrees: rotation of the positions, as far as it is known.
        uncurved: the phase of the object has no mean curvature, so that a shift is taken that explains the
            patterns as well as none.
        specified: so is the probe; if it is right, it determines the symmetric part.
    """
    matrix, error = trend(centres_of_mass(data), data.positions)
    across = np.abs(matrix) * np.ptp(data.positions, axis=0)
    if not np.any((np.abs(matrix) > options.z * error) & (across > options.least)):
        return None
    noise = expected_noise(data) if data.counts else 0.0
    chosen = middle_patterns(data, TrialOptions().count(data.N))
    places = data.positions[chosen] - data.positions.mean(axis=0, dtype=float)
    patterns = data.amplitudes.some(chosen).in_memory()

    def tried(shift: np.ndarray, steps: tuple[int, int]) -> Trial:
        """Fit the patterns under a shift S ``(2, 2)``, at rotated positions."""
        moved = patterns.shifted((places @ shift.T).astype(np.float32))
        sample = Sample.of(place_anew(data, moved, places @ rotation(degrees).T, data.good))
        return sample.trial(shift, sample.fit_object(*steps))

    def with_and_without(steps: tuple[int, int], rest: float) -> tuple[PatternShift, bool]:
        """Fits under S and without, and whether S explains more.

        It leaves at most a ``rest`` of what is not photon noise, or else far less.
        """
        trial, none = side_by_side(lambda S: tried(S, steps), (matrix, np.zeros((2, 2))))
        less = trial.held_out.mean() - noise < rest * (none.held_out.mean() - noise)
        rule = options.better if less else options.clear
        return PatternShift(matrix, trial, none), trial.gain_over(none).passes(rule)

    if not (with_and_without(options.first, 1.0)[1] or uncurved):
        return None
    steps = options.spread * float(error.max()) * WAYS @ rotation(degrees)
    for k in range(options.rounds):
        matrix = _best_along(tried, matrix, steps[0] / 3**k, options.first)
    if specified and (own := _under_probe(tried, matrix, steps[1:], options)) is not None:
        matrix = own
    found, explains_more = with_and_without(options.last, options.remaining)
    as_good = uncurved and not found.none.gain_over(found.trial).passes(options.worse)
    return found if explains_more or as_good else None


def _under_probe(
    tried: Tried, matrix: np.ndarray, steps: np.ndarray, options: ShiftOptions
) -> np.ndarray | None:
    """Return S ``(2, 2)`` with the symmetric part under which the specified probe explains the patterns.

    None: there is none under which it explains them nearly as well as when it is refined.
    """
    for k in range(options.rounds + 1):
        for step in steps:
            matrix = _best_along(tried, matrix, options.wider * step / 3**k, options.alone)
    kept, refined = tried(matrix, (sum(options.last), 0)), tried(matrix, options.last)
    return matrix if np.log(kept.held_out / refined.held_out).mean() < options.as_good else None


def _best_along(tried: Tried, matrix: np.ndarray, step: np.ndarray, steps: tuple[int, int]) -> np.ndarray:
    """Return S ``(2, 2)``, at most two steps off, at the vertex of a parabola of the deviance."""
    trials = side_by_side(lambda k: tried(matrix + k * step, steps), (-1, 0, 1))
    below, middle, above = (float(trial.deviance.mean()) for trial in trials)
    if (bend := below - 2 * middle + above) <= 0:
        return matrix - float(np.sign(above - below)) * step
    return matrix + float(np.clip((below - above) / (2 * bend), -2, 2)) * step


def trend(values: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return S of the plane ``S (r − r̄)`` through ``values (J, 2)`` and its standard errors, ``(2, 2)``."""
    places, heights = (part - part.mean(axis=0) for part in (positions.astype(float), values))
    inverse = np.linalg.pinv(places.T @ places)
    matrix = heights.T @ places @ inverse
    left = np.mean((heights - places @ matrix.T) ** 2, axis=0)
    return matrix, np.sqrt(left[:, None] * np.diag(inverse))


def as_pairs(matrix: np.ndarray) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return a matrix ``(2, 2)`` as a value of the configuration, to four digits."""
    (a, b), (c, d) = ([float(f"{value:.4g}") for value in row] for row in matrix)
    return (a, b), (c, d)
