"""Where the samples of a crop lie, to the last bit, and the pixels that each of them reads.

A sample outside the image becomes the fill value, so one unit in the last place decides between a border
pixel and the fill. TensorFlow's CPU kernel computes in float32, for box edges ``lo, hi``, size S, n samples,

    p_k = lo·(S−1) + k·s,   s = ((hi−lo)·(S−1)) / (n−1)         (n > 1)
    p_0 = ½·(lo+hi)·(S−1)                                       (n = 1)

each operation rounded by itself. Compilers do not keep that: XLA contracts ``a·b + c`` to one fused
operation and both XLA and the graph optimiser turn a division by a constant into a multiplication. Two
habits prevent it: products pass through a select that no compiler can remove (:func:`rounded`), and the
divisor is a value computed at run time. Both cost work of the order of the box edges, not of the pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ptycho.xla.resample import Tap


class Samples(NamedTuple):
    """Sample points along one axis."""

    points: tf.Tensor  # (n, k) float32 in pixels, zero where outside
    inside: tf.Tensor  # (n, k) bool: the point lies in [0, S−1]; false for a box that is not finite
    start: tf.Tensor  # (n,) float32, p_0
    step: tf.Tensor  # (n,) float32, the distance s between samples, zero for a single sample


def sample_axis(low: tf.Tensor, high: tf.Tensor, size: int | tf.Tensor, count: int) -> Samples:
    """Return the ``count`` sample points of each box along an axis of ``size`` pixels.

    Args:
        low, high: box edges ``(n,)`` float32, 0 at the first and 1 at the last pixel's centre.
        size: number of pixels S.
        count: number of samples.
    """
    last = tf.cast(size - 1, tf.float32)
    if count == 1:
        start = rounded((0.5 * (low + high)) * last)
        step = tf.zeros_like(start)
    else:
        divisor = tf.where(tf.math.is_finite(low), tf.constant(count - 1, tf.float32), 1.0)
        start, step = rounded(low * last), rounded((high - low) * last) / divisor
    points, inside = points_at(start, step, tf.range(count, dtype=tf.float32), size)
    return Samples(points, inside, start, step)


def points_at(
    start: tf.Tensor, step: tf.Tensor, numbers: tf.Tensor, size: int | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return points of the samples ``numbers``, ``(k,)`` or ``(n, k)`` whole float32, and whether inside."""
    points = start[:, None] + rounded(step[:, None] * numbers)
    inside = (points >= 0) & (points <= tf.cast(size - 1, tf.float32))
    return tf.where(inside, points, tf.zeros_like(points)), inside


def rounded(product: tf.Tensor) -> tf.Tensor:
    """Return ``product (…)``, rounded before it is used: behind a select, compilers neither fuse nor reorder.

    NaN where it is not finite.
    """
    return tf.where(tf.math.is_finite(product), product, tf.constant(np.nan, product.dtype))


def round_half_away(points: tf.Tensor) -> tf.Tensor:
    """Round ``points (…)`` of either sign to the nearest integer, halves away from zero.

    ``tf.round`` takes halves to the even neighbour, and ``floor(p + 0.5)`` is wrong for the largest number
    below one half, where the sum rounds up.
    """
    size = tf.abs(points)
    below = tf.floor(size)
    return tf.sign(points) * tf.where(size - below >= 0.5, below + 1, below)


def dense_weights(taps: Sequence[Tap], size: int | tf.Tensor) -> tf.Tensor:
    """Return the taps as matrices ``W (n, k, size)``."""
    pixels = tf.range(size)
    rows = [tf.where(tap.index[..., None] == pixels, tap.weight[..., None], 0) for tap in taps]
    return sum(rows[1:], start=rows[0])


def linear_taps(points: tf.Tensor, size: int | tf.Tensor) -> list[Tap]:
    """Interpolate linearly at ``points (…)``; at whole ones both taps are one pixel, the derivative zero."""
    below, above = tf.floor(points), tf.math.ceil(points)
    fraction = points - below
    return [Tap(tf.cast(below, tf.int32), 1 - fraction), Tap(tf.cast(above, tf.int32), fraction)]


def nearest_taps(points: tf.Tensor, size: int | tf.Tensor) -> list[Tap]:
    """Return the pixel nearest to each of ``points (…)``, halves away from zero."""
    return [Tap(tf.cast(round_half_away(points), tf.int32), tf.ones_like(points))]


TAPS: dict[str, Callable[[tf.Tensor, int | tf.Tensor], list[Tap]]] = {
    "bilinear": linear_taps,
    "nearest": nearest_taps,
}
"""Method to function: sample points ``(n, k)`` inside the image and its size to the taps."""
