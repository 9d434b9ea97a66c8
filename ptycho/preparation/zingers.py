"""Detect zingers, cosmic rays and fluorescence in single pixels of single frames, while patterns are copied.

A pixel of one frame is a zinger if it holds far more photons than it and its neighbours do in any other
frame, and far more than its neighbours in the same frame. The far field of a beam that is narrower than the
window is smooth from pixel to pixel, so that no object causes such a pixel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter

from ptycho.files.file_array import FileArray
from ptycho.scan.finding import Finding

AROUND = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], bool)


@dataclass(frozen=True)
class ZingerLimits:
    """Limits from which photons in a pixel are a zinger."""

    others: float = 1.5  # times the most that it and its neighbours hold in all other frames
    neighbours: float = 3.0  # times the most that its eight neighbours hold in the same frame
    noise: float = 10.0  # standard errors of photons, beside both
    least: float = 20.0  # photons, beside both
    frames: int = 20  # that there must be, for others to be known

    def exceeds(self, photons: np.ndarray, factor: float, known: np.ndarray) -> np.ndarray:
        """Return where ``photons (…)`` are more than so many times what is ``known``, noise apart."""
        return photons > factor * known + self.noise * np.sqrt(known) + self.least


@dataclass(eq=False)
class Zingers:
    """The most photons of each pixel of ``N × N``, as amplitudes are copied block by block."""

    N: int
    limits: ZingerLimits = ZingerLimits()
    count: int = 0  # of the patterns added

    def __post_init__(self) -> None:
        # the largest and the next amplitude of each pixel, of different patterns; the pattern of the largest
        self.first, self.second = np.zeros((2, self.N, self.N), np.float32)
        self.where = np.zeros((self.N, self.N), np.int64)

    def add(self, block: np.ndarray) -> None:
        """Add the next amplitudes ``(K, N, N)``; values that are not finite are ignored."""
        block = np.nan_to_num(block, nan=0.0, posinf=0.0, neginf=0.0)
        place = block.argmax(axis=0)
        largest = np.take_along_axis(block, place[None], 0)[0]
        np.put_along_axis(block, place[None], 0, 0)
        rest = block.max(axis=0, initial=0)
        higher = largest > self.first
        self.second = np.maximum(np.where(higher, self.first, largest), np.maximum(self.second, rest))
        self.first = np.where(higher, largest, self.first)
        self.where = np.where(higher, self.count + place, self.where)
        self.count += len(block)

    def replace_in(self, copy: FileArray, good: np.ndarray) -> Finding | None:
        """Give zingers of the copied amplitudes ``(J, N, N)`` the mean intensity of their good neighbours."""
        if self.count < self.limits.frames:
            return None
        first, second = np.square(self.first, dtype=float), np.square(self.second, dtype=float)
        known = maximum_filter(second, size=3, mode="constant")
        candidates = self.limits.exceeds(first, self.limits.others, known) & good
        replaced = {}
        for pattern in np.unique(self.where[candidates]):
            amplitudes = copy[pattern : pattern + 1][0]
            photons = np.square(amplitudes, dtype=float)
            around = maximum_filter(photons, footprint=AROUND, mode="constant")
            alone = self.limits.exceeds(photons, self.limits.neighbours, around)
            mine = np.argwhere(candidates & (self.where == pattern) & alone)
            if len(mine):
                copy[pattern : pattern + 1] = _mended(amplitudes, mine, good)[None]
                replaced[int(pattern)] = len(mine)
        if not replaced:
            return None
        why = "single pixels of single frames far above all around them; each has the mean of its neighbours"
        value = f"{sum(replaced.values())} pixels of {len(replaced)} frames"
        return Finding("zingers", value, f"{why}; data.zingers=false keeps them")


def _mended(amplitudes: np.ndarray, pixels: np.ndarray, good: np.ndarray) -> np.ndarray:
    """Return a pattern ``(N, N)`` whose ``pixels (n, 2)`` have the mean intensity of those around them."""
    mended, usable = amplitudes.copy(), good.copy()
    usable[tuple(pixels.T)] = False
    for row, col in pixels:
        part = np.s_[max(row - 1, 0) : row + 2, max(col - 1, 0) : col + 2]
        near = np.square(amplitudes[part][usable[part]], dtype=float)
        mended[row, col] = np.sqrt(near.mean()) if len(near) else 0.0
    return mended
