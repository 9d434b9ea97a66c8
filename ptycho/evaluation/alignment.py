"""A reconstruction beside the truth: the scored rectangle, and the alignment that diffraction leaves open."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ptycho.scan.bands import bands, inner_product
from ptycho.scan.ramp import phase_slope, tilt

CONSTANT = 1e-6  # max−min (of the largest amplitude, or in rad) below which an image is constant


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


def angles_of(values: np.ndarray, brightest: complex) -> np.ndarray:
    """Return phases of nonzero values against the brightest, ``(K,)``: a flat phase of π does not jump."""
    return np.angle(values[values != 0] * np.conj(brightest))


def brightest(image: np.ndarray) -> complex:
    """Return the value of largest modulus of ``image (H, …)``, read band by band."""
    candidates = (complex(part.flat[np.argmax(np.abs(part))]) for part in parts_of(image))
    return max(candidates, key=abs)


def spread(image: np.ndarray) -> tuple[float, float]:
    """Return max−min of amplitude and phase (rad) of ``image (H, …)``; zero if constant to rounding."""
    most = brightest(image)
    amplitude, angle = (
        _range(function(part) for part in parts_of(image))
        for function in (np.abs, lambda part: angles_of(part, most))
    )
    limits = CONSTANT * abs(most), CONSTANT
    return amplitude * (amplitude > limits[0]), angle * (angle > limits[1])


def parts_of(image: np.ndarray) -> Iterator[np.ndarray]:
    """Yield an image ``(H, …)`` band by band, in double precision."""
    return (image[rows].astype(complex, copy=False) for rows in bands(image.shape))


def _range(parts: Iterable[np.ndarray]) -> float:
    """Max−min of all numbers of some arrays; zero where there is none."""
    ends = [(part.min(), part.max()) for part in parts if part.size]
    return float(max(high for _, high in ends) - min(low for low, _ in ends)) if ends else 0.0


def check_images(recon: np.ndarray, truth: np.ndarray, mask: np.ndarray | None = None, ndim: int = 2) -> None:
    """Raise unless complex reconstruction, truth and a boolean mask share one non-empty shape ``(…)``."""
    for name, image in (("recon", recon), ("truth", truth)):
        if not np.iscomplexobj(image):
            raise ValueError(f"{name} must be complex, got {image.dtype}; pass the object, not its amplitude")
    if mask is not None and mask.dtype != np.bool_:
        raise ValueError(f"mask must be bool, True where the object is covered, got {mask.dtype}")
    shapes = {"recon": recon.shape, "truth": truth.shape} | ({} if mask is None else {"mask": mask.shape})
    if recon.ndim != ndim or recon.size == 0 or len(set(shapes.values())) > 1:
        layout = "(H, W)" if ndim == 2 else "(I, H, W)"
        raise ValueError(f"{', '.join(shapes)} must share one non-empty shape {layout}, got {shapes}")
