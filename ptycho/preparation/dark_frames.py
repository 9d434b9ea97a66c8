"""Find patterns that saw no beam: their intensity is low, and does not lie where the beam is.

An opaque part of the sample absorbs most of the beam as well; what is left still lies where the beam is.
Where the shutter was closed, what is left (noise, a background) is as bright beside the beam as in it.
"""

from __future__ import annotations

import numpy as np

from ptycho.scan.patterns import Patterns


def dark_frames(patterns: Patterns, good: np.ndarray, below: float, contrast: float = 4.0) -> np.ndarray:
    """Return the patterns ``(J,)`` that saw no beam.

    Args:
        patterns: amplitudes ``(J, N, N)``, zero where not ``good (N, N)``.
        below: share of the median energy; only patterns with less are tested.
        contrast: of the mean pattern's beam over its surround, below which only empty patterns are dark.
    """
    statistics = patterns.statistics
    energies = statistics.energies
    dark = energies == 0
    suspects = np.flatnonzero((energies < below * np.median(energies)) & ~dark)
    beam = brightest(statistics.mean_intensity, good)
    beside = good & ~beam
    ordinary = _contrast(statistics.mean_intensity, beam, beside)
    if ordinary < contrast:
        return dark
    for index in suspects:
        pattern = np.square(patterns[index : index + 1][0], dtype=np.float64)
        dark[index] = _contrast(pattern, beam, beside) < np.sqrt(ordinary)
    return dark


def brightest(mean: np.ndarray, good: np.ndarray, share: float = 0.9, most: float = 0.5) -> np.ndarray:
    """Return the fewest pixels ``(N, N)`` with a ``share`` of the intensity, ``most`` of the good at most."""
    intensity = np.where(good, mean, 0).ravel()
    order = np.argsort(intensity)[::-1]
    count = int(np.searchsorted(np.cumsum(intensity[order]), share * intensity.sum())) + 1
    chosen = np.zeros(intensity.size, bool)
    chosen[order[: min(count, max(1, int(most * good.sum())))]] = True
    return chosen.reshape(mean.shape)


def _contrast(pattern: np.ndarray, beam: np.ndarray, beside: np.ndarray) -> float:
    """Return the intensity of an average pixel in the beam, over that of one beside it."""
    dim = pattern[beside].mean() if beside.any() else 0
    return float(pattern[beam].mean() / dim) if dim > 0 else np.inf
