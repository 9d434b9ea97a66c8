"""Scores of one aligned image beside the truth, each by its definition in ``metrics.CONVENTIONS``.

``covered (H, W)``, if it is passed, are the pixels that count: without it a score would measure how the
uncovered part was filled.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import fft
from scipy.ndimage import binary_erosion
from skimage.metrics import structural_similarity

from ptycho.evaluation.alignment import CONSTANT, check_images, parts_of, phase, spread
from ptycho.evaluation.frc import Curve, frc
from ptycho.scan.windows import bands

Pair = list[float | None]
Covered = np.ndarray | None  # pixels (H, W) that count; None: all of them

SSIM_WINDOW = 7  # px; scikit-image's default
MIN_SIDE = {"ssim": SSIM_WINDOW, "ms_ssim": 11 * 2**4, **dict.fromkeys(("frc50", "frc1over7"), SSIM_WINDOW)}


def ssim(recon: np.ndarray, truth: np.ndarray, covered: Covered = None) -> Pair:
    """Return SSIM (Wang et al. 2004, eq. 13) of the amplitudes, ``data_range = max|t| − min|t|``, and of the
    phases mapped to ``(φ + π) / 2π``, ``data_range = 1``.

    Args:
        recon, truth: aligned complex images ``(H, W)``.

    Returns:
        ``[amplitude, phase]`` in [−1, 1]; None if the true amplitude is constant or a side is below 7 px.
    """
    check_images(recon, truth)
    level = spread(counted(truth, covered))[0]
    return [_ssim(np.abs, recon, truth, level, covered), _ssim(_unit_phase, recon, truth, 1.0, covered)]


def _unit_phase(image: np.ndarray) -> np.ndarray:
    return (phase(image) + np.pi) / (2 * np.pi)


def _ssim(
    channel: Callable[[np.ndarray], np.ndarray],
    recon: np.ndarray,
    truth: np.ndarray,
    data_range: float,
    covered: Covered,
) -> float | None:
    """Of two real channels, band by band: windows over an edge, or what is uncovered, do not count."""
    if data_range == 0 or min(truth.shape) < MIN_SIDE["ssim"]:
        return None
    halo, total = SSIM_WINDOW // 2, 0.0
    whole = None if covered is None else binary_erosion(covered, np.ones((SSIM_WINDOW, SSIM_WINDOW), bool))
    for rows in bands(truth.shape, halo):
        pair = (channel(image[rows].astype(complex)) for image in (recon, truth))
        value, ssim_map = structural_similarity(*pair, win_size=SSIM_WINDOW, data_range=data_range, full=True)
        if whole is None:
            total += float(value) * (rows.stop - rows.start - 2 * halo)
        else:
            total += float(ssim_map[halo:-halo].sum(where=whole[rows][halo:-halo]))
    count = truth.shape[0] - 2 * halo if whole is None else np.count_nonzero(whole)
    return total / count if count else None


def counted(image: np.ndarray, covered: Covered) -> np.ndarray:
    """Return the pixels ``(K,)`` of an image that count, or the image ``(H, W)`` where all of them do."""
    return image if covered is None else image[covered]


def ms_ssim(recon: np.ndarray, truth: np.ndarray, covered: Covered = None) -> Pair:
    """Return multi-scale SSIM (Wang, Simoncelli & Bovik 2003, eq. 7), with the ranges of the SSIM above.

    Args:
        recon, truth: aligned complex images ``(H, W)``.

    Returns:
        ``[amplitude, phase]`` in [0, 1]; TensorFlow clips a scale of negative structure, and with it the
        product, to 0. None if a side is below 176 px, the true amplitude is constant, the value is NaN,
        or a part is uncovered, which large windows reach everywhere.
    """
    check_images(recon, truth)
    if covered is not None or min(truth.shape) < MIN_SIDE["ms_ssim"]:
        return [None, None]
    return [_ms_ssim(np.abs, recon, truth, spread(truth)[0]), _ms_ssim(_unit_phase, recon, truth, 1.0)]


def _ms_ssim(
    channel: Callable[[np.ndarray], np.ndarray], recon: np.ndarray, truth: np.ndarray, data_range: float
) -> float | None:
    if data_range == 0:
        return None
    import tensorflow as tf

    pair = (
        np.concatenate([channel(part).astype(np.float32) for part in parts_of(image)])[..., None]  # (H, W, 1)
        for image in (recon, truth)
    )
    value = float(tf.image.ssim_multiscale(*pair, max_val=data_range))
    return value if math.isfinite(value) else None


def _mean_error(power: int, recon: np.ndarray, truth: np.ndarray, covered: Covered) -> list[float]:
    """Means over covered pixels of ``||o| − |t||^p``, and of ``|φ_o − φ_t|^p``, wrapped into (−π, π]."""
    check_images(recon, truth)
    recon, truth, total = counted(recon, covered), counted(truth, covered), np.zeros(2)
    for rows in bands(truth.shape):
        o, t = recon[rows].astype(complex), truth[rows].astype(complex)
        errors = np.abs(o) - np.abs(t), np.angle(np.exp(1j * (phase(o) - phase(t))))
        total += [np.sum(np.abs(error) ** power) for error in errors]
    return (total / truth.size).tolist()


def mae(recon: np.ndarray, truth: np.ndarray, covered: Covered = None) -> Pair:
    """Return the mean absolute error ``[amplitude, phase]`` of ``(H, W)``; object units and wrapped rad."""
    return [*_mean_error(1, recon, truth, covered)]


def mse(recon: np.ndarray, truth: np.ndarray, covered: Covered = None) -> Pair:
    """Return the mean squared error ``[amplitude, phase]`` of ``(H, W)``; object units², wrapped rad²."""
    return [*_mean_error(2, recon, truth, covered)]


def psnr(recon: np.ndarray, truth: np.ndarray, covered: Covered = None, rounding: float = 1e-14) -> Pair:
    """Return ``10·log10(peak² / mse)`` of ``(H, W)`` in dB, peak ``max|t|`` and 2π.

    None: the root-mean-square error is ``rounding`` of float64, relative to the peak.
    """
    roots = [math.sqrt(error) for error in _mean_error(2, recon, truth, covered)]
    peaks = float(np.abs(counted(truth, covered)).max()), 2 * np.pi
    if peaks[0] == 0:
        raise ValueError("truth must not be zero everywhere: its largest amplitude is the peak")
    pairs = zip(peaks, roots, strict=True)
    return [20 * math.log10(peak / root) if root > rounding * peak else None for peak, root in pairs]


def phase_rmse_rad(recon: np.ndarray, truth: np.ndarray, covered: Covered = None) -> float:
    """Return ``sqrt(⟨wrap(φ_o − φ_t)²⟩)`` of ``(H, W)`` in rad; every pixel has the same weight."""
    return math.sqrt(_mean_error(2, recon, truth, covered)[1])


def frc_curves(
    recon: np.ndarray, truth: np.ndarray, covered: Covered = None
) -> tuple[Curve | None, Curve | None]:
    """Return ring correlations of amplitudes and phases of an aligned pair ``(H, W)``, as from :func:`frc`.

    None where either image is constant, and for both channels if a side is below 7 px. What is uncovered is
    filled with the mean of what is covered, in either image its own.
    """
    check_images(recon, truth)
    large = min(truth.shape) >= MIN_SIDE["frc50"]
    spreads = (spread(counted(image, covered)) for image in (recon, truth))
    varies = [large and all(pair) for pair in zip(*spreads, strict=True)]
    return (
        frc(*(_filled(np.abs(image), covered) for image in (recon, truth))) if varies[0] else None,
        frc(*(_filled(phase(image), covered) for image in (recon, truth))) if varies[1] else None,
    )


def _filled(channel: np.ndarray, covered: Covered) -> np.ndarray:
    return channel if covered is None else np.where(covered, channel, channel[covered].mean())


def relative_error(aligned: np.ndarray, truth: np.ndarray) -> float | None:
    """Return ``√(Σ|a − t|² / Σ|t − t̄|²)`` over covered pixels of complex ``(H, W)``: 0 is perfect.

    None where the truth is constant.
    """
    covered = aligned != 0
    count, total = np.count_nonzero(covered), sum(map(np.sum, parts_of(np.where(covered, truth, 0))))
    error = contrast = power = 0.0
    for rows in bands(truth.shape):
        there = covered[rows]
        a, t = (image[rows][there].astype(complex) for image in (aligned, truth))
        error += float(np.sum(np.abs(a - t) ** 2))
        contrast += float(np.sum(np.abs(t - total / count) ** 2))
        power += float(np.sum(np.abs(t) ** 2))
    return math.sqrt(error / contrast) if contrast > CONSTANT**2 * power else None


def slow_phase_rad(
    aligned: np.ndarray, truth: np.ndarray, covered: Covered = None, below: float = 0.05
) -> float:
    """Return the rms over ``(H, W)`` of the phase of ``a conj(t)`` ``below`` a share of Nyquist, in rad.

    A solver that was ended too early leaves it, and scores of small windows do not show it.
    """
    wave = np.empty(truth.shape, np.complex64)
    for rows in bands(truth.shape):
        wave[rows] = aligned[rows] * truth[rows].conj()
    wave = fft.fft2(wave, overwrite_x=True)
    down, along = (2 * np.fft.fftfreq(side) for side in truth.shape)
    for rows in bands(truth.shape):
        wave[rows] *= np.hypot(down[rows, None], along) < below
    wave = counted(fft.ifft2(wave, overwrite_x=True), covered)
    return math.sqrt(sum(np.sum(phase(part) ** 2) for part in parts_of(wave)) / wave.size)
