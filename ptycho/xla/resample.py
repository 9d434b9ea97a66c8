"""Separable, gather-free resampling: translation and sub-pixel windows as two matrix products.

Bilinear interpolation factors along the axes. With sample points ``y_i`` (rows) and ``x_j`` (columns),

    out = Wy · image · Wxᵀ,      Wy[i, m] = max(0, 1 − |y_i − m|),      Wx[j, n] = max(0, 1 − |x_j − n|).

Integer sample points copy pixels exactly, points outside the image read zero, the gradient is two
matrix products again (no scatter), and the result is differentiable in the sample points. Images must be
finite: a zero weight times NaN is NaN, so one NaN pixel reaches every pixel of its image.

A row of an interpolation matrix W has few weights that are not zero: two for linear interpolation. Where that
is faster, just those pixels are read, as a short weighted sum of whole rows or columns,

    out[…, i, …] = Σ_t weight_t[i] · image[…, index_t[i], …],

which needs one index for a row or column, not for a pixel, so that compilers make contiguous loads of it.

Windows at whole pixels are cut out and added up one after the other, in compiled steps only. As matrix
products both cost ``O(N·R²)`` a window, more than its Fourier
transforms; a copy costs ``O(N²)``. XLA keeps the canvas of the loops in place. Each of the two is the other's
gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from ptycho.xla.precision import by_parts, check_image_dtype, compute_dtype, materialised


def hat_weights(points: tf.Tensor, size: int) -> tf.Tensor:
    """Return linear-interpolation weights ``W[…, i, m] = max(0, 1 − |points[…, i] − m|)``.

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
    """Return ``Wy · image · Wxᵀ`` over the last two axes, computed in at least float32.

    Args:
        images: ``(…, H, W)`` real or complex floating.
        wy: ``(…, h, H)`` row weights, real.
        wx: ``(…, w, W)`` column weights, real.

    Returns:
        ``(…, h, w)`` in the dtype of ``images``; leading axes broadcast as in ``tf.matmul``.
    """
    wy, wx = (tf.cast(weights, compute_dtype(images.dtype)) for weights in (wy, wx))
    if _columns_first(wy.shape, wx.shape):
        return by_parts(lambda part, _: tf.matmul(wy, tf.matmul(part, wx, transpose_b=True)), images)
    return by_parts(lambda part, _: tf.matmul(tf.matmul(wy, part), wx, transpose_b=True), images)


def resample_adjoint(images: tf.Tensor, wy: tf.Tensor, wx: tf.Tensor) -> tf.Tensor:
    """Return the adjoint of :func:`resample`, ``Wyᵀ · image · Wx``: ``(…, h, w)`` to ``(…, H, W)``."""
    wy, wx = (tf.cast(weights, compute_dtype(images.dtype)) for weights in (wy, wx))
    return by_parts(lambda part, _: tf.matmul(tf.matmul(wy, part, transpose_a=True), wx), images)


def _columns_first(wy_shape: tf.TensorShape, wx_shape: tf.TensorShape) -> bool:
    """Whether ``Wy·(image·Wxᵀ)`` takes fewer multiplications than ``(Wy·image)·Wxᵀ``."""
    (rows_out, rows), (columns_out, columns) = wy_shape[-2:], wx_shape[-2:]
    if None in (rows_out, rows, columns_out, columns):
        return False
    rows_first = rows_out * columns * (rows + columns_out)
    return columns_out * rows * (columns + rows_out) < rows_first


def translate(
    images: tf.Tensor, shifts: tf.Tensor, fill_value: complex = 0.0, *, path: str = "auto"
) -> tf.Tensor:
    """Translate images by sub-pixel shifts.

    ``out[b, i, j] = images[b, i − shifts[b, 0], j − shifts[b, 1]]``, bilinear: a positive shift moves the
    content down and to the right. Pixels outside the image count as ``fill_value``, exactly, and blend with
    the border pixels over one pixel's width. A zero shift is the identity, bit for bit. The derivative to a
    whole shift is the central difference.

    Args:
        images: ``(B, H, W)`` or ``(B, H, W, C)``, finite; float16, bfloat16, float32, float64, complex64 or
            complex128. Computed in float32 (float64 for double precision).
        shifts: ``(B, 2)`` (row, col) in pixels, real, finite.
        fill_value: value outside the image, a Python number (complex for complex images only).
        path: ``matrix`` is ``Wy·image·Wxᵀ``, without any gather. ``taps`` sums the two rows, then the two
            columns that have a weight; its gradient to the images is the translation back, so it needs no
            scatter either. ``auto`` is ``taps`` in a traced function, where it is faster once compiled,
            and ``matrix`` eagerly.

    Returns:
        The shape and dtype of ``images``, differentiable in ``images`` and ``shifts``.

    Raises:
        ValueError: wrong rank, dtype or path, or the number of shifts is not the number of images.
    """
    images, shifts = tf.convert_to_tensor(images), tf.convert_to_tensor(shifts)
    _check_translation(images, shifts, fill_value, path)
    shifts = tf.cast(shifts, compute_dtype(images.dtype))
    batch, height, width = (
        s if s is not None else tf.shape(images)[a] for a, s in enumerate(images.shape[:3])
    )
    channels = -1 if images.shape.rank == 4 else 1
    if None in (images.shape[0], shifts.shape[0]):
        # a single shift must not broadcast; XLA drops the assertion, but there the reshape fails
        tf.debugging.assert_equal(tf.shape(shifts)[0], batch, "shifts needs one row for each image")
        shifts = tf.reshape(shifts, [batch, 2])
    taps = path == "taps" or (path == "auto" and not tf.executing_eagerly())
    move = _translate_by_taps if taps else _translate_by_products

    def moved(part: tf.Tensor, fill: float) -> tf.Tensor:
        result = move(tf.reshape(part, [batch, height, width, channels]), shifts)
        return result if fill_value == 0 else result + fill * _outside(shifts, height, width)

    result = by_parts(moved, images, fill_value)
    return tf.ensure_shape(tf.reshape(result, tf.shape(images)), images.shape)


def _translate_by_products(images: tf.Tensor, shifts: tf.Tensor) -> tf.Tensor:
    """``(B, H, W, C)`` real, by dense weights."""
    height, width = (images.shape[a] or tf.shape(images)[a] for a in (1, 2))
    rows = tf.range(height, dtype=shifts.dtype) - shifts[:, 0:1]  # (B, H)
    cols = tf.range(width, dtype=shifts.dtype) - shifts[:, 1:2]  # (B, W)
    wy, wx = hat_weights(rows, height)[:, None], hat_weights(cols, width)[:, None]
    return tf.transpose(resample(tf.transpose(images, [0, 3, 1, 2]), wy, wx), [0, 2, 3, 1])


@tf.custom_gradient
def _translate_by_taps(images: tf.Tensor, shifts: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    """``(B, H, W, C)`` real, by two taps an axis. With zero outside, the adjoint is the translation back."""
    (rows, row_slopes), (cols, col_slopes) = (
        shift_taps(shifts[:, a], images.shape[a + 1] or tf.shape(images)[a + 1]) for a in (0, 1)
    )

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        upstream = materialised(upstream, shifts, images)
        slopes = (
            apply_taps(apply_taps(images, row_slopes, 1), cols, 2),
            apply_taps(apply_taps(images, rows, 1), col_slopes, 2),
        )
        by_shift = tf.stack([-tf.reduce_sum(upstream * s, axis=[1, 2, 3]) for s in slopes], axis=-1)
        return _translate_by_taps(upstream, -shifts), by_shift

    return apply_taps(apply_taps(images, rows, 1), cols, 2), gradient


def _outside(shifts: tf.Tensor, height: int | tf.Tensor, width: int | tf.Tensor) -> tf.Tensor:
    """``(B, H, W, 1)``: the weight of pixels outside the image in each sample, exactly zero inside."""

    def inside(shift: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
        points = tf.range(size, dtype=shift.dtype) - shift[:, None]
        return tf.clip_by_value(tf.minimum(points + 1, tf.cast(size, points.dtype) - points), 0, 1)

    return 1 - inside(shifts[:, 0], height)[:, :, None, None] * inside(shifts[:, 1], width)[:, None, :, None]


def _check_translation(images: tf.Tensor, shifts: tf.Tensor, fill_value: complex, path: str) -> None:
    check_image_dtype(images.dtype, "images")
    if images.shape.rank not in (3, 4):
        raise ValueError(f"images has shape {images.shape}; allowed: (B, H, W) or (B, H, W, C).")
    if shifts.shape.rank != 2 or shifts.shape[1] != 2:
        raise ValueError(f"shifts has shape {shifts.shape}; allowed: (B, 2), one (row, col) for each image.")
    if not images.shape[:1].is_compatible_with(shifts.shape[:1]):
        raise ValueError(
            f"shifts has {shifts.shape[0]} rows for {images.shape[0]} images; "
            "allowed: one row for each image."
        )
    if shifts.dtype.is_complex or shifts.dtype == tf.bool:
        raise ValueError(f"shifts has dtype {shifts.dtype.name}; allowed: a real dtype.")
    if isinstance(fill_value, complex) and not images.dtype.is_complex:
        raise ValueError(
            f"fill_value is {fill_value} for {images.dtype.name} images; allowed: a real number."
        )
    if path not in ("auto", "taps", "matrix"):
        raise ValueError(f"path is {path!r}; allowed: auto, taps, matrix.")


class Tap(NamedTuple):
    """One of the pixels that each of ``k`` samples along an axis reads, for each of ``n`` images.

    Attributes:
        index: ``(n, k)`` int32, always valid: a pixel that does not exist is replaced and has weight zero.
        weight: ``(n, k)`` real.
    """

    index: tf.Tensor
    weight: tf.Tensor


def sum_of_taps(taps: Sequence[Tap], axis: int, read: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Return ``Σ_t weight_t · read(index_t)``; ``read`` gives ``(n, …)``, samples along ``axis`` 1 or 2."""
    expand = (slice(None), slice(None), None, None) if axis == 1 else (slice(None), None, slice(None), None)
    terms = [tap.weight[expand] * read(tap.index) for tap in taps]
    return sum(terms[1:], start=terms[0])


def apply_taps(images: tf.Tensor, taps: Sequence[Tap], axis: int) -> tf.Tensor:
    """Resample real ``images (n, H, W, C)`` along ``axis`` (1 rows, 2 columns)."""
    return sum_of_taps(taps, axis, lambda index: tf.gather(images, index, axis=axis, batch_dims=1))


def shift_taps(shifts: tf.Tensor, size: int | tf.Tensor) -> tuple[list[Tap], list[Tap]]:
    """Return linear interpolation at ``i − shift``, zero outside, and its derivative to the sample point.

    All samples of an image lie in the same place between their pixels, so the index is the sample's number
    plus one integer for each image. At whole points the derivative is the mean of both sides.

    Args:
        shifts: ``(n,)`` in pixels.
        size: number of pixels along the axis.
    """
    samples, last = tf.range(size, dtype=shifts.dtype), tf.cast(size - 1, shifts.dtype)
    first = tf.floor(-shifts)[:, None]
    below = samples + first
    fraction = (samples - shifts[:, None]) - below  # in [0, 1]
    known = tf.where(tf.math.is_nan(first), tf.zeros_like(first), first)
    offset = tf.cast(tf.clip_by_value(known, -last - 2, last + 2), tf.int32)

    def tap(step: int, weight: tf.Tensor) -> Tap:
        missing = (below + step < 0) | (below + step > last)
        index = tf.clip_by_value(tf.range(size) + offset + step, 0, size - 1)
        return Tap(index, tf.where(missing, tf.zeros_like(weight), weight))

    whole = 0.5 * tf.cast(fraction == 0, shifts.dtype)
    values = [tap(0, 1 - fraction), tap(1, fraction)]
    slopes = [tap(-1, -whole), tap(0, 2 * whole - 1), tap(1, 1 - whole)]
    return values, slopes


Turn = Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


def cut_windows(images: tf.Tensor, starts: tf.Tensor, side: int) -> tf.Tensor:
    """Return ``out[b, c] = images[b, r : r + side, q : q + side]`` with ``(r, q) = starts[b, c]``.

    Args:
        images: ``(B, H, W)``, of any dtype.
        starts: ``(B, C, 2)`` int32, (row, col); windows lie inside the images, XLA moves others there.
        side: N.

    Returns:
        ``(B, C, N, N)``.
    """
    shape = tuple(images.shape[1:])

    @tf.custom_gradient
    def cut(images):
        return _cut(images, starts, side), lambda upstream: _added(upstream, starts, shape)

    return cut(images)


def add_windows(windows: tf.Tensor, starts: tf.Tensor, shape: tuple[int, int]) -> tf.Tensor:
    """Add windows ``(B, C, N, N)`` at their places, ``(B, H, W)``: the adjoint of :func:`cut_windows`."""
    side = windows.shape[-1]

    @tf.custom_gradient
    def add(windows):
        return _added(windows, starts, shape), lambda upstream: _cut(upstream, starts, side)

    return add(windows)


def _cut(images: tf.Tensor, starts: tf.Tensor, side: int) -> tf.Tensor:
    batch, count = starts.shape[:2]
    size = tf.constant([1, side, side])

    def copied(k: tf.Tensor, windows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        window = gen_xla_ops.xla_dynamic_slice(images, _place(starts, k), size)
        at = tf.stack([k, 0, 0])
        return k + 1, gen_xla_ops.xla_dynamic_update_slice(windows, window, at)

    windows = _looped(copied, batch * count, tf.zeros((batch * count, side, side), images.dtype))
    return tf.reshape(windows, (batch, count, side, side))


def _added(windows: tf.Tensor, starts: tf.Tensor, shape: tuple[int, int]) -> tf.Tensor:
    batch, count, side, _ = windows.shape
    flat, size = tf.reshape(windows, (batch * count, side, side)), tf.constant([1, side, side])

    def added(k: tf.Tensor, canvas: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        at = _place(starts, k)
        window = gen_xla_ops.xla_dynamic_slice(canvas, at, size) + flat[k][None]
        return k + 1, gen_xla_ops.xla_dynamic_update_slice(canvas, window, at)

    return _looped(added, batch * count, tf.zeros((batch, *shape), windows.dtype))


def _place(starts: tf.Tensor, k: tf.Tensor) -> tf.Tensor:
    """``(image, row, col)`` of window k of all."""
    row_col = tf.reshape(starts, (-1, 2))[k]
    return tf.concat([[k // starts.shape[1]], row_col], axis=0)


def _looped(body: Turn, count: int, initial: tf.Tensor) -> tf.Tensor:
    """What so many turns of ``body`` make of a tensor."""
    return tf.while_loop(lambda k, _: k < count, body, (tf.constant(0), initial))[1]
