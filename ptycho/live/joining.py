"""Frames and positions that came in any order, joined by their index, or by their time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptycho.live.arrivals import BY_TIME

FAR_APART = 5.0  # times the median step in time: no position is made up across a longer pause


@dataclass(frozen=True, eq=False)
class FrameList:
    """Frames in the order of their arrival: index, time in s, and when they arrived, ``(n,)`` each."""

    indices: np.ndarray
    times: np.ndarray
    arrived: np.ndarray


@dataclass(frozen=True, eq=False)
class PlaceList:
    """Positions in the order of their arrival, as :class:`FrameList`; ``values (n, 2)``: (row, col)."""

    indices: np.ndarray
    times: np.ndarray
    arrived: np.ndarray
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class Joined:
    """Frames with their positions, by increasing index.

    Attributes:
        rows: of the frames, ``(n,)``, in the order of their arrival.
        indices: ``(n,)``.
        positions: ``(n, 2)``, (row, col).
        arrived: when both were there, ``(n,)``.
        waiting: frames without a position, and ``unused``: positions without a frame.
        gaps: indices below the largest of which there is no frame.
    """

    rows: np.ndarray
    indices: np.ndarray
    positions: np.ndarray
    arrived: np.ndarray
    waiting: int
    unused: int
    gaps: int


def join(frames: FrameList, places: PlaceList) -> Joined:
    """The first frame and the first position of every index; where an index has none, those of its time."""
    named = places.indices != BY_TIME
    _, mine, theirs = np.intersect1d(frames.indices, places.indices[named], return_indices=True)
    theirs = np.flatnonzero(named)[theirs]
    values, arrived = places.values[theirs], np.maximum(frames.arrived[mine], places.arrived[theirs])
    rest = np.setdiff1d(np.arange(len(frames.indices)), mine)
    timed, made, seen = _at_times(frames.times[rest], places, ~named)
    rows = np.concatenate([mine, rest[timed]])
    values = np.concatenate([values, made])
    arrived = np.concatenate([arrived, np.maximum(frames.arrived[rest[timed]], seen)])
    order = np.argsort(frames.indices[rows], kind="stable")
    indices = frames.indices[rows][order]
    largest = int(frames.indices.max(initial=-1))
    return Joined(
        rows[order],
        indices,
        values[order],
        arrived[order],
        len(frames.indices) - len(rows),
        int(named.sum()) - len(theirs),
        largest + 1 - len(np.unique(frames.indices)),
    )


def _at_times(
    times: np.ndarray, places: PlaceList, unnamed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which of some frames ``times (n,)`` lie between two positions that follow on each other, and the
    positions ``(k, 2)`` on the straight line between these, with their arrival ``(k,)``."""
    known = np.flatnonzero(unnamed & np.isfinite(places.times))
    nothing = np.zeros(0, np.int64), np.zeros((0, 2)), np.zeros(0)
    if len(known) < 2 or not np.isfinite(times).any():
        return nothing
    known = known[np.argsort(places.times[known], kind="stable")]
    moments, steps = places.times[known], np.diff(places.times[known])
    after = np.clip(np.searchsorted(moments, times), 1, len(moments) - 1)
    width = moments[after] - moments[after - 1]
    inside = np.isfinite(times) & (times >= moments[0]) & (times <= moments[-1])
    inside &= width <= FAR_APART * np.median(steps)
    chosen = np.flatnonzero(inside)
    after, width = after[chosen], np.maximum(width[chosen], np.finfo(float).tiny)
    share = ((times[chosen] - moments[after - 1]) / width)[:, None]
    before, behind = places.values[known[after - 1]], places.values[known[after]]
    return chosen, (1 - share) * before + share * behind, places.arrived[known[after]]
