"""The networks, built from a configuration for the sizes of a dataset.

To add a generator of the PINN: a module with a Keras layer ``(x, offsets, probe) → (B, R, R)`` whose
constructor takes the keywords below, an entry in :data:`GENERATORS`, its settings in
:mod:`ptycho.config.sections`, and a YAML file in ``conf/model/`` (``custom`` takes one from outside). To add
another model: an entry in :data:`ptycho.training.competitors.COMPETITORS`. Imports ``ptycho.scan`` and the
packages below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import keras

from ptycho.config import BaselineConfig, NetworkConfig, RunConfig, UnrolledModel, XlaConfig
from ptycho.config.sections import GeneratorConfig
from ptycho.networks.baseline import PtychoNN
from ptycho.networks.custom import build_custom
from ptycho.networks.fno import FourierOperator
from ptycho.networks.geometry import Geometry
from ptycho.networks.pinn import PtychoPINN
from ptycho.networks.unet import UNet
from ptycho.networks.unrolled import Unrolled
from ptycho.physics import PROJECTIVE, SEPARABLE, WHOLE, PatchMover

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


def build_pinn(config: NetworkConfig, geometry: Geometry) -> PtychoPINN:
    """Return the PINN that ``config`` names, with initial weights."""
    mover, generator = patch_mover(config.xla), GENERATORS[config.model.kind]
    pinn = PtychoPINN(
        generator=generator(
            settings=config.model,
            geometry=geometry,
            seed=config.seed,
            mover=generator_mover(config.model, config.xla, geometry),
            name="generator",
        ),
        geometry=geometry,
        weights=config.loss_weights,
        mover=mover,
        name="pinn",
    )
    pinn.build((config.batch_size, geometry.group_size, geometry.N, geometry.N))
    return pinn


def baseline_settings(config: NetworkConfig) -> BaselineConfig:
    """Return the settings of the supervised network, which a run with a truth alone has."""
    assert isinstance(config, RunConfig)
    return config.baseline


def build_baseline(config: NetworkConfig, geometry: Geometry) -> PtychoNN:
    """Return PtychoNN for single patterns, with initial weights."""
    model = PtychoNN(
        settings=baseline_settings(config),
        geometry=geometry,
        seed=config.seed + 10_000,
        mover=patch_mover(config.xla),
        name="baseline",
    )
    model.build((config.batch_size, 1, geometry.N, geometry.N))
    return model


def count_parameters(model: keras.Model) -> int:
    """Return the number of trainable real parameters."""
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)
