"""Fourier ring correlation: up to which spatial frequency do two images agree?"""

from __future__ import annotations

import numpy as np
from scipy import fft

from ptycho.scan.windows import bands

Curve = tuple[np.ndarray, np.ndarray]
"""Frequencies as fractions of Nyquist, and correlations."""
DIRECTIONS = {"row": "row axis (vertical detail)", "col": "column axis (horizontal detail)"}


def frc(a: np.ndarray, b: np.ndarray) -> Curve:
    """Return the Fourier ring correlation ``Re Σ A·conj(B) / sqrt(Σ|A|² · Σ|B|²)``, each sum over one ring.

    ``A`` and ``B`` are the transforms of the images under a Hann window. The window-weighted mean comes off
    first: it would leak through the window and correlate the first ring of any two images. Ring k holds the
    frequencies within half a step of ``k / min(H, W)`` cycles per pixel, k = 1, 2, … up to Nyquist: rings
    are circles in frequency, whatever the aspect ratio. (Saxton & Baumeister 1982; van Heel & Schatz 2005.)

    Args:
        a, b: real or complex images ``(H, W)``, both sides at least 2 px.

    Returns:
        Frequencies ``(min(H, W)//2,)`` as fractions of Nyquist, and correlations in [−1, 1], 0 for a ring in
        which an image has no power.
    """
    frequency, (correlation,) = _correlations(a, b, None)
    return frequency, correlation


def frc_by_direction(
    a: np.ndarray, b: np.ndarray, half_angle_deg: float = 30.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return :func:`frc` of whole rings, and of their sectors around the row axis and around the column axis.

    A sector holds the spatial frequencies within ``half_angle_deg`` of its axis, on both sides of zero. The
    row axis is that of detail which changes from row to row.

    Returns:
        Frequencies ``(K,)`` as fractions of Nyquist, and correlations ``(3, K)``: all, row, column.
    """
    return _correlations(a, b, np.tan(np.radians(half_angle_deg)))


def _correlations(a: np.ndarray, b: np.ndarray, slope: float | None) -> tuple[np.ndarray, np.ndarray]:
    """``(K,)``, ``(1, K)`` of rings; with the ``slope`` of their edges ``(3, K)``, of both sectors, too."""
    side, real = min(a.shape), np.isrealobj(a) and np.isrealobj(b)
    down = np.fft.fftfreq(a.shape[0])[:, None]  # cycles per pixel
    along = np.fft.rfftfreq(a.shape[1]) if real else np.fft.fftfreq(a.shape[1])
    both = 1.0 + (real & (along > 0) & (along < 0.5))  # of a real image half of the spectrum is enough
    fa, fb = _spectrum(a, real), _spectrum(b, real)
    sums = np.zeros((1 if slope is None else 3, 3, side + 1))
    for rows in bands(fa.shape):
        ring = np.floor(np.hypot(down[rows], along) * side + 0.5).astype(int)
        first, second = fa[rows], fb[rows]
        terms = both * (first * second.conj()).real, both * np.abs(first) ** 2, both * np.abs(second) ** 2
        parts: list = [np.s_[...]]
        if slope is not None:
            row, col = np.broadcast_arrays(np.abs(down[rows]), np.abs(along))
            parts += [col <= slope * row, row <= slope * col]
        for total, part in zip(sums, parts, strict=True):
            total += [np.bincount(ring[part].ravel(), term[part].ravel(), side + 1) for term in terms]
    rings = np.arange(1, side // 2 + 1)
    cross, power_a, power_b = np.moveaxis(sums[..., rings], 1, 0)
    norm = np.sqrt(power_a * power_b)
    return 2 * rings / side, np.divide(cross, norm, out=np.zeros_like(cross), where=norm > 0)


def _spectrum(image: np.ndarray, real: bool) -> np.ndarray:
    """``F[w·(x − Σwx/Σw)]`` under the Hann window ``w = sin²(π(n + ½)/N)`` on both axes; half if real."""
    rows, cols = (np.sin(np.pi * (np.arange(side) + 0.5) / side) ** 2 for side in image.shape)
    part = image - rows @ image @ cols / (rows.sum() * cols.sum())
    part *= rows[:, None]
    part *= cols
    return fft.rfft2(part, overwrite_x=True) if real else fft.fft2(part, overwrite_x=True)


def half_bit(frequency: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return the ring correlation ``(n,)`` at which each image carries half a bit of information per sample.

        T = (0.2071 + 1.9102/√n) / (1.2071 + 0.9102/√n),   n samples in the ring

    Source: van Heel & Schatz, J. Struct. Biol. 151 (2005) 250, eq. 17. ``n = 2πk·L/S`` is the area of ring k
    of a complex image whose sides are S ≤ L; ``frequency (n,)`` is a fraction of Nyquist.
    """
    k = frequency * min(shape) / 2
    root = np.sqrt(2 * np.pi * k * max(shape) / min(shape))
    return (0.2071 + 1.9102 / root) / (1.2071 + 0.9102 / root)


def frc_crossing(
    frequency: np.ndarray, correlation: np.ndarray, threshold: float | np.ndarray
) -> tuple[float, bool]:
    """Return where a ring correlation first falls below a threshold, by linear interpolation between rings.

    Args:
        frequency, correlation: ``(K,)``, as from :func:`frc`; the curve starts at correlation 1, frequency 0.
        threshold: in (0, 1), one for all rings or one for each; 0.5, the 1/7 of Rosenthal & Henderson 2003,
            or :func:`half_bit`.

    Returns:
        The frequency and True; 1.0 and False if the curve never falls below the threshold.
    """
    thresholds = np.broadcast_to(threshold, frequency.shape)
    q, above = np.r_[0.0, frequency], np.r_[1.0 - thresholds[0], correlation - thresholds]
    below = np.flatnonzero(above < 0)
    if not below.size:
        return 1.0, False
    k = below[0]
    return float(q[k - 1] + (q[k] - q[k - 1]) * above[k - 1] / (above[k - 1] - above[k])), True
