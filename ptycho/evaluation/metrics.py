"""How good is a reconstruction? Alignment, SSIM, MS-SSIM, PSNR, MAE, MSE and Fourier ring correlation.

Notation
    o  reconstruction, complex ``(H, W)``    t  truth, complex ``(H, W)``, in the same object units
    m  covered pixels, bool ``(H, W)``       r  (row, col) in pixels from the middle of the image
    φ  phase in rad; zero where the complex value is zero, because nothing has no phase
    q  spatial frequency as a fraction of Nyquist, which is half a cycle per pixel

Scores come in pairs ``[amplitude, phase]``. A score that is not defined is ``None``, and a flag says why:
the results go to JSON, which holds neither NaN nor infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import fft
from scipy.ndimage import binary_erosion, gaussian_filter
from skimage.metrics import structural_similarity

from ptycho.evaluation.alignment import (
    CONSTANT,
    Alignment,
    Region,
    align,
    angles_of,
    check_images,
    phase,
    spread,
)
from ptycho.evaluation.frc import Curve, frc, frc_crossing
from ptycho.scan.windows import bands

CHANNELS = ("amplitude", "phase")
FRC_THRESHOLDS = {"frc50": 0.5, "frc1over7": 1 / 7}
SCORES = ("ssim", "ms_ssim", "psnr", "mae", "mse", *FRC_THRESHOLDS)
NAN, UNCOVERED = "nan", "uncovered"  # flags of a failed reconstruction
COLLAPSED, COLLAPSED_PHASE = "collapsed", "collapsed_phase"
CONTRAST = 1e-2  # fraction of the truth's contrast below which a reconstruction has collapsed


def score(recon: np.ndarray, truth: np.ndarray, mask: np.ndarray, region: Region) -> dict[str, Any]:
    """Return every score of one image, as plain JSON values; ``docs/scores.md`` defines each.

    Args:
        recon, truth: complex ``(M, M)``, not yet aligned.
        mask: bool ``(M, M)``, the covered pixels.
        region: the scored rectangle.

    Returns:
        ``ssim, ms_ssim, psnr, mae, mse, frc50, frc1over7`` as ``[amplitude, phase]``; ``phase_rmse_rad``,
        ``relative_error``, ``slow_phase_rad``,
        ``amplitude_ratio``, ``phase_slope_rad_per_px`` (row, col); ``uncovered_fraction``, ``flags``. All but
        the last two are None if the reconstruction is not finite, is zero, or covers nothing.

    Raises:
        ValueError: unlike shapes, wrong dtypes, a region that does not fit, a truth of zeros or not finite.
    """
    check_images(recon, truth, mask)
    finite = bool(np.isfinite(recon).all())
    recon, truth, mask = (region.crop(image) for image in (recon, truth, mask))
    if not (np.isfinite(truth).all() and truth.any()):
        raise ValueError("truth must be finite and not zero everywhere in the region")
    uncovered = {"uncovered_fraction": float(1 - mask.mean())}
    if not (finite and recon[mask].any()):
        why = NAN if not finite else COLLAPSED if mask.any() else UNCOVERED
        blank = {name: [None, None] for name in (*SCORES, "phase_slope_rad_per_px")}
        single = dict.fromkeys(("phase_rmse_rad", "relative_error", "slow_phase_rad", "amplitude_ratio"))
        return {**blank, **single, **uncovered, "flags": [why]}
    covered = None if mask.all() else mask
    values = _scores(align(recon, truth, mask), truth, covered)
    flags = _collapses(recon[mask], truth[mask]) + _limits(values, truth, covered)
    return {**values, **uncovered, "flags": flags}


def _scores(alignment: Alignment, truth: np.ndarray, covered: np.ndarray | None) -> dict[str, Any]:
    aligned, ratio = alignment.object, alignment.amplitude_ratio
    curves = frc_curves(aligned, truth, covered)
    return {
        "ssim": ssim(aligned, truth, covered),
        "ms_ssim": ms_ssim(aligned, truth, covered),
        **errors(aligned, truth, covered),
        **{
            name: [frc_crossing(*curve, threshold)[0] if curve else None for curve in curves]
            for name, threshold in FRC_THRESHOLDS.items()
        },
        "relative_error": relative_error(aligned, truth),
        "slow_phase_rad": slow_phase_rad(aligned, truth, covered),
        "amplitude_ratio": ratio if math.isfinite(ratio) else None,
        "phase_slope_rad_per_px": list(alignment.phase_slope),
    }


def _collapses(recon: np.ndarray, truth: np.ndarray) -> list[str]:
    """Flags for a constant amplitude or phase where the truth's is not; covered pixels ``(K,)``, raw."""
    (level, angles), (true_level, true_angles) = (_statistics(values) for values in (recon, truth))
    varies = spread(truth)
    flat = level[1] * true_level[0] < CONTRAST * true_level[1] * level[0]
    flat_phase = angles[1] < CONTRAST * true_angles[1]
    collapses = {COLLAPSED: varies[0] and flat, COLLAPSED_PHASE: varies[1] and flat_phase}
    return [name for name, present in collapses.items() if present]


def _statistics(values: np.ndarray) -> list[tuple[float, float]]:
    """Mean and standard deviation of the amplitudes and of the phases of ``values (K,)``."""
    return [(float(part.mean()), float(part.std())) for part in (np.abs(values), angles_of(values))]


def _limits(values: dict[str, Any], truth: np.ndarray, covered: np.ndarray | None) -> list[str]:
    """A flag ``<score>_<channel>_<why>`` for every None, clipped MS-SSIM and FRC that is never crossed."""
    flags = [] if values["amplitude_ratio"] is not None else ["amplitude_ratio_infinite"]
    spreads = spread(counted(truth, covered))
    for name in SCORES:
        small = min(truth.shape) < MIN_SIDE.get(name, 0)
        for channel, value, varies in zip(CHANNELS, values[name], spreads, strict=True):
            why = ""
            if value is None and name == "psnr":
                why = "infinite"
            elif value is None:
                why = "undefined" if varies else "truth_constant"
                why = "region_too_small" if small else UNCOVERED if varies and covered is not None else why
            elif name == "ms_ssim" and value == 0:
                why = "clipped"
            elif name in FRC_THRESHOLDS and value == 1:  # a crossing lies below the last ring
                why = "never_crossed"
            flags += [f"{name}_{channel}_{why}"] if why else []
    return flags


def score_images(recons: np.ndarray, truths: np.ndarray, masks: np.ndarray, region: Region) -> dict[str, Any]:
    """Return the means over images ``(I, M, M)`` of all numbers of :func:`score`; None where any is None.

    ``per_image`` holds each image's own dictionary, and ``flags`` the union of theirs.
    """
    rows = [score(*image, region) for image in zip(recons, truths, masks, strict=True)]
    means = {name: _mean([row[name] for row in rows]) for name in rows[0] if name != "flags"}
    flags = list(dict.fromkeys(flag for row in rows for flag in row["flags"]))
    return {**means, "flags": flags, "per_image": rows}


def _mean(values: list[Any]) -> Any:
    """Mean of numbers, or of lists entry by entry; None where any is None."""
    if isinstance(values[0], list):
        return [_mean(list(entries)) for entries in zip(*values, strict=True)]
    return None if any(value is None for value in values) else float(np.mean(values))


def reference_rows(
    truths: np.ndarray, region: Region, covered: np.ndarray | None = None
) -> dict[str, dict[str, Any]]:
    """Score ``constant`` and ``truth_blurred_1px`` as if they were reconstructions, to compare with.

    ``covered (I, M, M)``: the pixels that count; None: all.

    The constant is each image's mean amplitude in the region, at phase zero; the blur is a Gaussian of
    σ = 1 px over the complex truths ``(I, M, M)``.
    """
    covered = np.ones(truths.shape, bool) if covered is None else covered
    level = np.abs(region.crop(truths)).mean(axis=(1, 2), keepdims=True)  # (I, 1, 1)
    rows = {
        "constant": np.broadcast_to(level, truths.shape).astype(np.complex128),
        "truth_blurred_1px": gaussian_filter(truths.astype(np.complex128), (0, 1, 1), mode="nearest"),
    }
    return {name: score_images(images, truths, covered, region) for name, images in rows.items()}


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
    if covered is not None or min(truth.shape) < MIN_SIDE["ms_ssim"]:
        return [None, None]
    return [_ms_ssim(np.abs, recon, truth, spread(truth)[0]), _ms_ssim(_unit_phase, recon, truth, 1.0)]


def _ms_ssim(
    channel: Callable[[np.ndarray], np.ndarray], recon: np.ndarray, truth: np.ndarray, data_range: float
) -> float | None:
    if data_range == 0:
        return None
    import tensorflow as tf

    pair = (channel(image).astype(np.float32)[..., None] for image in (recon, truth))  # (H, W, 1)
    value = float(tf.image.ssim_multiscale(*pair, max_val=data_range))
    return value if math.isfinite(value) else None


def errors(
    recon: np.ndarray, truth: np.ndarray, covered: Covered = None, rounding: float = 1e-14
) -> dict[str, Any]:
    """Return the errors of an aligned pair ``(H, W)``, as ``[amplitude, phase]`` but for ``phase_rmse_rad``.

    ``mae``, ``mse``: means of ``||o| − |t||^p`` in object units, and of ``|φ_o − φ_t|^p``, wrapped, in rad.
    ``psnr``: ``10·log10(peak² / mse)`` in dB, peak ``max|t|`` and 2π; None: the root-mean-square error is
    ``rounding`` of float64, relative to the peak. ``phase_rmse_rad``: the root of the second ``mse``.
    """
    o, t = (counted(image, covered).astype(complex, copy=False) for image in (recon, truth))
    turn = np.abs(phase(o) - phase(t))  # up to 2π
    off = np.abs(np.abs(o) - np.abs(t)), np.pi - np.abs(np.pi - turn)
    peaks, mse = (float(np.abs(t).max()), 2 * np.pi), [float(np.mean(error**2)) for error in off]
    if peaks[0] == 0:
        raise ValueError("truth must not be zero everywhere: its largest amplitude is the peak")
    pairs = [(peak, math.sqrt(square)) for peak, square in zip(peaks, mse, strict=True)]
    return {
        "psnr": [20 * math.log10(p / root) if root > rounding * p else None for p, root in pairs],
        "mae": [float(np.mean(error)) for error in off],
        "mse": mse,
        "phase_rmse_rad": pairs[1][1],
    }


def frc_curves(
    recon: np.ndarray, truth: np.ndarray, covered: Covered = None
) -> tuple[Curve | None, Curve | None]:
    """Return ring correlations of amplitudes and phases of an aligned pair ``(H, W)``, as from :func:`frc`.

    None where either image is constant, and for both channels if a side is below 7 px. What is uncovered is
    filled with the mean of what is covered, in either image its own.
    """
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
    a, t = (image[covered].astype(complex, copy=False) for image in (aligned, truth))
    contrast = np.linalg.norm(t - t.mean())
    return float(np.linalg.norm(a - t) / contrast) if contrast > CONSTANT * np.linalg.norm(t) else None


def slow_phase_rad(
    aligned: np.ndarray, truth: np.ndarray, covered: Covered = None, below: float = 0.05
) -> float:
    """Return the rms over ``(H, W)`` of the phase of ``a conj(t)`` ``below`` a share of Nyquist, in rad.

    A solver that was ended too early leaves it, and scores of small windows do not show it.
    """
    wave = fft.fft2((aligned * truth.conj()).astype(np.complex64), overwrite_x=True)
    wave *= np.hypot(*np.ix_(*(2 * np.fft.fftfreq(side) for side in truth.shape))) < below
    return math.sqrt(np.mean(phase(counted(fft.ifft2(wave, overwrite_x=True), covered)) ** 2, dtype=float))
