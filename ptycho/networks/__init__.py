"""The networks, built from a configuration for the sizes of a dataset.

To add a generator of the PINN: a module with a Keras layer ``(x, offsets, probe) → (B, R, R)`` whose
constructor takes the keywords below, an entry in :data:`GENERATORS`, its settings in
:mod:`ptycho.config.sections`, and a YAML file in ``conf/model/`` (``custom`` takes one from outside). To add
another model: an entry in :data:`ptycho.training.competitors.COMPETITORS`. Imports ``ptycho.physics`` and
``ptycho.config``.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping

import keras
import tensorflow as tf
from keras.src.utils.naming import reset_uids

from ptycho.config import BaselineConfig, ConfigError, CustomModel, UnrolledModel, XlaConfig
from ptycho.config.own_code import load
from ptycho.config.sections import GeneratorConfig
from ptycho.networks.encoder_decoders import PtychoNN, UNet
from ptycho.networks.fno import FourierOperator
from ptycho.networks.layers import Geometry
from ptycho.networks.pinn import PtychoPINN
from ptycho.networks.unrolled import Unrolled
from ptycho.physics import PROJECTIVE, SEPARABLE, WHOLE, PatchMover


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


GENERATORS: dict[str, Callable[..., keras.layers.Layer]] = {
    "unrolled": Unrolled,
    "unet": UNet,
    "fno": FourierOperator,
    "custom": build_custom,
}


def patch_mover(xla: XlaConfig) -> PatchMover:
    """Return how patches are moved."""
    return SEPARABLE if xla.translate else PROJECTIVE


def generator_mover(model: GeneratorConfig, xla: XlaConfig, geometry: Geometry) -> PatchMover:
    """Return how the generator moves patches: a compiled unrolled one copies whole pixels."""
    whole = geometry.exact and xla.compile and isinstance(model, UnrolledModel)
    return WHOLE if whole else patch_mover(xla)


def build_pinn(
    model: GeneratorConfig, geometry: Geometry, xla: XlaConfig, losses: Mapping[str, float], seed: int
) -> PtychoPINN:
    """Return a PINN with initial weights.

    Args:
        model: its generator.
        geometry: sizes that it is built for.
        xla: how patches are moved.
        losses: weight of each loss.
        seed: of the initial weights.
    """
    generator = GENERATORS[model.kind](
        settings=model,
        geometry=geometry,
        seed=seed,
        mover=generator_mover(model, xla, geometry),
        name="generator",
    )
    pinn = PtychoPINN(
        generator=generator, geometry=geometry, weights=losses, mover=patch_mover(xla), name="pinn"
    )
    pinn.build((None, geometry.group_size, geometry.N, geometry.N))
    return pinn


def build_baseline(settings: BaselineConfig, geometry: Geometry, xla: XlaConfig, seed: int) -> PtychoNN:
    """Return PtychoNN for single patterns, with initial weights; arguments as of :func:`build_pinn`."""
    network = PtychoNN(
        settings=settings, geometry=geometry, seed=seed + 10_000, mover=patch_mover(xla), name="baseline"
    )
    network.build((None, 1, geometry.N, geometry.N))
    return network


def count_parameters(model: keras.Model) -> int:
    """Return the number of trainable real parameters."""
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)


def count_activations(model: keras.Model) -> int:
    """Return how many numbers the layers of a built network give for one group of patterns."""
    total = 0
    for layer in model._flatten_layers():
        shape = (layer.get_build_config() or {}).get("input_shape")
        if layer._layers or shape is None:  # it consists of others, or has no variables
            continue
        with contextlib.suppress(NotImplementedError):  # a layer that keeps the shape
            shape = layer.compute_output_shape(shape)
        total += math.prod(filter(None, shape))
    return total
