"""Resize: ``tf.image.resize`` for XLA, all methods, with the true adjoint as the gradient.

Every method is separable and linear, ``out = Wy · image · Wxᵀ`` with the matrices of
:func:`resize_weights`, which are known when the function is traced. The gradient is
``Wyᵀ · g · Wx``, by the same routine. A matrix with few weights a row is applied as a sum of taps, each of
which reads whole rows or single pixels; one with many is a product. Images must be finite where products are
used: a weight of zero times NaN is NaN.

Interpolation weights of ``tf.image.resize`` along one axis, as dense matrices.

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

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import tensorflow as tf

from ptycho.xla.precision import IMAGE_DTYPES, INTEGER_DTYPES, by_parts, check_image_dtype, materialised
from ptycho.xla.resample import Tap, sum_of_taps
from ptycho_images.channels import checked_size

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


def _nearest_weights(pixels: int, samples: int) -> np.ndarray:
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
    **{("nearest", antialias): _nearest_weights for antialias in (False, True)},
}
"""Method and antialiasing to the function of pixels and samples that gives the weights."""


def resize(
    images: tf.Tensor,
    size: Sequence[int],
    method: str = "bilinear",
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: str | None = None,
) -> tf.Tensor:
    """Resize images as ``tf.image.resize`` does, compiled or not.

    Args:
        images: ``(B, H, W, C)`` or ``(H, W, C)``, integer (to 64 bits; unsigned to 16), real or complex; H
            and W known when the function is traced.
        size: ``(h, w)``, positive integers, known when the function is traced.
        method: ``bilinear``, ``nearest``, ``bicubic``, ``area``, ``lanczos3``, ``lanczos5``, ``gaussian`` or
            ``mitchellcubic``.
        preserve_aspect_ratio: resize to the largest size within ``size`` that has the images' shape.
        antialias: widen the kernel where the image becomes smaller. ``nearest`` and ``area`` ignore it.
        name: name of the scope.

    Returns:
        ``(B, h, w, C)`` or ``(h, w, C)``: float32 for real and integer images, as in TensorFlow (also for
        float64); the dtype of the images for ``nearest`` and for complex ones, whose parts are resized.
        Differentiable in floating and complex ``images``, with the exact adjoint as the gradient. float32
        values agree with TensorFlow's CPU kernels to 2·10⁻⁶ of the largest pixel.

    Raises:
        ValueError: wrong rank, dtype, method or size, or a size that is not known while tracing.
    """
    with tf.name_scope(name or "resize"):
        images = tf.convert_to_tensor(images)
        height, width = _checked_image_size(images, method)
        h, w = checked_size("size", size)
        if preserve_aspect_ratio:
            h, w = _fitted((height, width), (h, w))
        batch = images if images.shape.rank == 4 else images[None]
        wy = resize_weights(height, h, method, bool(antialias))
        wx = resize_weights(width, w, method, bool(antialias))
        resized = _nearest(batch, wy, wx) if method == "nearest" else _blended(batch, wy, wx)
        return resized if images.shape.rank == 4 else resized[0]


def _blended(images: tf.Tensor, wy: np.ndarray, wx: np.ndarray) -> tf.Tensor:
    if not images.dtype.is_complex:
        images = tf.cast(images, tf.float32)
    return by_parts(lambda part, _: _separable(part, wy, wx), images)


def _nearest(images: tf.Tensor, wy: np.ndarray, wx: np.ndarray) -> tf.Tensor:
    """Copies of pixels, of any dtype."""

    @tf.custom_gradient
    def read(images: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        rows, cols = (np.argmax(weights, axis=1) for weights in (wy, wx))
        copied = tf.gather(tf.gather(images, rows, axis=1), cols, axis=2)
        return copied, lambda upstream: by_parts(lambda g, _: _separable(g, wy.T, wx.T), upstream)

    return read(images)


def _separable(images: tf.Tensor, wy: np.ndarray, wx: np.ndarray) -> tf.Tensor:
    """``Wy · image · Wxᵀ`` of real ``images (B, H, W, C)``; the axis first that becomes shorter by more.

    Between the axes the image is stored: fused, t taps and u taps would be t·u reads a pixel.
    """
    rows_first = len(wy) * wx.shape[1] <= wy.shape[1] * len(wx)

    @tf.custom_gradient
    def apply(images: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        if rows_first:
            resized = _columns(materialised(_rows(images, wy), images), wx)
        else:
            resized = _rows(materialised(_columns(images, wx), images), wy)
        return resized, lambda upstream: _separable(upstream, wy.T, wx.T)

    return apply(images)


def _rows(images: tf.Tensor, weights: np.ndarray, most_taps: int = 32) -> tf.Tensor:
    """``W · image`` along the rows: as taps, or by one product ``(h, H) · (H, W·C)`` for each image."""
    taps = _static_taps(weights)
    if len(taps) <= most_taps:
        return sum_of_taps(taps, 1, lambda index: _read(images, index, 1))
    width, channels = tf.unstack(tf.shape(images)[2:])
    flat = tf.reshape(images, [-1, weights.shape[1], width * channels])
    product = tf.matmul(tf.constant(weights, images.dtype), flat)
    return tf.reshape(product, [-1, len(weights), width, channels])


def _columns(images: tf.Tensor, weights: np.ndarray, most_taps: int = 8) -> tf.Tensor:
    """``image · Wᵀ`` along the columns: as taps, or by one product of all rows, ``(B·h·C, W) · (W, w)``."""
    taps = _static_taps(weights)
    if len(taps) <= most_taps:
        return sum_of_taps(taps, 2, lambda index: _read(images, index, 2))
    images = tf.transpose(images, [0, 1, 3, 2])
    product = tf.matmul(tf.reshape(images, [-1, weights.shape[1]]), tf.constant(weights.T, images.dtype))
    shape = tf.concat([tf.shape(images)[:3], [len(weights)]], axis=0)
    return tf.transpose(tf.reshape(product, shape), [0, 1, 3, 2])


def _static_taps(weights: np.ndarray) -> list[Tap]:
    """The weights that are not zero, with indices and weights ``(1, n)`` that are NumPy arrays."""
    count = max(1, int(np.count_nonzero(weights, axis=1).max()))
    index = np.sort(np.argsort(weights == 0, axis=1, kind="stable")[:, :count], axis=1)
    values = np.take_along_axis(weights, index, axis=1)
    return [Tap(index[None, :, t], values[None, :, t]) for t in range(count)]


def _read(images: tf.Tensor, index: np.ndarray, axis: int) -> tf.Tensor:
    """Pixels ``index (1, n)`` along ``axis``, by a slice where they are evenly spaced."""
    steps = np.unique(np.diff(index[0]))
    if len(steps) == 1 and steps[0] > 0:
        along = slice(int(index[0, 0]), int(index[0, -1]) + 1, int(steps[0]))
        return images[:, along] if axis == 1 else images[:, :, along]
    return tf.gather(images, index[0], axis=axis)


def _checked_image_size(images: tf.Tensor, method: str) -> tuple[int, int]:
    check_image_dtype(images.dtype, "images", INTEGER_DTYPES + IMAGE_DTYPES)
    if images.shape.rank not in (3, 4):
        raise ValueError(f"images has shape {images.shape}; allowed: (B, H, W, C) or (H, W, C).")
    height, width = images.shape[-3:-1]
    if None in (height, width):
        raise ValueError(
            f"images has shape {images.shape}; height and width must be known while tracing: "
            "call with images of one size, or give the function an input_signature."
        )
    if 0 in (height, width):
        raise ValueError(f"images has shape {images.shape}; height and width must be positive.")
    names = sorted({name for name, _ in METHODS})
    if method not in names:
        raise ValueError(f"method is {method!r}; allowed: {', '.join(names)}.")
    return height, width


def _fitted(size: tuple[int, int], largest: tuple[int, int]) -> tuple[int, int]:
    """The size of the same shape that fits into ``largest``, rounded as in TensorFlow."""
    sides = np.asarray(size, np.float32)
    h, w = map(int, np.rint((np.asarray(largest, np.float32) / sides).min() * sides))
    if h < 1 or w < 1:
        raise ValueError(f"size is {largest}: images of {size} would become {(h, w)}; make it larger.")
    return h, w
