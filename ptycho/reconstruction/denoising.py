"""Objects without the noise that photons leave in them: non-local means of a strength that photons give."""

from __future__ import annotations

import math

import numpy as np

from ptycho.scan.coverage import illumination
from ptycho.scan.dataset import Dataset


def photon_noise(data: Dataset) -> np.ndarray:
    """The standard deviation that photon noise leaves in real and imaginary part of each object pixel.

        σ = 1 / (s √(2 Σ_k Σ_m |P_m|²))

    √n of n photons has the standard deviation ½. Its derivative to the wave is s times the part along the
    wave's phase, half of the power of any change; so the information on each part of O is
    ``4 s² · ½ · Σ|P|²``, by Parseval's theorem: a bound for unbiased estimates whose pixels are independent.

    Returns:
        ``(I, M, M)`` float32, infinite where no light falls.
    """
    with np.errstate(divide="ignore"):
        return (1 / (data.photon_scale * np.sqrt(2 * illumination(data)))).astype(np.float32)


def denoise(objects: np.ndarray, mask: np.ndarray, noise: np.ndarray, largest: float = 10.0) -> np.ndarray:
    """Replace each pixel by the mean of those whose surroundings are alike within the noise.

    The noise is ``noise``, times what the differences of neighbouring pixels show of it if that is less:
    what a solver was ended before it could fit. Source of non-local means: Buades, Coll & Morel, Image
    Processing On Line 1 (2011) 208 (by scikit-image).

    Args:
        objects: ``(I, M, M)`` complex64.
        mask: ``(I, M, M)`` bool; outside of it they stay as they are.
        noise: standard deviation of real and imaginary part, as of :func:`photon_noise`.
        largest: noise over the least one, at most.
    """
    found = objects.copy()
    for image, lit, level in zip(found, mask, noise, strict=True):
        if lit.any():
            rows, cols = (np.flatnonzero(lit.any(axis=axis)) for axis in (1, 0))
            box = slice(rows[0], rows[-1] + 1), slice(cols[0], cols[-1] + 1)
            least = float(level[lit].min())
            sigma = np.clip(np.where(lit, level, np.inf)[box], least, largest * least)
            sigma = min(1.0, _estimate_noise(image[box] / sigma, lit[box])) * sigma
            image[box] = np.where(lit[box], _by_levels(image[box], sigma), image[box])
    return found


def _estimate_noise(image: np.ndarray, lit: np.ndarray) -> float:
    """The noise of ``(H, W)`` by the median of diagonal differences, which are blind to smooth structure."""
    quads = [(slice(a, a - 1 or None), slice(b, b - 1 or None)) for a in (0, 1) for b in (0, 1)]
    all_lit = np.logical_and.reduce([lit[quad] for quad in quads])
    if not all_lit.any():
        return 0.0
    corners = [image[quad][all_lit] for quad in quads]
    differences = (corners[0] - corners[1] - corners[2] + corners[3]) / 2
    return float(np.mean([np.median(np.abs(part)) for part in (differences.real, differences.imag)]) / 0.6745)


def _by_levels(image: np.ndarray, sigma: np.ndarray, ratio: float = 2.0) -> np.ndarray:
    """Denoise ``(H, W)`` with each pixel's own σ, interpolated between strengths of this ``ratio``."""
    least, most = float(sigma.min()), float(sigma.max())
    if least <= 0:
        return image
    count = 2 + int(math.log(most / least) / math.log(ratio))
    levels = np.geomspace(least, max(most, 1.001 * least), count)
    every = np.stack([_non_local_mean(image, level) for level in levels])
    place = np.log(sigma / levels[0]) / math.log(levels[1] / levels[0])
    below = np.clip(place.astype(int), 0, count - 2)
    share = place - below
    rows, cols = np.indices(sigma.shape)
    return (1 - share) * every[below, rows, cols] + share * every[below + 1, rows, cols]


def _non_local_mean(image: np.ndarray, sigma: float, patch: int = 5, distance: int = 5) -> np.ndarray:
    from skimage.restoration import denoise_nl_means  # takes a quarter of a second, which most runs need not

    parts = np.stack([image.real, image.imag], axis=-1)
    settings = {"patch_size": patch, "patch_distance": distance, "h": sigma, "sigma": sigma}
    found = denoise_nl_means(parts, channel_axis=-1, **settings)
    return found[..., 0] + 1j * found[..., 1]
