"""Gradients by TensorFlow, and the central differences that they are compared with."""

import numpy as np
import tensorflow as tf


def gradients(function, *values, upstream=None):
    """Return ``function(*values)`` and its gradient to each of the values."""
    values = [tf.convert_to_tensor(value) for value in values]
    with tf.GradientTape() as tape:
        tape.watch(values)
        found = function(*values)
    return found, *(tf.convert_to_tensor(one) for one in tape.gradient(found, values, upstream))


def slope_along(loss, x, way, step):
    """Return the central difference of a loss along ``way``."""
    return float(loss(x + step * way) - loss(x - step * way)) / (2 * step)


def slopes(loss, x, step):
    """Return the central differences of a loss along every element of real ``x``."""
    ways = np.eye(x.size, dtype=x.dtype).reshape(-1, *x.shape)
    return np.reshape([slope_along(loss, x, way, step) for way in ways], x.shape)
