"""Find the linear map of the positions that explains the patterns best: a scale, a rotation, a shear.

    r_j → A r_j

An object is fitted with A refined, from a constant, to a few patterns in the middle of the scan first: there
a wrong scale or rotation moves positions by a pixel or two, from where the fit converges. Its map is taken to
more patterns, which determine it more exactly.

A probe that is refined hides a wrong scale: defocused by as much more, it explains nearly the same patterns
by an object that is stretched. But not quite as well, since the object scatters by the sizes that it has. So
object, probe and A are fitted together along that valley, the curvature of the probe being scaled with the
positions; where the initial probe explains more with another A, from there, too.

The errors are those of corrections of single patterns, what they differ by from a linear map, and of the
valley, in which the fit ends where A changes by less than ``AffineOptions.converged``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import polar

from ptycho.reconstruction.causes import PATTERN_SHIFT, POSITION_MAP, Causes, score_causes
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.reconstruction.trial import Sample, Trial, TrialOptions, best_of, constant_object, middle
from ptycho.scan.comparison import REFINED, Comparison
from ptycho.scan.dataset import Dataset
from ptycho.scan.optics import curvature_of, curved
from ptycho.scan.positions import rotation
from ptycho.scan.ramp import levelled


@dataclass(frozen=True)
class AffineOptions:
    """Options of the fit of the map, and limits of which maps are reported."""

    trial: TrialOptions = field(default_factory=lambda: TrialOptions(patterns=100, pixels=2**19))
    stages: tuple[int, ...] = (9, 16, 25, 36)  # numbers of patterns; fewer stages miss a shear of .3
    stage_steps: int = 20  # of the object and A, in each stage
    object_steps: int = 8  # of a trial, of the object alone,
    steps: int = 25  # and with A and the probe
    factor: float = 1.08  # of the scale along the valley
    most: int = 6  # such factors
    converged: float = 2e-3  # relative change of A
    rounds: int = 6
    valley: float = 5e-3  # relative error of A that a refined probe leaves, at least (measured)
    scale: float = 0.02  # a map that differs by less is not reported
    degrees: float = 0.75  # likewise
    z: float = 4.0  # standard errors that a map must differ by
    single_steps: int = 12  # of the corrections of single patterns
    # Gain of χ² by a map in the score test at the nominal positions, and its share of the deviance, below
    # which none is fitted. ``benchmarks/position_map.py gains``: so it is of right positions in 17 of 20
    # scans, and of no scale wrong by 2 % from 10⁵ photons on.
    unlikely: float = 8.0
    unlikely_share: float = 1e-4


OPTIONS = AffineOptions()


@dataclass(frozen=True)
class PositionMap:
    """A linear map of positions, ``r → A r``, in object pixels."""

    matrix: np.ndarray  # A, ``(2, 2)``
    scale_error: float  # standard errors: relative,
    turn_error: float  # and in degrees
    gain: Comparison  # in logarithms of the deviance of the same patterns, over positions without it
    probe: np.ndarray  # ``(N, N)`` that goes with it, in the units of the dataset
    skewness: float  # of the object's phase
    # Patterns that shift on the detector with the position would explain more than positions of another map;
    # see :mod:`~ptycho.reconstruction.causes`.
    by_shift: bool = False
    deviance: float = np.inf  # per pixel, of held-out patterns under it
    options: AffineOptions = OPTIONS  # with which it was found

    @property
    def scale(self) -> float:
        """Mean scale of the map, ``√|det A|``."""
        return scale_in(self.matrix)

    @property
    def degrees(self) -> float:
        """Rotation of the map in degrees, from rows to columns."""
        return turn_in(self.matrix)

    @property
    def shear(self) -> float:
        """The larger stretch over the smaller, less one."""
        values = np.linalg.svd(self.matrix, compute_uv=False)
        return float(values[0] / values[1] - 1)

    @property
    def scale_differs(self) -> bool:
        """Whether the scale differs from one by more than the limit and its error allow."""
        return self.scale_is_off and self.gain.passes(REFINED)

    @property
    def scale_is_off(self) -> bool:
        """Whether the scale differs from one by more than they allow, without regard to the gain."""
        return abs(self.scale - 1) > max(self.options.scale, self.options.z * self.scale_error)

    @property
    def turn_differs(self) -> bool:
        """Whether the rotation differs from zero by more than the limit and its error allow."""
        return self._differs(abs(self.degrees), self.options.degrees, self.turn_error)

    @property
    def shear_differs(self) -> bool:
        """Whether the shear exceeds what the limit of the scale and its error allow."""
        return self._differs(self.shear, self.options.scale, self.scale_error)

    def _differs(self, value: float, least: float, error: float) -> bool:
        return self.gain.passes(REFINED) and value > max(least, self.options.z * error)

    @property
    def text(self) -> str:
        """Rotation and scale with their standard errors, for a finding."""
        return (
            f"rotated by {self.degrees:.2f} ± {self.turn_error:.2f}°, "
            f"{self.scale:.4f} ± {self.scale_error:.4f} times in scale"
        )


class MapGain(NamedTuple):
    """Gain in χ² of the fitted patterns along a map of the positions, and their deviance."""

    chi2: float
    deviance: float


@dataclass(frozen=True, eq=False)
class _Search:
    """Trials of maps on the same patterns, from ``nominal (2, 2)`` and the initial ``probe (N, N)``."""

    data: Dataset
    sample: Sample
    nominal: np.ndarray
    probe: np.ndarray
    options: AffineOptions

    @classmethod
    def of(cls, data: Dataset, degrees: float, options: AffineOptions) -> _Search:
        """Return a search that begins with a rotation."""
        sample = Sample.of(middle(data, options.trial.count(data.N)), options.trial)
        return cls(data, sample, rotation(degrees), data.probe[0], options)

    @cached_property
    def own(self) -> Trial:
        """The trial of the nominal positions, under a probe that is refined."""
        return self.together(self.nominal, positions=False)

    def gain(self) -> MapGain | None:
        """Return the score test of a map at the nominal positions; None: photons were not counted."""
        causes = _causes(self.sample, self.own.estimate)
        deviance = float(np.sum(self.own.fitted * self.sample.fitted.pixels))
        return None if causes is None else MapGain(causes.gains[POSITION_MAP], deviance)

    def along_the_valley(self) -> Trial:
        """Return the best of several scales, each with a probe whose curvature goes with it."""
        tried = {power: self.at_scale(self.nominal, self.options.factor**power) for power in (-1, 0, 1)}
        while True:
            best = min(tried, key=lambda power: tried[power].score)
            further = best + (1 if best == max(tried) else -1)
            if further in tried or abs(further) > self.options.most:
                return tried[best]
            tried[further] = self.at_scale(self.nominal, self.options.factor**further)

    def at_scale(self, matrix: np.ndarray, scale: float) -> Trial:
        """Begin with positions ``scale`` times as far apart, and a probe that is as much more defocused."""
        return self.together(scale * matrix, curved(self.probe, (scale - 1) * curvature_of(self.probe)))

    def by_stages(self) -> np.ndarray:
        """Return the map ``(2, 2)`` under the initial probe, from few patterns to more."""
        matrix, options = self.nominal, self.options
        for count in options.stages:
            sample = Sample.of(middle(self.data, count), options.trial)
            start = _constant_object(sample.data, matrix, self.probe)
            estimate = sample.fit(start, OBJECT_ALONE, options.object_steps)
            estimate = sample.fit(estimate, Refine(False, positions=True), options.stage_steps)
            matrix = sample.trial(None, estimate).matrix
        return matrix

    def together(self, matrix: np.ndarray, probe: np.ndarray | None = None, positions: bool = True) -> Trial:
        """Fit an object from a constant, then with the probe and, if ``positions``, A."""
        start = _constant_object(self.sample.data, matrix, self.probe if probe is None else probe)
        return self.further(self.sample.fit(start, OBJECT_ALONE, self.options.object_steps), positions)

    def further(self, estimate: Estimate, positions: bool = True) -> Trial:
        """Fit object, probe and A from an estimate."""
        estimate = self.sample.fit(estimate, Refine(positions=positions), self.options.steps)
        return self.sample.trial(None, estimate)

    def on_nominal(self, trial: Trial, nominal: np.ndarray) -> Trial:
        """Return the best trial of positions mapped by ``nominal (2, 2)``, to compare a ``trial`` with.

        The probe begins as the initial one, or as that of the trial with its curvature divided by the scale
        of the map. For an initial probe of half the defocus is nearly right at half the scale, and too far
        from the right one to be refined in a few steps. If the map stretches the axes differently, a third
        start divides the curvature along each axis by its stretch, as for an astigmatic probe.
        """
        is_own = np.array_equal(nominal, self.nominal)
        own = self.own if is_own else self.together(nominal, positions=False)
        probe, scale = self.sample.beam_of(trial.estimate).probe[0], scale_in(trial.matrix)
        stretch, c = np.diag(polar(trial.matrix @ np.linalg.inv(nominal))[1]), curvature_of(probe)
        probes = [curved(probe, (scale_in(nominal) / scale - 1) * c)]
        if abs(stretch[0] / stretch[1] - 1) > self.options.scale:
            rows, columns = (1 / stretch - 1) * c
            probes.append(curved(probe, (rows + columns) / 2, (rows - columns) / 2))
        starts = own, *(self.together(nominal, there, positions=False) for there in probes)
        return best_of([self.further(start.estimate, positions=False) for start in starts])

    def to_the_end(self, trial: Trial) -> Trial:
        """Fit all of it further, until A stands."""
        for _ in range(self.options.rounds):
            before, trial = trial, self.further(trial.estimate)
            if not _apart(trial.matrix, before.matrix, self.options.converged):
                break
        return trial


def scale_in(matrix: np.ndarray) -> float:
    """Return the mean scale of a map ``(2, 2)``, ``√|det A|``."""
    return float(np.sqrt(abs(np.linalg.det(matrix))))


def turn_in(matrix: np.ndarray) -> float:
    """Return φ of the rotation nearest to a map ``(2, 2)``, in degrees, from rows to columns."""
    return float(np.rad2deg(np.arctan2(matrix[1, 0] - matrix[0, 1], matrix[0, 0] + matrix[1, 1])))


def find_map(
    data: Dataset, degrees: float = 0.0, turn_is_open: bool = False, options: AffineOptions = OPTIONS
) -> PositionMap | None:
    """Find the map that explains the middle of a scan of one object best; None: too few patterns, or nothing.

    Args:
        data: the scan, under its initial probe.
        degrees: a rotation to begin with.
        turn_is_open: the gain is over positions of the same rotation; if not, over the nominal ones.
    """
    if len(data.positions) < options.trial.least:
        return None
    search = _Search.of(data, degrees, options)
    gain = None if turn_is_open or degrees else search.gain()
    if gain is not None and gain.chi2 < max(options.unlikely, options.unlikely_share * gain.deviance):
        return None
    best, other = search.along_the_valley(), search.by_stages()
    if _apart(other, best.matrix, options.scale):
        best = best_of([best, search.together(other)])
    if _apart(best.matrix, np.eye(2), options.scale / 2):
        best = search.to_the_end(best)
        # a probe of a wrong rotation or scale may leave a shear
        again = search.at_scale(rotation(turn_in(best.matrix)), scale_in(best.matrix))
        best = best_of([best, search.to_the_end(again)])
    return _assessed(search, best, rotation(turn_in(best.matrix)) if turn_is_open else np.eye(2))


def score_map(data: Dataset, options: AffineOptions = OPTIONS) -> MapGain | None:
    """Return the score test that decides whether :func:`find_map` fits a map."""
    return _Search.of(data, 0.0, options).gain()


def _assessed(search: _Search, trial: Trial, nominal: np.ndarray) -> PositionMap:
    """Compare with positions mapped by ``nominal (2, 2)``, under a probe that is refined, too."""
    gain, by_shift, options, sample = Comparison(0.0, 0.0), False, search.options, search.sample
    if _apart(trial.matrix, nominal, options.scale / 2):
        own = search.on_nominal(trial, nominal)
        gain = trial.gain_over(own)
        if trial.score > own.score:
            gain = Comparison(min(gain.gain, 0.0), gain.error)
        causes = _causes(sample, own.estimate)
        by_shift = causes is not None and causes.gains[PATTERN_SHIFT] > causes.gains[POSITION_MAP]
    errors, deviance = _errors(sample, trial.estimate, options), float(trial.held_out.mean())
    probe, skewness = sample.beam_of(trial.estimate).probe[0], _skewness(trial.estimate, sample.data.N)
    return PositionMap(trial.matrix, *errors, gain, probe, skewness, by_shift, deviance, options)


def _causes(sample: Sample, estimate: Estimate) -> Causes | None:
    """Return the score tests of what an estimate of the fitted patterns leaves unexplained."""
    data = replace(sample.data, object_size=len(estimate.object)).under(sample.beam_of(estimate))
    return score_causes(estimate.object, data)


def _constant_object(data: Dataset, matrix: np.ndarray, probe: np.ndarray) -> Estimate:
    """Return a constant object under a probe ``(N, N)``, with room around the mapped positions."""
    positions = (data.positions - data.positions.mean(axis=0)).astype(float) @ matrix.T
    room = np.ceil(0.15 * np.ptp(positions, axis=0).max()) + 3
    positions += room - np.floor(positions.min(axis=0))
    side = data.N + int(np.ceil(positions.max()) + room) + 1
    probed = replace(data, beam=data.beam.with_probe(probe))
    return replace(constant_object(probed, side), positions=positions)


def _apart(one: np.ndarray, other: np.ndarray, limit: float) -> bool:
    return bool(np.abs(one - other).max() > limit * np.abs(other).max())


def _errors(sample: Sample, estimate: Estimate, options: AffineOptions) -> tuple[float, float]:
    """Return those of the logarithm of the scale and, in degrees, of the rotation.

    Of corrections Δ of single patterns at places ρ, both from their means: ``s = Σ ρ·Δ / Σ ρ²`` and
    ``φ = Σ ρ×Δ / Σ ρ²``.
    """
    refine, objective = Refine(False, positions=True, object=False), Objective(sample.fitted, moves="each")
    moves = fit(objective, estimate, refine, options.single_steps).estimate.positions - estimate.positions
    rho, moves = (places - places.mean(axis=0) for places in (estimate.positions, moves))
    moves -= rho @ np.linalg.lstsq(rho, moves, rcond=None)[0]
    variance = np.sum(moves**2) / max(2 * len(rho) - 6, 1) / np.sum(rho**2)
    error = np.sqrt(variance + options.valley**2)
    return float(error), float(np.rad2deg(error))


def _skewness(estimate: Estimate, N: int) -> float:
    """Return that of an object's phase where it is scanned, without its plane: positive for bright spots."""
    low, high = (getattr(estimate.positions, end)(axis=0).astype(int) + N // 2 for end in ("min", "max"))
    image = estimate.object[low[0] : high[0] + 1, low[1] : high[1] + 1]
    if min(image.shape) < 4:
        return 0.0
    phase = np.angle(levelled(image, np.ones(image.shape, bool)))
    return float(np.mean((phase - phase.mean()) ** 3) / max(phase.std() ** 3, 1e-30))
