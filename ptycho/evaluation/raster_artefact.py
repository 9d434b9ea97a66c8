"""Does an image show the raster that it was scanned on?

    S(k) = |Σ_j exp(−2πi k·r_j)|² / J²,   E = mean over k of |Ô(k)|² / B(k),   k with S(k) > ½, k ≠ 0

r_j are the J scan positions, so these k are frequencies of their lattice; a scan without a lattice has none.
Ô is the Fourier transform of the object, less its mean, under a Hann window. B is the power around k: the
larger of the medians over a ring around k, and over the line through zero and k, on which edges along an axis
have their power. Powers are sums over three by three bins. An image that knows nothing of the raster has
an E of about 1. A sample that is periodic itself has power at k only if its period is that of the raster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter, uniform_filter

FINER = 2  # samples of the spectrum in a bin


@dataclass(frozen=True)
class RasterOptions:
    """Which frequencies are looked at.

    Attributes:
        ordered: least S of a frequency of the lattice.
        periods: of the lattice across the image, at least, so that its frequencies are apart.
        frequencies: number that is looked at, those of the longest periods.
        finest: cycles per pixel, beyond which there is mostly noise.
        inner, outer: bins, within which B is taken around a frequency.
    """

    ordered: float = 0.5
    periods: int = 5
    frequencies: int = 4
    finest: float = 0.4
    inner: float = 2.5
    outer: float = 4.5


@dataclass(frozen=True)
class RasterArtefact:
    """Power of an image at the frequencies of its raster.

    Attributes:
        excess: E.
        share: of the image's power that lies there beyond B.
        period_px: longest period of the lattice.
    """

    excess: float
    share: float
    period_px: float


def raster_artefact(
    image: np.ndarray, positions: np.ndarray, options: RasterOptions | None = None
) -> RasterArtefact | None:
    """Return the power of an image at the frequencies of its raster; None: it was scanned on none.

    Args:
        image: complex ``(H, W)``, all of it well lit.
        positions: ``(J, 2)`` in pixels, of any origin.
    """
    options = options or RasterOptions()
    found = lattice_frequencies(positions, min(image.shape), options)
    if not len(found):
        return None
    hann = [np.hanning(side + 2)[1:-1] for side in image.shape]
    window = hann[0][:, None] * hann[1]
    rest = window * (image - np.sum(window * image) / window.sum())
    shape = FINER * np.array(image.shape)
    power = np.square(np.abs(np.fft.fft2(rest, tuple(shape.tolist()))))
    width = 2 * FINER + 1
    summed = width**2 * uniform_filter(power, width, mode="wrap")
    at = np.concatenate([found, -found])
    near, around = summed[_samples(at, shape)], np.array([_around(summed, k, options) for k in at])
    return RasterArtefact(
        float(np.mean(near / np.maximum(around, 1e-30))),
        float(np.maximum(near - around, 0).sum() / power.sum()),
        float(1 / np.hypot(*found.T).min()),
    )


def lattice_frequencies(positions: np.ndarray, side: int, options: RasterOptions) -> np.ndarray:
    """Return frequencies ``(n, 2)`` of the lattice of positions ``(J, 2)``, in a half plane, lowest first.

    Args:
        side: of the image, in pixels.
    """
    places = positions - positions.mean(axis=0)
    step = 1 / (2 * max(float(np.ptp(places, axis=0).max()), 1.0))  # a peak of S is twice as wide
    rows, cols = np.arange(-options.finest, options.finest, step), np.arange(0, options.finest, step)
    waves = [np.exp(-2j * np.pi * np.outer(axis, places[:, k])) for k, axis in enumerate((rows, cols))]
    order = np.square(np.abs(waves[0] @ waves[1].T / len(places)))
    peaks = np.nonzero((order > options.ordered) & (order == maximum_filter(order, 5)))
    found = np.stack([rows[peaks[0]], cols[peaks[1]]], axis=1)
    found = found[(np.hypot(*found.T) > 2 * step) & ((found[:, 1] > step) | (found[:, 0] > 0))]
    found = found[np.argsort(np.hypot(*found.T), kind="stable")][: options.frequencies]
    return found if len(found) and np.hypot(*found[0]) * side >= options.periods else found[:0]


def _samples(frequencies: np.ndarray, shape: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows, cols = np.mod(np.rint(frequencies * shape).astype(int), shape).T
    return rows, cols


def _around(power: np.ndarray, at: np.ndarray, options: RasterOptions) -> float:
    """Return B of a frequency ``(2,)``: the larger median of a ring and of a line."""
    shape = np.array(power.shape)
    reach = int(np.ceil(options.outer * FINER))
    steps = np.mgrid[-reach : reach + 1, -reach : reach + 1].reshape(2, -1).T
    far = np.hypot(*steps.T) / FINER
    ring = at + steps[(far >= options.inner) & (far <= options.outer)] / shape
    along = np.linspace(options.inner, options.outer, 2 * FINER + 1)
    line = at + np.concatenate([along, -along])[:, None] * FINER / shape * at / np.hypot(*at)
    return max(float(np.median(power[_samples(places, shape)])) for places in (ring, line))
