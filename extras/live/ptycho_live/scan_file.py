"""The file of a live scan, ``scan.h5``: written by one program, readable by others at every moment.

=============== ==============================================================================================
``patterns``    frames ``(J, H, W)`` in the order of their arrival, with a checksum each (Fletcher-32)
``frames``      their indices and times; ``received``: positions as they came
``description`` the source's description of the scan, and why it has ended, as bytes of NPZ
``positions``   ``(J, 2)``, (row, col), of the frames, NaN where there is none, and what else of :data:`LATER`
                is known: when the reconstruction begins, and once the scan has ended
=============== ==============================================================================================

HDF5 writes in single-writer, multiple-reader mode: the file can be read at every moment, also if its writer
was killed. In that case its first bytes, which mark it as being written and do not give its length, are
replaced before it is opened again, and incomplete rows are cut off.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from ptycho.readers.hdf5 import WRITING, mark_of
from ptycho_live.arrivals import FRAME, POSITION

SUPERBLOCK = 48  # bytes of version 3
LATER = {"positions": ("f8", (1024, 2)), "probe": ("c8", (1, 64, 64)), "good": ("?", (64, 64))}
LATER |= {"dark": ("f8", (64, 64)), "flat": ("f8", (64, 64))}
LATER |= {name: ("f8", (2,)) for name in ("energy_eV", "distance_m", "detector_pixel_m")}
UNWRITTEN = -2  # index of a row that was never written


def create(path: Path, frames: np.ndarray | None = None, received: np.ndarray | None = None) -> None:
    """Write a file with room for frames like ``(0, H, W)``, and positions ``(m,)`` that came before them."""
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
        if frames is not None:
            most, chunks = (None, *frames.shape[1:]), (1, *frames.shape[1:])
            file.create_dataset("patterns", data=frames, maxshape=most, chunks=chunks, fletcher32=True)
        if received is not None:
            append(file["received"], received, 0)
    new.replace(path)


def open_to_append(path: Path, checked: int = 256) -> h5py.File:
    """Open a file to write on, without what a killed program left incomplete in ``checked`` frames."""
    if mark_of(path) == WRITING:
        _mark_closed(path)
    file = h5py.File(path, "r+", libver="latest", locking=False)  # a reader's lock would stop SWMR
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
    return int(np.argmax(np.append(indices, UNWRITTEN) == UNWRITTEN))


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
