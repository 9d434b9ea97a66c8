"""Downsample large images for pictures: means of square blocks of pixels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptycho.evaluation.colours import WRAPPED, ShownPhase
from ptycho.scan.bands import bands


def shrink(
    values: np.ndarray, side: int, channel: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> tuple[np.ndarray, int]:
    """Return means of blocks of ``channel(values)``, ``(h, w)``, so that no side is longer than ``side``.

    Values that are not finite are ignored; a block without finite values is NaN.

    Returns:
        The means, and the side of a block.
    """
    factor = max(1, -(-max(values.shape) // side))
    if factor == 1:
        return channel(values), 1
    rows, cols = (-(-n // factor) for n in values.shape)
    blocks = bands((rows, cols, factor, factor))
    parts = (values[block.start * factor : block.stop * factor] for block in blocks)
    means = [_means(channel(part), factor, cols) for part in parts]
    return np.concatenate(means), factor


def _means(band: np.ndarray, factor: int, cols: int) -> np.ndarray:
    rows = -(-len(band) // factor)
    whole = np.full((rows * factor, cols * factor), np.nan, band.dtype)
    whole[: band.shape[0], : band.shape[1]] = band
    blocks = whole.reshape(rows, factor, cols, factor)
    known = np.isfinite(blocks)
    count = known.sum(axis=(1, 3))
    total = np.where(known, blocks, 0).sum(axis=(1, 3))
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def shrink_phase(phase: ShownPhase, side: int) -> tuple[np.ndarray, int]:
    """Shrink a phase ``(h, w)`` as :func:`shrink` does; a wrapped one as angles: of −3 and 3 it is π."""
    if phase.kind != WRAPPED or max(phase.values.shape) <= side:
        return shrink(phase.values, side)
    waves, factor = shrink(phase.values, side, lambda band: np.exp(1j * band))
    return np.angle(waves), factor
