"""Resize: ``tf.image.resize`` for XLA, all methods, with the true adjoint as the gradient.

Every method is separable and linear, ``out = Wy · image · Wxᵀ`` with the matrices of
:mod:`ptycho_images.resize_weights`, which are known when the function is traced. The gradient is
``Wyᵀ · g · Wx``, by the same routine. A matrix with few weights a row is applied as a sum of taps, each of
which reads whole rows or single pixels; one with many is a product. Images must be finite where products are
used: a weight of zero times NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from ptycho.xla.fusion import materialised
from ptycho.xla.precision import IMAGE_DTYPES, INTEGER_DTYPES, by_parts, check_image_dtype, matmul
from ptycho.xla.taps import Tap, sum_of_taps
from ptycho_images.channels import checked_size
from ptycho_images.resize_weights import METHODS, resize_weights


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
    product = matmul(tf.constant(weights, images.dtype), flat)
    return tf.reshape(product, [-1, len(weights), width, channels])


def _columns(images: tf.Tensor, weights: np.ndarray, most_taps: int = 8) -> tf.Tensor:
    """``image · Wᵀ`` along the columns: as taps, or by one product of all rows, ``(B·h·C, W) · (W, w)``."""
    taps = _static_taps(weights)
    if len(taps) <= most_taps:
        return sum_of_taps(taps, 2, lambda index: _read(images, index, 2))
    images = tf.transpose(images, [0, 1, 3, 2])
    product = matmul(tf.reshape(images, [-1, weights.shape[1]]), tf.constant(weights.T, images.dtype))
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
