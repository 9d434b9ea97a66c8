"""The part of its objects that a scan covers: where the illumination is not negligible."""

from __future__ import annotations

import numpy as np

from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import intensity_of
from ptycho.scan.reconstruction import Reconstruction


def covered(data: Dataset, share: float = 1e-3, island: float = 0.02) -> np.ndarray:
    """Return where objects are covered, ``(I, M, M)`` bool: illumination above ``share`` of its maximum.

    ``island``: a region of fewer pixels than this share of a probe's is left out: a noisy pixel of a probe
    makes one in every pattern.
    """
    from skimage.morphology import remove_small_objects

    masks, probe = above(illumination(data), share), intensity_of(data.probe)
    least = int(island * np.count_nonzero(probe > share * probe.max()))
    return np.stack([remove_small_objects(mask, max_size=least) for mask in masks])


def above(dose: np.ndarray, share: float = 1e-3) -> np.ndarray:
    """Return where a summed illumination ``(I, M, M)`` is above ``share`` of its maximum."""
    return dose > share * dose.max()


def values_per_parameter(data: Dataset, others: int = 0) -> float:
    """Return how many values were measured for each real parameter: of the object, and so many ``others``."""
    good = data.N**2 if data.good is None else int(data.good.sum())
    return len(data.positions) * good / (2 * int(covered(data).sum()) + others)


def covered_part(image: np.ndarray, data: Dataset) -> Reconstruction:
    """Return an object ``(M, M)`` of a dataset of one, zero where it is not covered."""
    mask, image = covered(data), image.astype(np.complex64, copy=False)
    return Reconstruction(np.where(mask, image, 0), mask, data.beam, uncut=image)


def illumination(data: Dataset) -> np.ndarray:
    """Return ``Σ_k Σ_m |P_m|²`` at the nearest whole positions, ``(I, M, M)`` float32."""
    dose = np.zeros((data.n_images, data.object_size, data.object_size), np.float32)
    intensity = intensity_of(data.probe).astype(np.float32)
    for image, (row, col) in zip(data.image, np.round(data.positions).astype(int), strict=True):
        dose[image, row : row + data.N, col : col + data.N] += intensity
    return dose


def photon_noise(data: Dataset) -> np.ndarray:
    """Return the standard deviation that photon noise leaves in real and imaginary part of each object pixel.

        σ = 1 / (s √(2 Σ_k Σ_m |P_m|²))

    √n of n photons has the standard deviation ½. Its derivative to the wave is s times the part along the
    wave's phase, half of the power of any change; so the information on each part of O is
    ``4 s² · ½ · Σ|P|²``, by Parseval's theorem: a bound for unbiased estimates whose pixels are independent.

    Returns:
        ``(I, M, M)`` float32, infinite where nothing is illuminated.
    """
    with np.errstate(divide="ignore"):
        return (1 / (data.photon_scale * np.sqrt(2 * illumination(data)))).astype(np.float32)
