"""What part of its objects a scan covers: where the probe lit them."""

from __future__ import annotations

import numpy as np

from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import light_of
from ptycho.scan.reconstruction import Reconstruction

COVERED = 1e-3  # of the strongest summed light


def covered(data: Dataset, share: float = COVERED) -> np.ndarray:
    """Where the probe lit the objects, ``(I, M, M)`` bool: above ``share`` of the strongest light."""
    light = illumination(data)
    return light > share * light.max()


def values_per_parameter(data: Dataset, others: int = 0) -> float:
    """Return how many values were measured for each real parameter: of the object, and so many ``others``."""
    good = data.N**2 if data.good is None else int(data.good.sum())
    return len(data.positions) * good / (2 * int(covered(data).sum()) + others)


def covered_part(image: np.ndarray, data: Dataset) -> Reconstruction:
    """An object ``(M, M)`` of a dataset of one, zero where the probe did not light it."""
    mask = covered(data)
    return Reconstruction(np.where(mask, image, 0).astype(np.complex64, copy=False), mask, data.beam)


def illumination(data: Dataset) -> np.ndarray:
    """``Σ_k Σ_m |P_m|²`` at the nearest whole positions, ``(I, M, M)`` float32."""
    light = np.zeros((data.n_images, data.object_size, data.object_size), np.float32)
    one = light_of(data.probe).astype(np.float32)
    for image, (row, col) in zip(data.image, np.round(data.positions).astype(int), strict=True):
        light[image, row : row + data.N, col : col + data.N] += one
    return light
