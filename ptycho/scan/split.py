"""Split the patterns of a scan: those that are fitted, and those that are held out to test the fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def split_patterns(
    positions: np.ndarray, held_out: int, seed: int | Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return indices, in order, of the patterns that are fitted and of ``held_out`` others.

    The patterns are walked through row by row of the scanned area, back and forth. Of each ``1/held_out`` of
    that path one is drawn at random, so that they are spread over the scan.

    Args:
        positions: ``(J, 2)`` in pixels, (row, column).
        held_out: number of patterns, less than J.
        seed: of the draw.
    """
    count = len(positions)
    if held_out == 0:
        return np.arange(count), np.zeros(0, int)
    step = max(np.ptp(positions[:, 0]) / np.sqrt(count), 1e-6)
    rows = np.floor(positions[:, 0] / step).astype(int)
    along = np.where(rows % 2 == 0, positions[:, 1], -positions[:, 1])
    rng = np.random.default_rng(seed)
    out = np.sort([rng.choice(part) for part in np.array_split(np.lexsort((along, rows)), held_out)])
    return np.setdiff1d(np.arange(count), out), out
