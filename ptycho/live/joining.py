"""Frames and positions that come in any order, joined as they come by their index, or by their time."""

from __future__ import annotations

import time

import numpy as np

from ptycho.live.arrivals import FRAME, POSITION

JOINED = np.dtype([*FRAME.descr, ("row", "<f8"), ("col", "<f8"), ("arrived", "<f8"), ("by_index", "?")])
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
    """Joins every index's first frame and first position; frames without one are placed by their time.

    Args:
        longest_step: the longest step in time, in medians, across which positions are interpolated.

    Attributes:
        frame_rows, position_rows: of a frame, and of a position, by its index.
    """

    def __init__(self, longest_step: float = 5.0) -> None:
        self._frames, self._positions, self._timed = map(GrowingArray, (JOINED, POSITION, POSITION))
        self._longest_step = longest_step
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
        return len(self.position_rows) - int(np.count_nonzero(self.frames["by_index"]))

    def add_frames(self, frames: np.ndarray) -> None:
        """Add frames ``(n,)`` of :data:`FRAME`, each of a new index."""
        joined, first = np.zeros(len(frames), JOINED), len(self.frames)
        joined["index"], joined["time"] = frames["index"], frames["time"]
        joined["row"] = joined["col"] = joined["arrived"] = np.nan
        self._frames.append(joined)
        indices = frames["index"].tolist()
        self.frame_rows.update({index: first + k for k, index in enumerate(indices)})
        self._join(indices)

    def add_positions(self, positions: np.ndarray) -> None:
        """Add positions ``(n,)``; those with an index are each of a new one."""
        first, indices = len(self.positions), positions["index"].tolist()
        self._positions.append(positions)
        self.position_rows.update({index: first + k for k, index in enumerate(indices) if index >= 0})
        timed = positions[(positions["index"] < 0) & np.isfinite(positions["time"])]
        late = len(timed) > 0 and timed["time"].min() < self._timed.rows["time"].max(initial=-np.inf)
        self._timed.append(timed)
        if late or (np.diff(timed["time"]) < 0).any():
            self._timed.rows[:] = self._timed.rows[np.argsort(self._timed.rows["time"], kind="stable")]
        self._join(indices, again=late)

    def _join(self, indices: list[int], again: bool = False) -> None:
        """Place frames of some indices; by time those without a place, ``again``: all that it can place."""
        both = [index for index in indices if index in self.frame_rows and index in self.position_rows]
        rows = np.array([self.frame_rows[index] for index in both], np.int64)
        self.frames["by_index"][rows] = True
        self._place(rows, self.positions[[self.position_rows[index] for index in both]])
        if len(self._timed.rows) > 1:
            self._place(*self._at_times(again))

    def _place(self, rows: np.ndarray, positions: np.ndarray) -> None:
        new = np.isnan(self.frames["arrived"][rows])
        self.frames["row"][rows], self.frames["col"][rows] = positions["row"], positions["col"]
        self.frames["arrived"][rows[new]] = time.monotonic()

    def _at_times(self, again: bool) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the frames between two positions that follow on each other in time, and where they are."""
        timed, frames = self._timed.rows, self.frames
        moments, times = timed["time"], frames["time"]
        open_ones = ~frames["by_index"] if again else np.isnan(frames["arrived"])
        rows = np.flatnonzero(open_ones & (times >= moments[0]) & (times <= moments[-1]))
        after = np.clip(np.searchsorted(moments, times[rows]), 1, len(moments) - 1)
        width = moments[after] - moments[after - 1]
        near = width <= self._longest_step * np.median(np.diff(moments))
        rows, after, width = rows[near], after[near], np.maximum(width[near], np.finfo(float).tiny)
        share, places = (times[rows] - moments[after - 1]) / width, np.empty(len(rows), POSITION)
        for name in ("row", "col"):
            places[name] = (1 - share) * timed[name][after - 1] + share * timed[name][after]
        return rows, places
