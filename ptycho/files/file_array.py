"""Arrays that stay in a file: rows are read and written on demand."""

from __future__ import annotations

import io
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


class FileArray:
    """A C-ordered array in an open binary file, indexed along its first axis by slices and integer arrays.

    Reading at a place in a file, rather than mapping it, limits the process's memory to the rows that are
    read, however large the file, and makes a file that shrinks meanwhile an error instead of a crash.
    ``start``: where its first byte lies.
    """

    def __init__(
        self, file: io.BufferedIOBase | Any, shape: tuple[int, ...], dtype: Any, start: int = 0
    ) -> None:
        self._file, self.shape, self.dtype, self._start = file, tuple(shape), np.dtype(dtype), start
        self._bytes = math.prod(shape[1:]) * self.dtype.itemsize  # of a row

    @classmethod
    def temporary(cls, folder: Path, shape: tuple[int, ...], dtype: Any) -> FileArray:
        """Return an array of zeros in a file without a name in ``folder``; it goes when the process ends."""
        file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - lives as long as the array
        array = cls(file, shape, dtype)
        os.truncate(file.fileno(), shape[0] * array._bytes)
        return array

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: slice | np.ndarray) -> np.ndarray:
        """FileArray by a slice of step one, or by integers of any shape: ``(*index.shape, *shape[1:])``."""
        if isinstance(index, slice):
            first, stop = self._span(index)
            array = np.empty((stop - first, *self.shape[1:]), self.dtype)
            self._fill(first, array)
            return array
        return gather(index, self.shape, self.dtype, self._fill)

    def __setitem__(self, index: slice, values: np.ndarray) -> None:
        first, stop = self._span(index)
        if values.shape != (stop - first, *self.shape[1:]):
            raise ValueError(f"{values.shape} does not fit rows {first} to {stop} of {self.shape}")
        content = _bytes_of(np.ascontiguousarray(values, self.dtype))
        place = self._start + first * self._bytes
        while content:
            written = os.pwrite(self._file.fileno(), content, place)
            content, place = content[written:], place + written

    def _span(self, index: slice) -> tuple[int, int]:
        first, stop, step = index.indices(len(self))
        if step != 1:
            raise IndexError("rows are read in steps of one")
        return first, max(first, stop)

    def _fill(self, first: int, array: np.ndarray) -> None:
        content = _bytes_of(array)
        place = self._start + first * self._bytes
        while content:
            got = os.preadv(self._file.fileno(), [content], place)
            if not got:
                end = first + len(array)
                raise OSError(f"{getattr(self._file, 'name', 'file')}: ends before row {end}")
            content, place = content[got:], place + got


def gather(
    index: np.ndarray,
    shape: tuple[int, ...],
    dtype: np.dtype,
    fill: Callable[[int, np.ndarray], None],
    what: str = "row",
) -> np.ndarray:
    """Return rows of an array of some ``shape`` by integers of any shape, ``(*index.shape, *shape[1:])``.

    ``fill`` reads rows that follow on a first one into an array; it is called once for a run of neighbours.
    IndexError: there is no such row, which is called ``what``.
    """
    index = np.asarray(index, dtype=np.int64)
    wanted, place = np.unique(index, return_inverse=True)
    if len(wanted) and not (wanted[0] >= 0 and wanted[-1] < shape[0]):
        raise IndexError(f"{what} {wanted[0]} or {wanted[-1]} of {shape[0]}")
    rows = np.empty((len(wanted), *shape[1:]), dtype)
    breaks = np.flatnonzero(np.diff(wanted) != 1) + 1
    for run in np.split(np.arange(len(wanted)), breaks):
        if len(run):
            fill(int(wanted[run[0]]), rows[run[0] : run[-1] + 1])
    return rows if np.array_equal(wanted, index) else rows[place.reshape(index.shape)]


def _bytes_of(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
