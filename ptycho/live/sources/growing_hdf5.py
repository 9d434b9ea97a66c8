"""An HDF5 file that a detector writes while it is read (single writer, multiple readers: SWMR).

Frames are one array ``(J, H, W)`` that grows along its first axis, positions arrays beside it that grow, too.
Where they are, and what else the file says, the readers of measured scans tell, from a snapshot
(:mod:`~ptycho.live.sources.hdf5_snapshot`). A row of positions that is not finite is one that has not come.
The scan is complete when the writer has closed the file: it then takes back the mark that it had put into the
file's first bytes. A file that is written without SWMR is read whenever it can be opened; who has written the
last of it cannot be told.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from pathlib import Path

import h5py
import numpy as np

import ptycho.readers.hdf5_file  # noqa: F401 - registers the filters of detectors
from ptycho.config import ConfigError
from ptycho.live.arrivals import NOTHING, Arrivals, Description, Frame, Place
from ptycho.live.sources import Watching
from ptycho.live.sources.hdf5_snapshot import find_frames, growing, snapshot
from ptycho.readers.hdf5_chunks import Chunks
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.table import open_scan

log = logging.getLogger(__name__)
DAMAGE = (OSError, RuntimeError, KeyError, ValueError)  # of a file that is being written
AT_ONCE = 2**25  # bytes of frames that are read in one look
WRITING, CLOSED, UNKNOWN = "writing", "closed", "unknown"
BETWEEN_S = 0.3  # between two looks at positions
SIGNATURE, MARKED = b"\x89HDF\r\n\x1a\n", 0x05  # flags of the superblock: open for writing, by SWMR


class GrowingHdf5:
    """See the module's text; a :class:`~ptycho.live.arrivals.Source`."""

    def __init__(self, path: Path, how: Watching) -> None:
        self._path, self._how = path, how
        self._file: h5py.File | None = None
        self._swmr = False
        self._chunks = Chunks()
        self._identity: tuple[int, int] | None = None
        self._description: Description | None = None
        self._placed: tuple[int, ...] = ()
        self._next = 0  # the first frame that was not looked at
        self._holes = list[int]()  # those before it that were not there
        self._taken = set[int]()  # positions
        self._looked = 0.0
        self._last: tuple[int, bytes] | None = None
        self._foreign = False
        self.problem: str | None = None

    @property
    def description(self) -> Description | None:
        return self._description

    def poll(self) -> Arrivals:
        faults, new = Counter[str](), tuple[Frame, ...]()
        if self._foreign:
            return Arrivals(ended=True)
        try:
            closed = mark(self._path) == CLOSED  # asked first: what came before is then all there is
            if not self._opened(faults):  # anew, where it was closed
                return Arrivals(faults=faults, ended=self._foreign)
            assert self._file is not None
            frames = find_frames(self._file, self._how.config.keys.patterns)
            if frames is None:
                self._reopen_next_time()
                return Arrivals(faults=faults)
            new = self._new_frames(frames)
            places, left = self._new_places(frames, closed), self._next < len(frames)
            if not self._swmr:
                self._reopen_next_time()
            return Arrivals(new, places, faults, closed and not left and bool(len(frames)))
        except FileNotFoundError:
            return NOTHING
        except DAMAGE as error:
            log.debug("%s: %s", self._path, error)
            self._reopen_next_time()
            return Arrivals(new, faults=faults)

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(*DAMAGE):
                self._file.close()
        self._file = None

    _reopen_next_time = close

    def _opened(self, faults: Counter[str]) -> bool:
        """Open the file, anew where another one has taken its place; whether it is."""
        status = self._path.stat()
        identity = status.st_dev, status.st_ino
        if self._identity not in (None, identity):
            faults["file replaced"] += 1
            self.close()
        if self._file is not None and self._swmr and mark(self._path) == CLOSED:
            self.close()  # what is open may know less than what was written last
        if self._file is None:
            if not h5py.is_hdf5(self._path):
                return False
            self._swmr = mark(self._path) == WRITING
            self._file = h5py.File(self._path, "r", swmr=self._swmr, libver="latest", locking="best-effort")
            replaced, self._identity = self._identity not in (None, identity), identity
            if replaced and not self._same_scan():
                log.warning("%s: was replaced by another scan, of which nothing is taken", self._path)
                self._foreign = True
                return False
        return True

    def _same_scan(self) -> bool:
        """Whether the last frame that was taken is in the file that has taken the place of another."""
        assert self._file is not None
        frames = find_frames(self._file, self._how.config.keys.patterns)
        if self._last is None or frames is None:
            return True
        row, content = self._last
        self._chunks.check(frames, [slice(row, row + 1)])
        return row < len(frames) and frames[row].tobytes() == content

    def _new_frames(self, frames: h5py.Dataset) -> tuple[Frame, ...]:
        if self._swmr:
            frames.id.refresh()
        room = max(1, AT_ONCE // max(1, frames.dtype.itemsize * frames.shape[1] * frames.shape[2]))
        end = min(len(frames), self._next + room)
        rows = [row for row in [*self._holes, *range(self._next, end)] if not self._how.has(row)]
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

    def _new_places(self, frames: h5py.Dataset, now: bool) -> tuple[Place, ...]:
        """Positions that came, as a reader of measured scans reads them; ``now``: do not wait for more."""
        assert self._file is not None
        if not now and time.monotonic() - self._looked < BETWEEN_S:
            return ()
        self._looked = time.monotonic()
        names = growing(self._file, frames)
        if not names or not len(frames):
            return ()
        count = min(len(self._file[name]) for name in names)
        for name in names:
            self._chunks.check(self._file[name], [slice(0, count)])
        columns = [self._file[name][:count].reshape(count, -1) for name in names]
        sound = np.isfinite(np.concatenate(columns, axis=1).astype(float)).all(axis=1)
        rows = np.flatnonzero(sound)
        if len(rows) < 2 or (stamp := (len(rows), int(rows.sum()))) == self._placed:
            return ()
        raw = self._read(frames, names, rows)
        if raw is None:
            return ()
        told = rows.tolist()
        new = [k for k, row in enumerate(told) if row not in self._taken]
        self._taken.update(told)
        self._placed = stamp
        return tuple(Place(told[k], *map(float, raw[k])) for k in new)

    def _read(self, frames: h5py.Dataset, names: list[str], rows: np.ndarray) -> np.ndarray | None:
        """Positions ``(n, 2)``, (row, col), of some rows; and what the file says of the scan, once."""
        assert self._file is not None
        target, config = self._how.scratch / "snapshot.h5", self._how.config
        if rows[0] >= len(frames):
            return None
        try:
            snapshot(self._file, frames, names, rows, target)
            options = ReadOptions(
                config.format,
                config.keys.stated(),
                config.unit,
                config.position_axes,
                stated=config.stated_quantities(),
            )
            raw = open_scan(target, options)
        except ConfigError as error:
            self.problem = str(error).replace(str(target), str(self._path))
            return None
        finally:
            target.unlink(missing_ok=True)
        self.problem = None
        if self._description is None:
            self._description = _description(raw, frames)
        raw.patterns.close()
        swap = config.position_axes == "xy" and config.keys.positions is None and raw.format != "ptylab"
        return raw.positions[:, ::-1] if swap else raw.positions


def _description(raw: RawScan, frames: h5py.Dataset) -> Description:
    expected = frames.maxshape[0]
    return Description(
        raw.unit,
        raw.domain,
        raw.zero_frequency,
        raw.energy_eV,
        raw.distance_m,
        raw.detector_pixel_m,
        raw.probe,
        raw.probe_pixel_m,
        raw.good,
        raw.dark,
        raw.flat,
        frames.shape[1:],
        frames.dtype,
        int(expected) if expected is not None and expected > len(frames) else None,
    )


def mark(path: Path) -> str:
    """What the first bytes of an HDF5 file say of who writes it: :data:`WRITING`, :data:`CLOSED`, or nothing.

    HDF5 File Format Specification 3.0, II.A: byte 11 of a superblock of version 3. Older ones say nothing.
    """
    with path.open("rb") as file:
        start = file.read(12)
    if len(start) < 12 or start[:8] != SIGNATURE or start[8] < 3:
        return UNKNOWN
    return WRITING if start[11] & MARKED else CLOSED


def _is_written(frames: h5py.Dataset, row: int) -> bool:
    """Whether the chunk of a frame is in the file; without it, it would be read as zeros."""
    if frames.chunks is None:
        return True
    corner = row - row % frames.chunks[0], 0, 0
    return frames.id.get_chunk_info_by_coord(corner).byte_offset is not None
