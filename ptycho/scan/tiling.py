"""The lattice of a scan's groups: the pitch of neighbours, and the rectangle that their squares tile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Tiling(NamedTuple):
    """Squares of side ``pitch`` in the middle of the groups' regions tile a rectangle; all in object pixels.

    The rectangle ``[top, top + height) × [left, left + width)`` is where every model and stitching is
    scored, and the pitch is the side of the squares that ``stitch=grid`` lays side by side.
    """

    pitch: int
    top: int
    left: int
    height: int
    width: int

    @property
    def rectangle(self) -> tuple[int, int, int, int]:
        """``(top, left, height, width)``."""
        return self[1:]


def estimated_tiling(
    origins: np.ndarray, image: np.ndarray, N: int, region_size: int, object_size: int
) -> Tiling:
    """Return the tiling of groups whose lattice is not stored with them.

    On each image, the groups are taken for a lattice of as many points whose places have jitter. Of several
    images, the median pitch, and what all rectangles share, cut at the object's edge.

    Args:
        origins: ``(G, 2)`` whole pixels, top-left sample of each group's region on its object.
        image: ``(G,)``, the image of each group.
    """
    scans = [np.unique(origins[image == i], axis=0) for i in np.unique(image)]
    lattices = [_lattice(scan, N) for scan in scans]
    pitch = max(1, round(float(np.median([spacing for spacing, _ in lattices]))))
    start = region_size // 2 - pitch // 2
    low, high = np.zeros(2, int), np.full(2, object_size)
    for scan, (own, its_steps) in zip(scans, lattices, strict=True):
        steps = np.round(its_steps * own / pitch)
        first = np.round(scan.mean(axis=0) - steps * pitch / 2).astype(int) + start
        low, high = np.maximum(low, first), np.minimum(high, first + ((steps + 1) * pitch).astype(int))
    (top, left), (height, width) = low.tolist(), np.maximum(high - low, 0).tolist()
    return Tiling(pitch, top, left, height, width)


def _lattice(points: np.ndarray, N: int) -> tuple[float, np.ndarray]:
    """Pitch of the lattice that different points ``(n, 2)`` are of, and its steps along rows and columns.

    N/2 for a single point. With a number of points that is rows times columns, these follow from what they
    span, and the pitch p is the slope of places against ranks, ``r_k = r_0 + p ⌊k/columns⌋`` in the order of
    the rows, and so along the columns. That jitter widens the span by up to twice its size does not matter
    then, as it does for any other number of points.
    """
    n, (h, w) = len(points), np.ptp(points, axis=0).astype(float)
    if n == 1:
        return N / 2, np.zeros(2)
    half = (h + w) / 2
    p = (half + np.sqrt(half**2 + (n - 1) * h * w)) / (n - 1)  # (h/p + 1)(w/p + 1) = n
    extent = np.ptp(points, axis=0) / p + 1
    rows = min((k for k in range(1, n + 1) if n % k == 0), key=lambda k: abs(np.log(k / extent[0])))
    shape = np.array([rows, n // rows])
    if np.abs(np.log(shape / extent)).max() > 0.2:
        # no rows times columns: other rows or columns than the pitch would span
        return p, np.round(extent - 1)
    ranks = np.arange(n)[:, None] // shape[::-1]
    ranks, places = ranks - ranks.mean(axis=0), np.sort(points, axis=0)
    return float(np.sum(ranks * places) / np.sum(ranks**2)), shape - 1
