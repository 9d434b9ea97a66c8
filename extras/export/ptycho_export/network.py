"""Trained networks as graphs of real tensors with constant weights, which converters take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from ptycho.config import ConfigError, NetworkConfig, XlaConfig
from ptycho.networks.layers import Geometry, set_weights
from ptycho.physics import Pair
from ptycho.run.network import StoredNetwork
from ptycho.training.competitors import COMPETITORS
from ptycho_export.runtimes import INPUTS, OUTPUT, Description


def portable(stored: StoredNetwork, description: Description) -> Any:
    """Return the stored network for the sizes of ``description``: a ``tf.function`` without variables.

    All is float32, with real and imaginary parts along an axis of two: ``amplitudes (B, C, N, N)``,
    ``offsets (B, C, 2)``, ``probe (2, [K,] N, N)`` → ``{"regions": (B, 2, R, R)}``.

    Raises:
        ConfigError: the stored weights are not those of the network that the run's configuration describes.
    """
    d = description
    generator = trained_generator(stored, d)

    def regions(amplitudes: tf.Tensor, offsets: tf.Tensor, probe: tf.Tensor) -> dict[str, tf.Tensor]:
        # called directly: Keras takes nothing but tensors for arguments of a layer
        modes = probe if d.modes else probe[:, None]
        found = generator.call(amplitudes, offsets, Pair(modes[0], modes[1]))
        return {OUTPUT: tf.stack([found.real, found.imag], axis=1)}

    groups = (d.batch_size, d.group_size)
    shapes = ((*groups, d.N, d.N), (*groups, 2), d.probe_shape)
    return frozen(regions, dict(zip(INPUTS, shapes, strict=True)))


def trained_generator(stored: StoredNetwork, description: Description) -> keras.layers.Layer:
    """Return the layer or model ``(x, offsets, probe) → regions`` with the stored weights."""
    d = description
    geometry = Geometry(d.N, d.region_size, d.group_size, d.support, d.exact, masked=True)
    config: NetworkConfig = replace(stored.config, xla=XlaConfig(compile=False), output_dir=None)
    model = COMPETITORS[stored.name].build(config, geometry)
    try:
        set_weights(model, stored.weights)
    except ValueError as error:
        raise ConfigError(f"{stored.run / stored.name}: {error}") from error
    return getattr(model, "generator", model)


def frozen(function: Callable[..., dict[str, tf.Tensor]], shapes: dict[str, tuple[int | None, ...]]) -> Any:
    """Return a ``tf.function`` of named float32 inputs whose variables have become constants."""
    signature = [tf.TensorSpec(shape, tf.float32, name=name) for name, shape in shapes.items()]
    traced = tf.function(function, input_signature=signature, autograph=False)
    constant = convert_variables_to_constants_v2(traced.get_concrete_function())
    (name,) = traced.get_concrete_function().structured_outputs

    def serve(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        found = constant(*inputs)
        return {name: found[name] if isinstance(found, dict) else found[0]}

    return tf.function(serve, input_signature=signature, autograph=False)
