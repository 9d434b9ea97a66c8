"""From object regions of groups to objects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.data import Dataset

COVERED = 1e-3  # of the strongest summed weight
CHUNK = 256


@dataclass(frozen=True, eq=False)
class Stitched:
    """``objects (I, M, M)`` complex64, zero where not covered, and the covered ``mask (I, M, M)`` bool."""

    objects: np.ndarray
    mask: np.ndarray


def stitch(regions: np.ndarray, data: Dataset, method: str, pitch: int) -> Stitched:
    """Weighted mean of the regions at their positions, ``O = Σ w_g·O_g / Σ w_g``.

    ``method="probe"``: the weight is the illumination that the group put on its region, ``Σ_k |P_k|²``.
    ``method="grid"``: it is one on the central square of side ``pitch`` and zero elsewhere, so that the
    squares of a regular grid tile (the published recipe).

    Args:
        regions: ``(G, R, R)`` complex64.
        data: the dataset they were inferred from.
        pitch: distance of neighbouring groups in pixels.
    """
    margin = (data.region_size - data.N + 1) // 2  # a jittered region may reach beyond its object
    origins = np.round(data.centres - (data.region_size - data.N) / 2).astype(np.int64) + margin
    side = data.object_size + 2 * margin
    image = data.image[data.groups[:, 0]]
    total = np.zeros((data.n_images, side, side), np.complex64)
    weight = np.zeros((data.n_images, side, side), np.float32)
    for start in range(0, data.n_groups, CHUNK):
        part = slice(start, start + CHUNK)
        w = _illumination(data, part) if method == "probe" else _central_square(data, part, pitch)
        for i in np.unique(image[part]):
            mine = image[part] == i
            total[i] += physics.add_windows((w * regions[part])[mine], origins[part][mine], (side, side))
            weight[i] += physics.add_windows(w[mine], origins[part][mine], (side, side))
    inside = (slice(None), slice(margin, side - margin), slice(margin, side - margin))
    total, weight = total[inside], weight[inside]
    mask = weight > COVERED * weight.max()
    objects = np.where(mask, total / np.where(mask, weight, 1), 0)
    return Stitched(objects.astype(np.complex64), mask)


def _illumination(data: Dataset, part: slice) -> np.ndarray:
    """``Σ_k |P_k|²`` on the regions of some groups, ``(K, R, R)`` float32."""
    positions = data.offsets[part] + (data.region_size - data.N) / 2
    intensity = np.broadcast_to(np.abs(data.probe) ** 2, (*positions.shape[:2], data.N, data.N))
    shape = (data.region_size, data.region_size)
    return physics.place_patches(tf.constant(intensity), tf.constant(positions), shape).numpy()


def _central_square(data: Dataset, part: slice, pitch: int) -> np.ndarray:
    count = len(data.groups[part])
    square = np.zeros((count, data.region_size, data.region_size), np.float32)
    start = data.region_size // 2 - pitch // 2
    square[:, start : start + pitch, start : start + pitch] = 1
    return square
