"""A generator of the user's own, ``model=custom``: its layer is checked before it is trained."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras.src.utils.naming import reset_uids

from ptycho.config import ConfigError, CustomModel
from ptycho.config.own_code import load
from ptycho.networks.geometry import Geometry


def build_custom(
    *, settings: CustomModel, geometry: Geometry, seed: int, **others: object
) -> keras.layers.Layer:
    """Return the layer ``(x, offsets, probe) → (B, R, R)`` complex64 that ``model.target`` builds.

    Other generators get ``others``, too.

    Raises:
        ConfigError: it is no layer, it cannot be called, or it gives something else.
    """
    target = settings.target
    reset_uids()  # weights are stored by the names that Keras gives to layers: dense, not dense_7
    layer = load("model.target", target)(geometry=geometry, seed=seed)
    if not isinstance(layer, keras.layers.Layer):
        raise ConfigError(f"model.target={target}: gives {type(layer).__name__}; must give a Keras layer")
    C, N, R = geometry.group_size, geometry.N, geometry.region_size
    try:
        output = layer(tf.ones((2, C, N, N)), tf.zeros((2, C, 2)), tf.ones((1, N, N), tf.complex64))
    except Exception as error:  # whatever its code raises
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise ConfigError(
            f"model.target={target}: fails for x (2, {C}, {N}, {N}), offsets (2, {C}, 2), "
            f"probe (1, {N}, {N}): {reason}"
        ) from error
    shape, dtype = getattr(output, "shape", None), getattr(output, "dtype", type(output).__name__)
    if shape != (2, R, R) or dtype != tf.complex64:
        result = f"{tuple(shape)} {tf.as_dtype(dtype).name}" if shape is not None else str(dtype)
        raise ConfigError(
            f"model.target={target}: gives {result}; must be (2, {R}, {R}) complex64, (B, R, R)"
        )
    return layer
