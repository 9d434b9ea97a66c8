"""What a source of a live scan delivers: frames, positions, and a description of the whole scan.

Frames and positions come in any order; a :class:`ScanTable` joins them by their index, or by their time.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ptycho.readers.raw_scan import RawScan

Has = Callable[[int], bool]  # whether the frame of an index is kept already
BY_TIME = -1  # index of a position that is joined by its time alone
FRAME = np.dtype([("index", "<i8"), ("time", "<f8")])
POSITION = np.dtype([("index", "<i8"), ("time", "<f8"), ("row", "<f8"), ("col", "<f8")])
"""A position of the probe on the object, in the unit of the :class:`Description`: of the frame ``index``, or
at a ``time`` in s (NaN: not known)."""


def make_positions(index: Any, row: Any, col: Any, time: Any = np.nan) -> np.ndarray:
    """Return positions ``(n,)`` of dtype :data:`POSITION` from their columns; a single number is repeated."""
    columns = np.broadcast_arrays(*map(np.atleast_1d, (index, time, row, col)))
    positions = np.empty(len(columns[0]), POSITION)
    for name, column in zip(POSITION.names or (), columns, strict=True):
        positions[name] = column
    return positions


NO_POSITIONS = np.empty(0, POSITION)


class Frame(NamedTuple):
    """A detector frame ``(H, W)`` by its index, ``number``; ``time`` in seconds, NaN: not known."""

    number: int
    data: np.ndarray
    time: float = np.nan


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Frames, positions and faults that came since the last look, in any order, also repeatedly."""

    frames: tuple[Frame, ...] = ()
    positions: np.ndarray = field(default_factory=lambda: NO_POSITIONS)  # of dtype POSITION
    faults: Counter[str] = field(default_factory=Counter)  # their kinds, a short word each, and numbers
    ended: bool = False  # nothing more will come


@dataclass(frozen=True, eq=False)
class Description:
    """Statements of a source about the scan besides its frames and positions; None: not stated.

    The names are those of :class:`~ptycho.readers.raw_scan.RawScan`; positions are (row, col) of the probe.
    """

    unit: str | None = None
    domain: str | None = None
    zero_frequency: str | tuple[float, float] | None = None
    energy_eV: float | None = None
    distance_m: float | None = None
    detector_pixel_m: tuple[float, float] | None = None
    probe: np.ndarray | None = None
    probe_pixel_m: tuple[float, float] | None = None
    good: np.ndarray | None = None
    dark: np.ndarray | None = None
    flat: np.ndarray | None = None
    shape: tuple[int, int] | None = None  # of a frame
    dtype: str | None = None
    expected: int | None = None  # frames of the complete scan
    ended: str | None = None  # why nothing more will come, once that is known

    @classmethod
    def of(cls, raw: RawScan, **more: Any) -> Description:
        """Return the description of a measured scan; ``more`` has further values, which take precedence."""
        names = [field.name for field in fields(cls) if field.name in RawScan.__dataclass_fields__]
        return cls(**{name: getattr(raw, name) for name in names} | more)


UNDESCRIBED = Description()


class Source(ABC):
    """Source of a live scan."""

    description: Description = UNDESCRIBED
    problem: str | None = None  # why something cannot be read now

    @abstractmethod
    def poll(self) -> Arrivals:
        """Return the arrivals since the last call, within about a second; empty if there are none.

        ConfigError: the source can never be read.
        """

    def close(self) -> None:  # noqa: B027 - a file or a folder is not held open
        """Give back what is held open."""


JOINED = np.dtype([*FRAME.descr, ("position", "<f8", 2), ("arrived", "<f8")])
"""A frame with its position, (row, col); ``arrived``: when both were there, in s; NaN until then."""


@dataclass(frozen=True, eq=False)
class ScanTable:
    """The frames ``(n,)`` and positions ``(m,)`` so far, in the order of their arrival, one of each index."""

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
    before and after its time, of those that have a time instead of an index, unless the step between these is
    longer than ``longest_step`` medians.
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
