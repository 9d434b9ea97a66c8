"""Scan positions and the groups that share them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Scan:
    """Positions of a scan over one or more images, and groups of them by index.

    ``positions (J, 2)`` float32: (row, col) of the patch's top-left sample in object pixels; ``image (J,)``
    int32; ``groups (G, C)`` int32: indices into the positions, row-major within the group, never across
    images.
    """

    positions: np.ndarray
    image: np.ndarray
    groups: np.ndarray

    def select(self, group_indices: np.ndarray) -> Scan:
        """Return the scan reduced to groups ``group_indices (n,)`` and the positions they use, renumbered."""
        groups = self.groups[group_indices]
        used, renumbered = np.unique(groups, return_inverse=True)
        return Scan(self.positions[used], self.image[used], renumbered.reshape(groups.shape).astype(np.int32))


def nested_grid(size: int, N: int, gridsize: int, offset: int, pitch: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and groups of a nested grid on one image.

    Groups start at ``(a·pitch, b·pitch)`` wherever they fit; within a group the positions are
    ``start + offset·(i, j)``, i, j = 0 … gridsize − 1, row-major. A position that several groups share
    is listed once.

    Returns:
        positions ``(J, 2)`` int64, sorted row-major; groups ``(G, C)`` int64 indices into them.
    """
    starts = np.arange(0, size - N - (gridsize - 1) * offset + 1, pitch)
    inner = offset * np.arange(gridsize)
    origin = np.stack(np.meshgrid(starts, starts, indexing="ij"), -1).reshape(-1, 1, 2)
    within = np.stack(np.meshgrid(inner, inner, indexing="ij"), -1).reshape(1, -1, 2)
    every = (origin + within).reshape(-1, 2)
    positions, groups = np.unique(every, axis=0, return_inverse=True)
    return positions, groups.reshape(origin.shape[0], within.shape[1])


def rotation(degrees: float) -> np.ndarray:
    """Return ``(2, 2)``, ``[[cos φ, −sin φ], [sin φ, cos φ]]`` on (row, col): φ > 0 turns rows to columns."""
    c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    return np.array([[c, -s], [s, c]])


def shift_to_margin(positions: np.ndarray, margin: int) -> np.ndarray:
    """Return positions ``(J, 2)`` shifted by whole pixels: the least lie in ``[margin, margin + 1)``.

    The fractions of a pixel stay: the object's samples lie where they lay.
    """
    return positions - np.floor(positions.min(axis=0)) + margin


def even_side(side: int) -> int:
    """Return ``side`` or one more, an even number: files that state an object's middle then name a sample."""
    return side + side % 2
