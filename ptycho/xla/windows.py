"""Windows at whole pixels, cut out and added up one after the other: for compiled steps only.

As matrix products (:mod:`ptycho.xla.resample`) both cost ``O(N·R²)`` a window, more than its Fourier
transforms; a copy costs ``O(N²)``. XLA keeps the canvas of the loops in place. Each of the two is the other's
gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

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
