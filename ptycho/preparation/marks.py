"""Marks: numbers in place of a pixel, or a frame, that was not measured; the same in files of any format.

===================================== ====================================================================
−1, −2 wrapped to unsigned integers   ``2ᵇ − 1``, ``2ᵇ − 2``, b the file's own bits, or 32 and 64 in wider
                                      numbers and floats: no count, a mark wherever it is
the largest signed integer            likewise
``2ᵇ − 1``, ``2ᵇ − 2`` of fewer bits  counts as well: a mark, or a converter at its end, in a pixel that
                                      holds it in most frames
NaN, infinity                         as no count
===================================== ====================================================================

Numbers below zero are another matter, for they may be noise: :mod:`~ptycho.preparation.pixels`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ptycho.config import ConfigError
from ptycho.preparation.pixels import repeated
from ptycho.readers.frames import listed
from ptycho.readers.raw_scan import RawScan
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
