"""The zero frequency of a scan, and the window around it that becomes a pattern.

The zero frequency is found in the mean pattern by the beam's outline, and by its symmetry:

======= =================================================================================================
``m``   mean intensity ``(H, W)``, smoothed over the good pixels alone, without its background
``p``   intensity of the beam: half of the total intensity lies in pixels brighter than p
``t``   of ``levels·p`` the one about which the outlined area changes least: the beam's edge
``a``   outline: the middle of the largest area with m > t, its holes and bad pixels filled
``b``   symmetry: the point at which m is most like itself turned by half a turn,
        ``b = argmax Σ m(x) m(2b − x) / Σ m(x)²``, sums over x where x and 2b − x are both good
======= =================================================================================================

Wide scattering, and a background that is not centred, lie below t. Bad pixels are left out of the smoothing
and of the sums. Where bad pixels cover much of the beam, many pairs are lost, and the outline alone decides.
Where the two do not agree, there is a warning, and a sharp outline decides (a beam out of focus is uneven
inside it), or else the symmetry.

The window has the zero frequency in its middle, holds all of the detector, and unmeasured pixels beside it:

    N·b ≥ 2·max(c, n − c)    for rows and columns: n pixels, the zero frequency at c, b × b summed to one

So nothing that was measured is left out where the zero frequency is off the middle, and where the detector is
not square or has an odd side. What the window holds beyond the detector has no weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.ndimage import binary_fill_holes, gaussian_filter, label

from ptycho.config import ConfigError
from ptycho.config.data import LARGEST_N, SMALLEST_N, DataConfig
from ptycho.preparation.detector import oriented
from ptycho.preparation.near_field import NearField
from ptycho.readers.raw_scan import RawScan
from ptycho.scan.finding import Finding


@dataclass(frozen=True)
class CentreOptions:
    """Options of the beam's outline, and of when its symmetry is used."""

    smoothings: tuple[float, ...] = (1.0, 2.0, 4.0)  # pixels; the next where the beam falls apart
    levels: tuple[float, ...] = (0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.14, 0.1)  # of the beam's intensity p
    background: float = 20.0  # percentile of the smoothed intensities
    whole: float = 0.5  # share of the outlined intensity in the largest area, if the beam is in one piece
    sharp: float = 0.3  # −d log(area) / d log(t) of a sharp outline, at most
    reach: float = 0.5  # of the outline's radius: how far from its middle the symmetry is searched
    nearest: float = 4.0  # pixels, searched at least
    covered: float = 0.25  # share of bad pixels in the outline, above which the symmetry is not used
    paired: float = 0.5  # share of the intensity opposite good pixels that a candidate needs
    agree: float = 1.5  # pixels between outline and symmetry that need no warning


class Centre(NamedTuple):
    """The zero frequency in whole pixels, how it was found, and what is doubtful about it, if anything."""

    row: int
    col: int
    why: str
    warning: str | None


def find_centre(mean: np.ndarray, good: np.ndarray, options: CentreOptions = CentreOptions()) -> Centre:
    """Return the zero frequency of a mean intensity ``(H, W)``, from its pixels that are ``good (H, W)``.

    ConfigError: the mean pattern is dark.
    """
    if not mean[good].any():
        raise ConfigError("patterns: the mean pattern is dark; no zero frequency can be found in it")
    intensity = _above_background(mean, good, options)
    beam, change = _outlined(intensity, good, np.array(options.levels))
    outline = np.argwhere(beam).mean(axis=0)
    covered = 1 - good[beam].mean()
    if covered > options.covered:
        why = f"outline of the mean pattern's beam, {100 * covered:.0f} % of which is bad pixels"
        return _rounded(outline, why, None)
    radius = np.sqrt(beam.sum() / np.pi)
    reach = max(options.nearest, options.reach * radius)
    symmetry = _symmetry(np.where(good, intensity, 0), good, outline, radius, reach, options.paired)
    apart = np.abs(outline - symmetry).max()
    if apart <= options.agree:
        why = f"outline and symmetry of the mean pattern's beam, which agree to {apart:.1f} px"
        return _rounded((outline + symmetry) / 2, why, None)
    warning = (
        f"zero frequency: the symmetry of the beam gives row {symmetry[0]:.1f}, column {symmetry[1]:.1f}, "
        f"its outline {outline[0]:.1f}, {outline[1]:.1f}; set data.zero_frequency='row,col'"
    )
    if change < options.sharp:
        return _rounded(outline, "the sharp outline of the mean pattern's beam", warning)
    return _rounded(symmetry, "symmetry of the mean pattern", warning)


def _rounded(place: np.ndarray, why: str, warning: str | None) -> Centre:
    return Centre(round(float(place[0])), round(float(place[1])), why, warning)


def _above_background(mean: np.ndarray, good: np.ndarray, options: CentreOptions) -> np.ndarray:
    """Return m, ``(H, W)`` from zero up, smoothed until the beam does not fall apart."""
    for width in options.smoothings:
        weight = gaussian_filter(good.astype(float), width, mode="constant")
        total = gaussian_filter(np.where(good, mean, 0.0), width, mode="constant")
        smooth = np.where(weight > 1e-3, total / np.maximum(weight, 1e-3), 0)
        intensity = np.maximum(smooth - np.percentile(smooth[good], options.background), 0)
        _, held = _areas(intensity, good, _beam_intensity(intensity[good]) / 2)
        if held.max(initial=0) >= options.whole * held.sum():
            break
    return intensity


def _outlined(intensity: np.ndarray, good: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the area of the beam, ``(H, W)`` bool, and −d log(area) / d log(t)."""
    outlines = []
    for level in levels * _beam_intensity(intensity[good]):
        areas, held = _areas(intensity, good, level)
        largest = areas == 1 + held.argmax() if len(held) else np.ones_like(good)  # uniform intensity
        outlines.append(binary_fill_holes(largest))
    logs = np.log([outline.sum() for outline in outlines])
    changes = (logs[2:] - logs[:-2]) / np.log(levels[:-2] / levels[2:])
    least = int(np.argmin(changes))
    return outlines[1 + least], float(changes[least])


def _beam_intensity(intensities: np.ndarray) -> float:
    """Return p of intensities ``(n,)``."""
    ordered = np.sort(intensities)[::-1]
    return float(ordered[np.searchsorted(np.cumsum(ordered), ordered.sum() / 2)])


def _areas(intensity: np.ndarray, good: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Label connected areas above a level from 1 in ``(H, W)``; sum the intensity of each on good pixels."""
    areas, _ = label(intensity > level, np.ones((3, 3)))
    return areas, np.bincount(areas.ravel(), np.where(good, intensity, 0).ravel())[1:]


def _symmetry(
    intensity: np.ndarray, good: np.ndarray, around: np.ndarray, radius: float, reach: float, paired: float
) -> np.ndarray:
    """Return b, (row, col) to half a pixel, within ``reach``; ``intensity``: zero where it is not good."""
    half = int(np.ceil(2 * radius + reach)) + 16
    start = np.maximum(np.rint(around).astype(int) - half, 0)
    window = tuple(slice(s, s + 2 * half + 1) for s in start)
    intensity, good = intensity[window], good[window]
    shape = [fft.next_fast_len(2 * n - 1, real=True) for n in intensity.shape]
    waves = [fft.rfft2(image, shape) for image in (intensity, np.square(intensity), good.astype(float))]
    products = fft.irfft2(waves[0] * waves[0], shape)  # at x + y, the sum over pairs
    squares = fft.irfft2(waves[1] * waves[2], shape)
    rows, cols = np.ogrid[: shape[0], : shape[1]]
    near = np.hypot(rows / 2 + start[0] - around[0], cols / 2 + start[1] - around[1]) <= reach
    candidates = near & (squares > paired * np.square(intensity).sum())
    if not candidates.any():
        return around
    likeness = np.where(candidates, products / np.maximum(squares, np.finfo(float).tiny), -1)
    return np.array(np.unravel_index(likeness.argmax(), likeness.shape)) / 2 + start


AT_EDGE = "intensity at the detector edge"  # a finding


@dataclass(frozen=True)
class WindowOptions:
    """Limits of the size of a window, and of what is reported of it."""

    padded: float = 1.5  # times the detector's longer side: no window is larger
    falling: float = 2.0  # intensity an eighth of the way in over that at the edge
    faint: float = 0.1  # photons in a pixel at the edge
    finer: float = 1.4  # times N: half the area of an object pixel


class Window(NamedTuple):
    """N, in words how it came about, and what is left out against the rule, if anything."""

    N: int
    why: str
    warning: str | None


def zero_frequency(
    raw: RawScan, config: DataConfig, mean: np.ndarray, good: np.ndarray, findings: list[Finding]
) -> tuple[int, int]:
    """Return (row, col) of the zero frequency of ``mean (H, W)``, as stored or its corner in the middle."""
    if config.near_field:
        middle = mean.shape[0] // 2, mean.shape[1] // 2
        why = "the detector's; a near field has no zero frequency"
        why += ", and data.zero_frequency no meaning" if config.zero_frequency else ""
        findings.append(Finding("middle", f"row {middle[0]}, column {middle[1]}", why))
        return middle
    zero, centre = raw.zero_frequency, raw.stated_centre()
    if centre is None:
        measured = find_centre(mean, good)
        centre, why = _centre_of_probe(raw, (measured.row, measured.col), measured.why)
        findings += [] if measured.warning is None else [Finding.warning(measured.warning)]
    elif isinstance(zero, tuple):
        why = "stated"
    else:
        why = "data.zero_frequency" if config.zero_frequency else f"by the format {raw.format}"
        why += ": in the corner, shifted to the centre" if zero == "corner" else ""
    if not all(0 <= c < n for c, n in zip(centre, mean.shape, strict=True)):
        raise ConfigError(
            f"data.zero_frequency={centre}: must lie on the detector of {mean.shape}, (row, column) as stored"
        )
    if config.transpose or config.flip_rows or config.flip_cols:
        why += "; in the frame as stored, before reorientation"
    findings.append(Finding("zero frequency", f"row {centre[0]}, column {centre[1]}", why))
    return centre


def _centre_of_probe(raw: RawScan, measured: tuple[int, int], why: str) -> tuple[tuple[int, int], str]:
    """The middle, where the file's probe is as large as a frame and the beam is seen a pixel off at most."""
    shape = raw.patterns.shape[1:]
    middle = shape[0] // 2, shape[1] // 2
    alike = raw.probe is not None and raw.probe.shape[1:] == shape
    if alike and measured != middle and np.abs(np.subtract(measured, middle)).max() <= 1:
        seen = f"{why}: row {measured[0]}, column {measured[1]}"
        return middle, f"the centre of the window, as in the probe of the file; {seen}"
    return measured, why


def pattern_side(
    raw: RawScan,
    config: DataConfig,
    centre: tuple[int, int],
    mean: np.ndarray,
    near: NearField | None,
    findings: list[Finding],
) -> int:
    """Return N: as specified, or that of the window which contains the whole of ``mean (H, W)``, as stored.

    N does not depend on the orientation: in a flipped frame of even size the first row or column is one pixel
    too late, and the pattern's first one is bad.
    """
    if config.N is not None:
        doubt = None if near is None else aliasing(near, config.N)
        window = Window(config.N, f"data.N, {config.bin} × {config.bin} pixels each", doubt)
    elif near is None:
        upright = oriented(mean, raw.zero_frequency == "corner", False, False, False)
        window = whole_detector(upright, centre, config.bin)
    else:
        window = near_field_window(near, mean.shape, config.bin)
    findings.append(Finding("N", str(window.N), window.why))
    findings += [] if window.warning is None else [Finding.warning(window.warning)]
    return window.N


def whole_detector(
    mean: np.ndarray, centre: tuple[int, int], b: int, options: WindowOptions = WindowOptions()
) -> Window:
    """Return the window of a detector with its zero frequency at ``centre``; ``mean (H, W)`` intensity.

    A square detector of even side with the zero frequency in its middle is taken as it is; else N is the
    next even number with a fast Fourier transform.
    """
    shape = mean.shape
    reach = 2 * max(max(c, n - c) for c, n in zip(centre, shape, strict=True))
    fits = set(shape) == {reach} and reach % (2 * b) == 0 and reach // b >= SMALLEST_N
    needed = reach // b if fits else max(fast_side(-(-reach // b)), SMALLEST_N)
    most = min(2 * int(options.padded * max(shape) / b / 2), LARGEST_N)
    N = max(min(needed, most), SMALLEST_N)
    beyond = (N * b) ** 2 - _inside(np.ones(shape), centre, N * b)
    why = f"the whole detector of {shape[0]} × {shape[1]} around the zero frequency"
    why += f", {100 * beyond / (N * b) ** 2:.2g} % of it unmeasured pixels beside that" if beyond else ""
    if needed <= N:
        return Window(N, f"{why}; set data.N to change it", None)
    held = _inside(mean, centre, N * b) / max(float(mean.sum()), np.finfo(float).tiny)
    limit = f"{LARGEST_N}" if N == LARGEST_N else f"{options.padded} times the detector's longer side"
    remedy = f"data.N={needed} holds all" if needed <= LARGEST_N else "data.bin=2 would hold more"
    warning = (
        f"N: the whole detector around the zero frequency at {centre} takes {needed} pixels; {N} are used "
        f"({limit} at most), without {100 * (1 - held):.2g} % of the intensity; {remedy}"
    )
    return Window(N, why.replace("the whole", "most of the"), warning)


def near_field_window(
    near: NearField, detector: tuple[int, ...], b: int, options: WindowOptions = WindowOptions()
) -> Window:
    """Return the window of the whole detector ``(H, W)``, its middle in the middle, with a margin."""
    whole = max(2 * (-(-(n - n // 2) // b)) for n in detector)
    most = min(2 * int(options.padded * max(detector) / b / 2), LARGEST_N)
    N = max(min(fast_side(whole + 2 * near.margin), max(most, fast_side(whole))), SMALLEST_N)
    beside = (N - whole) // 2
    why = (
        f"the whole detector of {detector[0]} × {detector[1]} and {beside} unmeasured pixels beside it, "
        "which scatter into it; set data.N to change it"
    )
    return Window(N, why, aliasing(near, N))


def aliasing(near: NearField, N: int) -> str | None:
    """Return a warning where the transfer function turns by more than π from sample to sample."""
    if not near.fresnel.aliases(N):
        return None
    wider = 2 * math.ceil(max(near.fresnel.numbers) / 2)
    remedy = f"data.N={wider}, or " if wider <= LARGEST_N else ""
    return (
        f"near field: λz/dx² = {max(near.fresnel.numbers):.4g} is more than the window's {N} pixels, so "
        "that the transfer function of free space is not sampled and fine structure is wrong; "
        f"{remedy}data.bin=2 helps, and so far away data.physics=far_field may be right"
    )


def finer_pixels(
    photons: np.ndarray, good: np.ndarray, N: int, options: WindowOptions = WindowOptions()
) -> Finding | None:
    """Return a finding where the intensity falls off towards the detector's edge and is above zero there.

    Then scattering goes on beyond, and the object is finer than pixels of ``λz/(N·p)``. The fit takes the
    rest for position errors. A window with unmeasured pixels around the detector has finer pixels.
    ``photons``: mean pattern ``(H, W)``; ``good (H, W)`` are the pixels that count.
    """
    finer = finer_side(N, options)
    edge, further_in = (_ring(photons, good, depth) for depth in (0, min(photons.shape) // 8))
    if finer > LARGEST_N or not (edge > options.faint and further_in > options.falling * edge):
        return None
    return Finding(
        AT_EDGE,
        f"{edge:.2g} photons in a pixel",
        "scattering continues beyond the edge: object details may be finer than its pixels, and positions "
        f"less accurate; data.N={finer} has finer pixels, and takes about twice as long",
    )


def finer_side(N: int, options: WindowOptions = WindowOptions()) -> int:
    """Return the side of the window whose object pixels are tried if those of N × N may be too coarse."""
    return fast_side(round(options.finer * N))


def _ring(image: np.ndarray, good: np.ndarray, depth: int) -> float:
    """Return the mean over the good pixels that lie so deep in an image ``(H, W)``."""
    rows, cols = (np.minimum(np.arange(n), np.arange(n)[::-1]) for n in image.shape)
    there = good & (np.minimum(rows[:, None], cols) == depth)
    return float(image[there].mean()) if there.any() else 0.0


def fast_side(side: int) -> int:
    """Return the smallest even number from ``side`` up that has small prime factors alone."""
    return 2 * int(fft.next_fast_len(-(-side // 2)))


def _inside(image: np.ndarray, centre: tuple[int, int], side: int) -> float:
    """Return the sum of an image ``(H, W)`` over the window of ``side`` around ``centre``."""
    rows, cols = (slice(max(0, c - side // 2), max(0, c + side // 2)) for c in centre)
    return float(image[rows, cols].sum())
