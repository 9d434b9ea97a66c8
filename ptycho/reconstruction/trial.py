"""Try a hypothesis about a scan: fit some neighbouring patterns under it for a few steps, then score the fit.

    score = ⟨log D⟩ over fitted patterns + ⟨log D⟩ over held-out patterns,   D: deviance per pixel

Each part alone errs. If positions lie too far apart, or the probe is too narrow, patterns do not overlap, and
any of them can be fitted but none predicted. If the probe is too wide, held-out patterns are predicted with
less contrast, and so less badly. A lower score is better; two trials of the same patterns are compared
pattern by pattern (:class:`~ptycho.scan.comparison.Comparison`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.likelihood import noise_deviance
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.scan_likelihood import ScanLikelihood, likelihood_of
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.scan.beam import Beam
from ptycho.scan.comparison import Comparison, Rule, compare_shares, split_patterns
from ptycho.scan.dataset import Dataset
from ptycho.scan.groups import smallest_region
from ptycho.scan.optics import measured_power
from ptycho.scan.patterns import Patterns
from ptycho.scan.probe import energy_diameter


@dataclass(frozen=True)
class TrialOptions:
    """Sizes of the sample of patterns that a trial uses."""

    patterns: int = 60  # at most, in the middle of the scan
    pixels: int = 2**20  # of these patterns together, at most,
    fewest: int = 36  # unless that would be fewer patterns than this
    holdout_every: int = 6  # one of so many patterns is held out
    spacing: float = 0.1  # of the probe's diameter: one of two nearer patterns is left out if others suffice
    least: int = 12  # patterns of a scan, below which nothing is claimed
    # Of the object; without it, probes are missed at doses below 3000 photons a pattern (measured).
    prior: Prior = field(default_factory=lambda: Prior("quadratic", 10.0))

    def count(self, N: int) -> int:
        """Return how many patterns of ``N × N`` pixels are used."""
        return max(min(self.fewest, self.patterns), min(self.patterns, self.pixels // N**2))


@dataclass(frozen=True, eq=False)
class Trial:
    """Result of a hypothesis: object and beam of the fitted patterns, deviance per pixel of each ``(n,)``.

    ``matrix (2, 2)``: linear map from the nominal positions to those of the fit.
    """

    hypothesis: Any
    estimate: Estimate
    fitted: np.ndarray
    held_out: np.ndarray
    matrix: np.ndarray = field(default_factory=lambda: np.eye(2))

    @property
    def score(self) -> float:
        """``⟨log D⟩`` of the fitted patterns plus that of the held-out ones."""
        return sum(float(np.log(part).mean()) for part in (self.fitted, self.held_out) if len(part))

    @property
    def deviance(self) -> np.ndarray:
        """Deviance per pixel of each pattern ``(n,)``, fitted ones first."""
        return np.concatenate([self.fitted, self.held_out])

    @property
    def mean_deviance(self) -> float:
        """Geometric mean of the deviance over all patterns."""
        return float(np.exp(np.log(self.deviance).mean()))

    def gain_over(self, other: Trial) -> Comparison:
        """Return the mean decrease of the log-deviance of the same patterns from ``other`` to this."""
        return compare_shares(self.deviance, other.deviance)

    def clearly_better_than(self, other: Trial, rule: Rule, excess: float = 0.64) -> bool:
        """Return whether this explains the same patterns better by a rule, and most of the rest as well.

        ``excess``: share of the mean deviance above one that it may leave, of photons (measured).
        """
        less = self.mean_deviance - 1 < excess * (other.mean_deviance - 1)
        return self.gain_over(other).passes(rule) and less

    def explains_down_to_noise(
        self, others: Sequence[Trial], noise: float, rule: Rule, excess: float = 0.15, remaining: float = 0.5
    ) -> bool:
        """Return whether this explains held-out patterns nearly to photon noise, and all better than others.

        Of few photons, or a faint object, little can be gained. ``noise``: :func:`expected_noise`, which it
        exceeds by at most the share ``excess``, or by what is ``remaining`` of the others' excess.
        """
        before = min(other.held_out.mean() for other in others) - noise
        explained = self.held_out.mean() - noise < max(excess * noise, remaining * before)
        return bool(explained and all(self.gain_over(other).passes(rule) for other in others))


def best_of(trials: Sequence[Trial]) -> Trial:
    """Return the trial of lowest score."""
    return min(trials, key=lambda trial: trial.score)


@dataclass(frozen=True, eq=False)
class Sample:
    """Some patterns of a scan: those that trials fit, and those between them that are held out."""

    fitted: ScanLikelihood
    held_out: ScanLikelihood
    options: TrialOptions

    @classmethod
    def of(
        cls,
        data: Dataset,
        options: TrialOptions = TrialOptions(),
        split: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Sample:
        """Split a dataset of one object, as :func:`middle` gives it; ``split``: indices of either part."""
        held_out = len(data.positions) // options.holdout_every
        kept, out = split or split_patterns(data.positions, held_out, 0)
        fitted = likelihood_of(data.subset(kept, 1))
        return cls(fitted, replace(fitted, data=data.subset(out, 1)), options)

    @property
    def data(self) -> Dataset:
        """The fitted patterns."""
        return self.fitted.data

    def fit(self, start: Estimate, refine: Refine, steps: int, moves: str = "affine") -> Estimate:
        """Fit the refined parts of an estimate of the fitted patterns."""
        return fit(Objective(self.fitted, self.options.prior, moves), start, refine, steps).estimate

    def fit_object(self, alone: int, with_probe: int = 0) -> Estimate:
        """Fit the object from a constant, then the probe with it, which would else explain a lack of it."""
        estimate = self.fit(constant_object(self.data, self.data.object_size), OBJECT_ALONE, alone)
        return self.fit(estimate, Refine(), with_probe) if with_probe else estimate

    def trial(self, hypothesis: Any, estimate: Estimate) -> Trial:
        """Score an estimate of the fitted patterns; held-out positions follow the map of the others."""
        nominal, positions = self.data.positions.astype(float), self.held_out.data.positions.astype(float)
        matrix = np.eye(2)
        if not np.array_equal(nominal, estimate.positions):
            one, two = (places - places.mean(axis=0) for places in (nominal, estimate.positions))
            matrix = np.linalg.lstsq(one, two, rcond=None)[0].T
            positions = (positions - nominal.mean(axis=0)) @ matrix.T + estimate.positions.mean(axis=0)
            positions = np.clip(positions, 0, np.subtract(estimate.object.shape[-2:], self.data.N))
        there = replace(estimate, positions=positions, flux=self.held_out.data.beam.flux)
        pairs = (self.fitted, estimate), (self.held_out, there)
        scores = [likelihood.evaluate(placed).deviance / likelihood.pixels for likelihood, placed in pairs]
        return Trial(hypothesis, estimate, scores[0], scores[1], matrix)

    def beam_of(self, estimate: Estimate) -> Beam:
        """Return the beam of an estimate, in the units of the dataset."""
        return estimate.beam(self.data.photon_scale, self.fitted.normalisation)


def trials_at(some: Dataset, steps: tuple[int, int]) -> Callable[[np.ndarray, np.ndarray | None, Any], Trial]:
    """Return a trial of some patterns at other positions ``(n, 2)``, under a probe (None: theirs).

    All trials hold out the same patterns. ``steps``: of the object alone, then with the probe.
    """
    count = len(some.positions)
    split = split_patterns(some.positions, count // TrialOptions.holdout_every, 0)

    def tried(positions: np.ndarray, probe: np.ndarray | None, hypothesis: Any) -> Trial:
        probed = some if probe is None else replace(some, beam=some.beam.with_probe(probe))
        sample = Sample.of(place_anew(probed, some.amplitudes, positions, some.good), split=split)
        return sample.trial(hypothesis, sample.fit_object(*steps))

    return tried


def expected_noise(data: Dataset) -> float:
    """Return the deviance per measured pixel that photon noise leaves of the mean pattern."""
    mean = data.amplitudes.statistics.mean_intensity
    return float(noise_deviance(mean if data.good is None else mean[data.good]).mean())


def constant_object(data: Dataset, side: int) -> Estimate:
    """Return an object of ``(side, side)`` equal pixels that gives the patterns' mean energy."""
    bright = data.N / 2 / np.sqrt(measured_power(data.model_probe, data.fresnel, data.good))
    return Estimate.of(data, np.full((side, side), bright))


def middle(data: Dataset, count: int, spacing: float = TrialOptions.spacing) -> Dataset:
    """Return :func:`middle_patterns` of a scan, on an object of their own."""
    chosen = middle_patterns(data, count, spacing)
    return place_anew(data, data.amplitudes.some(chosen).in_memory(), data.positions[chosen], data.good)


def middle_patterns(data: Dataset, count: int, spacing: float = TrialOptions.spacing) -> np.ndarray:
    """Return indices of at most ``count`` neighbouring patterns in the middle of a scan.

    They are the nearest ones to the pattern that is nearest to the middle. Where patterns lie denser than
    ``spacing`` probe diameters, some between them are left out. A few that :func:`stand_out` are not used: a
    beam that was dim for some frames would otherwise look like a wrong scale of the positions.
    """
    off_middle = np.linalg.norm(data.positions - np.median(data.positions, axis=0), axis=1)
    centre = int(np.argmin(off_middle))
    mine = np.flatnonzero((data.image == data.image[centre]) & ~stand_out(data))
    distance = np.linalg.norm(data.positions[mine] - data.positions[centre], axis=1)
    mine = mine[np.argsort(distance, kind="stable")]
    apart = _apart(data.positions[mine], spacing * energy_diameter(data.probe), count)
    return mine[np.concatenate([apart, np.setdiff1d(np.arange(len(mine)), apart)])[:count]]


def stand_out(data: Dataset, ratio: float = 1.6, neighbours: int = 8, most: float = 0.1) -> np.ndarray:
    """Return which patterns ``(J,)`` have an energy that differs from their neighbours' by a ``ratio``.

    None, if that is a share of more than ``most``: then the sample is like that.
    """
    energies, count = np.maximum(data.amplitudes.statistics.energies, 1e-30), len(data.positions)
    near = cKDTree(data.positions).query(data.positions, k=min(neighbours + 1, count))[1].reshape(count, -1)
    off = np.abs(np.log(energies / np.median(energies[near[:, 1:]], axis=1))) if count > 1 else np.zeros(1)
    far = off > np.log(ratio)
    return far & (far.mean() <= most)


def _apart(positions: np.ndarray, spacing: float, count: int) -> np.ndarray:
    """Return indices of at most ``count`` positions, from the first on, no two nearer than ``spacing``."""
    kept = [0]
    for k in range(1, len(positions)):
        if len(kept) == count:
            break
        if np.linalg.norm(positions[kept] - positions[k], axis=1).min() >= spacing:
            kept.append(k)
    return np.array(kept)


def place_anew(
    data: Dataset, amplitudes: Patterns, positions: np.ndarray, good: np.ndarray | None
) -> Dataset:
    """Return a dataset of one object with other patterns ``(K, N, N)`` at positions of any origin."""
    corners = positions - np.floor(positions.min(axis=0)) + 1
    groups = np.arange(len(corners), dtype=np.int32)[:, None]
    return replace(
        data,
        amplitudes=amplitudes,
        beam=Beam(data.probe, corners.astype(np.float32), background=data.beam.background),
        image=np.zeros(len(corners), np.int32),
        groups=groups,
        object_size=data.N + int(np.ceil(corners.max())) + 1,
        region_size=smallest_region(corners, groups, data.N),
        objects=None,
        neighbours=None,
        stated_tiling=None,
        good=good,
        exact=bool(np.any(corners != np.round(corners))),
    )
