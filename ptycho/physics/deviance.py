"""Poisson's deviance of counts, in float32 without cancellation."""

from __future__ import annotations

import tensorflow as tf


def deviance_of_counts(rate: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    """Return ``2 [λ − n + n log(n/λ)] = 2n [u − log(1 + u)]``, ``u = (λ − n)/n``, of every pixel.

    The difference of counts is taken once, and the bracket without cancellation, so that float32 holds at 10⁸
    counts in a pixel.

    Args:
        rate: λ > 0, ``(…)`` float32; counts: n > 0, the same shape.
    """
    return 2 * counts * u_minus_log1p((rate - counts) / counts, rate / counts)


def u_minus_log1p(u: tf.Tensor, ratio: tf.Tensor) -> tf.Tensor:
    """Return ``u − log(1 + u)``, ``u (…) ≥ −1``: by its series near 0, from ``ratio = 1 + u > 0`` near −1."""
    small, low = tf.abs(u) < 1e-2, u < -0.5
    one = tf.ones_like(u)
    inside = tf.where(small, u, tf.zeros_like(u))
    series = tf.square(inside) * (0.5 - inside * (1 / 3 - inside * (0.25 - inside * (0.2 - inside / 6))))
    log1p = tf.where(
        low, tf.math.log(tf.where(low, ratio, one)), tf.math.log1p(tf.where(small | low, one, u))
    )
    return tf.where(small, series, u - log1p)
