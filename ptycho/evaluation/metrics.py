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
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from ptycho.evaluation.alignment import Alignment, align, angles_of, brightest, check_images, parts_of, spread
from ptycho.evaluation.alignment import Region as Region
from ptycho.evaluation.alignment import phase as phase
from ptycho.evaluation.frc import frc_crossing
from ptycho.evaluation.image_scores import (
    MIN_SIDE,
    counted,
    frc_curves,
    mae,
    ms_ssim,
    mse,
    phase_rmse_rad,
    psnr,
    relative_error,
    slow_phase_rad,
    ssim,
)
from ptycho.evaluation.image_scores import SSIM_WINDOW as SSIM_WINDOW

CHANNELS = ("amplitude", "phase")
FRC_THRESHOLDS = {"frc50": 0.5, "frc1over7": 1 / 7}
SCORES = ("ssim", "ms_ssim", "psnr", "mae", "mse", *FRC_THRESHOLDS)
NAN, UNCOVERED = "nan", "uncovered"  # flags of a failed reconstruction
COLLAPSED, COLLAPSED_PHASE = "collapsed", "collapsed_phase"
CONTRAST = 1e-2  # fraction of the truth's contrast below which a reconstruction has collapsed

CONVENTIONS: dict[str, str] = {
    "region": "one rectangle for every model and stitching, fixed by the scan alone (the grid-stitch "
    "footprint); of it the pixels count that some pattern covers, of which uncovered_fraction is the rest",
    "alignment": "over the covered pixels: one plane fitted to angle(reconstruction·conj(truth)), weighted "
    "by |truth|², its slope (row, col) in rad/px taken off the reconstruction only; one complex least-"
    "squares scale from that to the truth; amplitude_ratio = 1/|scale|, how large the raw reconstruction is",
    "ssim": "scikit-image structural_similarity, uniform 7×7 window, sample covariance; amplitude data_range "
    "= max−min of the true amplitude; phase mapped to (φ+π)/2π with data_range 1",
    "ms_ssim": "tf.image.ssim_multiscale, five scales, 11 px Gaussian window (Wang 2003), ranges of ssim; "
    "null if a side is below 176 px or a part is uncovered; negative structure at a scale is clipped to 0, "
    "and flagged",
    "psnr": "10·log10(peak²/mse) in dB, peak = max of the true amplitude, 2π for phase; null if infinite",
    "mae, mse": "plain means over the region: amplitude in object units, wrapped phase difference in rad",
    "phase_rmse_rad": "root of the plain mean over the region of the squared wrapped phase difference",
    "relative_error": "√(Σ|a − t|² / Σ|t − mean|²) of the aligned complex objects over the covered pixels: "
    "0 perfect, 1 no object; null if the truth is constant",
    "slow_phase_rad": "rms phase of a·conj(t) below 0.05 of Nyquist",
    "frc": "Fourier ring correlation of the amplitudes and of the phases; window-weighted mean removed, Hann "
    "window on both axes, rings one frequency step of the shorter side wide, up to Nyquist, no smoothing; "
    "frc50, frc1over7 = first fall below 0.5 and 1/7, linearly interpolated, as fractions of Nyquist; 1 and "
    "flagged if never crossed, null if truth or reconstruction is constant; blind to pure attenuation",
    "flags": f"{NAN}; {UNCOVERED} (not one covered pixel); {COLLAPSED}, {COLLAPSED_PHASE} (contrast of the "
    f"raw reconstruction below {CONTRAST:g} of the truth's); <score>_<channel>_<why> for what is null or "
    "limited",
}


def score(recon: np.ndarray, truth: np.ndarray, mask: np.ndarray, region: Region) -> dict[str, Any]:
    """Return every score of one image, as plain JSON values; ``CONVENTIONS`` says how each is defined.

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
        **{one.__name__: one(aligned, truth, covered) for one in (ssim, ms_ssim, psnr, mae, mse)},
        **{
            name: [frc_crossing(*curve, threshold)[0] if curve else None for curve in curves]
            for name, threshold in FRC_THRESHOLDS.items()
        },
        "phase_rmse_rad": phase_rmse_rad(aligned, truth, covered),
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
    most, statistics = brightest(values), []
    for channel in (np.abs, lambda part: angles_of(part, most)):
        sizes, sums = zip(*((part.size, part.sum()) for part in map(channel, parts_of(values))), strict=True)
        mean = sum(sums) / sum(sizes)
        square = sum(np.sum((part - mean) ** 2) for part in map(channel, parts_of(values)))
        statistics.append((mean, math.sqrt(square / sum(sizes))))
    return statistics


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
    check_images(recons, truths, masks, ndim=3)
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
    check_images(truths, truths, covered, ndim=3)
    level = np.abs(region.crop(truths)).mean(axis=(1, 2), keepdims=True)  # (I, 1, 1)
    rows = {
        "constant": np.broadcast_to(level, truths.shape).astype(np.complex128),
        "truth_blurred_1px": gaussian_filter(truths.astype(np.complex128), (0, 1, 1), mode="nearest"),
    }
    return {name: score_images(images, truths, covered, region) for name, images in rows.items()}
