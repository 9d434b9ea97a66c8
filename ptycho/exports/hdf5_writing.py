"""HDF5 files that appear whole or not at all, and patterns in them, written block by block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np

from ptycho.files.atomic import write_atomically
from ptycho.simulation.truth import GROUP, Truth

CHUNK_BYTES = 2**18  # of patterns that are packed together
VERSIONS = (
    h5py.h5f.LIBVER_V18,
    h5py.h5f.LIBVER_LATEST,
)  # HDF5 1.8 (2008) reads it; attributes may be larger than 64 KiB


def write_hdf5(path: Path, fill: Callable[[h5py.File], None]) -> None:
    """Write an HDF5 file under a temporary name and rename it.

    The same content is the same bytes: no time is in them, where :func:`make_group` makes the groups.

    Raises:
        WriteError: the disk is full, or the folder cannot be written.
    """

    def save(file: IO[bytes]) -> None:
        sink = _Sink(file)
        try:
            with _open(sink) as hdf5:
                fill(hdf5)
                hdf5.flush()
        except Exception:
            sink.check()
            raise
        sink.check()

    write_atomically(path, save)


class _Sink:
    """A file for HDF5, which cannot close one that takes nothing more, and then ends the process.

    The first error is kept, and what is written from then on is lost.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._error: OSError | None = None
        self._place = self._end = 0

    def check(self) -> None:
        """Raise the error that was kept."""
        if self._error is not None:
            raise self._error

    def write(self, content: Any) -> int:
        self._try(lambda: self._file.write(content))
        self._place += len(content)
        self._end = max(self._end, self._place)
        return len(content)

    def readinto(self, into: Any) -> int:
        into[:] = bytes(len(into))
        self._try(lambda: self._file.readinto(into))  # type: ignore[attr-defined]
        self._place += len(into)
        return len(into)

    def read(self, size: int) -> bytes:
        into = bytearray(size)
        self.readinto(into)
        return bytes(into)

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = self._end + offset if whence == os.SEEK_END else offset
        self._try(lambda: self._file.seek(self._place))
        return self._place

    def truncate(self, size: int) -> int:
        self._try(lambda: self._file.truncate(size))
        self._end = size
        return size

    def flush(self) -> None:
        self._try(self._file.flush)

    def _try(self, do: Callable[[], Any]) -> Any:
        if self._error is None:
            try:
                return do()
            except OSError as error:
                self._error = error
        return None


def _open(file: _Sink) -> h5py.File:
    """A new HDF5 file without the time of its making."""
    access, create = h5py.h5p.create(h5py.h5p.FILE_ACCESS), h5py.h5p.create(h5py.h5p.FILE_CREATE)
    access.set_libver_bounds(*VERSIONS)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, file)
    create.set_obj_track_times(False)
    return h5py.File(h5py.h5f.create(b"new", h5py.h5f.ACC_TRUNC, create, access))


def make_group(parent: h5py.Group, path: str) -> h5py.Group:
    """The group at a path below another, and those on the way to it, without the time of their making."""
    create = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
    create.set_obj_track_times(False)
    for name in path.split("/"):
        known = parent.get(name)
        parent = known or h5py.Group(h5py.h5g.create(parent.id, name.encode(), gcpl=create))
    return parent


def write_patterns(
    group: h5py.Group, name: str, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray]
) -> h5py.Dataset:
    """Patterns ``shape = (J, N, N)`` in chunks of whole ones, compressed and with checksums.

    Args:
        blocks: of ``dtype``, ``(n, N, N)`` each.
    """
    frame = int(np.prod(shape[1:])) * dtype.itemsize
    chunk = min(shape[0], max(1, CHUNK_BYTES // frame))
    dataset = group.create_dataset(
        name,
        shape,
        dtype,
        chunks=(chunk, *shape[1:]),
        compression="gzip",
        compression_opts=1,
        shuffle=True,
        fletcher32=True,
    )
    done = 0
    for block in blocks:
        dataset[done : done + len(block)] = block
        done += len(block)
    return dataset


def write_truth(file: h5py.File, truth: Truth | None, object_: h5py.Dataset | None) -> None:
    """Add the truth of a simulated scan, if there is one, in a group of its own; its object is the file's."""
    if truth is None:
        return
    group = make_group(file, GROUP)
    for key, array in truth.arrays().items():
        group[key] = array
    if object_ is not None:
        group["object"] = object_
