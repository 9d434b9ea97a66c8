"""Artefacts of a raster scan: power of an image at the frequencies of the lattice of the scan positions.

=========== ===============================================================================================
``r_j``     positions ``(row, col)``, ``(J, 2)`` object pixels; on a lattice ``r_j ≈ o + n_j A``, n_j whole
``S(q)``    ``|Σ_j exp(−2πi q·r_j)|² / J²``, one at the reciprocal lattice ``B = A⁻ᵀ`` (rows b₁, b₂)
``F(q)``    ``Σ_x w(x) f(x) exp(−2πi q·x)`` of an image f, w Hann's window; a bin is one period in the window
excess      ``|F(G)|²`` over the mean of ``|F|²`` nearby; G: b₁, b₂, b₁ + b₂, b₁ − b₂
=========== ===============================================================================================

A probe times a function with the periods of the lattice, with the object divided by it, explains the patterns
of a raster as well. So the artefact lies at G exactly; few samples do.
Source: Thibault et al., Ultramicroscopy 109 (2009) 338.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import fft, ndimage

from ptycho.evaluation.display import show_phase


@dataclass(frozen=True)
class RasterLimits:
    """Limits of when positions are a lattice, and of when an image shows it."""

    order: float = 0.5  # least S(q) of a lattice; a jitter of σ steps an axis leaves ``exp(−(2πσ)²)``
    fewest: int = 5  # positions along each axis of the lattice
    most: int = 4096  # positions that are analysed, those in the middle
    near: float = 3.0  # bins from G to the neighbourhood of its power
    far: float = 9.0  # and to its end
    excess: float = 30.0  # least of an artefact; of noise it is exponential with mean one
    lone: float = 2.0  # least power at G over that one bin aside: 4 at G, 2 a quarter of a bin away
    contrast: float = 0.05  # least rms of an artefact, over that of its image
    side: int = 2048  # of the middle of an image, which is analysed, in pixels


LIMITS = RasterLimits()


@dataclass(frozen=True)
class Artefact:
    """The waves of an object that stand out at the frequencies of the raster; 0: none stands out.

    Attributes:
        amplitude: their rms, over the mean amplitude.
        phase_rad: their rms in the phase.
        contrast: the larger of both, over the standard deviation of its image.
    """

    amplitude: float
    phase_rad: float
    contrast: float


def raster_artefact(image: np.ndarray, known: np.ndarray, positions: np.ndarray) -> Artefact | None:
    """Find what an object shows of the raster; None: its positions ``(J, 2)`` are not on a lattice.

    Args:
        image: ``(h, w)`` complex, without a phase plane.
        known: ``(h, w)`` bool; other pixels do not count.
    """
    B = reciprocal_lattice(positions)
    if B is None:
        return None
    side = LIMITS.side
    middle = tuple(slice(max(0, n - side) // 2, (n + side) // 2) for n in image.shape)
    known = known[middle] & np.isfinite(image[middle])
    amplitude = np.abs(image[middle])
    phase = show_phase(np.where(known, np.angle(image[middle]), np.nan)).values
    mean = max(float(amplitude[known].mean()), 1e-30) if known.any() else 1.0
    waves = waves_at(B, amplitude / mean, known), waves_at(B, phase, known)
    return Artefact(waves[0][0], waves[1][0], max(contrast for _, contrast in waves))


def reciprocal_lattice(positions: np.ndarray) -> np.ndarray | None:
    """Return B, ``(2, 2)`` cycles per pixel, of positions ``(J, 2)``; None: they are not on a lattice."""
    from_middle = np.abs(positions - np.median(positions, axis=0)).max(axis=1)
    places = positions[np.argsort(from_middle, kind="stable")[: LIMITS.most]].astype(float)
    places -= places.mean(axis=0)
    if len(places) < LIMITS.fewest**2 or not np.ptp(places, axis=0).min() > 0:
        return None
    rough = _shortest(places, LIMITS.order)
    if rough is None:
        return None
    phases = np.angle(_sums(places, rough)) / (2 * np.pi)
    whole = np.rint(places @ rough.T + phases)
    if np.ptp(whole, axis=0).min() < LIMITS.fewest - 1:
        return None
    A = np.linalg.lstsq(whole - whole.mean(axis=0), places, rcond=None)[0]
    if abs(np.linalg.det(A)) < 1e-6 * np.square(A).sum():
        return None
    B = np.linalg.inv(A).T
    return B if np.abs(_sums(places, B)).min() ** 2 > LIMITS.order else None


def waves_at(B: np.ndarray, image: np.ndarray, known: np.ndarray) -> tuple[float, float]:
    """Return the rms of the waves of a real image ``(h, w)`` that stand out at the frequencies of a lattice.

    Returns:
        The rms of all of them together, and over the standard deviation of the image.
    """
    window = known * np.outer(*(np.hanning(side + 2)[1:-1] for side in image.shape))
    total = max(float(window.sum()), 1e-30)
    values = np.where(known, image, 0.0)
    values = np.where(known, values - np.sum(window * values) / total, 0.0)
    variance = max(float(np.sum(window * values**2)) / total, 1e-30)
    powers = [
        _around(window * values, G, int(LIMITS.far))
        for G in (B[0], B[1], B[0] + B[1], B[0] - B[1])
        if np.abs(G).max() < 0.5
    ]
    power = sum(2 * part[len(part) // 2, len(part) // 2] for part in powers if _stands_out(part))
    return float(np.sqrt(power)) / total, float(np.sqrt(power / variance)) / total


def _sums(places: np.ndarray, B: np.ndarray) -> np.ndarray:
    """``Σ_j exp(−2πi b·r_j) / J`` of each row of B."""
    return np.exp(-2j * np.pi * places @ B.T).mean(axis=0)


def _shortest(places: np.ndarray, order: float, finer: int = 8, rest: float = 3.0) -> np.ndarray | None:
    """Return the two shortest maxima of S that are not in one line, to half a bin; None: there are not two.

    Args:
        finer: samples of the grid on which positions are counted, in the mean distance of two.
        rest: what the grid, and its frequencies, leave of S: one part in so many.
    """
    extent = np.ptp(places, axis=0)
    pitch = np.sqrt(np.prod(extent) / len(places)) / finer
    shape = [fft.next_fast_len(int(np.ceil(2 * side / pitch)) + 1, real=True) for side in extent]
    counts = np.zeros(shape)
    np.add.at(counts, tuple(np.rint((places - places.min(axis=0)) / pitch).astype(int).T), 1)
    S = np.square(np.abs(fft.rfft2(counts))) / len(places) ** 2
    rows, cols = np.fft.fftfreq(shape[0], pitch)[:, None], np.fft.rfftfreq(shape[1], pitch)[None]
    apart = np.hypot(rows * extent[0], cols * extent[1]) > 1  # from zero, where S is one
    highest = ndimage.maximum_filter(S, 3)
    peaks = np.nonzero((highest == S) & (highest > order / rest) & apart)
    q = np.stack([rows[peaks[0], 0], cols[0, peaks[1]]], axis=1)
    q = q[np.argsort(np.hypot(*q.T), kind="stable")]
    if not len(q):
        return None
    sine = np.abs(q @ np.array([-q[0, 1], q[0, 0]])) / (np.hypot(*q.T) * np.hypot(*q[0]))
    others = q[sine > 0.3]
    return np.array([q[0], others[0]]) if len(others) else None


def _around(values: np.ndarray, G: np.ndarray, reach: int) -> np.ndarray:
    """``|F(G + k)|²``, ``(2 reach + 1, 2 reach + 1)``, k whole bins up to ``reach`` on each side."""
    steps = np.arange(-reach, reach + 1)
    down, along = (
        np.exp(-2j * np.pi * np.outer(q + steps / side, np.arange(side)))
        for q, side in zip(G, values.shape, strict=True)
    )
    return np.square(np.abs(down @ values @ along.T))


def _stands_out(power: np.ndarray) -> bool:
    """Whether the middle of ``|F|²`` is far above its neighbourhood, and alone.

    The edges of a sample leave streaks in its spectrum. So the neighbourhood is the one of four sectors that
    has most power.
    """
    middle = len(power) // 2
    row, col = np.indices(power.shape) - middle
    distance, sector = np.hypot(row, col), np.rint(np.arctan2(row, col) / (np.pi / 4)) % 4
    ring = (distance >= LIMITS.near) & (distance <= LIMITS.far)
    nearby = max(power[ring & (sector == k)].mean() for k in range(4))
    aside = power[(distance > 0) & (distance < 2)].max()
    return bool(power[middle, middle] > max(LIMITS.excess * nearby, LIMITS.lone * aside, 1e-30))
