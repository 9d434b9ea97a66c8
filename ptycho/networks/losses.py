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


def object_error(
    objects: tf.Tensor, target: tf.Tensor, illumination: tf.Tensor, blank: float = 3e-3
) -> tf.Tensor:
    """Return the error of objects relative to their contrast, whatever their global phase.

        Σ w |O e^{−iφ} − T| / (Σ w |T − T̄| + blank),   φ = arg Σ w O T*,   w of :func:`dose_weights`

    For networks that are trained on simulations only: it uses the truth.

    Args:
        objects, target: O and T, ``(B, R, R)`` complex64.
        illumination: illumination of the regions, its maximum one, ``(B, R, R)`` float32.
        blank: added to the contrast: an object may be constant where it is illuminated.

    Returns:
        ``(B,)`` float32; one for the best constant.
    """
    weights = dose_weights(illumination)
    weighted = scaled(tf.math.conj(target), weights)
    product = tf.reduce_sum(weighted * objects, axis=(1, 2), keepdims=True)
    phase = scaled(tf.math.conj(product), 1 / (tf.abs(product) + 1e-6))
    mean = tf.math.conj(tf.reduce_sum(weighted, axis=(1, 2), keepdims=True))
    contrast = tf.reduce_sum(weights * tf.abs(target - mean), axis=(1, 2))
    wrong = tf.reduce_sum(weights * tf.abs(objects * phase - target), axis=(1, 2))
    return wrong / (contrast + blank)


def amplitude_error(
    objects: tf.Tensor, target: tf.Tensor, illumination: tf.Tensor, blank: float = 0.03
) -> tf.Tensor:
    """Return the error ``(B,)`` of the amplitudes of ``objects (B, H, W)`` relative to their contrast.

        Σ w ||O| − |T|| / (Σ w ||T| − mean| + blank),   w as in :func:`object_error`

    In a strongly phase-shifting object the complex error hardly depends on the amplitude. ``blank`` is
    larger, as many objects absorb next to nothing. Arguments and result as there.
    """
    weights, objects, target = dose_weights(illumination), tf.abs(objects), tf.abs(target)
    mean = tf.reduce_sum(weights * target, axis=(1, 2), keepdims=True)
    contrast = tf.reduce_sum(weights * tf.abs(target - mean), axis=(1, 2))
    wrong = tf.reduce_sum(weights * tf.abs(objects - target), axis=(1, 2))
    return wrong / (contrast + blank)


def dose_weights(illumination: tf.Tensor, half: float = 0.1, least: float = 1e-3) -> tf.Tensor:
    """Return ``l / (l + half)``, zero where l is below ``least``, their sum one for each of ``(B, R, R)``."""
    weights = tf.where(
        illumination > least, illumination / (illumination + half), tf.zeros_like(illumination)
    )
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
    """Return the entry of :data:`LOSSES`, or the user's own loss that an import path names."""
    return Loss("own", load("loss", key)) if is_import_path(key) else LOSSES[key]
