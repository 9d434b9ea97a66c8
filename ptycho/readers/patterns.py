"""Patterns that stay in a file: indexed in one way, whatever holds them, and joined one after the other."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ptycho.files.file_array import gather
from ptycho.files.reading import FileError

if TYPE_CHECKING:
    from ptycho.readers.archive import Archive
    from ptycho.readers.raw_scan import PatternSource


class Patterns(ABC):
    """Patterns ``(J, H, W)`` that stay in a file; a :class:`~ptycho.readers.raw_scan.PatternSource`.

    Attributes:
        label, key: what to call them in an error, and where they are in the file.
        grid: ``(A, B)`` of a single raster; None: a list.
        columns_first: a raster ``[a, b]`` of positions is run through along ``a`` first, as MATLAB stores it.
        step_m: of a raster along rows and along columns; None: it is not stated.
    """

    label: str = ""
    key: str = ""
    grid: tuple[int, int] | None = None
    columns_first: bool = False
    step_m: tuple[float, float] | None = None
    shape: tuple[int, int, int]
    dtype: np.dtype

    @property
    def counts(self) -> tuple[int, ...]:
        """Possible numbers of patterns; several if the positions decide which axis is the patterns'."""
        return (self.shape[0],)

    def order_for(self, count: int, file: Archive) -> Patterns:
        """Return the patterns along the axis, if several may be theirs, that is as long as the positions."""
        return self

    def read(self, index: slice | np.ndarray) -> np.ndarray:
        """Read patterns ``(K, H, W)``, in the file's own numbers, by a slice of step one or by integers.

        ConfigError: the file is damaged there. IndexError: a pattern that is not there, or another step.
        """
        if isinstance(index, slice):
            first, stop, step = index.indices(self.shape[0])
            if step != 1:
                raise IndexError("patterns are read in steps of one")
            index = np.arange(first, max(first, stop))
        return gather(np.ravel(index), self.shape, self.dtype, self.fill, "pattern")

    @abstractmethod
    def fill(self, first: int, into: np.ndarray) -> None:
        """Fill ``into (K, H, W)`` with the patterns from ``first`` on."""

    def samples(self) -> Iterator[np.ndarray]:
        """Yield some of the numbers one after the other, in blocks ``(…)`` of any shape."""
        return (self.read(slice(k, k + 1)) for k in range(self.shape[0]))

    def close(self) -> None:  # noqa: B027 - many have nothing open
        """Close the file."""


class Joined(Patterns):
    """Patterns of several sources of one frame's shape, one after the other."""

    def __init__(self, sources: Sequence[PatternSource], label: str = "", key: str = "") -> None:
        self.sources, self.label, self.key = tuple(sources), label, key
        self._stops = np.cumsum([source.shape[0] for source in sources])
        self.shape = (int(self._stops[-1]), *sources[0].shape[1:])
        self.dtype = np.result_type(*(source.dtype for source in sources))

    def fill(self, first: int, into: np.ndarray) -> None:
        while len(into):
            number = int(np.searchsorted(self._stops, first, side="right"))
            source, stop = self.sources[number], int(self._stops[number])
            local, count = first - stop + source.shape[0], min(len(into), stop - first)
            into[:count] = block = source.read(slice(local, local + count))
            if source.dtype != self.dtype and (mark := mark_of(self.dtype)) is not None:
                into[:count][np.isin(block, no_counts(source.dtype))] = mark
            first, into = first + count, into[count:]

    def samples(self) -> Iterator[np.ndarray]:
        parts = (source.samples() for source in self.sources if isinstance(source, Patterns))
        return itertools.chain.from_iterable(parts)

    def close(self) -> None:
        for source in self.sources:
            source.close()


class View(Patterns):
    """Patterns of another ``source``, of some ``shape``, whose name, numbers and file they share."""

    def __init__(self, source: Patterns, shape: tuple[int, int, int]) -> None:
        self.source, self.shape, self.dtype = source, shape, source.dtype
        self.label, self.key = source.label, source.key

    def samples(self) -> Iterator[np.ndarray]:
        return self.source.samples()

    def close(self) -> None:
        self.source.close()


class Selected(View):
    """Some patterns of a source, ``rows (K,)``, in an order of their own."""

    def __init__(self, source: Patterns, rows: np.ndarray) -> None:
        super().__init__(source, (len(rows), *source.shape[1:]))
        self._rows = rows

    def fill(self, first: int, into: np.ndarray) -> None:
        into[:] = self.source.read(self._rows[first : first + len(into)])


class Incomplete(View):
    """Patterns of a source, which hold a mark where their masks ``good (J, H, W)`` are zero.

    Numbers of a dtype without a mark become wider.
    """

    def __init__(self, source: Patterns, good: Patterns) -> None:
        super().__init__(source, source.shape)
        self.grid, self.columns_first, self.step_m = source.grid, source.columns_first, source.step_m
        if mark_of(source.dtype) is None:
            self.dtype = np.dtype(np.float32 if source.dtype.kind == "f" else np.int32)
        self._good = good

    def fill(self, first: int, into: np.ndarray) -> None:
        part = slice(first, first + len(into))
        into[:] = self.source.read(part)
        into[self._good.read(part) == 0] = mark_of(self.dtype)

    def close(self) -> None:
        self.source.close()
        self._good.close()


def no_counts(dtype: np.dtype) -> np.ndarray:
    """Return numbers ``(n,)``, float64 and sorted, that stand for no count in any pixel."""
    tops = [2**b - k for b in (32, 64) for k in (1, 2)] + [2**31 - 1, 2**63 - 1]
    if dtype.kind == "f":
        return np.unique(np.array(tops, np.float64).astype(dtype).astype(np.float64))
    largest = int(np.iinfo(dtype).max) if dtype.kind in "iu" else 0
    own = [largest, largest - 1][: 2 if dtype.kind == "u" else 1] if dtype.itemsize > 1 else []
    return np.unique(np.array([top for top in tops if top <= largest] + own, np.float64))


def mark_of(dtype: np.dtype) -> int | None:
    """Return one of :func:`no_counts` that the dtype holds exactly; None: it holds none."""
    if dtype.itemsize < 2 or (dtype.kind == "f" and dtype.itemsize < 4):
        return None
    return min(int(np.iinfo(dtype).max), 2**32 - 1) if dtype.kind in "iu" else 2**32 - 1


def as_list(
    name: str, shape: tuple[int, ...] | None, dtype: np.dtype, most: int = 2**30
) -> tuple[tuple[int, int, int], tuple[int, int] | None]:
    """Return ``(J, H, W)`` of patterns ``(J, H, W)`` or ``(A, B, H, W)``, and the raster; None: a list.

    FileError: ``name`` has other axes, none that hold anything, other numbers, or patterns of more than
    ``most`` bytes.
    """
    if shape is None or len(shape) not in (3, 4) or 0 in shape:
        wanted = "(patterns, rows, columns) or a raster (A, B, rows, columns)"
        raise FileError(f"{name} has shape {shape}; must be {wanted}")
    if dtype.kind not in "fiu":
        raise FileError(f"{name} {shape} is {dtype}; must be real numbers")
    if math.prod(shape[-2:]) * dtype.itemsize > most:
        raise FileError(f"{name} {shape} has patterns of more than {most} bytes")
    return (math.prod(shape[:-2]), shape[-2], shape[-1]), (shape[0], shape[1]) if len(shape) == 4 else None


def largest(shapes: Mapping[Any, tuple[int, ...] | None]) -> Any:
    """Return the key of the largest array of three or four axes; FileError: there is none."""
    sizes = {key: math.prod(shape) for key, shape in shapes.items() if shape and len(shape) in (3, 4)}
    if not sizes:
        raise FileError("holds no array of three or four axes")
    return max(sizes, key=sizes.__getitem__)


def spread(count: int, most: int = 4) -> np.ndarray:
    """Return at most ``most`` indices ``(n,)``, spread over ``count``."""
    return np.unique(np.linspace(0, max(0, count - 1), most).astype(int))
