"""Errors of objects against their truth, for networks that are trained on simulated scans."""

from __future__ import annotations

import tensorflow as tf

from ptycho.physics import scaled


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
