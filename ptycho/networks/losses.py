"""Losses of the PINN. None of them sees the true object.

To add one: a function here, an entry in :data:`LOSSES`, and its weight among the keys of a run
(:class:`ptycho.config.TrainedConfig`), under the same name. One from outside is named by the key ``loss``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from ptycho.config.own_code import is_import_path, load
from ptycho.physics import scaled
from ptycho.physics.deviance import u_minus_log1p

FLOOR = 1e-6  # of a pixel's predicted count, where nothing else bounds the logarithm
LEAST_CONTRAST = 3e-3  # added to that of an object, which may be blank where light falls
LEAST_AMPLITUDE_CONTRAST = 0.03  # as much for amplitudes alone: many objects absorb next to nothing
DIM, UNLIT = 0.1, 1e-3  # of the strongest light: a pixel counts half there; below the other, not at all


def amplitude_mae(predicted: tf.Tensor, measured: tf.Tensor) -> tf.Tensor:
    """Mean of ``|x̂ − x|`` over normalised amplitudes; scalar."""
    return tf.reduce_mean(tf.abs(predicted - measured))


def poisson_deviance(predicted: tf.Tensor, measured: tf.Tensor, normalisation: tf.Tensor) -> tf.Tensor:
    """Mean Poisson deviance per pixel, ``2[λ − n + n·log(n/λ)]``, counts ``n = (x/f)²``, ``λ = (x̂/f)²``.

    With ``u = (λ − n)/n = (x̂ − x)(x̂ + x)/x²`` it is ``2n·[u − log(1 + u)]``: the difference of counts is
    taken in amplitudes, and the bracket without cancellation, so that float32 holds at 10⁸ counts in a
    pixel. Where ``n = 0`` it is ``2λ``. It is about one where the model fits to the noise.

    Args:
        predicted: ``x̂ ≥ 0``, any shape, float32.
        measured: ``x ≥ 0``, the same shape.
        normalisation: ``f``, scalar: amplitude of one count.
    """
    scale = 1 / normalisation
    floor = tf.constant(FLOOR, predicted.dtype)
    rate = tf.square(predicted * scale) + floor
    counts = tf.square(measured * scale)
    seen = counts > 0.25  # counts are whole numbers
    safe = tf.where(seen, measured, tf.ones_like(measured))
    u = (predicted - safe) * (predicted + safe) / tf.square(safe)
    u = tf.where(seen, u, tf.zeros_like(u))
    ratio = tf.where(seen, rate / tf.maximum(counts, 0.25), tf.ones_like(rate))
    return tf.reduce_mean(2 * tf.where(seen, counts * u_minus_log1p(u, ratio), rate))


def total_variation(objects: tf.Tensor) -> tf.Tensor:
    """Mean of ``|O[i+1, j] − O[i, j]| + |O[i, j+1] − O[i, j]|`` of complex objects ``(B, H, W)``; scalar."""
    rows = tf.abs(objects[:, 1:, :] - objects[:, :-1, :])
    cols = tf.abs(objects[:, :, 1:] - objects[:, :, :-1])
    return tf.reduce_mean(rows) + tf.reduce_mean(cols)


def object_error(objects: tf.Tensor, target: tf.Tensor, light: tf.Tensor) -> tf.Tensor:
    """How far objects are from the true ones, relative to their contrast, whatever their global phase.

        Σ w |O e^{−iφ} − T| / (Σ w |T − T̄| + 0.003),   w = l / (l + DIM),   φ = arg Σ w O T*

    For networks that are trained on simulations only: it sees the truth.

    Args:
        objects, target: O and T, ``(B, R, R)`` complex64.
        light: l, on the regions, its maximum one, ``(B, R, R)`` float32.

    Returns:
        ``(B,)`` float32; one for the best constant.
    """
    weights = weigh_light(light)
    weighted = scaled(tf.math.conj(target), weights)
    product = tf.reduce_sum(weighted * objects, axis=(1, 2), keepdims=True)
    phase = scaled(tf.math.conj(product), 1 / (tf.abs(product) + FLOOR))
    mean = tf.math.conj(tf.reduce_sum(weighted, axis=(1, 2), keepdims=True))
    contrast = tf.reduce_sum(weights * tf.abs(target - mean), axis=(1, 2))
    wrong = tf.reduce_sum(weights * tf.abs(objects * phase - target), axis=(1, 2))
    return wrong / (contrast + LEAST_CONTRAST)


def amplitude_error(objects: tf.Tensor, target: tf.Tensor, light: tf.Tensor) -> tf.Tensor:
    """How far the amplitudes of objects are from the true ones, relative to their contrast.

        Σ w ||O| − |T|| / (Σ w ||T| − mean| + 0.03),   w as in :func:`object_error`

    In a strongly phase-shifting object the complex error says next to nothing of the amplitude. Arguments
    and result as there.
    """
    weights, objects, target = weigh_light(light), tf.abs(objects), tf.abs(target)
    mean = tf.reduce_sum(weights * target, axis=(1, 2), keepdims=True)
    contrast = tf.reduce_sum(weights * tf.abs(target - mean), axis=(1, 2))
    wrong = tf.reduce_sum(weights * tf.abs(objects - target), axis=(1, 2))
    return wrong / (contrast + LEAST_AMPLITUDE_CONTRAST)


def weigh_light(light: tf.Tensor) -> tf.Tensor:
    """``l / (l + DIM)``, none where hardly any light falls, their sum one for each of ``(B, R, R)``."""
    weights = tf.where(light > UNLIT, light / (light + DIM), tf.zeros_like(light))
    return weights / tf.reduce_sum(weights, axis=(1, 2), keepdims=True)


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
    """The entry of :data:`LOSSES`, or the user's own loss that an import path names."""
    return Loss("own", load("loss", key)) if is_import_path(key) else LOSSES[key]
