"""The diffraction amplitudes of a scan, in memory or in a file, and their statistics.

A negative number ``−a`` is that of a pixel which was not measured in this pattern: a saturated one, a mark of
the detector, a zinger. It has no weight in any fit or score; ``a`` is the best guess of its amplitude, for
statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from ptycho.files.file_array import FileArray

Rows: TypeAlias = "np.ndarray | FileArray | SomeRows | MiddleRows"


@dataclass(frozen=True, eq=False)
class Statistics:
    """Statistics of diffraction amplitudes ``A (J, N, N)``.

    Attributes:
        energies: ``Σ A²`` of each pattern, ``(J,)`` float64; NaN or infinite exactly if the pattern holds
            NaN or infinity.
        lacking: how many pixels of each pattern were not measured, ``(J,)``.
        largest: largest number; for a part of a scan it may be that of the whole scan.
        mean: function that computes :attr:`mean_intensity` on first use.
    """

    energies: np.ndarray
    lacking: np.ndarray
    largest: float
    mean: Callable[[], np.ndarray]

    @classmethod
    def of(cls, blocks: Iterable[np.ndarray]) -> Statistics:
        """Return the statistics of patterns ``(K, N, N)`` float32 that come block by block."""
        energies, lacking, total, largest = [np.zeros(0)], [np.zeros(0, int)], np.zeros((1, 1)), 0.0
        for block in blocks:
            squares = np.square(block, dtype=np.float64)
            energies.append(np.sum(squares, axis=(1, 2)))
            lacking.append(np.count_nonzero(block < 0, axis=(1, 2)))
            total = total + squares.sum(axis=0)
            largest = max(largest, float(block.max(initial=0)))
        all_energies = np.concatenate(energies)
        mean = partial(np.divide, total, max(len(all_energies), 1))
        return cls(all_energies, np.concatenate(lacking), largest, mean)

    @cached_property
    def mean_intensity(self) -> np.ndarray:
        """``⟨A²⟩`` over the patterns, ``(N, N)`` float64."""
        return self.mean()

    @property
    def mean_energy(self) -> float:
        """``⟨Σ A²⟩``, the mean energy of a pattern: its photons where they are counted."""
        return float(self.energies.mean())

    def darkest(self, good: np.ndarray | None, share: float = 0.02) -> float:
        """Return the mean intensity of the darkest ``share`` of the ``good (N, N)`` pixels; None: of all."""
        counted = np.sort(self.mean_intensity.ravel() if good is None else self.mean_intensity[good])
        return float(counted[: max(1, round(share * len(counted)))].mean())

    def of_some(self, indices: np.ndarray, rows: Rows) -> Statistics:
        """Return the statistics of patterns ``indices (n,)``; ``rows`` are read if their mean is used."""
        mean = partial(_mean_intensity, rows)
        return Statistics(self.energies[indices], self.lacking[indices], self.largest, mean)


def unmeasured(amplitudes: np.ndarray, least: float = 1e-30) -> np.ndarray:
    """Return guesses ``a (…)`` as ``−a``; zero as a negative number whose square is zero: ``least``."""
    return -np.maximum(amplitudes, np.float32(least))


def _mean_intensity(rows: Rows) -> np.ndarray:
    return Statistics.of(Patterns(rows).blocks()).mean_intensity


class SomeRows:
    """Some rows of an array, in memory or in a file, by their indices."""

    def __init__(self, rows: Rows, indices: np.ndarray) -> None:
        self._rows, self._indices = rows, indices
        self.shape: tuple[int, ...] = (len(indices), *rows.shape[1:])
        self.dtype: np.dtype = rows.dtype

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: Any) -> np.ndarray:
        return self._rows[self._indices[index]]


class MiddleRows:
    """The middle of patterns, of the size of a mask ``good (n, n)``; zero where that is false."""

    def __init__(self, rows: Rows, good: np.ndarray) -> None:
        self._rows, self._good = rows, good
        self.shape: tuple[int, ...] = (len(rows), *good.shape)
        self.dtype: np.dtype = rows.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        low = (self._rows.shape[-1] - self.shape[-1]) // 2
        middle = slice(low, low + self.shape[-1])
        return np.where(self._good, self._rows[index][..., middle, middle], np.float32(0))


class Patterns:
    """Diffraction amplitudes ``(J, N, N)`` float32, and their statistics, computed on first use.

    Indexed by slices and integer arrays along the first axis. Values that share the patterns share the
    statistics; other patterns are another object, so that statistics always belong to their patterns.

    Args:
        rows: in memory or in a file.
        statistics: of exactly these rows, if they are known already.
        shifts: ``(J, 2)`` float32, (row, col) in detector pixels, by which each pattern is shifted from the
            middle of the detector; None: none is.
    """

    def __init__(
        self, rows: Rows, statistics: Statistics | None = None, shifts: np.ndarray | None = None
    ) -> None:
        self._rows, self.shifts = rows, shifts
        if statistics is not None:
            self.__dict__["statistics"] = statistics

    @cached_property
    def statistics(self) -> Statistics:
        """Statistics of all patterns, which are read for them once."""
        return Statistics.of(self.blocks())

    @property
    def shape(self) -> tuple[int, ...]:
        """``(J, N, N)``."""
        return self._rows.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the amplitudes as they are held."""
        return self._rows.dtype

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> np.ndarray:
        return self._rows[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._rows[:], dtype, copy=copy)

    def some(self, indices: np.ndarray) -> Patterns:
        """Return the patterns ``indices (n,)``, in this order; they are not copied."""
        return self._with(SomeRows(self._rows, indices), indices)

    def shifted(self, shifts: np.ndarray) -> Patterns:
        """Return the same patterns, taken to be shifted by ``shifts (J, 2)``."""
        return Patterns(self._rows, self.__dict__.get("statistics"), shifts)

    def in_memory(self) -> Patterns:
        """Return the same patterns, read into memory."""
        every = np.arange(len(self))
        return self._with(self._rows[every], every)

    def _with(self, rows: Rows, indices: np.ndarray) -> Patterns:
        known = self.__dict__.get("statistics")
        shifts = None if self.shifts is None else self.shifts[indices]
        return Patterns(rows, None if known is None else known.of_some(indices, rows), shifts)

    def middle(self, good: np.ndarray) -> Patterns:
        """Return the middle of the patterns, of the size of a mask ``(n, n)``, zero where false; no copy."""
        return Patterns(MiddleRows(self._rows, good), shifts=self.shifts)

    def blocks(self, pixels: int = 2**22) -> Iterator[np.ndarray]:
        """Yield all patterns in order, in blocks ``(j, N, N)`` of at most so many ``pixels``."""
        step = max(1, pixels // max(1, self.shape[-1] * self.shape[-2]))
        for start in range(0, len(self), step):
            yield self._rows[start : start + step]
