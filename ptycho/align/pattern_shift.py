"""Find a shift of the patterns on the detector that is linear in the position: an uncorrected descan.

    d_j = S (r_j − r̄),   patterns |F ψ_j|²(q − d_j)

Microscopes bring the beam back to the axis behind the sample; what their coils miss shifts the patterns with
the position. A beam whose direction drifts during a raster does nearly the same. Centres of mass of the
patterns have the trend S: the object, whose phase gradients move them as well, has none as a rule. A lens has
one. So S counts only if it explains held-out patterns far better.

**What cannot be told apart.** A symmetric S has the same patterns as none, with another object and probe:

    O exp(−iπ Xᵀ S X / N),   P exp(iπ xᵀ S x / N)

So only an S with an antisymmetric part is found, or one that the specified probe contradicts. Where one is
found, all of the trend is taken, and the object has no mean curvature of its phase.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ptycho.align.scan_rotation import centres_of_mass
from ptycho.reconstruction.trial import Sample, Trial, TrialOptions, expected_noise, middle, place_anew
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
    remaining: float = 0.5  # of the held-out deviance beyond photon noise, at most


OPTIONS = ShiftOptions()


class PatternShift(NamedTuple):
    """A shift of the patterns, and the trials with it and without."""

    matrix: np.ndarray  # S, ``(2, 2)``, detector pixels for one of the object
    trial: Trial
    none: Trial


def find_pattern_shift(
    data: Dataset, degrees: float = 0.0, options: ShiftOptions = OPTIONS
) -> PatternShift | None:
    """Return the shift that explains patterns of one object in a far field far better than none, or None.

    ``degrees``: rotation of the positions, as far as it is known.
    """
    matrix, error = trend(centres_of_mass(data), data.positions)
    across = np.abs(matrix) * np.ptp(data.positions, axis=0)
    if not np.any((np.abs(matrix) > options.z * error) & (across > options.least)):
        return None
    samples = [_sample(shifted(data, S), degrees) for S in (matrix, np.zeros((2, 2)))]
    for steps, rest in ((options.first, 1.0), (options.last, options.remaining)):
        trial, none = (sample.trial(None, sample.fit_object(*steps)) for sample in samples)
        noise = expected_noise(data) if data.counts else 0.0
        less = trial.held_out.mean() - noise < rest * (none.held_out.mean() - noise)
        if not (less and trial.gain_over(none).passes(options.better)):
            return None
    return PatternShift(matrix, trial, none)


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


def shifted(data: Dataset, matrix: np.ndarray) -> Dataset:
    """Return a scan whose patterns are taken to be shifted by ``S (r_j − r̄)``, S ``(2, 2)``."""
    places = data.positions.astype(float)
    shifts = (places - places.mean(axis=0)) @ matrix.T
    return replace(data, amplitudes=data.amplitudes.shifted(shifts.astype(np.float32)))


def _sample(data: Dataset, degrees: float) -> Sample:
    """Return the patterns of trials, at rotated positions."""
    some = middle(data, TrialOptions().count(data.N))
    return Sample.of(place_anew(some, some.amplitudes, some.positions @ rotation(degrees).T, some.good))
