"""Which patterns of a scan saw no beam: with little light, and that not where the beam is.

An opaque part of the sample takes most of the light away as well; what is left still lies where the beam is.
Where the shutter was closed, what is left (noise, a background) is as bright beside the beam as in it.
"""

from __future__ import annotations

import numpy as np

from ptycho.scan.patterns import Patterns

BEAM = 0.9  # of the light on average: in the brightest pixels, those of the beam
AREA = 0.5  # of the pixels: so many at most are the beam's
CLEAR = 4.0  # times as bright as beside it: a beam that can be told from none


def dark_frames(patterns: Patterns, good: np.ndarray, below: float) -> np.ndarray:
    """The patterns ``(J,)`` that saw no beam.

    Args:
        patterns: amplitudes ``(J, N, N)``, zero where not ``good (N, N)``.
        below: share of the median energy; only patterns with less are looked at.
    """
    statistics = patterns.statistics
    energies = statistics.energies
    dark = energies == 0
    suspects = np.flatnonzero((energies < below * np.median(energies)) & ~dark)
    beam = brightest(statistics.mean_intensity, good)
    beside = good & ~beam
    ordinary = _contrast(statistics.mean_intensity, beam, beside)
    if ordinary < CLEAR:
        return dark
    for index in suspects:
        pattern = np.square(patterns[index : index + 1][0], dtype=np.float64)
        dark[index] = _contrast(pattern, beam, beside) < np.sqrt(ordinary)
    return dark


def brightest(mean: np.ndarray, good: np.ndarray) -> np.ndarray:
    """The fewest good pixels ``(N, N)`` that hold ``BEAM`` of a mean intensity, ``AREA`` of all at most."""
    light = np.where(good, mean, 0).ravel()
    order = np.argsort(light)[::-1]
    count = int(np.searchsorted(np.cumsum(light[order]), BEAM * light.sum())) + 1
    chosen = np.zeros(light.size, bool)
    chosen[order[: min(count, max(1, int(AREA * good.sum())))]] = True
    return chosen.reshape(mean.shape)


def _contrast(pattern: np.ndarray, beam: np.ndarray, beside: np.ndarray) -> float:
    """Intensity of an average pixel in the beam, over that of one beside it."""
    dim = pattern[beside].mean() if beside.any() else 0
    return float(pattern[beam].mean() / dim) if dim > 0 else np.inf
