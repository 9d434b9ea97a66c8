"""Patterns in a member of an NPZ archive, in whichever order of axes, read as they are needed.

================================== ==================================================================
member                             where a pattern is read
================================== ==================================================================
not compressed, patterns first     in the file itself
compressed, patterns first         in a nameless copy, made by blocks when the first pattern is read
patterns last, ``(H, W, J)``       in such a copy as well, whose blocks are turned one at a time
================================== ==================================================================

An array in Fortran order is the reversed array in C order. The copy lies in the folder for temporary files
(the variable ``TMPDIR`` names another); memory holds one block of it. A copy has passed the archive's
checksum; what is read in place passes it when it is read in slices from the first pattern to the last.
"""

from __future__ import annotations

import math
import os
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.file_array import FileArray
from ptycho.files.npz import CHUNK_BYTES, Header, NpzError, NpzFile
from ptycho.readers.archive import Archive, Patterns, describe_error


class NpzPatterns(Patterns):
    """The patterns ``(J, H, W)`` in a member of an NPZ archive.

    Args:
        path, header: the archive, and its member, of three axes.
        order: what the member's axes are, in NumPy's order: ``phw``, or ``hwp`` of older files.
        scratch: folder for a copy; None: the one for temporary files.
        either: the order may be the other one; :meth:`order_for` tells.
    """

    def __init__(
        self,
        path: str | Path,
        header: Header,
        order: str = "phw",
        scratch: Path | None = None,
        either: bool = False,
    ) -> None:
        self.path, self.dtype = Path(path), header.dtype.newbyteorder("=")
        self.label, self._stored, self._either = f"{header.key} {header.shape}", header, either
        sizes = dict(zip(order, header.shape, strict=True))
        self.shape: tuple[int, int, int] = (sizes["p"], sizes["h"], sizes["w"])
        if header.fortran:
            header, order = replace(header, shape=header.shape[::-1], fortran=False), order[::-1]
        self._header, self._scratch = header, scratch
        self._last = order.endswith("p")  # patterns are the last axis
        self._turned = order.index("w") < order.index("h")
        self._file: IO[bytes] | None = None
        self._array: FileArray | None = None
        self._sum: _Checksum | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        return (self.shape[0], self.shape[2]) if self._either else (self.shape[0],)

    def order_for(self, count: int, file: Archive) -> Patterns:
        """Patterns along the first axis or the last, whichever is as long as there are positions."""
        first, middle, last = self._stored.shape
        known = count in (first, last)
        if self._either and (first == last if known else middle not in (first, last)):
            file.warnings.append(f"{self.label} may lie (J, H, W) or (H, W, J): the first is taken")
        turned = self._either and (count == last != first if known else first == middle != last)
        return NpzPatterns(self.path, self._stored, "hwp", self._scratch) if turned else self

    def read(self, index: slice | np.ndarray) -> np.ndarray:
        try:
            array = self._array or self._open()
            index = _as_slice(index)
            found = self._joined(array, index) if self._last else array[index]
            if self._sum is not None and isinstance(index, slice):
                self._sum.follow(index.indices(len(array))[0], found)
        except (NpzError, OSError) as error:
            raise ConfigError(
                f"{self.path}: {self._header.key} cannot be read ({describe_error(error)})"
            ) from error
        if self._turned:
            found = found.swapaxes(1, 2)
        return np.ascontiguousarray(found, self.dtype)

    def samples(self) -> Iterator[np.ndarray]:
        """The numbers in the order of the file, in blocks ``(j, …)``, whichever pattern they belong to.

        Raises:
            NpzError: the file is damaged.
        """
        with NpzFile(self.path) as archive:
            yield from archive.rows(self._header)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._array = self._sum = None

    def _open(self) -> FileArray:
        header = self._header
        with NpzFile(self.path) as archive:
            if header.stored and not self._last:
                start = archive.position(header)
                self._file = self.path.open("rb")
                self._sum = _Checksum(header, self._file, start)
                self._array = FileArray(self._file, header.shape, header.dtype, start)
            else:
                self._array = self._copy(archive)
        return self._array

    def _copy(self, archive: NpzFile) -> FileArray:
        """The patterns in a temporary file: ``(J, H, W)``, or B parts of each, ``(B·J, a, W)``."""
        header, pattern = self._header, self._header.shape[1:]
        rows = header.shape[0]
        if self._last:  # (H, W, J) by blocks (a, W, J)
            _, width, count = header.shape
            step = min(rows, max(1, CHUNK_BYTES // (width * count * header.dtype.itemsize)))
            rows, pattern = -(-rows // step) * count, (step, width)
        folder, done = self._scratch or Path(tempfile.gettempdir()), 0
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed by close
            copy = FileArray(self._file, (rows, *pattern), self.dtype)
            for block in archive.rows(header):
                if self._last:
                    block = np.pad(block, ((0, pattern[0] - len(block)), (0, 0), (0, 0))).transpose(2, 0, 1)
                copy[done : done + len(block)] = block
                done += len(block)
        except OSError as error:
            size = rows * math.prod(pattern) * self.dtype.itemsize
            remedy = "point the variable TMPDIR to a folder with room"
            raise OSError(f"no copy of {size} bytes in {folder}: {error.strerror}; {remedy}") from error
        return copy

    def _joined(self, array: FileArray, index: slice | np.ndarray) -> np.ndarray:
        """Patterns whose parts lie (part, pattern) in ``array``."""
        rows, width, count = self._header.shape
        wanted = np.arange(count)[index]
        parts = array[np.arange(0, len(array), count)[:, None] + wanted]  # (B, K, a, W)
        joined = parts.swapaxes(0, 1).reshape(len(wanted), len(parts) * parts.shape[2], width)  # (K, B·a, W)
        return joined[:, :rows]


def _as_slice(index: slice | np.ndarray) -> slice | np.ndarray:
    """Integers that follow on one another, as a slice."""
    if isinstance(index, slice) or not len(index) or index.dtype.kind not in "iu":
        return index
    first, stop = int(index[0]), int(index[0]) + len(index)
    return slice(first, stop) if first >= 0 and np.array_equal(index, np.arange(first, stop)) else index


class _Checksum:
    """The checksum of a member read in place, which grows with every slice that follows on the one before."""

    def __init__(self, header: Header, file: IO[bytes], start: int) -> None:
        self._header, self._rows = header, 0
        self._sum = zlib.crc32(os.pread(file.fileno(), header.start, start - header.start))

    def follow(self, first: int, found: np.ndarray) -> None:
        if first != self._rows or not len(found):
            return
        self._sum, self._rows = zlib.crc32(found.data, self._sum), first + len(found)
        if self._rows == self._header.shape[0] and self._sum != self._header.info.CRC:
            raise NpzError("its checksum does not fit; the file is damaged, copy it anew")
