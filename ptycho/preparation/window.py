"""Which window of the detector becomes a pattern: all of it, and unmeasured pixels where it ends.

    N·b ≥ 2·max(c, n − c)    for rows and columns: n pixels, the zero frequency at c, b × b summed to one

So nothing that was measured is left out where the zero frequency is off the middle, and where the detector is
not square or has an odd side. What the window holds beyond the detector has no weight.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from scipy import fft

from ptycho.config.data import LARGEST_N, SMALLEST_N

PADDED = 1.5  # times the detector's longer side: no window is larger
LARGE = 256  # a side from which it is said where nearly all of the light is
NEARLY_ALL = 0.999


class Window(NamedTuple):
    """N, in words how it came about, and what is left out against the rule, if anything."""

    N: int
    why: str
    warning: str | None


def whole_detector(mean: np.ndarray, centre: tuple[int, int], b: int) -> Window:
    """The window that holds a detector with the zero frequency at ``centre``; ``mean (H, W)`` intensity.

    A square detector of even side with the zero frequency in its middle is taken as it is; else N is the
    next even number with a fast Fourier transform.
    """
    shape = mean.shape
    reach = 2 * max(max(c, n - c) for c, n in zip(centre, shape, strict=True))
    needed = max(fast_side(-(-reach // b)), SMALLEST_N)
    if set(shape) == {reach} and reach % (2 * b) == 0 and reach // b >= SMALLEST_N:
        needed = reach // b
    most = min(2 * int(PADDED * max(shape) / b / 2), LARGEST_N)
    N = max(min(needed, most), SMALLEST_N)
    beyond = (N * b) ** 2 - _inside(np.ones(shape), centre, N * b)
    why = f"the whole detector of {shape[0]} × {shape[1]} around the zero frequency"
    why += f", {100 * beyond / (N * b) ** 2:.2g} % of it unmeasured pixels beside that" if beyond else ""
    if needed > N:
        return Window(N, why.replace("the whole", "most of the"), _cut_off(mean, centre, b, N, needed))
    if N > LARGE:
        narrow = _of_most_light(mean, centre, b, N)
        why += f"; {100 * NEARLY_ALL:.1f} % of the light is within data.N={narrow}" if narrow < N else ""
    return Window(N, f"{why}; data.N chooses another", None)


def fast_side(side: int) -> int:
    """The smallest even number from ``side`` up that has small prime factors alone."""
    return 2 * int(fft.next_fast_len(-(-side // 2)))


def _inside(image: np.ndarray, centre: tuple[int, int], side: int) -> float:
    """Sum of an image ``(H, W)`` over the window of ``side`` around ``centre``."""
    rows, cols = (slice(max(0, c - side // 2), max(0, c + side // 2)) for c in centre)
    return float(image[rows, cols].sum())


def _cut_off(mean: np.ndarray, centre: tuple[int, int], b: int, N: int, needed: int) -> str:
    """The warning of a window that is too small."""
    held = _inside(mean, centre, N * b) / max(float(mean.sum()), np.finfo(float).tiny)
    limit = f"{LARGEST_N}" if N == LARGEST_N else f"{PADDED} times the detector's longer side"
    remedy = f"data.N={needed} holds all" if needed <= LARGEST_N else "data.bin=2 would hold more"
    return (
        f"N: the whole detector around the zero frequency at {centre} takes {needed} pixels; {N} are taken "
        f"({limit} at most), without {100 * (1 - held):.2g} % of the light; {remedy}"
    )


def _of_most_light(mean: np.ndarray, centre: tuple[int, int], b: int, N: int) -> int:
    """The smallest window with ``NEARLY_ALL`` of the light of that of side N."""
    wanted = NEARLY_ALL * _inside(mean, centre, N * b)
    sides = range(SMALLEST_N, N + 1, 2)
    first = bisect_left(sides, wanted, key=lambda side: _inside(mean, centre, side * b))
    return min(fast_side(sides[min(first, len(sides) - 1)]), N)
