"""Frames and positions that come in any order, joined by their index, or by their time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ptycho_live.arrivals import FRAME, NO_POSITIONS

JOINED = np.dtype([*FRAME.descr, ("position", "<f8", 2), ("arrived", "<f8")])
"""A frame with its position, (row, col); ``arrived``: when both were there, in s; NaN until then."""


@dataclass(frozen=True, eq=False)
class ScanTable:
    """The frames and positions so far.

    Attributes:
        frames: ``(n,)`` of :data:`JOINED`, in the order of their arrival, each of another index.
        received: positions ``(m,)`` of :data:`~ptycho_live.arrivals.POSITION` in the order of their arrival;
            those with an index are each of another one.
    """

    frames: np.ndarray = field(default_factory=lambda: np.empty(0, JOINED))
    received: np.ndarray = field(default_factory=lambda: NO_POSITIONS)

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows ``(J,)`` of the frames that have a position."""
        return np.flatnonzero(np.isfinite(self.frames["arrived"]))

    def extended(self, frames: np.ndarray, positions: np.ndarray) -> ScanTable:
        """Return the table with frames ``(n,)`` of :data:`FRAME` and positions ``(m,)``, of new indices."""
        new = np.full(len(frames), np.array((0, np.nan, np.nan, np.nan), JOINED))
        new["index"], new["time"] = frames["index"], frames["time"]
        joined = np.concatenate([self.frames, new])
        received = np.concatenate([self.received, positions])
        open_ones = np.isnan(joined["arrived"])
        # times that come late move frames that had a position; by indices alone, only open ones are searched
        rows = np.arange(len(joined)) if (received["index"] < 0).any() else np.flatnonzero(open_ones)
        places = locate(joined[rows], received)
        known = np.isfinite(places[:, 0])  # a frame that had a position keeps one
        rows = rows[known]
        joined["position"][rows] = places[known]
        joined["arrived"][rows[open_ones[rows]]] = time.monotonic()
        return ScanTable(joined, received)


def locate(frames: np.ndarray, positions: np.ndarray, longest_step: float = 5.0) -> np.ndarray:
    """Return where frames ``(n,)`` are, ``(n, 2)``, (row, col); NaN: it is not known.

    A frame has the position of its index. Without one it lies on the straight line between the positions
    before and after its time, of those that have a time instead of an index.

    Args:
        longest_step: the longest step in time, in medians, across which positions are interpolated.
    """
    places = np.full((len(frames), 2), np.nan)
    theirs = positions[np.isin(positions["index"], frames["index"])]
    _, placed, which = np.intersect1d(frames["index"], theirs["index"], return_indices=True)
    places[placed] = np.stack([theirs["row"][which], theirs["col"][which]], axis=1)
    timed = positions[(positions["index"] < 0) & np.isfinite(positions["time"])]
    if len(timed) < 2:
        return places
    timed = timed[np.argsort(timed["time"], kind="stable")]
    steps = np.diff(timed["time"])
    after = np.clip(np.searchsorted(timed["time"], frames["time"]), 1, len(steps))
    wanted = np.isnan(places[:, 0]) & (steps[after - 1] <= longest_step * np.median(steps))
    for axis, name in enumerate(("row", "col")):
        moments = frames["time"][wanted]
        places[wanted, axis] = np.interp(moments, timed["time"], timed[name], np.nan, np.nan)
    return places
