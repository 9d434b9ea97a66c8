"""A reconstruction beside the truth, without what diffraction leaves open.

The scored rectangle; the complex factor and the phase ramp of an object; its place, wherever its array
begins. A probe is known up to a complex factor, a shift (the object moves with it) and a phase ramp (the
object gets the opposite one); positions are known up to a common shift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import fft
from scipy.ndimage import binary_erosion, distance_transform_edt, fourier_shift
from scipy.optimize import minimize
from skimage.registration import phase_cross_correlation
from skimage.transform import downscale_local_mean

from ptycho.scan.ramp import phase_slope, tilt
from ptycho.scan.windows import inner_product

CONSTANT = 1e-6  # max−min (of the largest amplitude, or in rad) below which an image is constant


@dataclass(frozen=True)
class Region:
    """The scored rectangle ``[top, top + height) × [left, left + width)``, in object pixels."""

    top: int
    left: int
    height: int
    width: int

    def crop(self, array: np.ndarray) -> np.ndarray:
        """Cut the rectangle from the last two axes, ``(…, M, M)`` to ``(…, height, width)``; a view."""
        bottom, right = self.top + self.height, self.left + self.width
        if array.ndim < 2 or array.shape[-2] < bottom or array.shape[-1] < right:
            raise ValueError(f"array must be at least {bottom} × {right} to hold {self}, got {array.shape}")
        return array[..., self.top : bottom, self.left : right]


@dataclass(frozen=True)
class Alignment:
    """``object = s · recon · exp(−i phase_slope·r)``, zero where uncovered; s: least-squares scale.

    Attributes:
        object: aligned reconstruction, ``(H, W)`` complex128.
        amplitude_ratio: ``1/|s|``: how large the raw reconstruction's amplitude is against the truth.
        phase_slope: (row, col) in rad/px by which the raw reconstruction is tilted against the truth.
    """

    object: np.ndarray
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
    check_images(recon, truth, mask)
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
    return Alignment(flat, ratio, (float(slope[0]), float(slope[1])))


def phase(image: np.ndarray) -> np.ndarray:
    """Return the angle of ``image (…)`` in (−π, π]; zero where it is zero, though the angle of −0 is π."""
    return np.where(image == 0, 0, np.angle(image))


def angles_of(values: np.ndarray) -> np.ndarray:
    """Return phases of nonzero values against the brightest, ``(K,)``: a flat phase of π does not jump.

    A single zero if there are none.
    """
    values = values[values != 0]
    if not values.size:
        return np.zeros(1)
    return np.angle(values * np.complex128(values[np.abs(values).argmax()]).conj())


def spread(image: np.ndarray) -> tuple[float, float]:
    """Return max−min of amplitude and phase (rad) of ``image (H, …)``; zero if constant to rounding."""
    levels = np.abs(image)
    amplitude, angle = float(np.ptp(levels)), float(np.ptp(angles_of(image)))
    return amplitude * (amplitude > CONSTANT * levels.max()), angle * (angle > CONSTANT)


def check_images(recon: np.ndarray, truth: np.ndarray, mask: np.ndarray) -> None:
    """Raise unless complex reconstruction, truth and a boolean mask share one non-empty shape ``(H, W)``."""
    for name, image in (("recon", recon), ("truth", truth)):
        if not np.iscomplexobj(image):
            raise ValueError(f"{name} must be complex, got {image.dtype}; pass the object, not its amplitude")
    if mask.dtype != np.bool_:
        raise ValueError(f"mask must be bool, True where the object is covered, got {mask.dtype}")
    shapes = {"recon": recon.shape, "truth": truth.shape, "mask": mask.shape}
    if recon.ndim != 2 or recon.size == 0 or len(set(shapes.values())) > 1:
        raise ValueError(f"{', '.join(shapes)} must share one non-empty shape (H, W), got {shapes}")


def in_frame(
    truth: np.ndarray,
    recon: np.ndarray,
    mask: np.ndarray,
    inside: np.ndarray | None = None,
    largest: int = 1024,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the truth in the frame of the reconstruction, and where it is known there.

    The shift is that of the largest correlation of the two, each without its mean; global phase and scale do
    not matter to it, a phase plane does: take it off first. Of images with sides above ``largest``,
    binned ones are registered first, then a part. The truth is shifted by the fraction of a pixel on its
    Fourier transform, so that the reconstruction stays as it is.

    Args:
        truth: complex ``(H, W)`` of any size.
        recon, mask: complex ``(M, M)`` and bool, the covered pixels.
        inside: bool ``(H, W)``, where the truth is known; None: everywhere.

    Returns:
        complex ``(M, M)``, zero where it is not known, and bool ``(M, M)``.
    """
    inside = np.ones(truth.shape, bool) if inside is None else inside
    if not inside.all():
        truth = _faded(truth, inside)
    side = [max(a, b) for a, b in zip(truth.shape, recon.shape, strict=True)]
    images = [np.where(mask, recon - recon[mask].mean(), 0), truth - truth.mean()]
    factor = -(-max(side) // largest)
    images = [_padded(image, side) for image in images]
    if factor > 1:
        images = [downscale_local_mean(image, (factor, factor)) for image in images]
    shift = factor * _shift(*images)
    placed, there = _moved(truth, inside, shift, side, recon.shape)
    there &= mask
    part = _most_of(there, largest)
    weight = there[part] * np.outer(*(np.hanning(n + 2)[1:-1] for n in there[part].shape))
    again = [weight * (image[part] - image[part][there[part]].mean()) for image in (recon, placed)]
    placed, known = _moved(truth, inside, shift + _shift(*again), side, recon.shape)
    known &= mask
    placed[~known] = 0
    return placed, known


def _most_of(there: np.ndarray, side: int) -> tuple[slice, slice]:
    """Return that square of a tiling by ``side`` pixels which holds most of ``there (M, M)``."""
    rows, cols = (range(0, n, side) for n in there.shape)
    squares = [np.s_[row : row + side, col : col + side] for row in rows for col in cols]
    return max(squares, key=lambda square: np.count_nonzero(there[square]))


def _faded(image: np.ndarray, inside: np.ndarray, pixels: float = 3.0) -> np.ndarray:
    """Continue an image outside, and fade to its mean within ``pixels``: an edge would ring when shifted."""
    distance, nearest = distance_transform_edt(~inside, return_indices=True)
    mean = image[inside].mean()
    return mean + (image[tuple(nearest)] - mean) * np.exp(-np.square(distance / pixels))


def _shift(fixed: np.ndarray, moving: np.ndarray) -> np.ndarray:
    """Return the shift (row, col) of ``moving``, to a fiftieth of a pixel."""
    shift, *_ = phase_cross_correlation(fixed, moving, upsample_factor=50, normalization=None)
    return np.asarray(shift, float)


def _moved(
    truth: np.ndarray,
    inside: np.ndarray,
    shift: np.ndarray,
    side: list[int],
    shape: tuple[int, ...],
    edge: int = 2,
    rim: int = 4,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the truth shifted, on an array of ``shape``, and where it is known there.

    A shift by a fraction spoils pixels beside its own ``edge``, and a ``rim`` beside unknown ones.
    """
    known = np.zeros(side, bool)
    own = (slice(edge, truth.shape[0] - edge), slice(edge, truth.shape[1] - edge))
    known[own] = (inside if inside.all() else binary_erosion(inside, iterations=rim))[own]
    whole, level = np.round(shift).astype(int), truth.mean()
    moved = fft.ifft2(fourier_shift(fft.fft2(_padded(truth - level, side)), shift - whole))
    places = np.ix_(*((np.arange(n) - k) % m for n, k, m in zip(shape, whole, side, strict=True)))
    return moved[places] + level, known[places]


def _padded(image: np.ndarray, side: list[int]) -> np.ndarray:
    return np.pad(image, [(0, n - k) for n, k in zip(side, image.shape, strict=True)])


def probe_error(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Return ``min ‖c·P(x − s)·exp(ik·x) − T‖ / ‖T‖`` over complex c, a shift s and a ramp k, for ``(N, N)``.

    With the best c this is ``√(1 − γ²)``, γ the normalised overlap of the two, whose largest value is looked
    for from no shift and from that of the largest correlation.
    """
    P, T = (probe / np.linalg.norm(probe) for probe in (estimate.astype(complex), truth.astype(complex)))
    N, spectrum = len(P), np.fft.fft2(P)
    nu, x = np.fft.fftfreq(N), (np.arange(N) - N // 2) / N

    def lost(moves: np.ndarray) -> float:
        shift = np.exp(-2j * np.pi * (moves[0] * nu[:, None] + moves[1] * nu))
        ramp = np.exp(2j * np.pi * (moves[2] * x[:, None] + moves[3] * x))
        return 1 - abs(np.vdot(T, np.fft.ifft2(spectrum * shift) * ramp)) ** 2

    correlation = np.abs(np.fft.ifft2(np.fft.fft2(T) * spectrum.conj()))
    peak = np.array(np.unravel_index(correlation.argmax(), correlation.shape))
    shift = (peak + N // 2) % N - N // 2
    starts = np.zeros(4), np.array([*shift, 0.0, 0.0])
    return float(np.sqrt(max(min(minimize(lost, start).fun for start in starts), 0.0)))


def position_error_px(positions: np.ndarray, truth: np.ndarray, image: np.ndarray) -> float:
    """Return the rms of ``positions − truth (J, 2)`` in pixels, without the mean of each ``image (J,)``."""
    error = positions.astype(float) - truth
    for i in np.unique(image):
        error[image == i] -= error[image == i].mean(axis=0)
    return float(np.sqrt(np.mean(error**2)))
