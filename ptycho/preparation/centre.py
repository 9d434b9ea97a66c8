"""Find the zero frequency of a scan in its mean pattern: by the beam's outline, and by its symmetry.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.ndimage import binary_fill_holes, gaussian_filter, label

from ptycho.config import ConfigError


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

    Raises:
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
    """Return b, (row, col) to half a pixel, within ``reach`` of ``around``.

    Args:
        intensity: ``(H, W)``, zero where not ``good (H, W)``, of a beam of some ``radius``.
        paired: share of the intensity opposite good pixels that a candidate needs.
    """
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
