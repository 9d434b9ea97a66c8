"""Which pixels of a detector are good, and which only look odd.

============ =============================================================================================
below zero   A number that most frames repeat is a mark of a bad pixel (−1 in a detector's gaps), as are a
             few whole numbers in few pixels; one far below the scatter of all that is negative is an error.
             What scatters about zero is the noise of reading: the pixel stays
hot          far above its neighbours in the mean, *and* by about as much in every frame, *and* nothing of
             the kind opposite: what the sample scatters changes over the scan, and the spots of a lattice
             come in pairs. A beam at the zero frequency is its own opposite
dead         never lit, where its neighbours say that many photons should have come; of wider gaps, whole rows
             or columns between bright ones, and rectangles with bright pixels all around
============ =============================================================================================

``sample (K, H, W)`` are frames spread over the scan, as stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_dilation, find_objects, label, median_filter

from ptycho.scan.optics import fill_bad_pixels

SURE = 6  # frames at least that repeat a mark, where so many were looked at
MARKS = 2  # different numbers that mark pixels, at most
FAR = 10.0  # scatters below zero: no noise
HOT_SIGMAS, HOT_TIMES = 12.0, 5.0  # above the median of the neighbours: in units of √(that + 1), of that + 1
STEADY = 0.5  # half the spread of what a hot pixel adds in the frames, of its median
LIT = 20.0  # photons on average among the neighbours of a dead pixel
GAP_QUANTA, GAP_LIGHT = (
    100.0,
    0.01,
)  # of a line beside a gap, in all frames: photons, and of the brightest line
BLOCK = 2  # pixels on each side that are the neighbours
AROUND = np.ones((3, 3), bool)  # the opposite of a pixel: to a pixel, as the zero frequency is known
BEAM_PIXELS, BEAM_SHARE = 2, 0.01  # from the zero frequency; of the light: no defect, but the beam


@dataclass(frozen=True, eq=False)
class Negative:
    """What numbers below zero are.

    Attributes:
        bad: ``(H, W)`` bool, pixels that are marked, or wrong.
        noisy: pixels whose numbers below zero are noise.
        sigma: standard deviation of the noise, in the patterns' own numbers; 0: there is none.
    """

    bad: np.ndarray
    noisy: int
    sigma: float


def judge_negative(sample: np.ndarray, good: np.ndarray, rule: str = "auto") -> Negative:
    """What the numbers below zero of ``sample (K, H, W)`` are, on the pixels ``good (H, W)``.

    Args:
        rule: ``auto``: see above; ``noise``: all of them are; ``bad``: pixels that have some are bad.
    """
    lowest = sample.min(axis=0)
    below = good & (lowest < 0)
    if rule == "bad" or not below.any():
        return Negative(below, 0, 0.0)
    bad = np.zeros_like(good) if rule == "noise" else below & repeated(sample, lowest)
    values = sample[:, below & ~bad]
    values = values[values < 0]
    if rule == "auto" and len(values):
        few = len(np.unique(values)) <= MARKS and np.array_equal(values, np.rint(values))
        bad |= below & (few and 2 * np.sum(below & ~bad) < np.sum(good))
        bad |= below & (lowest < -FAR * _scatter(values))
    noisy = below & ~bad
    left = sample[:, noisy]
    sigma = float(np.sqrt(np.mean(np.square(left[left < 0])))) if noisy.any() else 0.0
    return Negative(bad, int(noisy.sum()), sigma)


def repeated(sample: np.ndarray, number: np.ndarray) -> np.ndarray:
    """``(H, W)``: half the frames or more hold this ``number (H, W)`` of their pixel."""
    return np.sum(sample == number, axis=0) >= max(len(sample) / 2, min(len(sample), SURE))


def _scatter(negative: np.ndarray) -> float:
    """The standard deviation of noise about zero, from its negative numbers ``(n,)``, some of them wrong."""
    return float(1.4826 * np.median(-negative))


def outlying_pixels(mean: np.ndarray, good: np.ndarray, wrap: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Pixels of a mean intensity ``(H, W)`` far above their good neighbours, and dark ones among bright.

    Args:
        wrap: the zero frequency is at sample 0, and opposite edges are neighbours.
    """
    around = median_filter(
        fill_bad_pixels(mean, good), size=2 * BLOCK + 1, mode="wrap" if wrap else "nearest"
    )
    bright = good & (mean > around + HOT_SIGMAS * np.sqrt(around + 1)) & (mean > HOT_TIMES * (around + 1))
    return bright, good & (mean == 0) & (around > LIT)


def dark_gaps(intensity: np.ndarray, good: np.ndarray, wrap: bool = False) -> np.ndarray:
    """Gaps ``(H, W)`` between the modules of a detector that holds zeros there, in frames ``(K, H, W)``.

    Args:
        wrap: the zero frequency is at sample 0; it is brought to the middle first, so that what lies between
            rows is between them on the detector.
    """
    lit, total = intensity[intensity > 0], np.where(good, intensity, 0).sum(axis=0, dtype=float)
    quanta = total / (lit.min() if lit.size else 1.0)  # at least so many photons
    quanta, usable = (np.fft.fftshift(each) if wrap else each for each in (quanta, good))
    gaps = _rectangles(quanta, usable & (quanta == 0), LIT * len(intensity))
    for axis in (0, 1):
        lines = quanta.sum(axis=1 - axis)
        for start, stop in _runs(lines == 0):
            beside = lines[[start - 1, stop]] if start > 0 and stop < len(lines) else np.zeros(2)
            if beside.min() > max(GAP_QUANTA, GAP_LIGHT * lines.max()):
                gaps[(slice(start, stop), slice(None))[:: 1 - 2 * axis]] = True
    return (np.fft.ifftshift(gaps) if wrap else gaps) & good


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """First and past-the-last index of each run of True in ``flags (n,)``."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _rectangles(light: np.ndarray, dark: np.ndarray, bright: float) -> np.ndarray:
    """Those parts of ``dark (H, W)`` that fill a rectangle whose surround has ``bright`` light everywhere."""
    labels, _ = label(dark)
    found = np.zeros_like(dark)
    for number, (rows, cols) in enumerate(find_objects(labels), 1):
        inside = rows.start > 0 and rows.stop < len(dark) and cols.start > 0 and cols.stop < dark.shape[1]
        if inside and np.all(labels[rows, cols] == number):
            around = light[rows.start - 1 : rows.stop + 1, cols.start - 1 : cols.stop + 1].copy()
            around[1:-1, 1:-1] = np.inf
            found[rows, cols] = around.min() > bright
    return found


def hot_pixels(
    frames: np.ndarray, good: np.ndarray, bright: np.ndarray, centre: tuple[int, int], wrap: bool = False
) -> np.ndarray:
    """Those of the ``bright`` pixels ``(H, W)`` that shine by themselves.

    Args:
        frames: intensities ``(K, H, W)``.
        centre: the zero frequency, (row, col); sample 0 with ``wrap``.
    """
    hot = bright & ~binary_dilation(_opposite(bright, centre, wrap), AROUND)
    light = frames.mean(axis=0, dtype=float)
    share = light / max(light[good].sum(), np.finfo(float).tiny)
    for row, col in np.argwhere(hot):
        beam = share[row, col] > BEAM_SHARE and _distance((row, col), centre, good.shape, wrap) <= BEAM_PIXELS
        hot[row, col] = not beam and _is_steady(_excess(frames, good, row, col, wrap))
    return hot


def _distance(pixel: tuple[int, int], centre: tuple[int, int], shape: tuple[int, ...], wrap: bool) -> int:
    """Rows or columns between two pixels, whichever are more; over the edges with ``wrap``."""
    apart = np.abs(np.subtract(pixel, centre))
    return int((np.minimum(apart, shape - apart) if wrap else apart).max())


def _is_steady(excess: np.ndarray) -> bool:
    """Whether what a pixel has beyond its neighbours, ``(K,)``, is about the same in all frames."""
    low, middle, high = np.percentile(excess, (16, 50, 84))
    return bool((high - low) / 2 <= STEADY * middle)


def _excess(frames: np.ndarray, good: np.ndarray, row: int, col: int, wrap: bool) -> np.ndarray:
    """Intensity of a pixel in each frame above the median of its good neighbours, ``(K,)``."""
    steps = np.arange(-BLOCK, BLOCK + 1)
    rows, cols = row + steps, col + steps
    if wrap:
        rows, cols = rows % good.shape[0], cols % good.shape[1]
    rows, cols = rows[(rows >= 0) & (rows < good.shape[0])], cols[(cols >= 0) & (cols < good.shape[1])]
    near = np.ix_(rows, cols)
    usable = good[near] & ~((rows == row)[:, None] & (cols == col))
    others = frames[:, rows[:, None], cols][:, usable]
    return frames[:, row, col] - (np.median(others, axis=1) if usable.any() else 0)


def _opposite(flags: np.ndarray, centre: tuple[int, int], wrap: bool) -> np.ndarray:
    """``flags (H, W)`` turned by half a turn about a pixel; False where that lies outside."""
    turned = np.zeros_like(flags)
    places = 2 * np.array(centre) - np.argwhere(flags)
    if wrap:
        places %= flags.shape
    inside = np.all((places >= 0) & (places < flags.shape), axis=1)
    turned[tuple(places[inside].T)] = True
    return turned
