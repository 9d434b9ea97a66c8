"""The ``matrix`` path of crop and resize: ``out = Wy · image · Wxᵀ``, and its gradients without a scatter.

Sample i of a crop lies at row ``y_i``, sample j at column ``x_j``. A row of Wy or Wx has one or two weights,
so the crop is a sum of whole rows, then of columns. Backward, for the upstream gradient g of one box,

    columns:      E = g · Wx                                              dense, (h, W)
    to the image: Wyᵀ · E                                                 (H, W)
    to y_i:       Σ_n E[i, n] · (image[⌈y_i⌉, n] − image[⌊y_i⌋, n])
    to x_j:       Σ_i g[i, j] · (R[i, ⌈x_j⌉] − R[i, ⌊x_j⌋]),   R = Wy · image.

The points are evenly spaced, so pixel row m receives only from the few consecutive samples with
``|y_i − m| < 1``. Where the spacing is at least :data:`LEAST_STEP` these are at most :data:`REACH`, and
``Wyᵀ·E`` is a short sum of rows too; if one box of the call is denser, it is a dense product for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from ptycho.xla.resample import Tap, apply_taps, sum_of_taps
from ptycho_images.channels import sizes_of
from ptycho_images.samples import TAPS, Samples, dense_weights, points_at

REACH = 5
"""Consecutive samples read for each pixel row."""
LEAST_STEP = 0.51
"""Spacing in pixels from which ``REACH`` samples suffice: more than ``2 / (REACH − 1)``, for rounding."""


def matrix_crop(work: tf.Tensor, which: tf.Tensor, y: Samples, x: Samples, method: str) -> tf.Tensor:
    """Return crops ``(n, h, w, C)`` of real ``work (B, H, W, C)``, with values of pixel (0, 0) where outside.

    The derivative to the points is the bilinear one for ``nearest`` too, as in TensorFlow.
    """
    _, height, width, _ = sizes_of(work)

    @tf.custom_gradient
    def crop(work: tf.Tensor, rows: tf.Tensor, cols: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        row_taps, col_taps = _taps(method, rows, height, work), _taps(method, cols, width, work)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            by_column = _back_to_columns(upstream, col_taps, width)
            images = _back_to_rows(by_column, y, row_taps, height, method)
            by_image = tf.math.unsorted_segment_sum(images, which, tf.shape(work)[0])
            known = by_column if method == "bilinear" else None
            return by_image, *_slopes(work, which, rows, cols, upstream, known)

        return apply_taps(_read_rows(work, which, row_taps), col_taps, 2), gradient

    return crop(work, y.points, x.points)


def _back_to_columns(upstream: tf.Tensor, cols: Sequence[Tap], width: int | tf.Tensor) -> tf.Tensor:
    """``g · Wx``: ``(n, h, w, C)`` to ``(n, h, W, C)``."""
    by_channel = tf.transpose(upstream, [0, 3, 1, 2])
    return tf.transpose(tf.matmul(by_channel, dense_weights(cols, width)[:, None]), [0, 2, 3, 1])


def _back_to_rows(
    by_column: tf.Tensor, y: Samples, rows: Sequence[Tap], height: int | tf.Tensor, method: str
) -> tf.Tensor:
    """``Wyᵀ · E``: ``(n, h, W, C)`` to ``(n, H, W, C)``."""
    received = _received(y, height, method, by_column.dtype)

    def by_product() -> tf.Tensor:
        by_channel = tf.transpose(by_column, [0, 3, 1, 2])  # (n, C, h, W)
        images = tf.matmul(dense_weights(rows, height)[:, None], by_channel, transpose_a=True)
        return tf.transpose(images, [0, 2, 3, 1])

    sparse_enough = tf.reduce_all(tf.abs(y.step) >= LEAST_STEP)  # false for NaN
    return tf.cond(sparse_enough, lambda: apply_taps(by_column, received, 1), by_product)


def _received(samples: Samples, size: int | tf.Tensor, method: str, dtype: tf.DType) -> list[Tap]:
    """The transposed interpolation: for each of ``size`` pixels the samples that read it, ``(n, size)``.

    Sample k lies closer than one pixel to pixel m for k strictly between ``(m ∓ 1 − p_0) / s``. Weights come
    from the points themselves, hence a sample too many or one that does not exist has weight zero.
    """
    count = samples.points.shape[1]
    pixels = tf.range(size, dtype=tf.float32)
    start = samples.start[:, None]
    step = tf.where(tf.abs(samples.step) >= LEAST_STEP, samples.step, tf.ones_like(samples.step))[:, None]
    first = tf.floor(tf.minimum((pixels - 1 - start) / step, (pixels + 1 - start) / step))

    def tap(number: tf.Tensor) -> Tap:
        points, inside = points_at(samples.start, samples.step, number, size)
        exists = inside & (number >= 0) & (number < count)
        read = TAPS[method](tf.cast(points, dtype), size)
        weights = [tf.where(t.index == tf.range(size), t.weight, tf.zeros_like(t.weight)) for t in read]
        weight = tf.where(exists, sum(weights[1:], start=weights[0]), tf.zeros_like(weights[0]))
        return Tap(tf.cast(tf.where(exists, number, tf.zeros_like(number)), tf.int32), weight)

    return [tap(first + offset) for offset in range(REACH)]


def _slopes(
    work: tf.Tensor,
    which: tf.Tensor,
    rows: tf.Tensor,
    cols: tf.Tensor,
    upstream: tf.Tensor,
    by_column: tf.Tensor | None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The gradients to the bilinear sample points ``rows (n, h)`` and ``cols (n, w)``.

    ``by_column`` is the bilinear E where it is known already.
    """
    _, height, width, _ = sizes_of(work)
    row_taps, col_taps = _taps("bilinear", rows, height, work), _taps("bilinear", cols, width, work)
    row_steps, col_steps = (
        [Tap(below.index, -tf.ones_like(below.weight)), Tap(above.index, tf.ones_like(above.weight))]
        for below, above in (row_taps, col_taps)
    )
    if by_column is None:
        by_column = _back_to_columns(upstream, col_taps, width)
    by_row = tf.reduce_sum(by_column * _read_rows(work, which, row_steps), axis=[2, 3])
    across = apply_taps(_read_rows(work, which, row_taps), col_steps, 2)
    by_col = tf.reduce_sum(upstream * across, axis=[1, 3])
    return tf.cast(by_row, rows.dtype), tf.cast(by_col, cols.dtype)


def _read_rows(work: tf.Tensor, which: tf.Tensor, rows: Sequence[Tap]) -> tf.Tensor:
    """A weighted sum of rows for each box, ``(n, h, W, C)``, read from all images at once."""
    batch, height, *row = sizes_of(work)
    all_rows = tf.reshape(work, [batch * height, *row])  # (B·H, W, C)
    return sum_of_taps(rows, 1, lambda index: tf.gather(all_rows, which[:, None] * height + index))


def _taps(method: str, points: tf.Tensor, size: int | tf.Tensor, work: tf.Tensor) -> list[Tap]:
    return TAPS[method](tf.cast(points, work.dtype), size)
