"""Scan positions and the groups that share them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ptycho.config import RunConfig


@dataclass(frozen=True, eq=False)
class Scan:
    """Positions of a scan over one or more images, and groups of them by index.

    ``positions (P, 2)`` float32: (row, col) of the patch's top-left sample in object pixels; ``image (P,)``
    int32; ``groups (G, C)`` int32: indices into the positions, row-major within the group, never across
    images.
    """

    positions: np.ndarray
    image: np.ndarray
    groups: np.ndarray

    def select(self, group_indices: np.ndarray) -> Scan:
        """The scan reduced to some groups and the positions they use, renumbered."""
        groups = self.groups[group_indices]
        used, renumbered = np.unique(groups, return_inverse=True)
        return Scan(self.positions[used], self.image[used], renumbered.reshape(groups.shape).astype(np.int32))


def nested_grid(size: int, N: int, gridsize: int, offset: int, pitch: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and groups of a nested grid on one image.

    Groups start at ``(a·pitch, b·pitch)`` wherever they fit; within a group the positions are
    ``start + offset·(i, j)``, i, j = 0 … gridsize − 1, row-major. A position that several groups share
    is listed once.

    Returns:
        positions ``(P, 2)`` int64, sorted row-major; groups ``(G, C)`` int64 indices into them.
    """
    starts = np.arange(0, size - N - (gridsize - 1) * offset + 1, pitch)
    inner = offset * np.arange(gridsize)
    origin = np.stack(np.meshgrid(starts, starts, indexing="ij"), -1).reshape(-1, 1, 2)
    within = np.stack(np.meshgrid(inner, inner, indexing="ij"), -1).reshape(1, -1, 2)
    every = (origin + within).reshape(-1, 2)
    positions, groups = np.unique(every, axis=0, return_inverse=True)
    return positions, groups.reshape(origin.shape[0], within.shape[1])


def make_scan(config: RunConfig, role: str, n_images: int, rngs: list[np.random.Generator]) -> Scan:
    """The scan of a data split: the nested grid on every image, moved by jitter if asked for.

    Args:
        role: ``train``, ``val`` or ``test``; decides the pitch of the groups.
        rngs: one generator for each image; used for its jitter only.
    """
    grid, groups = nested_grid(
        config.size, config.N, config.gridsize, config.offset, config.outer_pitch(role)
    )
    positions, jitter = [], config.scan.jitter
    for rng in rngs:
        moved = grid + (rng.uniform(-jitter, jitter, grid.shape) if jitter else 0.0)
        positions.append(np.clip(moved, 0, config.size - config.N))
    shift = len(grid) * np.arange(n_images)
    return Scan(
        positions=np.concatenate(positions).astype(np.float32),
        image=np.repeat(np.arange(n_images, dtype=np.int32), len(grid)),
        groups=(groups[None] + shift[:, None, None]).reshape(-1, groups.shape[1]).astype(np.int32),
    )


def group_centres(positions: np.ndarray, groups: np.ndarray, region_size: int, N: int) -> np.ndarray:
    """Centre of each group's region, in the coordinates of the positions.

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
    """``r_k − centre`` for every pattern of every group; ``(G, C, 2)`` float32 (row, col)."""
    return positions[groups] - group_centres(positions, groups, region_size, N)[:, None]


def draw_neighbours(
    scan: Scan, centres: np.ndarray, count: int, radius: float, rng: np.random.Generator
) -> np.ndarray:
    """For every group, ``count`` other patterns of its image whose positions lie within ``radius`` pixels.

    Drawn at random without replacement. A group with fewer such neighbours has some of them repeatedly,
    one without any has its own first pattern instead.

    Args:
        centres: ``(G, 2)``, as :func:`group_centres` gives them.

    Returns:
        ``(G, count)`` int32, indices into the positions.
    """
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
    """Indices of at most ``limit`` groups, drawn without replacement, in ascending order."""
    if limit is None or limit >= n_groups:
        return np.arange(n_groups)
    return np.sort(rng.choice(n_groups, limit, replace=False))
