"""The nested grid of a simulated scan: its positions, groups and tiling."""

from __future__ import annotations

import numpy as np

from ptycho.config import RunConfig
from ptycho.scan.positions import Scan, nested_grid
from ptycho.scan.tiling import Tiling


def make_scan(config: RunConfig, role: str, n_images: int, rngs: list[np.random.Generator]) -> Scan:
    """Return the scan of a data split: the nested grid on every image, with jitter if specified.

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


def nested_tiling(config: RunConfig, role: str) -> Tiling:
    """Return the tiling of a simulated scan, which its jitter does not change."""
    pitch = config.outer_pitch(role)
    start = config.group_extent // 2 - pitch // 2
    stop = min(start + pitch * config.groups_per_axis(role), config.size)
    start = max(start, 0)
    return Tiling(pitch, start, start, stop - start, stop - start)
