"""An HDF5 file that a detector writes while it is read (single writer, multiple readers: SWMR).

Frames are one array ``(J, H, W)`` that grows along its first axis, positions arrays beside it that grow, too.
Where they are, and what else the file says, the readers of measured scans tell, from a snapshot
(:mod:`~ptycho.live.sources.hdf5_snapshot`). A row of positions that is not finite is one that has not come.
The scan is complete when the writer has closed the file: it then takes back the mark that it had put into the
file's first bytes. A file that is written without SWMR is read whenever it can be opened; who has written the
last of it cannot be determined.
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
from ptycho.live.arrivals import NO_POSITIONS, Arrivals, Description, Frame, make_positions
from ptycho.live.scan_file import CLOSED, WRITING, mark
from ptycho.live.sources import SourceOptions
from ptycho.live.sources.hdf5_snapshot import find_frames, growing, snapshot
from ptycho.readers.hdf5_chunks import Chunks
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.table import open_scan

log = logging.getLogger(__name__)
DAMAGE = (OSError, RuntimeError, KeyError, ValueError)  # of a file that is being written


class GrowingHdf5:
    """See the module's text; a :class:`~ptycho.live.arrivals.Source`.

    Args:
        pause_s: between two looks at positions.
        at_once: bytes of frames that are read in one look.
    """

    def __init__(
        self, path: Path, options: SourceOptions, pause_s: float = 0.3, at_once: int = 2**25
    ) -> None:
        self._path, self._options, self._pause, self._at_once = path, options, pause_s, at_once
        self.description: Description | None = None
        self.problem: str | None = None
        self._file: h5py.File | None = None
        self._swmr, self._foreign = False, False
        self._chunks = Chunks()
        self._identity: tuple[int, int] | None = None
        self._next, self._holes = 0, list[int]()  # first frame not looked at; those before it not there yet
        self._taken = np.zeros(0, bool)  # positions, by their row
        self._looked = 0.0
        self._last: tuple[int, bytes] | None = None

    def poll(self) -> Arrivals:
        faults, new = Counter[str](), tuple[Frame, ...]()
        if self._foreign:
            return Arrivals(ended=True)
        try:
            closed = mark(self._path) == CLOSED  # asked first: what came before is then all there is
            file = self._opened(faults)  # anew, where it was closed
            if file is None:
                return Arrivals(faults=faults, ended=self._foreign)
            frames = find_frames(file, self._options.config.keys.patterns)
            if frames is None:
                self.close()
                return Arrivals(faults=faults)
            new = self._new_frames(frames)
            positions, left = self._new_positions(file, frames, closed), self._next < len(frames)
            if not self._swmr:
                self.close()
            return Arrivals(new, positions, faults, closed and not left and bool(len(frames)))
        except FileNotFoundError:
            return Arrivals()
        except DAMAGE as error:
            log.debug("%s: %s", self._path, error)
            self.close()
            return Arrivals(new, faults=faults)

    def close(self) -> None:
        """Close the file; the next look opens it again."""
        if self._file is not None:
            with contextlib.suppress(*DAMAGE):
                self._file.close()
        self._file = None

    def _opened(self, faults: Counter[str]) -> h5py.File | None:
        """The file, opened anew where it was replaced; None: it is none yet, or another scan."""
        status = self._path.stat()
        identity = status.st_dev, status.st_ino
        if self._identity not in (None, identity):
            faults["file replaced"] += 1
            self.close()
        if self._swmr and mark(self._path) == CLOSED:
            self.close()  # what is open may know less than what was written last
        if self._file is None:
            if not h5py.is_hdf5(self._path):
                return None
            self._swmr = mark(self._path) == WRITING
            self._file = h5py.File(self._path, "r", swmr=self._swmr, libver="latest", locking="best-effort")
            replaced, self._identity = self._identity not in (None, identity), identity
            if replaced and not self._is_same_scan(self._file):
                log.warning("%s: was replaced by another scan, of which nothing is taken", self._path)
                self._foreign = True
                return None
        return self._file

    def _is_same_scan(self, file: h5py.File) -> bool:
        """Whether the last frame that was taken is in the file that has taken the place of another."""
        frames = find_frames(file, self._options.config.keys.patterns)
        if self._last is None or frames is None:
            return True
        row, content = self._last
        self._chunks.check(frames, [slice(row, row + 1)])
        return row < len(frames) and frames[row].tobytes() == content

    def _new_frames(self, frames: h5py.Dataset) -> tuple[Frame, ...]:
        if self._swmr:
            frames.id.refresh()
        room = max(1, self._at_once // max(1, frames.dtype.itemsize * frames.shape[1] * frames.shape[2]))
        end = min(len(frames), self._next + room)
        rows = [row for row in [*self._holes, *range(self._next, end)] if not self._options.has(row)]
        self._next = max(self._next, end)
        found, self._holes = list[Frame](), []
        for row in rows:
            try:
                if _is_written(frames, row):
                    self._chunks.check(frames, [slice(row, row + 1)])
                    found.append(Frame(row, frames[row]))
                    continue
            except DAMAGE as error:
                log.debug("%s: frame %d: %s", self._path, row, error)
            self._holes.append(row)
        if found:
            self._last = found[-1].number, found[-1].data.tobytes()
        return tuple(found)

    def _new_positions(self, file: h5py.File, frames: h5py.Dataset, now: bool) -> np.ndarray:
        """Positions that came, as a reader of measured scans reads them; ``now``: do not wait for more."""
        if not now and time.monotonic() - self._looked < self._pause:
            return NO_POSITIONS
        self._looked = time.monotonic()
        names = growing(file, frames)
        if not names or not len(frames):
            return NO_POSITIONS
        count = min(len(file[name]) for name in names)
        for name in names:
            self._chunks.check(file[name], [slice(0, count)])
        columns = [file[name][:count].reshape(count, -1) for name in names]
        there = np.isfinite(np.concatenate(columns, axis=1).astype(float)).all(axis=1)
        taken = np.resize(self._taken, count) & (np.arange(count) < len(self._taken))
        rows = np.flatnonzero(there)
        if len(rows) < 2 or rows[0] >= len(frames) or not (there & ~taken).any():
            return NO_POSITIONS
        found = self._read(file, frames, names, rows)
        if found is None:
            return NO_POSITIONS
        self._taken = taken | there
        new = ~taken[rows]
        return make_positions(rows[new], found[new, 0], found[new, 1])

    def _read(
        self, file: h5py.File, frames: h5py.Dataset, names: list[str], rows: np.ndarray
    ) -> np.ndarray | None:
        """Positions ``(n, 2)``, (row, col), of some rows; and what the file says of the scan, once."""
        target, config = self._options.scratch / "snapshot.h5", self._options.config
        try:
            snapshot(file, frames, names, rows, target)
            keys, stated = config.keys.stated(), config.stated_quantities()
            options = ReadOptions(config.format, keys, config.unit, config.position_axes, stated=stated)
            raw = open_scan(target, options)
        except ConfigError as error:
            self.problem = str(error).replace(str(target), str(self._path))
            return None
        finally:
            target.unlink(missing_ok=True)
        raw.patterns.close()
        self.problem = None
        self.description = self.description or _description(raw, frames)
        swap = config.position_axes == "xy" and config.keys.positions is None and raw.format != "ptylab"
        return raw.positions[:, ::-1] if swap else raw.positions


def _description(raw: RawScan, frames: h5py.Dataset) -> Description:
    expected = frames.maxshape[0]
    return Description.of(
        raw,
        shape=frames.shape[1:],
        dtype=frames.dtype,
        expected=int(expected) if expected is not None and expected > len(frames) else None,
    )


def _is_written(frames: h5py.Dataset, row: int) -> bool:
    """Whether the chunk of a frame is in the file; without it, it would be read as zeros."""
    if frames.chunks is None:
        return True
    corner = row - row % frames.chunks[0], 0, 0
    return frames.id.get_chunk_info_by_coord(corner).byte_offset is not None
