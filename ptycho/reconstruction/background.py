"""Start of the search for a background that is the same in all patterns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.scan_likelihood import ScanLikelihood


def first_background(likelihood: ScanLikelihood, estimate: Estimate, steps: int = 8) -> np.ndarray:
    """Return ``(N, N)`` where the search for a background starts: dark pixels, then expectation maximisation.

    b ← b ⟨n/λ⟩ for each pixel, in so many ``steps``, never makes the likelihood worse. Normalised.
    """
    data, f = likelihood.data, likelihood.normalisation
    statistics, good = data.amplitudes.statistics, data.good
    mean = statistics.mean_intensity.mean(where=True if good is None else good)
    background = np.full((data.N, data.N), f**2 * (statistics.darkest(good) + 1e-6 * mean), np.float32)
    for _ in range(steps):
        there = replace(estimate, background=background)
        slope = likelihood.evaluate(there, ("background",)).gradients["background"]
        excess = slope * np.float32(likelihood.photon**2) / len(estimate.positions)  # 1 − ⟨n/λ⟩
        background = background * (1 - np.minimum(excess, 0.9))
    return background
