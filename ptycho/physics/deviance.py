"""Poisson's deviance of counts, in float32 without cancellation."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


@tf.custom_gradient
def deviance_of_counts(rate: tf.Tensor, counts: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    """Return ``2 [λ − n + n log(n/λ)] = 2n [u − log(1 + u)]``, ``u = (λ − n)/n``, of every pixel.

    The difference of counts is taken once, and the bracket without cancellation, so that float32 holds at 10⁸
    counts in a pixel. The gradient by λ is ``2 (λ − n)/λ``.

    Args:
        rate: λ > 0, ``(…)`` float32; counts: n > 0, which must have the same shape.
    """
    excess, ratio = rate - counts, rate / counts

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return 2 * upstream * excess / rate, -2 * upstream * tf.math.log(ratio)

    return 2 * counts * u_minus_log1p(excess / counts, ratio), gradient


def u_minus_log1p(u: tf.Tensor, ratio: tf.Tensor) -> tf.Tensor:
    """Return ``u − log(1 + u)``, ``u (…) ≥ −1``, from ``ratio = 1 + u > 0`` or, near 0, a series.

        u − log(1 + u) = z u − 2 (z³/3 + z⁵/5 + z⁷/7 + …),   z = u/(2 + u)

    Where the series is used, each term is below 1/49 of the one before. Source: Abramowitz & Stegun, 4.1.27.
    """
    z = u / (2 + u)
    square = tf.square(z)
    series = z * (u - 2 * square * (1 / 3 + square * (1 / 5 + square / 7)))
    return tf.where(tf.abs(u) < 0.25, series, u - tf.math.log(ratio))
