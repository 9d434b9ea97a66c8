"""Groups of scan positions: their centres, their neighbours, which of them are used, and their lattice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ptycho.config import check
from ptycho.scan.positions import Scan


def group_centres(positions: np.ndarray, groups: np.ndarray, region_size: int, N: int) -> np.ndarray:
    """Return the centre of each group's region, in the coordinates of the positions.

    The mean of the group's positions, moved by at most half a pixel so that the region of side R, whose
    top-left sample is ``centre − (R − N)/2``, falls on the object's own pixels. On a regular grid this is
    the mean itself.

    Returns:
        ``(G, 2)`` float32.
    """
    half = (region_size - N) / 2
    mean = positions[groups].mean(axis=1)
    return (np.round(mean - half) + half).astype(np.float32)


def group_offsets(positions: np.ndarray, groups: np.ndarray, region_size: int, N: int) -> np.ndarray:
    """Return ``r_k − centre`` for every pattern of every group; ``(G, C, 2)`` float32 (row, col)."""
    return positions[groups] - group_centres(positions, groups, region_size, N)[:, None]


def overreach(positions: np.ndarray, groups: np.ndarray, region_size: int, N: int) -> float:
    """Return by how many pixels a patch reaches out of a region of side R centred on its group ``(G, C)``."""
    reach = np.abs(group_offsets(positions, groups, region_size, N)).max()
    return float(reach - (region_size - N) / 2)


def smallest_region(positions: np.ndarray, groups: np.ndarray, N: int) -> int:
    """Return the least side R of a region that covers every group, ``groups (G, C)`` of ``positions (J, 2)``.

    Its centre is the mean of the group's positions, or up to half a pixel from it: ``R − N`` lies within
    about one pixel of twice the distance of the farthest position from the mean.
    """
    members = positions[groups]
    reach = np.abs(members - members.mean(axis=1, keepdims=True)).max()
    first = N + int(min(max(2 * reach - 1, 0), 2.0**20))
    last = first + 4
    return next((R for R in range(first, last) if overreach(positions, groups, R, N) <= 1e-3), last)


def nearest_groups(positions: np.ndarray, image: np.ndarray, group_size: int) -> np.ndarray:
    """Return for every pattern a group of itself and the nearest others of its image, nearest first.

    Args:
        positions: ``(J, 2)``.
        image: ``(J,)``.
        group_size: C, patterns in a group.

    Returns:
        ``(J, C)`` int32, indices into the positions.

    Raises:
        ConfigError: an image has fewer than C patterns.
    """
    from scipy.spatial import cKDTree  # takes a third of a second, which most programs never need

    groups = np.empty((len(positions), group_size), np.int32)
    for mine in _images(image, group_size):
        distance, near = cKDTree(positions[mine]).query(positions[mine], k=[*range(1, group_size + 1)])
        own = np.arange(len(mine))[:, None]
        crowded = np.all(near != own, axis=1)  # more patterns at one place than a group has members
        near[crowded, -1] = own[crowded, 0]
        distance[near == own] = -1  # itself first, also among equal positions
        order = np.argsort(distance, axis=1, kind="stable")
        groups[mine] = mine[np.take_along_axis(near, order, axis=1)]
    return groups


def _images(image: np.ndarray, group_size: int) -> Iterator[np.ndarray]:
    """The patterns of each image, which must be enough for a group."""
    for i in np.unique(image):
        mine = np.flatnonzero(image == i)
        allowed = f"from 1 to {len(mine)}, the patterns of image {i}"
        check(1 <= group_size <= len(mine), "group_size", group_size, allowed)
        yield mine


def grouped(positions: np.ndarray, image: np.ndarray, group_size: int, tiles: bool) -> np.ndarray:
    """Return :func:`tiled_groups` or :func:`nearest_groups`, of ``group_size`` or as many as each image has.

    Returns:
        ``(G, C)`` int32, C the smaller of ``group_size`` and the patterns of the smallest image.
    """
    fewest = int(np.unique(image, return_counts=True)[1].min())
    return (tiled_groups if tiles else nearest_groups)(positions, image, min(group_size, fewest))


def tiled_groups(positions: np.ndarray, image: np.ndarray, group_size: int, own: float = 0.67) -> np.ndarray:
    """Return groups that share the patterns: compact tiles of a scan, each with patterns around it.

    The patterns of an image are halved across their longer side until no part has more than ``own`` of C;
    each part is filled up to C with the nearest others. Every pattern is in at least one group.

    Args:
        positions, image, group_size: as for :func:`nearest_groups`.

    Returns:
        ``(G, C)`` int32, G about ``J/(own·C)``.

    Raises:
        ConfigError: an image has fewer than C patterns.
    """
    from scipy.spatial import cKDTree

    groups = []
    for mine in _images(image, group_size):
        places, most = positions[mine], max(1, int(own * group_size))
        tree = cKDTree(places)
        for part in halved(places, np.arange(len(mine)), -(-len(mine) // most)):
            _, near = tree.query(places[part].mean(axis=0), k=[*range(1, min(2 * group_size, len(mine)) + 1)])
            others = near[~np.isin(near, part)][: group_size - len(part)]
            groups.append(mine[np.concatenate([part, others])])
    return np.array(groups, np.int32)


def halved(positions: np.ndarray, indices: np.ndarray, count: int) -> list[np.ndarray]:
    """Return ``count`` parts of the patterns ``indices (n,)``, of about the same size.

    They are halved across the longer side of what their ``positions (J, 2)`` span, again and again.
    """
    if count == 1:
        return [indices]
    axis = int(np.argmax(np.ptp(positions[indices], axis=0)))
    order = indices[np.argsort(positions[indices, axis], kind="stable")]
    first = count // 2
    cut = round(len(order) * first / count)
    return halved(positions, order[:cut], first) + halved(positions, order[cut:], count - first)


def draw_neighbours(
    scan: Scan, centres: np.ndarray, count: int, radius: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw ``count`` other patterns for every group, of its image, with positions within ``radius`` pixels.

    Drawn at random without replacement. A group with fewer such neighbours has some of them repeatedly,
    one without any has its own first pattern instead.

    Args:
        centres: ``(G, 2)``, as :func:`group_centres` gives them.

    Returns:
        ``(G, count)`` int32, indices into the positions.
    """
    from scipy.spatial import cKDTree

    image = scan.image[scan.groups[:, 0]]
    drawn = np.empty((len(scan.groups), count), np.int32)
    for i in np.unique(image):
        mine = np.flatnonzero(scan.image == i)
        tree = cKDTree(scan.positions[mine])
        for g in np.flatnonzero(image == i):
            near = mine[tree.query_ball_point(centres[g], radius)]
            near = np.setdiff1d(near, scan.groups[g])
            near = rng.permutation(near) if len(near) else scan.groups[g, :1]
            drawn[g] = np.resize(near, count)
    return drawn


def draw_groups(n_groups: int, limit: int | None, rng: np.random.Generator) -> np.ndarray:
    """Draw indices ``(n,)`` of at most ``limit`` groups, drawn without replacement, in ascending order."""
    if limit is None or limit >= n_groups:
        return np.arange(n_groups)
    return np.sort(rng.choice(n_groups, limit, replace=False))


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
