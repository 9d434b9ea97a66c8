"""Numbers that are no measurement: marks, the same in files of any format, and zingers.

===================================== ====================================================================
−1, −2 wrapped to unsigned integers   ``2ᵇ − 1``, ``2ᵇ − 2``, b the file's own bits, or 32 and 64 in wider
                                      numbers and floats: no count, a mark wherever it is
the largest signed integer            likewise
``2ᵇ − 1``, ``2ᵇ − 2`` of fewer bits  counts as well: a mark, or a converter at its end, in a pixel that
                                      holds it in most frames
NaN, infinity                         as no count
saturated numbers                     from the largest on, :func:`~ptycho.preparation.pixels.saturates`
zingers, cosmic rays, fluorescence    far more photons in a pixel of one frame than it and its neighbours hold
                                      in any other frame, and its neighbours in the same frame
===================================== ====================================================================

They do not count in their frame; a pixel that holds them in all frames is bad. The far field of a beam that
is narrower than the window is smooth from pixel to pixel, so that no object causes a zinger. Numbers below
zero are another matter, for they may be noise: :mod:`~ptycho.preparation.pixels`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.ndimage import maximum_filter

from ptycho.config import ConfigError
from ptycho.files.file_array import FileArray
from ptycho.preparation.pixels import repeated
from ptycho.readers.patterns import no_counts
from ptycho.readers.raw_scan import RawScan, listed
from ptycho.scan.finding import Finding
from ptycho.scan.patterns import unmeasured

BITS = (10, 12, 14, 16, 20, 24)  # of converters whose ends are known in wider numbers


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


def lost_frames(missing: np.ndarray, good: np.ndarray, share: float = 0.5) -> np.ndarray:
    """Return which frames with ``missing (K, H, W)`` numbers lack a ``share`` of the pixels ``good (H, W)``.

    Such a frame is lost as a whole, and makes no pixel bad in the others.
    """
    return np.sum(missing & good, axis=(1, 2)) > share * max(int(good.sum()), 1)


@dataclass(frozen=True)
class Limits:
    """Which numbers of a file are no measurement, whatever the pixel."""

    dtype: np.dtype  # of the file's numbers
    lowest: float = -np.inf  # numbers below it are errors
    saturation: float = np.inf  # numbers from it on are saturated

    def exceeded(self, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where finite ``frames (K, H, W)`` hold marks or errors, and where they are saturated."""
        finite = np.isfinite(frames)
        marked = finite & (find_marks(frames, self.dtype) | (frames < self.lowest))
        return marked, finite & ~marked & (frames >= self.saturation)


@dataclass(eq=False)
class FrameCheck:
    """Check of all frames, as they are read, for what cannot be used."""

    limits: Limits
    good: np.ndarray  # ``(H, W)``, pixels that count
    frames: int = 0  # that were checked
    marks: int = 0  # numbers of good pixels that are marks, in frames that can be used,
    saturated: int = 0  # and such as are saturated
    incomplete: list[int] = field(default_factory=list)  # frames that hold either
    # frames that lack many of the good pixels, or hold NaN or infinity in some
    unusable: list[int] = field(default_factory=list)
    finite: bool = True  # unusable frames hold marks, not NaN or infinity

    def __post_init__(self) -> None:
        # pixels that some frame has measured, and such as unusable frames lack
        self.measured, self.pixels = np.zeros_like(self.good), np.zeros_like(self.good)

    def add(self, indices: np.ndarray, frames: np.ndarray) -> None:
        """Check ``frames (K, H, W)`` in the file's own numbers, of these ``indices (K,)``."""
        (marked, saturated), finite = self.limits.exceeded(frames), np.isfinite(frames)
        missing = (marked | ~finite) & self.good
        wrong = lost_frames(missing, self.good) | np.any(~finite & self.good, axis=(1, 2))
        self.unusable += indices[wrong].tolist()
        self.pixels |= missing[wrong].any(axis=0)
        self.finite = self.finite and not np.any(~finite[wrong] & self.good)
        marks, full = missing[~wrong], (saturated & self.good)[~wrong]
        self.frames += len(frames)
        self.marks += int(np.count_nonzero(marks))
        self.saturated += int(np.count_nonzero(full))
        self.incomplete += indices[~wrong][(marks | full).any(axis=(1, 2))].tolist()
        self.measured |= (self.good & ~(marks | full)).any(axis=0)

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

    def finding(
        self,
        lost: np.ndarray,
        measured: np.ndarray,
        guessed: np.ndarray,
        seldom: float = 0.1,
        most: float = 0.25,
    ) -> Finding | None:
        """Return what was not measured in single frames; None: nothing.

        Args:
            lost: in how many frames each pixel of the patterns was not measured, ``(N, N)``.
            measured, guessed: summed intensity of the other frames, and what is guessed of these, ``(N, N)``.
            seldom, most: where fewer than this share of the frames have measured pixels that hold more than
                this share of the intensity, the finding has the flag ``intensity_unmeasured``.
        """
        if not self.incomplete:
            return None
        both = measured + guessed
        total, share = max(float(both.sum()), 1e-30), guessed.sum()
        hidden = both.sum(where=lost > (1 - seldom) * self.frames)
        kinds = (self.marks, "marks"), (self.saturated, f"saturated, from {self.limits.saturation:.17g} on")
        some, more = listed(self.incomplete, 5)
        numbers = "; ".join(f"{count} {what}" for count, what in kinds if count)
        where = f"in frames {some}{more}; in all others these pixels count"
        why = f"{numbers}; about {100 * share / total:.2g} % of the intensity, {where}"
        value = f"pixels of {len(self.incomplete)} of {self.frames} frames"
        return Finding("not measured", value, why, ("intensity_unmeasured",) * bool(hidden > most * total))


def guess_unmeasured(copy: FileArray, part: slice, mean: np.ndarray) -> np.ndarray:
    """Guess what some copied amplitudes would be where they were not measured; return its sum, ``(N, N)``.

    That is the ``mean (N, N)`` intensity of the frames which have measured a pixel, times the intensity of
    this frame over the mean; or what is known of it, if that is more.
    """
    block = copy[part]
    lacking, squares = block < 0, np.square(block, dtype=float)
    if not lacking.any():
        return np.zeros(mean.shape)
    own, usual = (
        np.sum(of, axis=(1, 2), where=~lacking) for of in (squares, np.broadcast_to(mean, block.shape))
    )
    guess = np.maximum(squares, mean * (own / np.maximum(usual, 1e-30))[:, None, None])
    copy[part] = np.where(lacking, unmeasured(np.sqrt(guess).astype(np.float32)), block)
    return np.sum(guess, axis=0, where=lacking)


def refuse_unusable(raw: RawScan, frames: np.ndarray, good: np.ndarray) -> None:
    """Raise ConfigError that names all ``frames (J,)`` which lack pixels ``good (H, W)``, if any do."""
    check = FrameCheck(Limits(raw.patterns.dtype), good)
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

    def mark_in(self, copy: FileArray, good: np.ndarray) -> Finding | None:
        """Mark zingers of the copied amplitudes ``(J, N, N)`` as not measured."""
        if self.count < self.limits.frames:
            return None
        first, second = np.square(self.first, dtype=float), np.square(self.second, dtype=float)
        known = maximum_filter(second, size=3, mode="constant")
        candidates = self.limits.exceeds(first, self.limits.others, known) & good
        marked = {}
        for pattern in np.unique(self.where[candidates]):
            amplitudes = copy[pattern : pattern + 1][0]
            photons = np.square(amplitudes, dtype=float)
            around = maximum_filter(photons, footprint=AROUND, mode="constant")
            alone = self.limits.exceeds(photons, self.limits.neighbours, around)
            mine = np.argwhere(candidates & (self.where == pattern) & alone)
            if len(mine):
                copy[pattern : pattern + 1] = _without(amplitudes, mine, good)[None]
                marked[int(pattern)] = len(mine)
        if not marked:
            return None
        why = "single pixels of single frames far above all around them, which do not count there"
        value = f"{sum(marked.values())} pixels of {len(marked)} frames"
        return Finding("zingers", value, f"{why}; data.zingers=false keeps them")


def _without(amplitudes: np.ndarray, pixels: np.ndarray, good: np.ndarray) -> np.ndarray:
    """Return a pattern ``(N, N)`` whose ``pixels (n, 2)`` were not measured; those around are their guess."""
    left, usable = amplitudes.copy(), good.copy()
    usable[tuple(pixels.T)] = False
    for row, col in pixels:
        part = np.s_[max(row - 1, 0) : row + 2, max(col - 1, 0) : col + 2]
        near = np.square(amplitudes[part][usable[part]], dtype=float)
        left[row, col] = unmeasured(np.sqrt(near.sum() / max(len(near), 1)))
    return left
