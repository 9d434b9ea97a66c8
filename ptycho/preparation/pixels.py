"""Which pixels of a detector are good, and which only look odd.

============ =============================================================================================
below zero   A number that most frames repeat is a mark of a bad pixel (−1 in a detector's gaps), as are a
             few whole numbers in few pixels; one far below the scatter of all that is negative is an error.
             What scatters about zero is the noise of reading: the pixel stays
hot          far above its neighbours in the mean, *and* by about as much in every frame, *and* nothing of
             the kind opposite: what the sample scatters changes over the scan, and the spots of a lattice
             come in pairs. A beam at the zero frequency is its own opposite
dead         always zero where its neighbours are bright; of wider gaps, whole rows or columns between bright
             ones, and what has bright pixels all around: rectangles; other shapes, as a beam stop, if
             other pixels as near to bright ones have counts (else it may be a hole of the pupil)
============ =============================================================================================

``sample (K, H, W)`` are frames spread over the scan, as stored. Defects are found with the zero frequency
in the middle, so that neighbours are those on the detector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.ndimage import binary_dilation, distance_transform_edt, find_objects, label, median_filter

from ptycho.scan.optics import fill_bad_pixels

AROUND = np.ones((3, 3), bool)  # the opposite of a pixel: to a pixel, as the zero frequency is known


@dataclass(frozen=True)
class DefectOptions:
    """Limits of hot and dead pixels; m is the median of a pixel's neighbours."""

    reach: int = 2  # pixels on each side that are the neighbours
    hot_sigmas: float = 12.0  # above m, in units of √(m + 1)
    hot_times: float = 5.0  # times m + 1
    steady: float = 0.5  # half the spread over the frames of what a hot pixel adds, over its median
    dead_photons: float = 20.0  # on average among the neighbours of a dead pixel
    gap_photons: float = 100.0  # in all frames, of the lines beside a gap
    gap_share: float = 0.01  # of the brightest line, likewise
    usual: float = 0.95  # share of the pixels as near to bright ones as a beam stop, which have counts
    beam_pixels: int = 2  # from the zero frequency: no defect, but the beam,
    beam_share: float = 0.01  # with this share of the intensity


class Negative(NamedTuple):
    """Meaning of numbers below zero."""

    bad: np.ndarray  # ``(H, W)`` bool, pixels that are marked, or wrong
    noisy: int  # pixels whose numbers below zero are noise
    sigma: float  # standard deviation of the noise, in the patterns' own numbers; 0: there is none
    lowest: float  # numbers below it are errors, in any frame


def classify_negative(
    sample: np.ndarray, good: np.ndarray, rule: str = "auto", marks: int = 2, far: float = 10.0
) -> Negative:
    """Return what the numbers below zero of ``sample (K, H, W)`` are, on the pixels ``good (H, W)``.

    ``rule``: ``auto``, see above; ``noise``: all of them are; ``bad``: pixels that have some are bad. At most
    ``marks`` different numbers mark pixels; a number ``far`` scatters below zero is an error, not noise.
    """
    lowest = sample.min(axis=0)
    below = good & (lowest < 0)
    if rule == "bad" or not below.any():
        return Negative(below, 0, 0.0, -np.inf if rule == "noise" else 0.0)
    bad = np.zeros_like(good) if rule == "noise" else below & repeated(sample, lowest)
    values = sample[:, below & ~bad]
    values = values[values < 0]
    if rule == "auto" and len(values):
        few = len(np.unique(values)) <= marks and np.array_equal(values, np.rint(values))
        bad |= below & (few and 2 * np.sum(below & ~bad) < np.sum(good))
        scatter = float(1.4826 * np.median(-values))  # of noise about zero; some values are wrong
        bad |= below & (lowest < -far * scatter)
    noisy = below & ~bad
    left = sample[:, noisy]
    sigma = float(np.sqrt(np.mean(np.square(left[left < 0])))) if noisy.any() else 0.0
    return Negative(bad, int(noisy.sum()), sigma, -far * sigma if rule == "auto" else -np.inf)


def repeated(sample: np.ndarray, number: np.ndarray, fewest: int = 6) -> np.ndarray:
    """Return where ``(H, W)`` half the frames, and the ``fewest``, hold this ``number (H, W)``."""
    return np.sum(sample == number, axis=0) >= max(len(sample) / 2, min(len(sample), fewest))


def saturates(intensity: np.ndarray, good: np.ndarray, fewest: int = 20, least: float = 32.0) -> bool:
    """Return whether the largest intensity of frames ``(K, H, W)`` is held too often to be measured.

    Few numbers come near the largest one, unless they are cut there: more of the pixels ``good (H, W)`` hold
    it than have at most three standard deviations of its photon noise less. A photon is taken for the
    smallest positive number. Equal frames count once; a single pixel may be stuck, and frames that all hold
    the number once were scaled to it. ``fewest``: times that it must be held; ``least``: photons that it
    must stand for.
    """
    frames = intensity[:, good]
    frames = frames[np.unique(frames.sum(axis=1), return_index=True)[1]]
    largest, photon = frames.max(initial=0), frames.min(where=frames > 0, initial=np.inf)
    if largest < least * photon:
        return False
    at_top = frames == largest
    held, of_frames = np.count_nonzero(at_top), np.count_nonzero(at_top, axis=1)
    near = np.count_nonzero(frames >= largest - 3 * np.sqrt(largest * photon)) - held
    scaled = of_frames.all() and np.median(of_frames) == 1
    several = np.count_nonzero(at_top.any(axis=0)) > 1
    return bool(held >= fewest and held > near and several and not scaled)


def outlying_pixels(
    mean: np.ndarray, good: np.ndarray, options: DefectOptions = DefectOptions()
) -> tuple[np.ndarray, np.ndarray]:
    """Return bright and dark outliers ``(H, W)`` of a mean intensity ``(H, W)``, against good neighbours."""
    around = median_filter(fill_bad_pixels(mean, good), size=2 * options.reach + 1, mode="nearest")
    scatter = around + options.hot_sigmas * np.sqrt(around + 1)
    bright = mean > np.maximum(scatter, options.hot_times * (around + 1))
    return good & bright, good & (mean == 0) & (around > options.dead_photons)


def dark_gaps(
    intensity: np.ndarray, good: np.ndarray, options: DefectOptions = DefectOptions()
) -> np.ndarray:
    """Return gaps ``(H, W)`` between detector modules, which are zero in all frames ``(K, H, W)``."""
    positive, total = intensity[intensity > 0], np.where(good, intensity, 0).sum(axis=0, dtype=float)
    quanta = total / (positive.min() if positive.size else 1.0)  # at least so many photons
    gaps = _enclosed(quanta, good & (quanta == 0), options.dead_photons * len(intensity), options.usual)
    for axis in (0, 1):
        lines = quanta.sum(axis=1 - axis)
        for (run,) in find_objects(label(lines == 0)[0]):
            inside = run.start > 0 and run.stop < len(lines)
            beside = min(lines[run.start - 1], lines[run.stop]) if inside else 0.0
            if beside > max(options.gap_photons, options.gap_share * lines.max()):
                gaps[(run, slice(None))[:: 1 - 2 * axis]] = True
    return gaps & good


def _enclosed(intensity: np.ndarray, dark: np.ndarray, bright: float, usual: float) -> np.ndarray:
    """Return the parts of ``dark (H, W)`` that are gaps: every pixel around them is above ``bright``.

    A gap is a rectangle. Another shape is one if more than a share ``usual`` of the other pixels that are as
    near to bright ones have counts.
    """
    labels, _ = label(dark)
    gaps, distance = np.zeros_like(dark), distance_transform_edt(intensity <= bright)
    for number, (rows, cols) in enumerate(find_objects(labels), 1):
        if rows.start == 0 or rows.stop == len(dark) or cols.start == 0 or cols.stop == dark.shape[1]:
            continue
        box = np.s_[rows.start - 1 : rows.stop + 1, cols.start - 1 : cols.stop + 1]
        part = labels[box] == number
        if intensity[box][binary_dilation(part, AROUND) & ~part].min() > bright:
            near = (labels != number) & (distance > 0) & (distance <= distance[box][part].max())
            stop = near.any() and np.mean(intensity[near] > 0) > usual
            gaps[box] |= part & (stop or part[1:-1, 1:-1].all())
    return gaps


def hot_pixels(
    frames: np.ndarray,
    good: np.ndarray,
    bright: np.ndarray,
    centre: tuple[int, int],
    options: DefectOptions = DefectOptions(),
) -> np.ndarray:
    """Return which ``bright (H, W)`` pixels of frames ``(K, H, W)`` are hot; ``centre``: (row, col)."""
    hot = bright & ~binary_dilation(_opposite(bright, centre), AROUND)
    mean = frames.mean(axis=0, dtype=float)
    share = mean / max(mean[good].sum(), np.finfo(float).tiny)
    for row, col in np.argwhere(hot):
        near = np.abs(np.subtract((row, col), centre)).max() <= options.beam_pixels
        low, middle, high = np.percentile(_excess(frames, good, row, col, options.reach), (16, 50, 84))
        steady = (high - low) / 2 <= options.steady * middle
        hot[row, col] = steady and not (near and share[row, col] > options.beam_share)
    return hot


def _excess(frames: np.ndarray, good: np.ndarray, row: int, col: int, reach: int) -> np.ndarray:
    """Return the intensity ``(K,)`` of a pixel in each frame above the median of its good neighbours."""
    near = np.s_[max(row - reach, 0) : row + reach + 1, max(col - reach, 0) : col + reach + 1]
    usable = good[near].copy()
    usable[row - near[0].start, col - near[1].start] = False
    others = frames[:, *near][:, usable]
    return frames[:, row, col] - (np.median(others, axis=1) if others.size else 0)


def _opposite(flags: np.ndarray, centre: tuple[int, int]) -> np.ndarray:
    """Return ``flags (H, W)`` turned by half a turn about a pixel; False where that lies outside."""
    turned = np.zeros_like(flags)
    places = 2 * np.array(centre) - np.argwhere(flags)
    inside = np.all((places >= 0) & (places < flags.shape), axis=1)
    turned[tuple(places[inside].T)] = True
    return turned
