"""NPZ files of any origin, as archives; their members are checked by :mod:`ptycho.files.npz`.

Patterns that are not compressed and come first are read in the file itself; others in a nameless copy in the
folder for temporary files (``TMPDIR``), made by blocks when the first is read. A copy has passed the
archive's checksum; what is read in place passes it when it is read in slices from the first pattern to the
last. An array in Fortran order is the reversed array in C order.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO
from zipfile import ZIP_STORED

import numpy as np

from ptycho.files.file_array import FileArray
from ptycho.files.npz import Header, NpzFile
from ptycho.files.reading import FileError, damage_named, faults_of
from ptycho.readers.archive import Archive, Entry, UnusableError
from ptycho.readers.patterns import Patterns
from ptycho.readers.raw_scan import ReadOptions


class NpzArchive(Archive):
    """An open NPZ file. Old files hold Python objects in place of a probe; these are skipped."""

    kind, lenient = "NPZ", True

    def __init__(self, path: str | Path, options: ReadOptions | None = None) -> None:
        super().__init__(path, options)
        with faults_of(path):
            self.file = NpzFile(path)

    def close(self) -> None:
        self.file.close()

    def holds(self, *keys: str) -> bool:
        return all(_member(key) in self.file.keys for key in keys)

    def entry(self, key: str) -> Entry | None:
        if not self.holds(key):
            return None
        with contextlib.suppress(FileError):
            header = self.file.header(_member(key), "bcfiu")
            return Entry(header.shape, header.dtype)
        return Entry(None, None)

    def names(self, most: int) -> list[str]:
        return self.file.keys[:most]

    def text(self, key: str, most_bytes: int = 1000) -> str | None:
        with contextlib.suppress(FileError):
            header = self.header(key, "U") if self.holds(key) else None
            if header and header.shape == () and 0 < header.dtype.itemsize < most_bytes:
                return str(self.file.read(header))
        return None

    def read(self, key: str, kinds: str = "fiu") -> np.ndarray | None:
        if not self.holds(key):
            return None
        try:
            return self.file.read(self.header(key, kinds))
        except FileError as error:
            raise UnusableError(str(error)) from error

    def patterns(self, *keys: str, any_order: bool = False) -> Patterns:
        (key,) = keys
        self.require(key)
        header = self.header(key, "fiu")
        listed, grid = _listed(header, any_order), header.shape[:2] if len(header.shape) == 4 else None
        source = NpzPatterns(self.path, listed, either=any_order)
        source.grid = (grid[0], grid[1]) if grid and any_order and grid[0] != 1 else None
        self.notes.append(f"patterns: {key} {header.shape} of {source.dtype}")
        return source

    def header(self, key: str, kinds: str) -> Header:
        """What the member at ``key`` declares; FileError: it is repeated, damaged, or of another kind."""
        if _member(key) in self.file.repeated:
            raise FileError(f"{key} is there more than once")
        return self.file.header(_member(key), kinds)


def _member(key: str) -> str:
    """The array that stands for an attribute."""
    return key.replace("@", "_").removeprefix("_") if "@" in key else key


def _listed(header: Header, raster: bool) -> Header:
    """A member of three axes: without further ones of length one, first or last, or a raster as one list."""
    shape = header.shape
    while len(shape) > 3 and shape[0] == 1:
        shape = shape[1:]
    while len(shape) > 3 and shape[-1] == 1:
        shape = shape[:-1]
    if raster and len(shape) == 4 and not header.fortran:
        shape = (shape[0] * shape[1], *shape[2:])
    if len(shape) != 3 or 0 in shape:
        raise FileError(f"{header.key} has shape {header.shape}; must be (patterns, rows, columns)")
    return replace(header, shape=shape)


class NpzPatterns(Patterns):
    """The patterns ``(J, H, W)`` in a member, ``header``, of an NPZ archive.

    ``order``: what the member's axes are, in NumPy's order: ``phw``, or ``hwp`` of older files. ``either``:
    it may be the other one; :meth:`order_for` decides. ``scratch``: folder for a copy.
    """

    def __init__(
        self,
        path: str | Path,
        header: Header,
        order: str = "phw",
        either: bool = False,
        scratch: Path | None = None,
    ) -> None:
        self.path, self.dtype, self.key = Path(path), header.dtype.newbyteorder("="), header.key
        self.label, self._stored, self._either = f"{header.key} {header.shape}", header, either
        sizes = dict(zip(order, header.shape, strict=True))
        self.shape: tuple[int, int, int] = (sizes["p"], sizes["h"], sizes["w"])
        if header.fortran:
            header, order = replace(header, shape=header.shape[::-1], fortran=False), order[::-1]
        self._header, self._scratch = header, scratch
        self._axes = [order.index(axis) for axis in "phw"]  # of the member, as they are read
        self._file: IO[bytes] | None = None
        self._array: FileArray | np.memmap | None = None
        self._sum, self._summed = 0, 0

    @property
    def counts(self) -> tuple[int, ...]:
        return (self.shape[0], self.shape[2]) if self._either else (self.shape[0],)

    def order_for(self, count: int, file: Archive) -> Patterns:
        """Return patterns along the first axis or the last, whichever is as long as the positions."""
        first, middle, last = self._stored.shape
        known = count in (first, last)
        if self._either and (first == last if known else middle not in (first, last)):
            file.warnings.append(f"{self.label} may lie (J, H, W) or (H, W, J): the first is taken")
        turned = self._either and (count == last != first if known else first == middle != last)
        return NpzPatterns(self.path, self._stored, "hwp", scratch=self._scratch) if turned else self

    def fill(self, first: int, into: np.ndarray) -> None:
        with faults_of(f"{self.path}: {self.key}"), damage_named("cannot be read"):
            self._array = self._open() if self._array is None else self._array
            patterns = self._array[first : first + len(into)]
            if isinstance(self._array, FileArray):
                self._check(first, patterns)
                patterns = patterns.swapaxes(1, 2) if self._axes == [0, 2, 1] else patterns
            into[:] = patterns

    def samples(self) -> Iterator[np.ndarray]:
        """Yield the numbers in the order of the file, in blocks ``(j, …)``, whichever pattern has them."""
        with NpzFile(self.path) as archive:
            yield from archive.rows(self._header)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._array = None

    def _open(self) -> FileArray | np.memmap:
        header = self._header
        with NpzFile(self.path) as archive:
            if header.info.compress_type != ZIP_STORED or self._axes[0] != 0:
                return self._copy(archive)
            start = archive.position(header)
        self._file = self.path.open("rb")
        self._summed = 0
        self._sum = zlib.crc32(os.pread(self._file.fileno(), header.start, start - header.start))
        return FileArray(self._file, header.shape, header.dtype, start)

    def _copy(self, archive: NpzFile) -> np.memmap:
        """The patterns ``(J, H, W)`` in a temporary file, whose room is taken before it is written."""
        folder, done = self._scratch or Path(tempfile.gettempdir()), 0
        size = int(np.prod(self.shape)) * self.dtype.itemsize
        try:
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by close
            if hasattr(os, "posix_fallocate"):  # a full disk is an error now, and no crash later
                os.posix_fallocate(self._file.fileno(), 0, size)
            self._file.truncate(size)
        except OSError as error:
            remedy = "point the variable TMPDIR to a folder with room"
            raise OSError(f"no copy of {size} bytes in {folder}: {error.strerror}; {remedy}") from error
        copy = np.memmap(self._file, self.dtype, "r+", shape=self.shape)
        stored = copy.transpose(np.argsort(self._axes))  # the copy, with the axes of the member
        for block in archive.rows(self._header):
            stored[done : done + len(block)] = block
            done += len(block)
        return copy

    def _check(self, first: int, patterns: np.ndarray) -> None:
        """Compare the checksum of a member read in place, once slices have followed each other to its end."""
        if first != self._summed or not len(patterns):
            return
        self._sum, self._summed = zlib.crc32(patterns.data, self._sum), first + len(patterns)
        if self._summed == self.shape[0] and self._sum != self._header.info.CRC:
            raise FileError("its checksum does not fit; the file is damaged, copy it anew")
