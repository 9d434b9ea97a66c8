"""Numbers that are no measurement: marks, the same in files of any format, and zingers.

===================================== ====================================================================
−1, −2 wrapped to unsigned integers   ``2ᵇ − 1``, ``2ᵇ − 2``, b the file's own bits, or 32 and 64 in wider
                                      numbers and floats: no count, a mark wherever it is
the largest signed integer            likewise
``2ᵇ − 1``, ``2ᵇ − 2`` of fewer bits  counts as well: a mark, or a converter at its end, in a pixel that
                                      holds it in most frames
NaN, infinity                         as no count
zingers, cosmic rays, fluorescence    far more photons in a pixel of one frame than it and its neighbours hold
                                      in any other frame, and its neighbours in the same frame
===================================== ====================================================================

The far field of a beam that is narrower than the window is smooth from pixel to pixel, so that no object
causes a zinger. Numbers below zero are another matter, for they may be noise:
:mod:`~ptycho.preparation.pixels`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.ndimage import maximum_filter

from ptycho.config import ConfigError
from ptycho.files.file_array import FileArray
from ptycho.preparation.pixels import repeated
from ptycho.readers.raw_scan import RawScan, listed
from ptycho.scan.finding import Finding

BITS = (10, 12, 14, 16, 20, 24)  # of converters whose ends are known in wider numbers


def no_counts(dtype: np.dtype) -> np.ndarray:
    """Return numbers ``(n,)``, float64 and sorted, that stand for no count in any pixel."""
    tops = [2**b - k for b in (32, 64) for k in (1, 2)] + [2**31 - 1, 2**63 - 1]
    if dtype.kind == "f":
        return np.unique(np.array(tops, np.float64).astype(dtype).astype(np.float64))
    largest = int(np.iinfo(dtype).max) if dtype.kind in "iu" else 0
    own = [largest, largest - 1][: 2 if dtype.kind == "u" else 1] if dtype.itemsize > 1 else []
    return np.unique(np.array([top for top in tops if top <= largest] + own, np.float64))


def find_marks(frames: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return where ``frames (K, H, W)`` of a file's ``dtype`` hold a mark, NaN or infinity, not a count."""
    marks = ~np.isfinite(frames)
    numbers = no_counts(dtype)
    if len(numbers) and np.any(frames >= numbers[0], where=~marks):
        marks |= np.isin(frames, numbers)
    return marks


def clipped(sample: np.ndarray) -> np.ndarray:
    """Return pixels ``(H, W)`` that in most frames ``(K, H, W)`` hold the end of a smaller converter."""
    largest = sample.max(axis=0)
    ends = np.array([2**b - k for b in BITS for k in (1, 2)], np.float64)
    return np.isin(largest, ends) & repeated(sample, largest)


def lost_frames(missing: np.ndarray, good: np.ndarray, share: float = 0.1) -> np.ndarray:
    """Return which frames with ``missing (K, H, W)`` numbers lack a ``share`` of the pixels ``good (H, W)``.

    Such a frame is lost as a whole, and makes no pixel bad in the others.
    """
    return np.sum(missing & good, axis=(1, 2)) > share * max(int(good.sum()), 1)


@dataclass(eq=False)
class FrameCheck:
    """Check of all frames, as they are read, for what cannot be used.

    Masks ``(H, W)``: pixels that in some frame are ``marked`` or ``saturated``, and the ``pixels`` that
    unusable frames lack.
    """

    dtype: np.dtype  # of the file's numbers
    good: np.ndarray  # ``(H, W)``, pixels that count
    lowest: float = -np.inf  # numbers below it are marks
    saturation: float | None = None  # numbers from it on are saturated; None: unknown
    among: list[int] = field(default_factory=list)  # frames that hold such numbers and are not unusable
    # frames that lack many of the good pixels, or hold NaN or infinity in some
    unusable: list[int] = field(default_factory=list)
    finite: bool = True  # unusable frames hold marks, not NaN or infinity

    def __post_init__(self) -> None:
        self.marked, self.saturated, self.pixels = (np.zeros_like(self.good) for _ in range(3))

    def add(self, indices: np.ndarray, frames: np.ndarray) -> None:
        """Search ``frames (K, H, W)`` in the file's own numbers, of these ``indices (K,)``, for marks."""
        finite = np.isfinite(frames)
        missing = find_marks(frames, self.dtype) & self.good
        wrong = lost_frames(missing, self.good) | np.any(~finite & self.good, axis=(1, 2))
        self.unusable += indices[wrong].tolist()
        self.pixels |= missing[wrong].any(axis=0)
        self.finite = self.finite and not np.any(~finite[wrong] & self.good)
        counted, good = frames[~wrong], self.good & finite[~wrong]
        marked, saturated = good & (missing[~wrong] | (counted < self.lowest)), np.zeros_like(good)
        if self.saturation is not None:
            saturated = good & (counted >= self.saturation)
        self.among += indices[~wrong][(marked | saturated).any(axis=(1, 2))].tolist()
        self.marked |= marked.any(axis=0)
        self.saturated |= saturated.any(axis=0)

    @property
    def bad(self) -> np.ndarray:
        """Good pixels ``(H, W)`` that turned out to be none."""
        return self.marked | self.saturated

    def refuse(self) -> None:
        """Raise ConfigError that names all frames which cannot be used, if there are any."""
        if not self.unusable:
            return
        some, more = listed(self.unusable)
        what = "marks in place of counts" if self.finite else "NaN or infinity"
        raise ConfigError(
            f"patterns: {np.count_nonzero(self.pixels)} of the pixels that should count hold {what} in frame"
            f"{'s'[: len(self.unusable) > 1]} {some}{more}; exclude frames that were not measured "
            f"(data.drop=[{some}]), or mark such pixels as bad (data.mask_file=)"
        )

    def finding(self) -> Finding | None:
        """Return what became of pixels that only some frames show to be bad; None: there are none."""
        if not self.bad.any():
            return None
        marked = np.count_nonzero(self.marked)
        reasons = [f"{marked} hold marks"] if marked else []
        if self.saturation is not None and (many := np.count_nonzero(self.saturated)):
            reasons.append(f"{many} saturated (data.saturation={self.saturation:g})")
        some, more = listed(self.among)
        why = f"{', '.join(reasons)}, in frames {some}{more}, which data.drop=[{some}] excludes instead"
        return Finding("more bad pixels", f"{np.count_nonzero(self.bad)} of {self.bad.size}", why)


def refuse_unusable(raw: RawScan, frames: np.ndarray, good: np.ndarray) -> None:
    """Raise ConfigError that names all ``frames (J,)`` which lack pixels ``good (H, W)``, if any do."""
    check = FrameCheck(raw.patterns.dtype, good)
    for part in blocks_of(raw, len(frames)):
        check.add(frames[part], raw.patterns.read(frames[part]))
    check.refuse()


def blocks_of(raw: RawScan, count: int, block_bytes: int = 2**25) -> list[slice]:
    """Return ``count`` frames in slices of at most ``block_bytes`` in double precision."""
    height, width = raw.patterns.shape[1:]
    step = max(1, block_bytes // (height * width * 8))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


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
        known = np.concatenate([self.first[None], self.second[None], block])
        place = known.argmax(axis=0)[None]
        self.first = np.take_along_axis(known, place, 0)[0]
        np.put_along_axis(known, place, 0, 0)
        self.second = known.max(axis=0)
        self.where = np.where(place[0] > 1, self.count + place[0] - 2, self.where)
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
