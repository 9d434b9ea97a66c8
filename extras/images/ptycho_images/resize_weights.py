"""Interpolation weights of ``tf.image.resize`` along one axis, as dense matrices.

Row i of a matrix W ``(n, m)`` holds the weights with which sample i of n reads the m pixels of the image.
With the scale ``s = m/n`` (s > 1 makes the image smaller) and the kernel k of the method,

    bilinear:   x_i = (i + ½)·s − ½,      W[i, p] = max(0, 1 − |x_i − p|), border pixels repeated
    bicubic:    the same x_i, whose fraction is rounded to 1/1024, and Keys' kernel
    area:       W[i, p] = |[i·s, (i+1)·s] ∩ [p, p+1]| / s
    nearest:    W[i, p] = 1 for p = ⌊(i + ½)·s⌋
    others:     W[i, p] ∝ k((p + ½ − (i + ½)·s) / r),   r = max(s, 1) with antialiasing, else 1

and pixels outside the image get no weight; rows sum to one. Antialiasing replaces ``bilinear`` and
``bicubic`` by the last line with the triangle and Keys' kernel. Sample points are float32 in the order of
TensorFlow's kernels (sampling_kernels.h, scale_and_translate_op.cc, resize_bicubic_op.cc, resize_area_op.cc
of 2.21), since one rounding decides whether a pixel lies within the radius; the weights are float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

Kernel = Callable[[np.ndarray], np.ndarray]


@cache
def resize_weights(pixels: int, samples: int, method: str, antialias: bool) -> np.ndarray:
    """Return ``W (samples, pixels)`` float64, read-only, of a method in :data:`METHODS`."""
    weights = METHODS[method, antialias](pixels, samples)
    weights.flags.writeable = False
    return weights


def _step(pixels: int, samples: int) -> np.float32:
    """Pixels from one sample to the next."""
    return np.float32(pixels) / np.float32(samples)


def _half_pixel_points(pixels: int, samples: int) -> np.ndarray:
    """``(i + ½)·s`` in float32."""
    return (np.arange(samples, dtype=np.float32) + np.float32(0.5)) * _step(pixels, samples)


def _placed(index: np.ndarray, weight: np.ndarray, pixels: int) -> np.ndarray:
    """``W (n, pixels)`` from ``index (n, t)``, held inside the image, and ``weight (n, t)``."""
    weights = np.zeros((len(index), pixels))
    rows = np.broadcast_to(np.arange(len(index))[:, None], index.shape)
    np.add.at(weights, (rows, np.clip(index, 0, pixels - 1)), weight)
    return weights


def _linear(pixels: int, samples: int) -> np.ndarray:
    points = _half_pixel_points(pixels, samples) - np.float32(0.5)
    below = np.floor(points)
    fraction = (points - below).astype(np.float64)
    index = below.astype(np.int64)[:, None] + [0, 1]
    return _placed(index, np.stack([1 - fraction, fraction], axis=1), pixels)


def _nearest(pixels: int, samples: int) -> np.ndarray:
    index = np.floor(_half_pixel_points(pixels, samples)).astype(np.int64)[:, None]
    return _placed(index, np.ones(index.shape), pixels)


def _cubic_by_table(pixels: int, samples: int, steps: int = 1024) -> np.ndarray:
    points = _half_pixel_points(pixels, samples) - np.float32(0.5)
    below = np.floor(points)
    fraction = np.rint((points - below) * np.float32(steps)) / steps
    index = below.astype(np.int64)[:, None] + np.arange(-1, 3)
    weight = _keys(fraction.astype(np.float64)[:, None] - np.arange(-1, 3))
    return _normalised(_placed(index, np.where((index >= 0) & (index < pixels), weight, 0), pixels))


def _area(pixels: int, samples: int) -> np.ndarray:
    step = _step(pixels, samples)
    edges = np.arange(samples + 1, dtype=np.float32) * step
    start, end = edges[:-1, None], edges[1:, None]
    index = np.floor(start).astype(np.int64) + np.arange(int(np.ceil(step)) + 2)
    # differences of large numbers are inexact: where both edges lie in one pixel, the step itself
    overlap = np.where(index < start, index + 1 - start, 1)
    overlap = np.where(index + 1 > end, np.where(index < start, step, end - index), overlap)
    return _placed(index, np.maximum(overlap, 0) / np.float64(step), pixels)


def _by_kernel(kernel: Kernel, radius: float, antialias: bool) -> Callable[[int, int], np.ndarray]:
    def weights(pixels: int, samples: int) -> np.ndarray:
        scale = np.float32(samples) / np.float32(pixels)
        step = np.float32(1.0 / np.float64(scale))
        points = (np.arange(samples, dtype=np.float32) + np.float32(0.5)) * step
        inverse = np.float32(1) / (max(step, np.float32(1)) if antialias else np.float32(1))
        distance = (np.arange(pixels, dtype=np.float32) + np.float32(0.5)) - points[:, None]
        return _normalised(_within(kernel, radius)(np.abs(distance * inverse)))

    return weights


def _within(kernel: Kernel, radius: float) -> Kernel:
    """``kernel`` where ``distance < radius``, else zero."""
    return lambda distance: np.where(distance < radius, kernel(distance.astype(np.float64)), 0)


def _normalised(weights: np.ndarray) -> np.ndarray:
    """Rows divided by their sums; a row without weight stays zero."""
    total = weights.sum(axis=1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def _lanczos(radius: float) -> Kernel:
    """TensorFlow takes one within 10⁻³ of zero."""
    return lambda d: np.where(d <= 1e-3, 1, np.sinc(d) * np.sinc(d / radius))


def _keys(distance: np.ndarray) -> np.ndarray:
    """Keys' cubic convolution with a = −½ (Keys 1981, eq. 15)."""
    d = np.abs(distance)
    far = ((-0.5 * d + 2.5) * d - 4) * d + 2
    return np.where(d < 1, (1.5 * d - 2.5) * d * d + 1, np.where(d < 2, far, 0))


def _mitchell(distance: np.ndarray) -> np.ndarray:
    """Mitchell and Netravali 1988, eq. 8 with B = C = ⅓."""
    d = distance
    near = (7 / 6 * d - 2) * d * d + 8 / 9
    return np.where(d < 1, near, ((-7 / 18 * d + 2) * d - 10 / 3) * d + 16 / 9)


def _gaussian(distance: np.ndarray) -> np.ndarray:
    """Standard deviation ½, cut at 1½ (Turkowski 1990)."""
    return np.exp(-2 * distance**2)


def _triangle(distance: np.ndarray) -> np.ndarray:
    return 1 - distance


_KERNELS: dict[str, tuple[Kernel, float]] = {
    "bilinear": (_triangle, 1),
    "bicubic": (_keys, 2),
    "lanczos3": (_lanczos(3), 3),
    "lanczos5": (_lanczos(5), 5),
    "gaussian": (_gaussian, 1.5),
    "mitchellcubic": (_mitchell, 2),
}

METHODS: dict[tuple[str, bool], Callable[[int, int], np.ndarray]] = {
    (name, antialias): _by_kernel(*kernel, antialias)
    for name, kernel in _KERNELS.items()
    for antialias in (False, True)
} | {
    ("bilinear", False): _linear,
    ("bicubic", False): _cubic_by_table,
    **{("area", antialias): _area for antialias in (False, True)},
    **{("nearest", antialias): _nearest for antialias in (False, True)},
}
"""Method and antialiasing to the function of pixels and samples that gives the weights."""
