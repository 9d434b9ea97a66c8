"""An HDF5 file that a detector writes while it is read (single writer, multiple readers: SWMR).

Frames are one array ``(J, H, W)`` that is extended along its first axis; positions are arrays beside it that
are extended, too. The readers of measured scans find their paths and the other values in a :func:`snapshot`.
A row of positions that is not finite has not arrived yet. The file is opened anew for every call. The scan is
complete when the writer has closed the file: the writer then removes its mark from the file's first bytes.
Without SWMR it cannot be determined whether a file is complete.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.exports.hdf5_writing import write_hdf5
from ptycho.readers.hdf5_checks import Chunks
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.table import open_scan
from ptycho_live.arrivals import NO_POSITIONS, Arrivals, Description, Frame, Source, make_positions
from ptycho_live.scan_file import CLOSED, WRITING, mark
from ptycho_live.sources import SourceOptions

log = logging.getLogger(__name__)
DAMAGE = (OSError, RuntimeError, KeyError, ValueError)  # of a file that is being written


class GrowingHdf5(Source):
    """Source that reads an HDF5 file while it is written; see the module's text.

    Args:
        pause_s: time in s between two reads of the positions.
        at_once: bytes of frames that are read in one call.
    """

    def __init__(
        self, path: Path, options: SourceOptions, pause_s: float = 0.3, at_once: int = 2**25
    ) -> None:
        self._path, self._options, self._pause, self._at_once = path, options, pause_s, at_once
        self._foreign = False  # the file is another scan's
        self._identity: tuple[int, int] | None = None  # device and inode
        self._chunks = Chunks()
        self._next, self._holes = 0, list[int]()  # first frame not read yet; those before it not there yet
        self._taken = np.zeros(0, np.int64)  # rows of positions
        self._looked = 0.0
        self._last: tuple[int, bytes] | None = None

    def poll(self) -> Arrivals:
        faults, new = Counter[str](), tuple[Frame, ...]()
        if self._foreign:
            return Arrivals(ended=True)
        try:
            state = mark(self._path)  # checked first: nothing is written after the file is closed
            writing, closed = state == WRITING, state == CLOSED
            status = self._path.stat()
            with h5py.File(self._path, "r", swmr=writing, libver="latest", locking="best-effort") as file:
                frames = find_frames(file, self._options.config.keys.patterns)
                if frames is None:
                    return Arrivals()
                if self._is_replaced(status.st_dev, status.st_ino, frames):
                    faults["file replaced"] += 1
                    if self._foreign:
                        return Arrivals(faults=faults, ended=True)
                new = self._new_frames(frames)
                positions, left = self._new_positions(file, frames, closed), self._next < len(frames)
                return Arrivals(new, positions, faults, closed and not left and bool(len(frames)))
        except DAMAGE as error:
            log.debug("%s: %s", self._path, error)
            return Arrivals(new, faults=faults)

    def _is_replaced(self, device: int, inode: int, frames: h5py.Dataset) -> bool:
        """Whether another file has taken the file's place; then look whether it is of the same scan."""
        before, now = self._identity, (device, inode)
        replaced = before not in (None, now)
        if replaced and not self._is_same_scan(frames):
            log.warning("%s: was replaced by another scan, of which nothing is taken", self._path)
            self._foreign = True
        self._identity = now
        return replaced

    def _is_same_scan(self, frames: h5py.Dataset) -> bool:
        """Whether the last frame that was taken is in the file."""
        if self._last is None:
            return True
        row, content = self._last
        self._chunks.check(frames, [slice(row, row + 1)])
        return row < len(frames) and frames[row].tobytes() == content

    def _new_frames(self, frames: h5py.Dataset) -> tuple[Frame, ...]:
        room = max(1, self._at_once // max(1, frames.dtype.itemsize * frames.shape[1] * frames.shape[2]))
        end = min(len(frames), self._next + room)
        rows = [row for row in [*self._holes, *range(self._next, end)] if not self._options.has(row)]
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
        if new_frames:
            self._last = new_frames[-1].number, new_frames[-1].data.tobytes()
        return tuple(new_frames)

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
        rows = np.flatnonzero(there)
        new = ~np.isin(rows, self._taken)
        if len(rows) < 2 or rows[0] >= len(frames) or not new.any():
            return NO_POSITIONS
        coordinates = self._read(file, frames, names, rows)
        if coordinates is None:
            return NO_POSITIONS
        self._taken = np.union1d(self._taken, rows)
        return make_positions(rows[new], coordinates[new, 0], coordinates[new, 1])

    def _read(
        self, file: h5py.File, frames: h5py.Dataset, names: list[str], rows: np.ndarray
    ) -> np.ndarray | None:
        """Return positions ``(n, 2)``, (row, col), of some rows; keep the file's description, once."""
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


def datasets(file: h5py.File, dimensions: tuple[int, ...]) -> dict[str, h5py.Dataset]:
    """Return the arrays of numbers with so many dimensions, by their paths."""
    by_name: dict[str, h5py.Dataset] = {}

    def visit(name: str, node: object) -> None:
        if isinstance(node, h5py.Dataset) and node.ndim in dimensions and node.dtype.kind in "fiu":
            by_name[name] = node

    file.visititems(visit)
    return by_name


def growing(file: h5py.File, frames: h5py.Dataset) -> list[str]:
    """Return the paths of arrays with a row a frame: they grow, or are as long as the scan will be."""
    longest = frames.maxshape[0]
    return [
        name
        for name, rows in datasets(file, (1, 2)).items()
        if (rows.maxshape[0] is None and len(rows)) or (longest is not None and len(rows) == longest > 1)
    ]


def find_frames(file: h5py.File, key: str | None) -> h5py.Dataset | None:
    """Return the frames ``(J, H, W)``: at the user's key, or the largest array that grows; None: none yet."""
    if key is not None:
        node = file.get(key)
        return node if isinstance(node, h5py.Dataset) and node.ndim == 3 else None
    candidates = [dataset for dataset in datasets(file, (3,)).values() if min(dataset.shape[1:]) >= 8]
    rank = [
        (dataset.maxshape[0] is None, dataset.shape[1] * dataset.shape[2], dataset.shape[0])
        for dataset in candidates
    ]
    return candidates[rank.index(max(rank))] if candidates else None


def snapshot(
    file: h5py.File,
    frames: h5py.Dataset,
    per_frame: Collection[str],
    rows: np.ndarray,
    target: Path,
    shown: int = 4,
    largest: int = 2**26,
) -> None:
    """Write the present state of a live file as a small file that the ordinary readers interpret.

    Everything but the frames is copied. Arrays with a row for every frame are cut to ``rows``. Only a few
    frames are copied; the others are zero. So whatever a reader knows of a format (paths of the positions,
    their sign, their unit) holds for a file that is being written.

    Args:
        shown: number of frames that are copied.
        largest: bytes of the largest array that is copied.
    """

    def copy(node: Any, out: h5py.File, name: str) -> None:
        if isinstance(node, h5py.Group):
            written: Any = out.require_group(name)
        elif node == frames:
            written = out.create_dataset(
                name, (len(rows), *node.shape[1:]), node.dtype, chunks=(1, *node.shape[1:])
            )
            for place, row in enumerate(rows[rows < len(node)][:shown].tolist()):
                Chunks().check(node, [slice(row, row + 1)])
                written[place] = node[row]
        elif name in per_frame:
            written = out.create_dataset(name, data=node[: int(rows.max()) + 1][rows])
        elif node.size * node.dtype.itemsize <= largest:
            file.copy(node, out, name, without_attrs=True)
            written = out[name]
        else:
            return
        written.attrs.update(dict(node.attrs))

    def fill(out: h5py.File) -> None:
        def visit(name: str, link: Any) -> None:
            if isinstance(link, h5py.SoftLink):
                out[name] = h5py.SoftLink(link.path)
            elif isinstance(link, h5py.HardLink):
                with contextlib.suppress(KeyError, OSError, RuntimeError):
                    copy(file[name], out, name)

        out.attrs.update(dict(file.attrs))
        file.visititems_links(visit)

    write_hdf5(target, fill)
