"""The file of a live scan, ``scan.h5``: written by one program, readable by others at every moment.

=============== ==============================================================================================
``patterns``    frames ``(J, H, W)`` in the order of their arrival, with a checksum each (Fletcher-32)
``frames``      their indices and times; ``received``: positions as they came
``description`` the source's description of the scan, and why it has ended, as bytes of NPZ
``positions``   ``(J, 2)``, (row, col), of the frames, NaN where there is none, once the scan has ended; and
                what else of :data:`LATER` is known then
=============== ==============================================================================================

HDF5 writes in single-writer, multiple-reader mode: the file can be read at every moment, also if its writer
was killed. In that case its first bytes, which mark it as being written and do not give its length, are
replaced before it is opened again, and incomplete rows are cut off.
"""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np

from ptycho_live.arrivals import FRAME, POSITION

SIGNATURE, SUPERBLOCK, OPEN_BY_SWMR = b"\x89HDF\r\n\x1a\n", 48, 0x05  # of version 3; flags in byte 11
WRITING, CLOSED, UNKNOWN = "writing", "closed", "unknown"
LATER = {"positions": ("f8", (1024, 2)), "probe": ("c8", (1, 64, 64)), "good": ("?", (64, 64))}
LATER |= {"dark": ("f8", (64, 64)), "flat": ("f8", (64, 64))}
LATER |= {name: ("f8", (2,)) for name in ("energy_eV", "distance_m", "detector_pixel_m")}
UNWRITTEN = -2  # index of a row that was never written


def create(path: Path, shape: tuple[int, int] | None, dtype: np.dtype | None) -> None:
    """Write a file without rows; where the ``shape`` of a frame is not known, without room for frames."""
    new = path.with_suffix(".new")
    with h5py.File(new, "w", libver="latest") as file:
        for name, kind in (("frames", FRAME), ("received", POSITION)):
            unwritten = np.array((UNWRITTEN, *[np.nan] * (len(kind.names or ()) - 1)), kind)
            file.create_dataset(name, (0,), kind, maxshape=(None,), chunks=(1024,), fillvalue=unwritten)
        file.create_dataset("description", (0,), "u1", maxshape=(None,), chunks=(2**16,))
        for name, (code, chunks) in LATER.items():
            sides = len(chunks)
            file.create_dataset(name, sides * (0,), code, maxshape=sides * (None,), chunks=chunks)
        file["positions"].attrs["units"] = np.array(b"", "S8")
        if shape is not None:
            most, chunks = (None, *shape), (1, *shape)
            file.create_dataset("patterns", (0, *shape), dtype, maxshape=most, chunks=chunks, fletcher32=True)
    os.replace(new, path)


def open_to_append(path: Path, checked: int = 256) -> h5py.File:
    """Open a file in single-writer mode, without what a killed program has not written whole.

    Args:
        checked: frames at the end that are read.
    """
    if mark(path) == WRITING:
        _mark_closed(path)
    file = h5py.File(path, "r+", libver="latest", locking="best-effort")
    counts = {name: _count_written(file[name]["index"]) for name in ("frames", "received")}
    if "patterns" in file:
        counts["frames"] = counts["patterns"] = _count_whole(file["patterns"], counts["frames"], checked)
    for name, count in counts.items():
        file[name].resize(count, axis=0)
    file.swmr_mode = True
    return file


def append(rows: h5py.Dataset, new: np.ndarray, count: int) -> None:
    """Write ``new (n, …)`` behind the first ``count`` rows, over what a write that failed has left there."""
    rows.resize(count + len(new), axis=0)
    rows[count:] = new
    rows.flush()


def mark(path: Path) -> str:
    """Return the mark of a writer from the first bytes of an HDF5 file; old formats have no such mark.

    HDF5 File Format Specification 3.0, II.A: byte 11 of a superblock of version 3.
    """
    with path.open("rb") as file:
        start = file.read(12)
    if len(start) < 12 or start[:8] != SIGNATURE or start[8] < 3:
        return UNKNOWN
    return WRITING if start[11] & OPEN_BY_SWMR else CLOSED


def _mark_closed(path: Path) -> None:
    """Put the first bytes of a closed file, empty and as long, in the place of those of a file."""
    other, size = path.with_suffix(".size"), path.stat().st_size
    with h5py.File(other, "w", libver="latest") as file:
        file.create_dataset("size", (size,), "u1")[-1] = 0  # one byte of the disk
    with path.open("rb+") as file, other.open("rb") as closed:
        file.truncate(other.stat().st_size)
        file.write(closed.read(SUPERBLOCK))
    other.unlink()


def _count_written(indices: np.ndarray) -> int:
    """How many rows of a table were written before the first that was not."""
    missing = np.flatnonzero(indices == UNWRITTEN)
    return int(missing[0]) if len(missing) else len(indices)


def _count_whole(patterns: h5py.Dataset, count: int, checked: int) -> int:
    """How many of ``count`` frames there are before the first, of the last ones, that cannot be read."""
    count = min(count, len(patterns))
    for row in range(max(0, count - checked), count):
        try:
            patterns[row]
        except (OSError, RuntimeError):  # its checksum is another one
            return row
        if patterns.id.get_chunk_info_by_coord((row, 0, 0)).byte_offset is None:
            return row
    return count
