"""Separable, gather-free resampling: translation and sub-pixel windows as two matrix products.

Bilinear interpolation factors along the axes. With sample points ``y_i`` (rows) and ``x_j`` (columns),

    out = Wy · image · Wxᵀ,      Wy[i, m] = max(0, 1 − |y_i − m|),      Wx[j, n] = max(0, 1 − |x_j − n|).

Integer sample points copy pixels exactly, points outside the image read zero, the gradient is two
matrix products again (no scatter), and the result is differentiable in the sample points.
"""

from __future__ import annotations

import tensorflow as tf


def hat_weights(points: tf.Tensor, size: int) -> tf.Tensor:
    """Linear-interpolation weights ``W[…, i, m] = max(0, 1 − |points[…, i] − m|)``.

    Args:
        points: sample points in pixels, ``(…, n)`` float.
        size: number of pixels along the sampled axis.

    Returns:
        ``(…, n, size)`` in the dtype of ``points``; a row sums to one where its point lies inside.
    """
    pixels = tf.range(size, dtype=points.dtype)
    return tf.maximum(tf.zeros([], points.dtype), 1 - tf.abs(points[..., None] - pixels))


def resample(images: tf.Tensor, wy: tf.Tensor, wx: tf.Tensor) -> tf.Tensor:
    """``Wy · image · Wxᵀ`` over the last two axes.

    Args:
        images: ``(…, H, W)`` real or complex.
        wy: ``(…, h, H)`` row weights, real.
        wx: ``(…, w, W)`` column weights, real.

    Returns:
        ``(…, h, w)`` in the dtype of ``images``; leading axes broadcast as in ``tf.matmul``.
    """
    if images.dtype.is_complex:
        return tf.complex(*(resample(part(images), wy, wx) for part in (tf.math.real, tf.math.imag)))
    return tf.matmul(tf.matmul(wy, images), wx, transpose_b=True)


def resample_adjoint(images: tf.Tensor, wy: tf.Tensor, wx: tf.Tensor) -> tf.Tensor:
    """The adjoint of :func:`resample`, ``Wyᵀ · image · Wx``: ``(…, h, w)`` to ``(…, H, W)``."""
    if images.dtype.is_complex:
        return tf.complex(*(resample_adjoint(part(images), wy, wx) for part in (tf.math.real, tf.math.imag)))
    return tf.matmul(tf.matmul(wy, images, transpose_a=True), wx)


def translate(images: tf.Tensor, shifts: tf.Tensor) -> tf.Tensor:
    """Translate images by sub-pixel shifts, filling with zero.

    ``out[b, i, j] = images[b, i − shifts[b, 0], j − shifts[b, 1]]``, bilinear: a positive shift moves the
    content down and to the right.

    Args:
        images: ``(B, H, W)`` real or complex.
        shifts: ``(B, 2)`` (row, col) in pixels.

    Returns:
        ``(B, H, W)`` in the dtype of ``images``.
    """
    height, width = images.shape[-2:]
    shifts = tf.cast(shifts, images.dtype.real_dtype)
    rows = tf.range(height, dtype=shifts.dtype) - shifts[:, 0:1]
    cols = tf.range(width, dtype=shifts.dtype) - shifts[:, 1:2]
    return resample(images, hat_weights(rows, height), hat_weights(cols, width))
