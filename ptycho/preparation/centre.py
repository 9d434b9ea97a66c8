"""Where the zero frequency of a scan lies, from its mean pattern: by the beam's outline, and by its symmetry.

======= =================================================================================================
``m``   mean intensity ``(H, W)``, smoothed over the good pixels alone, without its background
``p``   intensity of the beam: of the pixel at which half of the light lies in brighter ones
``t``   of ``LEVELS·p`` the one about which the outlined area changes least: where the beam's edge is
``a``   outline: the middle of the largest area with m > t, its holes and bad pixels filled
``b``   symmetry: the point at which m is most like itself turned by half a turn,
        ``b = argmax Σ m(x) m(2b − x) / Σ m(x)²``, sums over x where x and 2b − x are both good
======= =================================================================================================

Light that scatters far, and a background that is not centred, lie below t. A bad pixel has no say, neither in
the smoothing nor in the sums. Where bad pixels cover much of the beam, many pairs are lost, and the outline
alone decides. Where the two do not agree, there is a warning, and a sharp outline decides (a beam out of
focus is uneven inside it), or else the symmetry.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.ndimage import binary_fill_holes, gaussian_filter, label

from ptycho.config import ConfigError

SMOOTHINGS = (1.0, 2.0, 4.0)  # pixels; the next where the beam falls apart
LEVELS = (0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.14, 0.1)  # of the beam's intensity
SHARP = 0.3  # −d log(area) / d log(t): an outline with less is sharp
WHOLE = 0.5  # of the light in the outlined areas: in the largest, if the beam does not fall apart
DARKER = 20.0  # percentile of the smoothed intensities: the background
REACH = 0.5  # of the outline's radius: how far from its middle the symmetry is looked for
NEAREST = 4.0  # pixels: so far at least
COVERED = 0.25  # of the outlined area: where more is bad, the symmetry has no say
PAIRED = 0.5  # of the light: where less has a good pixel opposite, a point is no candidate
AGREE = 1.5  # pixels


class Centre(NamedTuple):
    """The zero frequency in whole pixels, how it was found, and what is doubtful about it, if anything."""

    row: int
    col: int
    why: str
    warning: str | None


def find_centre(mean: np.ndarray, good: np.ndarray) -> Centre:
    """The zero frequency of a mean intensity ``(H, W)``, from its pixels that are ``good (H, W)``.

    Raises:
        ConfigError: there is no light.
    """
    if not mean[good].any():
        raise ConfigError("patterns: the mean pattern is dark; no zero frequency can be found in it")
    light = _light(mean, good)
    beam, change = _outlined(light, good)
    outline = np.argwhere(beam).mean(axis=0)
    covered = 1 - good[beam].mean()
    if covered > COVERED:
        why = f"outline of the mean pattern's beam, {100 * covered:.0f} % of which is bad pixels"
        return _rounded(outline, why, None)
    symmetry = _symmetry(np.where(good, light, 0), good, outline, np.sqrt(beam.sum() / np.pi))
    apart = np.abs(outline - symmetry).max()
    if apart <= AGREE:
        why = f"outline and symmetry of the mean pattern's beam, which agree to {apart:.1f} px"
        return _rounded((outline + symmetry) / 2, why, None)
    warning = (
        f"zero frequency: the symmetry of the beam gives row {symmetry[0]:.1f}, column {symmetry[1]:.1f}, "
        f"its outline {outline[0]:.1f}, {outline[1]:.1f}; set data.zero_frequency='row,col'"
    )
    if change < SHARP:
        return _rounded(outline, "the sharp outline of the mean pattern's beam", warning)
    return _rounded(symmetry, "symmetry of the mean pattern", warning)


def _rounded(place: np.ndarray, why: str, warning: str | None) -> Centre:
    return Centre(round(float(place[0])), round(float(place[1])), why, warning)


def _light(mean: np.ndarray, good: np.ndarray) -> np.ndarray:
    """m, ``(H, W)`` from zero up, so smooth that the beam does not fall apart."""
    for width in SMOOTHINGS:
        smooth = _smooth(mean, good, width)
        light = np.maximum(smooth - np.percentile(smooth[good], DARKER), 0)
        _, held = _areas(light, good, _intensity(light[good]) / 2)
        if held.max(initial=0) >= WHOLE * held.sum():
            break
    return light


def _outlined(light: np.ndarray, good: np.ndarray) -> tuple[np.ndarray, float]:
    """The area of the beam, ``(H, W)`` bool, and −d log(area) / d log(t)."""
    outlines = []
    for level in np.array(LEVELS) * _intensity(light[good]):
        areas, held = _areas(light, good, level)
        largest = areas == 1 + held.argmax() if len(held) else np.ones_like(good)  # the same light everywhere
        outlines.append(binary_fill_holes(largest))
    logs = np.log([outline.sum() for outline in outlines])
    changes = (logs[2:] - logs[:-2]) / np.log(np.divide(LEVELS[:-2], LEVELS[2:]))
    least = int(np.argmin(changes))
    return outlines[1 + least], float(changes[least])


def _intensity(lit: np.ndarray) -> float:
    """p, of intensities ``(n,)``."""
    ordered = np.sort(lit)[::-1]
    return float(ordered[np.searchsorted(np.cumsum(ordered), ordered.sum() / 2)])


def _areas(light: np.ndarray, good: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Connected areas above a level, numbered from 1 in ``(H, W)``, and the light on good pixels in each."""
    areas, _ = label(light > level, np.ones((3, 3)))
    return areas, np.bincount(areas.ravel(), np.where(good, light, 0).ravel())[1:]


def _smooth(mean: np.ndarray, good: np.ndarray, width: float) -> np.ndarray:
    """A Gaussian mean over good pixels; zero where there are none near."""
    weight = gaussian_filter(good.astype(float), width, mode="constant")
    total = gaussian_filter(np.where(good, mean, 0.0), width, mode="constant")
    return np.where(weight > 1e-3, total / np.maximum(weight, 1e-3), 0)


def _symmetry(light: np.ndarray, good: np.ndarray, around: np.ndarray, radius: float) -> np.ndarray:
    """b, (row, col) to half a pixel, near ``around``; of light ``(H, W)`` that is zero where not ``good``."""
    reach = max(NEAREST, REACH * radius)
    half = int(np.ceil(2 * radius + reach)) + 16
    start = np.maximum(np.rint(around).astype(int) - half, 0)
    window = tuple(slice(s, s + 2 * half + 1) for s in start)
    light, good = light[window], good[window]
    shape = [fft.next_fast_len(2 * n - 1, real=True) for n in light.shape]
    waves = [fft.rfft2(image, shape) for image in (light, np.square(light), good.astype(float))]
    products = fft.irfft2(waves[0] * waves[0], shape)  # at x + y, the sum over pairs
    squares = fft.irfft2(waves[1] * waves[2], shape)
    rows, cols = np.ogrid[: shape[0], : shape[1]]
    near = np.hypot(rows / 2 + start[0] - around[0], cols / 2 + start[1] - around[1]) <= reach
    candidates = near & (squares > PAIRED * np.square(light).sum())
    if not candidates.any():
        return around
    likeness = np.where(candidates, products / np.maximum(squares, np.finfo(float).tiny), -1)
    return np.array(np.unravel_index(likeness.argmax(), likeness.shape)) / 2 + start
