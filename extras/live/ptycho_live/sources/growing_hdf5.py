"""An HDF5 file that a detector writes while it is read (single writer, multiple readers: SWMR).

Frames are one array ``(J, H, W)`` that is extended along its first axis; positions are arrays beside it that
are extended, too. The readers of measured scans find their paths and the other values. A row of positions
that is not finite has not arrived yet. The file is opened anew for every call. The scan is complete when the
writer has closed the file: the writer then removes its mark from the file's first bytes. Without SWMR it
cannot be determined whether a file is complete. No lock is taken of a file with such marks, because a writer
cannot begin SWMR while a reader holds one.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from pathlib import Path

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.readers.hdf5 import CLOSED, mark_of, open_growing
from ptycho.readers.hdf5_checks import Chunks
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import open_scan
from ptycho_live.arrivals import NO_POSITIONS, Arrivals, Description, Frame, Has, Source, make_positions

log = logging.getLogger(__name__)
DAMAGE = (OSError, RuntimeError, KeyError, ValueError)  # of a file that is being written


class GrowingHdf5(Source):
    """Source that reads an HDF5 file while it is written.

    A call reads ``at_once`` bytes of frames, and the positions where ``pause_s`` have passed since the last.
    """

    def __init__(
        self, path: Path, config: DataConfig, has: Has, pause_s: float = 0.3, at_once: int = 2**25
    ) -> None:
        self._path, self._config, self._has, self._pause, self._at_once = path, config, has, pause_s, at_once
        self._foreign = False  # the file is another scan's
        self._identity: tuple[int, int] | None = None  # device and inode
        self._chunks = Chunks()
        self._next, self._holes = 0, list[int]()  # first frame not read yet; those before it not there yet
        self._taken = np.zeros(0, np.int64)  # rows of positions
        self._looked, self._version = 0.0, (0, 0)  # when, and at which file: moment of its change, its size
        self._last: Frame | None = None

    def poll(self) -> Arrivals:
        faults, new = Counter[str](), tuple[Frame, ...]()
        if self._foreign:
            return Arrivals(ended=True)
        try:
            mark = mark_of(self._path)  # checked first: nothing is written after the file is closed
            status = self._path.stat()
            with open_growing(self._path) as file:
                frames = find_frames(file, self._config.keys.patterns)
                if frames is None:
                    return Arrivals()
                if self._is_replaced((status.st_dev, status.st_ino), frames):
                    faults["file replaced"] += 1
                if not self._foreign:
                    new = self._new_frames(frames)
                count, expected = len(frames), frames.maxshape[0]
            closed = mark == CLOSED and 0 < count <= self._next
            if self._foreign or not count:
                return Arrivals(faults=faults, ended=self._foreign)
            version, now = (status.st_mtime_ns, status.st_size), time.monotonic()
            settled = time.time() - status.st_mtime > 2  # the clock of a file is coarse
            same = settled and version == self._version
            if mark != CLOSED and (same or now - self._looked < self._pause):
                return Arrivals(new, faults=faults)
            self._looked = now
            positions = self._new_positions(expected if expected != count else None)
            self._version = (0, 0) if self.problem else version
            return Arrivals(new, positions, faults, closed)
        except DAMAGE as error:
            log.debug("%s: %s", self._path, error)
            return Arrivals(new, faults=faults)

    def _is_replaced(self, identity: tuple[int, int], frames: h5py.Dataset) -> bool:
        """Whether another file has taken the file's place; one without the last frame is another scan's."""
        replaced, last = self._identity not in (None, identity), self._last
        if replaced and last is not None:
            self._chunks.check(frames, [slice(last.number, last.number + 1)])
            self._foreign = last.number >= len(frames) or not np.array_equal(frames[last.number], last.data)
        if self._foreign:
            log.warning("%s: was replaced by another scan, of which nothing is taken", self._path)
        self._identity = identity
        return replaced

    def _new_frames(self, frames: h5py.Dataset) -> tuple[Frame, ...]:
        room = max(1, self._at_once // max(1, frames.dtype.itemsize * frames.shape[1] * frames.shape[2]))
        end = min(len(frames), self._next + room)
        rows = [row for row in [*self._holes, *range(self._next, end)] if not self._has(row)]
        self._next = max(self._next, end)
        new_frames, self._holes = list[Frame](), []
        for row in rows:
            try:
                if _is_written(frames, row):
                    self._chunks.check(frames, [slice(row, row + 1)])
                    new_frames.append(Frame(row, frames[row]))
                    continue
            except DAMAGE as error:
                log.debug("%s: frame %d: %s", self._path, row, error)
            self._holes.append(row)
        self._last = new_frames[-1] if new_frames else self._last
        return tuple(new_frames)

    def _new_positions(self, expected: int | None) -> np.ndarray:
        """Positions that came, as a reader of measured scans reads them; ``expected``: number of frames."""
        config, stated = self._config, self._config.stated_quantities()
        keys, unit, axes = config.keys.stated(), config.unit, config.position_axes
        options = ReadOptions(config.format, keys, unit, axes, stated=stated, growing=True)
        try:
            raw = open_scan(self._path, options)
        except ConfigError as error:
            self.problem = str(error)
            return NO_POSITIONS
        with contextlib.closing(raw.patterns):
            self.problem = None
            if self.description.unit is None:
                self.description = Description.of(raw, expected=expected)
        rows = np.setdiff1d(np.flatnonzero(np.isfinite(raw.positions).all(axis=1)), self._taken)
        self._taken = np.union1d(self._taken, rows)
        swap = config.position_axes == "xy" and config.keys.positions is None and raw.format != "ptylab"
        return make_positions(rows, *raw.positions[rows, :: -1 if swap else 1].T)


def _is_written(frames: h5py.Dataset, row: int) -> bool:
    """Whether the chunk of a frame is in the file; without it, it would be read as zeros."""
    if frames.chunks is None:
        return True
    corner = row - row % frames.chunks[0], 0, 0
    return frames.id.get_chunk_info_by_coord(corner).byte_offset is not None


def find_frames(file: h5py.File, key: str | None) -> h5py.Dataset | None:
    """Return the frames ``(J, H, W)``: at the user's key, or the largest array that grows; None: none yet."""
    ranked = dict[tuple[bool, int, int], h5py.Dataset]()

    def visit(name: str, node: object) -> None:
        if isinstance(node, h5py.Dataset) and node.ndim == 3 and node.dtype.kind in "fiu":
            count, height, width = node.shape
            if min(height, width) >= 8:
                ranked.setdefault((node.maxshape[0] is None, height * width, count), node)

    if key is None:
        file.visititems(visit)
        return ranked[max(ranked)] if ranked else None
    node = file.get(key)
    return node if isinstance(node, h5py.Dataset) and node.ndim == 3 else None
