"""Score tests of causes of a misfit that the model of a reconstruction omits.

A cause moves the expected counts λ along a direction d = ∂λ/∂θ. From θ = 0 a step along it lowers Pearson's

    χ² = Σ w (n − λ)²,  w = 1 / (λ + ½),   by   gᵀ H⁻¹ g,   g = Σ w d (n − λ),  H = Σ w d dᵀ

(Rao, Proc. Camb. Phil. Soc. 44 (1948) 50). Nothing is fitted again, so that all causes can be compared at one
estimate. A cause that the fit has absorbed in part shows in part; the cause that explains most counts.

=============== ====================================================================================
cause           direction d
=============== ====================================================================================
position_map    ∂λ/∂r · (r − r̄): a linear map of the positions, four numbers
pattern_shift   ∂λ/∂q · (r − r̄): patterns move on the detector with the position (descan), four numbers
motion          ∂²λ/∂r²: the sample moves while a pattern is measured, along rows and along columns
point_spread    ∂²λ/∂q²: the detector blurs, along rows and along columns
background      1: counts that do not depend on the position
=============== ====================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.misfit import predictions
from ptycho.reconstruction.parameters import illuminated_pixels
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.scan.dataset import Dataset

POSITION_MAP, PATTERN_SHIFT, MOTION = "position_map", "pattern_shift", "motion"
POINT_SPREAD, BACKGROUND = "point_spread", "background"
CAUSES = (POSITION_MAP, PATTERN_SHIFT, MOTION, POINT_SPREAD, BACKGROUND)


@dataclass(frozen=True)
class CauseLimits:
    """Limits of when a cause is named; measured on simulated scans with one error each."""

    gain: float = 400.0  # of χ², at least: twenty standard errors of one number
    share: float = 0.015  # of the χ² beyond photon noise, at least
    ahead: float = 1.5  # times the gain of the next cause
    least: float = 60.0  # gain of a plausible cause: four standard errors of each of four numbers
    comparable: float = 0.5  # its gain over that of the best cause, at least
    # px²: half a variance of the motion along an axis, at least, as over 1.2 px. A sample with detail finer
    # than its pixels looks like .046 (measured).
    motion: float = 0.06
    step: float = 0.5  # px, of the differences by which derivatives along positions are taken
    patterns: int = 1024  # of a large scan that are used: a predicted pattern costs five
    unregularised: int = 10  # steps without a regulariser before the tests


LIMITS = CauseLimits()


@dataclass(frozen=True, eq=False)
class Causes:
    """The score tests of one reconstruction."""

    gains: dict[str, float]  # how much of χ² each cause explains, by name
    # its numbers, ``(k,)``, in pixels (positions' map: per pixel; motion: px² of half a variance)
    sizes: dict[str, np.ndarray]
    excess: float  # χ² beyond what photon noise gives
    by_pixel: np.ndarray  # mean χ² of each detector pixel, ``(N, N)``, about 1 or less where noise is all

    def plausible(self, name: str) -> bool:
        """Return whether a cause explains something, and not far less than another."""
        return self.gains[name] > max(LIMITS.least, LIMITS.comparable * max(self.gains.values()))

    def named(self) -> str | None:
        """Return the cause that explains clearly more than all others, or None."""
        first, second = sorted(self.gains, key=lambda name: -self.gains[name])[:2]
        gain = self.gains[first]
        enough = self.excess > 0 and gain > max(LIMITS.gain, LIMITS.share * self.excess)
        if first == MOTION:  # an object that is smoother than its sample looks like a little of it
            enough = enough and self.sizes[MOTION].max() > LIMITS.motion
        return first if enough and gain > LIMITS.ahead * self.gains[second] else None


def score_fit(image: np.ndarray, likelihood: ScanLikelihood, limits: CauseLimits = LIMITS) -> Causes | None:
    """Return the score tests for a fit ``(M, M)``, or slices ``(L, M, M)``, under a regulariser.

    A regularised object is smoother than its sample, which looks like motion. So a few steps lead to the most
    likely object first: there the object's own score is zero, as Rao's test takes it to be. The data of the
    likelihood have the beam that goes with the object.
    """
    data = likelihood.data
    if not _testable(data):
        return None
    start = Estimate.of(data, image, normalisation=likelihood.normalisation)
    estimate = fit(Objective(likelihood), start, OBJECT_ALONE, limits.unregularised).estimate
    causes = score_causes(estimate.object, data)
    absorbed = 2 * estimate.slices * illuminated_pixels(estimate)  # of photon noise, by the fitted numbers
    return None if causes is None else replace(causes, excess=causes.excess + absorbed)


def score_causes(image: np.ndarray, data: Dataset, step: float = LIMITS.step) -> Causes | None:
    """Return the score tests for an object ``(M, M)``, or slices ``(L, M, M)``, under the beam of a dataset.

    None: photons were not counted, so that the noise is not known; or it is a near field, whose patterns move
    with the object.
    """
    if not _testable(data):
        return None
    offsets = data.positions.astype(float)
    offsets -= offsets.mean(axis=0)
    sums = {name: _Sums() for name in CAUSES}
    excess, by_pixel, measured_by_pixel, done = 0.0, np.zeros((data.N,) * 2), np.zeros((data.N,) * 2), 0
    for counts, rate, around, measured in _expected(image, data, step):
        far, done = offsets[done : done + len(counts)], done + len(counts)
        weight = measured / (rate + 0.5)
        residual = counts - rate
        for name, directions in _directions(rate, around, far, step).items():
            sums[name].add(directions, weight, residual)
        squared = weight * residual**2
        excess += float((squared - weight * rate).sum())
        by_pixel += squared.sum(axis=0)
        measured_by_pixel += measured.sum(axis=0)
    gains, sizes = dict[str, float](), dict[str, np.ndarray]()
    for name, total in sums.items():
        gains[name], sizes[name] = total.solved()
    return Causes(gains, sizes, excess, by_pixel / np.maximum(measured_by_pixel, 1))


def _testable(data: Dataset) -> bool:
    return data.counts and data.fresnel is None


class _Sums:
    """g and H of one cause, summed over patterns."""

    def __init__(self) -> None:
        self._slope, self._curvature = np.zeros(1), np.zeros((1, 1))

    def add(self, directions: list[np.ndarray], weight: np.ndarray, residual: np.ndarray) -> None:
        flat = np.stack([direction.ravel() for direction in directions])
        weighted = flat * weight.ravel()
        self._slope = self._slope + weighted @ residual.ravel()
        self._curvature = self._curvature + weighted @ flat.T

    def solved(self) -> tuple[float, np.ndarray]:
        """Return the gain ``gᵀH⁻¹g`` and the step ``H⁻¹g``, ``(n,)`` of n directions."""
        step = np.linalg.lstsq(self._curvature, self._slope, rcond=1e-8)[0]
        return float(self._slope @ step), step


def _directions(
    rate: np.ndarray, around: list[np.ndarray], far: np.ndarray, step: float
) -> dict[str, list[np.ndarray]]:
    """Return ∂λ/∂θ ``(J, N, N)`` of every number of every cause; see the table above."""
    down, up, right, left = around
    by_position = [(down - up) / (2 * step), (right - left) / (2 * step)]
    by_detector = [np.gradient(rate, axis=axis) for axis in (1, 2)]
    along = [far[:, axis, None, None] for axis in (0, 1)]
    return {
        POSITION_MAP: [slope * distance for slope in by_position for distance in along],
        PATTERN_SHIFT: [slope * distance for slope in by_detector for distance in along],
        MOTION: [(down + up - 2 * rate) / step**2, (right + left - 2 * rate) / step**2],
        POINT_SPREAD: [np.gradient(by_detector[0], axis=1), np.gradient(by_detector[1], axis=2)],
        BACKGROUND: [np.ones_like(rate)],
    }


def _expected(
    image: np.ndarray, data: Dataset, step: float
) -> Iterator[tuple[np.ndarray, np.ndarray, list[np.ndarray], np.ndarray]]:
    """Yield counts, λ, λ at positions ``step`` down, up, right and left, and what was measured, by chunks.

    Arrays are ``(K, N, N)``, the zero frequency in the middle.
    """
    photons, patterns, farthest = (
        data.normalisation**-2,
        np.arange(len(data.positions)),
        data.object_size - data.N,
    )
    moves = step * np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])
    places = [np.clip(data.positions + move, 0, farthest).astype(np.float32) for move in moves]
    scans = [data.under(replace(data.beam, positions=positions)) for positions in places]
    for parts in zip(*(predictions(image, scan, patterns) for scan in scans), strict=True):
        x = np.fft.fftshift(np.asarray(parts[0][0], float), axes=(1, 2))
        rates = [np.fft.fftshift(np.square(np.asarray(p, float)), axes=(1, 2)) * photons for _, p in parts]
        yield np.square(x) * photons * (x >= 0), rates[0], rates[1:], x >= 0
