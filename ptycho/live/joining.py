"""Frames and positions that come in any order, joined as they come by their index."""

from __future__ import annotations

import time

import numpy as np

from ptycho.live.arrivals import FRAME, POSITION

JOINED = np.dtype([*FRAME.descr, ("row", "<f8"), ("col", "<f8"), ("arrived", "<f8")])
"""A frame with its position; ``arrived``: when both were there, in s, NaN until then."""


class GrowingArray:
    """A structured array that grows at its end; ``rows`` is a view of what is there."""

    def __init__(self, dtype: np.dtype) -> None:
        self._buffer, self._count = np.zeros(1024, dtype), 0

    @property
    def rows(self) -> np.ndarray:
        return self._buffer[: self._count]

    def append(self, rows: np.ndarray) -> None:
        count = self._count + len(rows)
        if count > len(self._buffer):
            room = np.zeros(max(count, len(self._buffer)), self._buffer.dtype)
            self._buffer = np.concatenate([self._buffer, room])
        self._buffer[self._count : count] = rows
        self._count = count


class Joiner:
    """Joins every index's first frame and first position.

    Attributes:
        frame_rows, position_rows: of a frame, and of a position, by its index.
    """

    def __init__(self) -> None:
        self._frames, self._positions = map(GrowingArray, (JOINED, POSITION))
        self.frame_rows: dict[int, int] = {}
        self.position_rows: dict[int, int] = {}

    @property
    def frames(self) -> np.ndarray:
        """The frames ``(n,)`` of :data:`JOINED`, in the order of their arrival."""
        return self._frames.rows

    @property
    def positions(self) -> np.ndarray:
        """The positions ``(n,)``, in the order of their arrival."""
        return self._positions.rows

    def unused(self) -> int:
        """Return how many positions have an index without a frame."""
        return len(self.positions) - int(np.count_nonzero(np.isfinite(self.frames["arrived"])))

    def add_frames(self, frames: np.ndarray) -> None:
        """Add frames ``(n,)`` of :data:`FRAME`, each of a new index."""
        joined = np.zeros(len(frames), JOINED)
        joined["index"] = frames["index"]
        joined["row"] = joined["col"] = joined["arrived"] = np.nan
        self._add(self._frames, joined, self.frame_rows)

    def add_positions(self, positions: np.ndarray) -> None:
        """Add positions ``(n,)``, each of a new index."""
        self._add(self._positions, positions, self.position_rows)

    def _add(self, array: GrowingArray, new: np.ndarray, rows: dict[int, int]) -> None:
        """Append rows, and place the frames among their indices that have a position now."""
        first, indices = len(array.rows), new["index"].tolist()
        array.append(new)
        rows.update({index: first + k for k, index in enumerate(indices)})
        both = [index for index in indices if index in self.frame_rows and index in self.position_rows]
        placed = np.array([self.frame_rows[index] for index in both], np.int64)
        positions = self.positions[[self.position_rows[index] for index in both]]
        self.frames["row"][placed], self.frames["col"][placed] = positions["row"], positions["col"]
        self.frames["arrived"][placed] = time.monotonic()
