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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import fft
from scipy.ndimage import gaussian_filter
from skimage.metrics import structural_similarity

from ptycho.evaluation.frc import Curve, frc, frc_crossing
from ptycho.scan.bands import bands, inner_product
from ptycho.scan.ramp import phase_slope, tilt

Pair = list[float | None]

CHANNELS = ("amplitude", "phase")
FRC_THRESHOLDS = {"frc50": 0.5, "frc1over7": 1 / 7}
SCORES = ("ssim", "ms_ssim", "psnr", "mae", "mse", *FRC_THRESHOLDS)
SSIM_WINDOW = 7  # px; scikit-image's default
MIN_SIDE = {"ssim": SSIM_WINDOW, "ms_ssim": 11 * 2**4, **dict.fromkeys(FRC_THRESHOLDS, SSIM_WINDOW)}
CONSTANT = 1e-6  # max−min (of the largest amplitude, or in rad) below which an image is constant
NAN, UNCOVERED = "nan", "uncovered"  # flags of a failed reconstruction
COLLAPSED, COLLAPSED_PHASE = "collapsed", "collapsed_phase"
CONTRAST = 1e-2  # fraction of the truth's contrast below which a reconstruction has collapsed
SLOW = 0.05  # of Nyquist
ROUNDING = 1e-14  # root-mean-square error (of the peak) that is only float64 rounding

CONVENTIONS: dict[str, str] = {
    "region": "one rectangle for every model and stitching, fixed by the scan alone (the grid-stitch "
    "footprint); uncovered pixels inside it count as zero amplitude and zero phase",
    "alignment": "over the covered pixels: one plane fitted to angle(reconstruction·conj(truth)), weighted "
    "by |truth|², its slope (row, col) in rad/px taken off the reconstruction only; one complex least-"
    "squares scale from that to the truth; amplitude_ratio = 1/|scale|, how large the raw reconstruction is",
    "ssim": "scikit-image structural_similarity, uniform 7×7 window, sample covariance; amplitude data_range "
    "= max−min of the true amplitude; phase mapped to (φ+π)/2π with data_range 1",
    "ms_ssim": "tf.image.ssim_multiscale, five scales, 11 px Gaussian window (Wang 2003), ranges of ssim; "
    "null if a side is below 176 px; negative structure at a scale is clipped to 0, and flagged",
    "psnr": "10·log10(peak²/mse) in dB, peak = max of the true amplitude, 2π for phase; null if infinite",
    "mae, mse": "plain means over the region: amplitude in object units, wrapped phase difference in rad",
    "phase_rmse_rad": "root of the plain mean over the region of the squared wrapped phase difference",
    "relative_error": "√(Σ|a − t|² / Σ|t − mean|²) of the aligned complex objects over the covered pixels: "
    "0 perfect, 1 nothing seen; null if the truth is constant",
    "slow_phase_rad": f"rms phase of a·conj(t) below {SLOW:g} of Nyquist",
    "frc": "Fourier ring correlation of the amplitudes and of the phases; window-weighted mean removed, Hann "
    "window on both axes, rings one frequency step of the shorter side wide, up to Nyquist, no smoothing; "
    "frc50, frc1over7 = first fall below 0.5 and 1/7, linearly interpolated, as fractions of Nyquist; 1 and "
    "flagged if never crossed, null if truth or reconstruction is constant; blind to pure attenuation",
    "flags": f"{NAN}; {UNCOVERED} (not one covered pixel); {COLLAPSED}, {COLLAPSED_PHASE} (contrast of the "
    f"raw reconstruction below {CONTRAST:g} of the truth's); <score>_<channel>_<why> for what is null or "
    "limited",
}


@dataclass(frozen=True)
class Region:
    """The scored rectangle ``[top, top + height) × [left, left + width)``, in object pixels."""

    top: int
    left: int
    height: int
    width: int

    def __post_init__(self) -> None:
        for name, least in (("top", 0), ("left", 0), ("height", 1), ("width", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"Region.{name} must be an integer of at least {least}, got {value!r}")

    def crop(self, array: np.ndarray) -> np.ndarray:
        """The rectangle cut from the last two axes, ``(…, M, M)`` to ``(…, height, width)``; a view."""
        bottom, right = self.top + self.height, self.left + self.width
        if array.ndim < 2 or array.shape[-2] < bottom or array.shape[-1] < right:
            raise ValueError(f"array must be at least {bottom} × {right} to hold {self}, got {array.shape}")
        return array[..., self.top : bottom, self.left : right]


@dataclass(frozen=True)
class Alignment:
    """``object = scale · recon · exp(−i phase_slope·r)``, zero where uncovered.

    Attributes:
        object: aligned reconstruction, ``(H, W)`` complex128.
        scale: least-squares scale from the flattened reconstruction to the truth.
        amplitude_ratio: ``1/|scale|``: how large the raw reconstruction's amplitude is against the truth.
        phase_slope: (row, col) in rad/px by which the raw reconstruction is tilted against the truth.
    """

    object: np.ndarray
    scale: complex
    amplitude_ratio: float
    phase_slope: tuple[float, float]


def align(recon: np.ndarray, truth: np.ndarray, mask: np.ndarray) -> Alignment:
    """Remove what diffraction leaves open: global phase, amplitude scale and a phase plane.

    The plane ``c + g·r`` minimises ``Σ_m |t|² (angle(o·conj t) − c − g·r)²``, and the scale ``s`` then
    ``Σ_m |t − s·o·exp(−i g·r)|²``: in this order, because under a ramp the terms of ``Σ conj(o)·t`` cancel
    and the scale comes out too small.

    Args:
        recon, truth: complex ``(H, W)``.
        mask: bool ``(H, W)``, the covered pixels; the others do not count and are zero in the result.

    Raises:
        ValueError: unlike shapes, wrong dtypes, values that are not finite, or nothing to align.
    """
    _check_images(recon, truth, mask)
    flat = np.where(mask, recon, np.complex128(0))
    for name, image in (("recon (on the covered pixels)", flat), ("truth", truth)):
        if not (np.isfinite(image).all() and image.any()):
            raise ValueError(f"{name} must be finite and not zero everywhere, got NaN, infinity or all zeros")
    slope = phase_slope(flat, truth)
    for turn in tilt(-slope, flat.shape):
        flat *= turn
    scale = inner_product(flat, truth) / inner_product(flat, flat).real
    ratio = 1 / abs(scale) if scale else math.inf
    flat *= scale
    flat[~mask] = 0  # not −0, whose angle is π
    return Alignment(flat, scale, ratio, (float(slope[0]), float(slope[1])))


def phase(image: np.ndarray) -> np.ndarray:
    """The angle of ``image (…)`` in (−π, π]; zero where it is zero, though the angle of −0 is π."""
    return np.where(image == 0, 0, np.angle(image))


def _angles(values: np.ndarray, brightest: complex) -> np.ndarray:
    """Phases of those that are not zero against the brightest, ``(K,)``: a flat phase of π does not jump."""
    return np.angle(values[values != 0] * np.conj(brightest))


def _brightest(image: np.ndarray) -> complex:
    found = (complex(part.flat[np.argmax(np.abs(part))]) for part in _parts(image))
    return max(found, key=abs)


def _spread(image: np.ndarray) -> tuple[float, float]:
    """Max−min of the amplitude and of the phase (rad); exactly zero if constant to rounding."""
    brightest = _brightest(image)
    amplitude, angle = (
        _range(function(part) for part in _parts(image))
        for function in (np.abs, lambda part: _angles(part, brightest))
    )
    limits = CONSTANT * abs(brightest), CONSTANT
    return amplitude * (amplitude > limits[0]), angle * (angle > limits[1])


def _parts(image: np.ndarray) -> Iterator[np.ndarray]:
    """An image ``(H, …)`` band by band, in double precision."""
    return (image[rows].astype(complex, copy=False) for rows in bands(image.shape))


def _range(parts: Iterable[np.ndarray]) -> float:
    """Max−min of all numbers of some arrays; zero where there is none."""
    ends = [(part.min(), part.max()) for part in parts if part.size]
    return float(max(high for _, high in ends) - min(low for low, _ in ends)) if ends else 0.0


def amplitude_ssim(recon: np.ndarray, truth: np.ndarray) -> float | None:
    """SSIM of the amplitudes (Wang et al. 2004, eq. 13), ``data_range = max|t| − min|t|``.

    Args:
        recon, truth: aligned complex images ``(H, W)``.

    Returns:
        A number in [−1, 1]; None if the true amplitude is constant or a side is below 7 px.
    """
    _check_images(recon, truth)
    return _ssim(np.abs, recon, truth, _spread(truth)[0])


def phase_ssim(recon: np.ndarray, truth: np.ndarray) -> float | None:
    """As :func:`amplitude_ssim`, for the phases mapped to ``(φ + π) / 2π`` with ``data_range`` 1."""
    _check_images(recon, truth)
    return _ssim(_unit_phase, recon, truth, 1.0)


def _unit_phase(image: np.ndarray) -> np.ndarray:
    return (phase(image) + np.pi) / (2 * np.pi)


def _ssim(
    channel: Callable[[np.ndarray], np.ndarray], recon: np.ndarray, truth: np.ndarray, data_range: float
) -> float | None:
    """Of two real channels, band by band: windows that reach over an edge of the image do not count."""
    if data_range == 0 or min(truth.shape) < MIN_SIDE["ssim"]:
        return None
    halo, total = SSIM_WINDOW // 2, 0.0
    for rows in bands(truth.shape, halo):
        pair = (channel(image[rows].astype(complex)) for image in (recon, truth))
        value = structural_similarity(*pair, win_size=SSIM_WINDOW, data_range=data_range)
        total += float(value) * (rows.stop - rows.start - 2 * halo)
    return total / (truth.shape[0] - 2 * halo)


def ms_ssim(recon: np.ndarray, truth: np.ndarray) -> Pair:
    """Multi-scale SSIM (Wang, Simoncelli & Bovik 2003, eq. 7), with the ranges of the SSIM above.

    Args:
        recon, truth: aligned complex images ``(H, W)``.

    Returns:
        ``[amplitude, phase]`` in [0, 1]; TensorFlow clips a scale of negative structure, and with it the
        product, to 0. None if a side is below 176 px, the true amplitude is constant, or the value is NaN.
    """
    _check_images(recon, truth)
    return [
        _ms_ssim(np.abs, recon, truth, _spread(truth)[0]),
        _ms_ssim(_unit_phase, recon, truth, 1.0),
    ]


def _ms_ssim(
    channel: Callable[[np.ndarray], np.ndarray], recon: np.ndarray, truth: np.ndarray, data_range: float
) -> float | None:
    if data_range == 0 or min(truth.shape) < MIN_SIDE["ms_ssim"]:
        return None
    import tensorflow as tf

    pair = (_single(channel, image)[..., None] for image in (recon, truth))  # (H, W, 1)
    value = float(tf.image.ssim_multiscale(*pair, max_val=data_range))
    return value if math.isfinite(value) else None


def _single(channel: Callable[[np.ndarray], np.ndarray], image: np.ndarray) -> np.ndarray:
    """A real channel of an image ``(H, W)``, float32."""
    found = np.empty(image.shape, np.float32)
    for rows in bands(image.shape):
        found[rows] = channel(image[rows].astype(complex))
    return found


def _mean_error(power: int, recon: np.ndarray, truth: np.ndarray) -> list[float]:
    """Means over ``(H, W)`` of ``||o| − |t||^p``, and of ``|φ_o − φ_t|^p``, wrapped into (−π, π]."""
    _check_images(recon, truth)
    total = np.zeros(2)
    for rows in bands(truth.shape):
        o, t = recon[rows].astype(complex), truth[rows].astype(complex)
        errors = np.abs(o) - np.abs(t), np.angle(np.exp(1j * (phase(o) - phase(t))))
        total += [np.sum(np.abs(error) ** power) for error in errors]
    return (total / truth.size).tolist()


def mae(recon: np.ndarray, truth: np.ndarray) -> Pair:
    """Mean absolute error ``[amplitude, phase]`` of ``(H, W)``, in object units and in rad, wrapped."""
    return [*_mean_error(1, recon, truth)]


def mse(recon: np.ndarray, truth: np.ndarray) -> Pair:
    """Mean squared error ``[amplitude, phase]`` of ``(H, W)``, in object units² and in rad², wrapped."""
    return [*_mean_error(2, recon, truth)]


def psnr(recon: np.ndarray, truth: np.ndarray) -> Pair:
    """``10·log10(peak² / mse)`` of ``(H, W)`` in dB, peak ``max|t|`` and 2π; None: the error is rounding."""
    roots = [math.sqrt(error) for error in _mean_error(2, recon, truth)]
    peaks = float(np.abs(truth).max()), 2 * np.pi
    if peaks[0] == 0:
        raise ValueError("truth must not be zero everywhere: its largest amplitude is the peak")
    pairs = zip(peaks, roots, strict=True)
    return [20 * math.log10(peak / root) if root > ROUNDING * peak else None for peak, root in pairs]


def phase_rmse_rad(recon: np.ndarray, truth: np.ndarray) -> float:
    """``sqrt(⟨wrap(φ_o − φ_t)²⟩)`` of ``(H, W)`` in rad; every pixel has the same weight."""
    return math.sqrt(_mean_error(2, recon, truth)[1])


def frc_curves(recon: np.ndarray, truth: np.ndarray) -> tuple[Curve | None, Curve | None]:
    """Ring correlations of amplitudes and phases of an aligned pair ``(H, W)``, as from :func:`frc`.

    None where either image is constant, and for both channels if a side is below 7 px.
    """
    _check_images(recon, truth)
    large = min(truth.shape) >= MIN_SIDE["frc50"]
    amplitude, phases = (large and all(pair) for pair in zip(_spread(recon), _spread(truth), strict=True))
    return (
        frc(np.abs(recon), np.abs(truth)) if amplitude else None,
        frc(phase(recon), phase(truth)) if phases else None,
    )


def score(recon: np.ndarray, truth: np.ndarray, mask: np.ndarray, region: Region) -> dict[str, Any]:
    """Every score of one image, as plain JSON values; ``CONVENTIONS`` says how each is defined.

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
    _check_images(recon, truth, mask)
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
    values = _scores(align(recon, truth, mask), truth)
    return {**values, **uncovered, "flags": _collapses(recon[mask], truth[mask]) + _limits(values, truth)}


def _scores(alignment: Alignment, truth: np.ndarray) -> dict[str, Any]:
    aligned, ratio = alignment.object, alignment.amplitude_ratio
    curves = frc_curves(aligned, truth)
    return {
        "ssim": [amplitude_ssim(aligned, truth), phase_ssim(aligned, truth)],
        "ms_ssim": ms_ssim(aligned, truth),
        "psnr": psnr(aligned, truth),
        "mae": mae(aligned, truth),
        "mse": mse(aligned, truth),
        **{
            name: [frc_crossing(*curve, threshold)[0] if curve else None for curve in curves]
            for name, threshold in FRC_THRESHOLDS.items()
        },
        "phase_rmse_rad": phase_rmse_rad(aligned, truth),
        "relative_error": relative_error(aligned, truth),
        "slow_phase_rad": slow_phase_rad(aligned, truth),
        "amplitude_ratio": ratio if math.isfinite(ratio) else None,
        "phase_slope_rad_per_px": list(alignment.phase_slope),
    }


def relative_error(aligned: np.ndarray, truth: np.ndarray) -> float | None:
    """``√(Σ|a − t|² / Σ|t − t̄|²)`` over the covered pixels of complex ``(H, W)``: 0 perfect, 1 nothing seen.

    None where the truth is constant.
    """
    covered = aligned != 0
    count, total = np.count_nonzero(covered), sum(part.sum() for part in _parts(np.where(covered, truth, 0)))
    error = contrast = power = 0.0
    for rows in bands(truth.shape):
        there = covered[rows]
        a, t = (image[rows][there].astype(complex) for image in (aligned, truth))
        error += float(np.sum(np.abs(a - t) ** 2))
        contrast += float(np.sum(np.abs(t - total / count) ** 2))
        power += float(np.sum(np.abs(t) ** 2))
    return math.sqrt(error / contrast) if contrast > CONSTANT**2 * power else None


def slow_phase_rad(aligned: np.ndarray, truth: np.ndarray) -> float:
    """Rms over ``(H, W)`` of the phase of ``a conj(t)`` below ``SLOW`` of Nyquist, in rad.

    What a solver that was ended too early leaves, and a score of small windows does not see.
    """
    wave = np.empty(truth.shape, np.complex64)
    for rows in bands(truth.shape):
        wave[rows] = aligned[rows] * truth[rows].conj()
    wave = fft.fft2(wave, overwrite_x=True)
    down, along = (2 * np.fft.fftfreq(side) for side in truth.shape)
    for rows in bands(truth.shape):
        wave[rows] *= np.hypot(down[rows, None], along) < SLOW
    wave = fft.ifft2(wave, overwrite_x=True)
    return math.sqrt(sum(np.sum(phase(part) ** 2) for part in _parts(wave)) / wave.size)


def _collapses(recon: np.ndarray, truth: np.ndarray) -> list[str]:
    """Flags for a constant amplitude or phase where the truth's is not; covered pixels ``(K,)``, raw."""
    (level, angles), (true_level, true_angles) = (_statistics(values) for values in (recon, truth))
    varies = _spread(truth)
    flat = level[1] * true_level[0] < CONTRAST * true_level[1] * level[0]
    flat_phase = angles[1] < CONTRAST * true_angles[1]
    found = {COLLAPSED: varies[0] and flat, COLLAPSED_PHASE: varies[1] and flat_phase}
    return [name for name, present in found.items() if present]


def _statistics(values: np.ndarray) -> list[tuple[float, float]]:
    """Mean and standard deviation of the amplitudes and of the phases of ``values (K,)``."""
    brightest, found = _brightest(values), []
    for channel in (np.abs, lambda part: _angles(part, brightest)):
        sizes, sums = zip(*((part.size, part.sum()) for part in map(channel, _parts(values))), strict=True)
        mean = sum(sums) / sum(sizes)
        square = sum(np.sum((part - mean) ** 2) for part in map(channel, _parts(values)))
        found.append((mean, math.sqrt(square / sum(sizes))))
    return found


def _limits(values: dict[str, Any], truth: np.ndarray) -> list[str]:
    """A flag ``<score>_<channel>_<why>`` for every None, clipped MS-SSIM and FRC that is never crossed."""
    flags = [] if values["amplitude_ratio"] is not None else ["amplitude_ratio_infinite"]
    spreads = _spread(truth)
    for name in SCORES:
        small = min(truth.shape) < MIN_SIDE.get(name, 0)
        for channel, value, spread in zip(CHANNELS, values[name], spreads, strict=True):
            why = ""
            if value is None and name == "psnr":
                why = "infinite"
            elif value is None:
                why = "region_too_small" if small else "undefined" if spread else "truth_constant"
            elif name == "ms_ssim" and value == 0:
                why = "clipped"
            elif name in FRC_THRESHOLDS and value == 1:  # a crossing lies below the last ring
                why = "never_crossed"
            flags += [f"{name}_{channel}_{why}"] if why else []
    return flags


def score_images(recons: np.ndarray, truths: np.ndarray, masks: np.ndarray, region: Region) -> dict[str, Any]:
    """The means over images ``(I, M, M)`` of every number of :func:`score`, None where any image has None.

    ``per_image`` holds each image's own dictionary, and ``flags`` the union of theirs.
    """
    _check_images(recons, truths, masks, ndim=3)
    rows = [score(*image, region) for image in zip(recons, truths, masks, strict=True)]
    means = {name: _mean([row[name] for row in rows]) for name in rows[0] if name != "flags"}
    flags = list(dict.fromkeys(flag for row in rows for flag in row["flags"]))
    return {**means, "flags": flags, "per_image": rows}


def _mean(values: list[Any]) -> Any:
    """Mean of numbers, or of lists entry by entry; None where any is None."""
    if isinstance(values[0], list):
        return [_mean(list(entries)) for entries in zip(*values, strict=True)]
    return None if any(value is None for value in values) else float(np.mean(values))


def reference_rows(truths: np.ndarray, region: Region) -> dict[str, dict[str, Any]]:
    """What a score is worth: ``constant`` and ``truth_blurred_1px``, scored as if they were reconstructions.

    The constant is each image's mean amplitude in the region, at phase zero; the blur is a Gaussian of
    σ = 1 px over the complex truths ``(I, M, M)``.
    """
    covered = np.ones(truths.shape, bool)
    _check_images(truths, truths, covered, ndim=3)
    level = np.abs(region.crop(truths)).mean(axis=(1, 2), keepdims=True)  # (I, 1, 1)
    rows = {
        "constant": np.broadcast_to(level, truths.shape).astype(np.complex128),
        "truth_blurred_1px": gaussian_filter(truths.astype(np.complex128), (0, 1, 1), mode="nearest"),
    }
    return {name: score_images(images, truths, covered, region) for name, images in rows.items()}


def _check_images(
    recon: np.ndarray, truth: np.ndarray, mask: np.ndarray | None = None, ndim: int = 2
) -> None:
    """Complex reconstruction and truth and a boolean mask must share one non-empty shape."""
    for name, image in (("recon", recon), ("truth", truth)):
        if not np.iscomplexobj(image):
            raise ValueError(f"{name} must be complex, got {image.dtype}; pass the object, not its amplitude")
    if mask is not None and mask.dtype != np.bool_:
        raise ValueError(f"mask must be bool, True where the object is covered, got {mask.dtype}")
    shapes = {"recon": recon.shape, "truth": truth.shape} | ({} if mask is None else {"mask": mask.shape})
    if recon.ndim != ndim or recon.size == 0 or len(set(shapes.values())) > 1:
        layout = "(H, W)" if ndim == 2 else "(I, H, W)"
        raise ValueError(f"{', '.join(shapes)} must share one non-empty shape {layout}, got {shapes}")
