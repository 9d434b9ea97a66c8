"""Losses of the PINN. None of them sees the true object.

To add one: a function here, an entry in :data:`LOSSES`, and its weight among the keys of a run
(:class:`ptycho.config.TrainedConfig`), under the same name. One from outside is named by the key ``loss``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from ptycho.config.own_code import is_import_path, load
from ptycho.physics.deviance import u_minus_log1p


def amplitude_mae(predicted: tf.Tensor, measured: tf.Tensor) -> tf.Tensor:
    """Return the mean of ``|x̂ − x|`` over normalised amplitudes ``(…)``; scalar."""
    return tf.reduce_mean(tf.abs(predicted - measured))


def poisson_deviance(
    predicted: tf.Tensor, measured: tf.Tensor, normalisation: tf.Tensor, floor: float = 1e-6
) -> tf.Tensor:
    """Return the mean per pixel of ``2[λ − n + n·log(n/λ)]``, of counts ``n = (x/f)²``, ``λ = (x̂/f)²``.

    With ``u = (λ − n)/n = (x̂ − x)(x̂ + x)/x²`` it is ``2n·[u − log(1 + u)]``: the difference of counts is
    taken in amplitudes, and the bracket without cancellation, so that float32 holds at 10⁸ counts in a
    pixel. Where ``n = 0`` it is ``2λ``. It is about one where the model fits to the noise.

    Args:
        predicted: ``x̂ ≥ 0``, ``(…)`` float32.
        measured: ``x ≥ 0``, the same shape.
        normalisation: ``f``, scalar: amplitude of one count.
        floor: predicted counts of a pixel, at least.
    """
    scale = 1 / normalisation
    rate = tf.square(predicted * scale) + tf.constant(floor, predicted.dtype)
    counts = tf.square(measured * scale)
    positive = counts > 0.25  # counts are whole numbers
    safe = tf.where(positive, measured, tf.ones_like(measured))
    u = (predicted - safe) * (predicted + safe) / tf.square(safe)
    u = tf.where(positive, u, tf.zeros_like(u))
    ratio = tf.where(positive, rate / tf.maximum(counts, 0.25), tf.ones_like(rate))
    return tf.reduce_mean(2 * tf.where(positive, counts * u_minus_log1p(u, ratio), rate))


def total_variation(objects: tf.Tensor) -> tf.Tensor:
    """Return the mean of ``|O[i+1, j] − O[i, j]| + |O[i, j+1] − O[i, j]|`` of complex ``(B, H, W)``."""
    rows = tf.abs(objects[:, 1:, :] - objects[:, :-1, :])
    cols = tf.abs(objects[:, :, 1:] - objects[:, :, :-1])
    return tf.reduce_mean(rows) + tf.reduce_mean(cols)


class Loss(NamedTuple):
    """A loss under its name in ``history.csv``; ``value`` is called by keyword.

    It is given ``predicted`` and ``measured`` amplitudes ``(B, C, N, N)``, the ``objects (B, R, R)`` and the
    ``normalisation`` f, and gives a scalar.
    """

    column: str
    value: Callable[..., tf.Tensor]


LOSSES = {  # by the configuration's key of their weight
    "mae_weight": Loss("mae", lambda predicted, measured, **_: amplitude_mae(predicted, measured)),
    "nll_weight": Loss(
        "nll",
        lambda predicted, measured, normalisation, **_: poisson_deviance(predicted, measured, normalisation),
    ),
    "realspace_weight": Loss("tv", lambda objects, **_: total_variation(objects)),
}


def loss_of(key: str) -> Loss:
    """Return the entry of :data:`LOSSES`, or the user's own loss that an import path names."""
    return Loss("own", load("loss", key)) if is_import_path(key) else LOSSES[key]
