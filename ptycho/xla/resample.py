"""Separable, gather-free resampling: translation and sub-pixel windows as two matrix products.

Bilinear interpolation factors along the axes. With sample points ``y_i`` (rows) and ``x_j`` (columns),

    out = Wy · image · Wxᵀ,      Wy[i, m] = max(0, 1 − |y_i − m|),      Wx[j, n] = max(0, 1 − |x_j − n|).

Integer sample points copy pixels exactly, points outside the image read zero, the gradient is two
matrix products again (no scatter), and the result is differentiable in the sample points. Images must be
finite: a zero weight times NaN is NaN, so one NaN pixel reaches every pixel of its image.
"""

from __future__ import annotations

import tensorflow as tf

from ptycho.xla.precision import by_parts, check_image_dtype, compute_dtype, matmul


def hat_weights(points: tf.Tensor, size: int) -> tf.Tensor:
    """Linear-interpolation weights ``W[…, i, m] = max(0, 1 − |points[…, i] − m|)``.

    At an integer point, where the weight has a kink, its derivative is the mean of both sides, so that a
    resampled image has the central difference as its gradient there (and not zero).

    Args:
        points: sample points in pixels, ``(…, n)`` float32 or float64.
        size: number of pixels along the sampled axis.

    Returns:
        ``(…, n, size)`` in the dtype of ``points``; a row sums to one where its point lies inside.
    """
    closeness = 1 - tf.abs(points[..., None] - tf.range(size, dtype=points.dtype))
    return 0.5 * (closeness + tf.abs(closeness))


def resample(images: tf.Tensor, wy: tf.Tensor, wx: tf.Tensor) -> tf.Tensor:
    """``Wy · image · Wxᵀ`` over the last two axes, computed in at least float32, never in TF32.

    Args:
        images: ``(…, H, W)`` real or complex floating.
        wy: ``(…, h, H)`` row weights, real.
        wx: ``(…, w, W)`` column weights, real.

    Returns:
        ``(…, h, w)`` in the dtype of ``images``; leading axes broadcast as in ``tf.matmul``.
    """
    wy, wx = (tf.cast(weights, compute_dtype(images.dtype)) for weights in (wy, wx))
    if _columns_first(wy.shape, wx.shape):
        return by_parts(lambda part: matmul(wy, matmul(part, wx, transpose_b=True)), images)
    return by_parts(lambda part: matmul(matmul(wy, part), wx, transpose_b=True), images)


def resample_adjoint(images: tf.Tensor, wy: tf.Tensor, wx: tf.Tensor) -> tf.Tensor:
    """The adjoint of :func:`resample`, ``Wyᵀ · image · Wx``: ``(…, h, w)`` to ``(…, H, W)``."""
    wy, wx = (tf.cast(weights, compute_dtype(images.dtype)) for weights in (wy, wx))
    return by_parts(lambda part: matmul(matmul(wy, part, transpose_a=True), wx), images)


def _columns_first(wy_shape: tf.TensorShape, wx_shape: tf.TensorShape) -> bool:
    """Whether ``Wy·(image·Wxᵀ)`` takes fewer multiplications than ``(Wy·image)·Wxᵀ``."""
    rows_out, rows, columns_out, columns = *wy_shape[-2:], *wx_shape[-2:]
    if None in (rows_out, rows, columns_out, columns):
        return False
    rows_first = rows_out * columns * (rows + columns_out)
    return columns_out * rows * (columns + rows_out) < rows_first


def translate(images: tf.Tensor, shifts: tf.Tensor, fill_value: complex = 0.0) -> tf.Tensor:
    """Translate images by sub-pixel shifts.

    ``out[b, i, j] = images[b, i − shifts[b, 0], j − shifts[b, 1]]``, bilinear: a positive shift moves the
    content down and to the right. Pixels outside the image count as ``fill_value``, exactly, and blend with
    the border pixels over one pixel's width. A zero shift is the identity, bit for bit.

    Args:
        images: ``(B, H, W)`` or ``(B, H, W, C)``, finite; float16, bfloat16, float32, float64, complex64 or
            complex128. Computed in float32 (float64 for double precision), never in TF32.
        shifts: ``(B, 2)`` (row, col) in pixels, real.
        fill_value: value outside the image, a Python number (complex for complex images only).

    Returns:
        The shape and dtype of ``images``, differentiable in ``images`` and ``shifts``.

    Raises:
        ValueError: wrong rank or dtype, or the number of shifts is not the number of images.
    """
    images, shifts = tf.convert_to_tensor(images), tf.convert_to_tensor(shifts)
    _check_translation(images, shifts, fill_value)
    shifts = tf.cast(shifts, compute_dtype(images.dtype))
    height, width = (images.shape[a] or tf.shape(images)[a] for a in (1, 2))
    rows = tf.range(height, dtype=shifts.dtype) - shifts[:, 0:1]  # (B, H)
    cols = tf.range(width, dtype=shifts.dtype) - shifts[:, 1:2]  # (B, W)

    wy, wx = hat_weights(rows, height), hat_weights(cols, width)
    outside = 1 - _coverage(rows, height)[:, :, None] * _coverage(cols, width)[:, None, :]  # (B, H, W)
    work = images if images.dtype.is_complex else tf.cast(images, shifts.dtype)
    if images.shape.rank == 4:
        wy, wx, outside = wy[:, None], wx[:, None], outside[:, None]
        work = tf.transpose(work, [0, 3, 1, 2])
    moved = resample(work, wy, wx)
    if fill_value != 0:
        moved += tf.cast(outside, moved.dtype) * tf.cast(fill_value, moved.dtype)
    moved = moved if images.shape.rank == 3 else tf.transpose(moved, [0, 2, 3, 1])
    moved = tf.reshape(tf.cast(moved, images.dtype), tf.shape(images))  # refuses a batch that broadcast
    return tf.ensure_shape(moved, images.shape)


def _coverage(points: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """The sum of each point's hat weights, exactly one inside: ``clip(min(p + 1, size − p), 0, 1)``."""
    return tf.clip_by_value(tf.minimum(points + 1, tf.cast(size, points.dtype) - points), 0, 1)


def _check_translation(images: tf.Tensor, shifts: tf.Tensor, fill_value: complex) -> None:
    check_image_dtype(images.dtype, "images")
    if images.shape.rank not in (3, 4):
        raise ValueError(f"images has shape {images.shape}; allowed: (B, H, W) or (B, H, W, C).")
    if shifts.shape.rank != 2 or shifts.shape[1] != 2:
        raise ValueError(f"shifts has shape {shifts.shape}; allowed: (B, 2), one (row, col) for each image.")
    if not images.shape[:1].is_compatible_with(shifts.shape[:1]):
        raise ValueError(
            f"shifts has {shifts.shape[0]} rows for {images.shape[0]} images; allowed: one row for each image."
        )
    if shifts.dtype.is_complex or shifts.dtype == tf.bool:
        raise ValueError(f"shifts has dtype {shifts.dtype.name}; allowed: a real dtype.")
    if isinstance(fill_value, complex) and not images.dtype.is_complex:
        raise ValueError(f"fill_value is {fill_value} for {images.dtype.name} images; allowed: a real number.")
