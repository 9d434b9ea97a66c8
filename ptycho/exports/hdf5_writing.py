"""HDF5 files that appear whole or not at all, written from a table of what is where."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import h5py
import numpy as np

from ptycho.files.atomic import write_atomically
from ptycho.files.npz import Blocks

VERSIONS = (h5py.h5f.LIBVER_V18, h5py.h5f.LIBVER_LATEST)  # of 2008 on; attributes may exceed 64 KiB


class SameAs(NamedTuple):
    """A second name of what is at ``path``."""

    path: str


def write_tree(path: Path, tree: Mapping[str, Any]) -> None:
    """Write what is at each path of an HDF5 file, in order; None is left out. Same content is the same bytes.

    Keys are those of the readers: ``path@name`` is an attribute. Values are arrays, numbers, texts and links;
    of :class:`Blocks` ``(J, …)`` chunks of whole rows are compressed and get checksums.
    """

    def save(file: IO[bytes]) -> None:
        sink = _Sink(file)
        try:
            with _open(sink) as hdf5:
                _fill(hdf5, tree)
                hdf5.flush()
        finally:
            if sink.error is not None:
                raise sink.error

    write_atomically(path, save)


def _fill(file: h5py.File, tree: Mapping[str, Any]) -> None:
    for key, value in tree.items():
        path, is_attribute, attribute = key.partition("@")
        folder, _, name = path.rpartition("/")
        if value is None:
            continue
        if is_attribute:
            file[path or "/"].attrs[attribute] = value
        elif isinstance(value, Blocks):
            _write_blocks(_make_group(file, folder), name, value)
        else:
            _make_group(file, folder)[name] = file[value.path] if isinstance(value, SameAs) else value


def _write_blocks(group: h5py.Group, name: str, rows: Blocks, chunk_bytes: int = 2**18) -> None:
    row = int(np.prod(rows.shape[1:])) * rows.dtype.itemsize
    chunks = (min(rows.shape[0], max(1, chunk_bytes // row)), *rows.shape[1:])
    packed = {"chunks": chunks, "compression": "gzip", "compression_opts": 1}
    dataset = group.create_dataset(name, rows.shape, rows.dtype, shuffle=True, fletcher32=True, **packed)
    done = 0
    for block in rows.blocks:
        dataset[done : done + len(block)] = block
        done += len(block)


def _make_group(parent: h5py.Group, path: str) -> h5py.Group:
    """The group at a path below another, and those on the way to it, without the time of their making."""
    create = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
    create.set_obj_track_times(False)
    for name in filter(None, path.split("/")):
        known = parent.get(name)
        parent = known or h5py.Group(h5py.h5g.create(parent.id, name.encode(), gcpl=create))
    return parent


class _Sink:
    """A file for HDF5, which cannot close one that takes nothing more, and then ends the process.

    The first error is kept, and what is written from then on is lost.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.error: OSError | None = None
        self._place = self._end = 0

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

    def _try(self, do: Callable[[], Any]) -> None:
        if self.error is None:
            try:
                do()
            except OSError as error:
                self.error = error


def _open(file: _Sink) -> h5py.File:
    """A new HDF5 file without the time of its making."""
    access, create = h5py.h5p.create(h5py.h5p.FILE_ACCESS), h5py.h5p.create(h5py.h5p.FILE_CREATE)
    access.set_libver_bounds(*VERSIONS)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, file)
    create.set_obj_track_times(False)
    return h5py.File(h5py.h5f.create(b"new", h5py.h5f.ACC_TRUNC, create, access))
