"""Hold a part of a scan out of a fit, and score estimates by it.

The score is Poisson's deviance (without photon counts, the squared misfit in units of the noise).
Three ways to keep something out:

- **patterns**: some of the scan. Their own positions and flux are fitted where those of the others are, at
  the price of two units of deviance for each number (Akaike 1974).
- **photons**: of every count n, Binomial(n, q) are held out: two independent scans of the same positions, as
  a thinned Poisson number and the rest of it are independent. For scans so sparse that leaving a pattern out
  tears a hole.
- **noise**: the same of amplitudes with normal noise σ: ``x + σ z √(q/(1 − q))`` is fitted and
  ``x − σ z √((1 − q)/q)`` held out, z normal; their noise is independent (Rasines & Young, Biometrika 110
  (2023) 597).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.likelihood import UNMEASURED
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.solver import Objective, fit
from ptycho.scan.comparison import split_patterns
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import energy_diameter


@dataclass(frozen=True, eq=False)
class HoldOut:
    """Patterns, photons or noise held out of a fit."""

    likelihood: ScanLikelihood  # of what is held out
    kind: str = "patterns"  # ``patterns``, ``photons`` or ``noise``
    share: float = 0.1  # q, of the photons or the noise
    placing_steps: int = 12  # that find the positions and flux of held-out patterns
    indices: np.ndarray | None = None  # of the held-out patterns in the scan; None: something of each

    @property
    def kept_share(self) -> float:
        """Share of the photons that is fitted."""
        return 1 - self.share if self.kind == "photons" else 1.0

    def places(self, estimate: Estimate, refine: Refine) -> Estimate:
        """Return the estimate of what is held out: the same object and beam, with positions of its own."""
        if self.kind == "noise":
            return estimate
        if self.kind == "photons":
            rate = np.float32(self.share / (1 - self.share))
            flux, background = np.sqrt(rate) * estimate.flux, rate * estimate.background
            return replace(estimate, flux=flux, background=background)
        data = self.likelihood.data
        weights = data.beam.opr_weights
        if refine.probe_variation or weights is None:
            weights = np.zeros((len(data.positions), len(estimate.opr_modes)), np.complex64)
        positions = data.positions.astype(float)
        there = replace(estimate, positions=positions, flux=data.beam.flux, opr_weights=weights)
        own = replace(refine, probe=False, background=False, point_spread=False, object=False)
        if not (refine.positions or refine.flux or refine.probe_variation):
            return there
        return fit(Objective(self.likelihood, moves="each"), there, own, self.placing_steps).estimate

    def all_positions(self, estimate: Estimate, refine: Refine) -> np.ndarray:
        """Return the positions of all patterns, ``(J, 2)``, by an estimate of the fitted ones."""
        if self.indices is None:
            return estimate.positions
        fitted = np.setdiff1d(np.arange(len(estimate.positions) + len(self.indices)), self.indices)
        positions = np.concatenate([estimate.positions, self.places(estimate, refine).positions])
        return positions[np.argsort(np.concatenate([fitted, self.indices]))]

    def score(self, estimate: Estimate, refine: Refine) -> np.ndarray:
        """Return the deviance per pixel of each pattern, ``(J,)``."""
        own = 2 * refine.positions + refine.flux + 2 * refine.probe_variation * len(estimate.opr_modes)
        fitted = own if self.kind == "patterns" else 0
        deviance = self.likelihood.evaluate(self.places(estimate, refine)).deviance
        return (deviance + 2 * fitted) / self.likelihood.pixels


def hold_out(
    whole: ScanLikelihood, seed: int, share: float = 0.1, sparse: float = 5.0, few: int = 60
) -> tuple[ScanLikelihood, HoldOut]:
    """Return what is fitted of a scan of one object, and the held-out ``share``; both in units of ``whole``.

    Photons or noise are held out of a ``few`` patterns, or where fewer than ``sparse`` illuminate a pixel.
    """
    data, count = whole.data, len(whole.data.positions)
    if not is_sparse(data, sparse, few):
        split = split_patterns(data.positions, max(1, round(share * count)), [seed, 6])
        kept, out = (replace(whole, data=data.subset(part, 1)) for part in split)
        return kept, HoldOut(out, indices=split[1])
    rng, amplitudes = np.random.default_rng([seed, 6]), whole.amplitudes(slice(None)).astype(float)
    if whole.noise == "poisson":
        known = amplitudes != UNMEASURED
        counts = np.rint(np.square(np.where(known, amplitudes, 0) / whole.unit)).astype(np.int64)
        thinned = rng.binomial(counts, share)
        parts = [np.where(known, whole.unit * np.sqrt(n), UNMEASURED) for n in (counts - thinned, thinned)]
        kept, out = (replace(whole, instead=part.astype(np.float32)) for part in parts)
        return kept, HoldOut(out, "photons", share)
    ratio = np.sqrt(share / (1 - share))
    noise = whole.unit / 2 * rng.standard_normal(amplitudes.shape)
    fitted, left = ((amplitudes + part).astype(np.float32) for part in (noise * ratio, -noise / ratio))
    kept = replace(whole, instead=fitted, unit=whole.unit / np.sqrt(1 - share))
    return kept, HoldOut(replace(whole, instead=left, unit=whole.unit / np.sqrt(share)), "noise", share)


def is_sparse(data: Dataset, sparse: float = 5.0, few: int = 60) -> bool:
    """Return whether a scan has so few or so sparse patterns that leaving one out tears a hole."""
    return coverage(data) < sparse or len(data.positions) < few


def coverage(data: Dataset) -> float:
    """Return how many patterns illuminate a pixel in the middle of the scan, on average."""
    centre = np.median(data.positions, axis=0)
    radius = energy_diameter(data.probe) / 2
    distance = np.linalg.norm(data.positions - centre, axis=1)
    near = distance < max(2 * radius, np.sort(distance)[min(8, len(distance) - 1)])
    area = np.pi * distance[near].max() ** 2
    return float(near.sum() * np.pi * radius**2 / max(area, 1e-9))
