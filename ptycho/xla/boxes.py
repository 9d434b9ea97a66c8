"""Where the samples of a crop lie, to the last bit, and the weights of the pixels around them.

A sample outside the image becomes the fill value, so one unit in the last place decides between a border pixel
and the fill. TensorFlow's CPU kernel computes in float32, for box edges ``lo, hi``, size S, n samples,

    p_k = lo·(S−1) + k·s,   s = ((hi−lo)·(S−1)) / (n−1)         (n > 1)
    p_0 = ½·(lo+hi)·(S−1)                                       (n = 1)

each operation rounded by itself. Compilers do not keep that: XLA contracts ``a·b + c`` to one fused operation and
both XLA and the graph optimiser turn a division by a constant into a multiplication. Two habits prevent it:
products pass through a select that no compiler can remove (:func:`_rounded`), and the divisor is a
value computed at run time. Both cost work of the order of the box edges, not of the pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ptycho.xla.gather import round_half_away


class Samples(NamedTuple):
    """Sample points along one axis.

    Attributes:
        points: ``(n, k)`` float32 in pixels, zero where outside.
        inside: ``(n, k)`` bool, whether the point lies in ``[0, S−1]``; false for a box that is not finite.
    """

    points: tf.Tensor
    inside: tf.Tensor


def sample_axis(low: tf.Tensor, high: tf.Tensor, size: int | tf.Tensor, count: int) -> Samples:
    """The ``count`` sample points of each box along an axis of ``size`` pixels.

    Args:
        low, high: box edges ``(n,)`` float32, 0 at the first and 1 at the last pixel's centre.
        size: number of pixels S.
        count: number of samples.
    """
    last = tf.cast(size - 1, tf.float32)
    if count == 1:
        points = _rounded((0.5 * (low + high)) * last)[:, None]
    else:
        divisor = tf.where(tf.math.is_finite(low), tf.constant(count - 1, tf.float32), 1.0)
        step = _rounded((high - low) * last) / divisor
        points = _rounded(low * last)[:, None] + _rounded(step[:, None] * tf.range(count, dtype=tf.float32))
    inside = (points >= 0) & (points <= last)
    return Samples(tf.where(inside, points, tf.zeros_like(points)), inside)


def _rounded(product: tf.Tensor) -> tf.Tensor:
    """``product``, forced to be rounded before it is used; NaN where it is not finite."""
    return tf.where(tf.math.is_finite(product), product, tf.constant(np.nan, product.dtype))


def bilinear_weights(points: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """``(…, n, size)`` linear weights; at an integer point the derivative is zero, as in TensorFlow."""
    pixels = tf.range(size, dtype=points.dtype)
    below, above = tf.floor(points)[..., None], tf.math.ceil(points)[..., None]
    fraction = points[..., None] - below
    return tf.where(below == pixels, 1 - fraction, 0) + tf.where(above == pixels, fraction, 0)


def nearest_weights(points: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """``(…, n, size)`` one where the pixel is the nearest one, halves away from zero."""
    pixels = tf.range(size, dtype=points.dtype)
    return tf.cast(round_half_away(points)[..., None] == pixels, points.dtype)


def keys_cubic(distance: tf.Tensor) -> tf.Tensor:
    """Keys' cubic convolution kernel with a = −1/2 (Keys 1981, eq. 15), support 2."""
    d = tf.abs(distance)
    near = 1 + d * d * (1.5 * d - 2.5)
    far = 2 + d * (-4 + d * (2.5 - 0.5 * d))
    return tf.where(d < 1, near, tf.where(d < 2, far, tf.zeros_like(d)))


def lanczos3(distance: tf.Tensor) -> tf.Tensor:
    """``sinc(d)·sinc(d/3)`` for ``|d| < 3``, else zero (Turkowski 1990)."""
    return tf.where(tf.abs(distance) < 3, _sinc(distance) * _sinc(distance / 3), tf.zeros_like(distance))


def _sinc(x: tf.Tensor) -> tf.Tensor:
    """``sin(πx)/(πx)``, with value one and derivative zero at zero."""
    at_zero = x == 0
    phase = np.pi * tf.where(at_zero, tf.ones_like(x), x)
    return tf.where(at_zero, tf.ones_like(x), tf.sin(phase) / phase)


def _kernel_weights(kernel: Callable[[tf.Tensor], tf.Tensor]) -> Callable[..., tf.Tensor]:
    def weights(points: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
        taps = kernel(points[..., None] - tf.range(size, dtype=points.dtype))
        return taps / tf.reduce_sum(taps, axis=-1, keepdims=True)

    return weights


WEIGHTS: dict[str, Callable[..., tf.Tensor]] = {
    "bilinear": bilinear_weights,
    "nearest": nearest_weights,
    "cubic": _kernel_weights(keys_cubic),
    "lanczos3": _kernel_weights(lanczos3),
}
"""Name to function ``(points (…, n), size) -> (…, n, size)``; cubic and lanczos3 are normalised over the
pixels that exist, as in ``tf.image.resize``."""
