"""The networks by name, built from the configuration."""

from __future__ import annotations

import math
from typing import Protocol

import keras
import numpy as np

from ptycho import variables
from ptycho.config import RunConfig, UnrolledModel
from ptycho.models.baseline import PtychoNN
from ptycho.models.pinn import PtychoPINN
from ptycho.models.unet import UNet
from ptycho.models.unrolled import Unrolled
from ptycho.probe import make_probe, probe_support
from ptycho.variables import Arrays


class Geometry(Protocol):
    """What a network is built for: N, R, C and the probe ``(N, N)``, of a dataset or as stored with it."""

    @property
    def N(self) -> int: ...
    @property
    def region_size(self) -> int: ...
    @property
    def group_size(self) -> int: ...
    @property
    def probe(self) -> np.ndarray: ...


def _support(config: RunConfig, data: Geometry) -> int:
    """Support of the probes of training and test."""
    probes = [data.probe]
    if config.test_probe is not None:
        probes.append(make_probe(config.test_probe, config.N))
    return max(probe_support(probe) for probe in probes)


def build_pinn(config: RunConfig, data: Geometry, support: int | None = None) -> PtychoPINN:
    """The PINN that ``config`` names, for the geometry and probe of ``data``, with initial weights.

    ``support`` must hold every probe it will be given; by default that of training and the test's.
    """
    model, R = config.model, data.region_size
    projective, support = not config.xla.translate, support or _support(config, data)
    if isinstance(model, UnrolledModel):
        generator = Unrolled(
            data.N,
            R,
            model.stages,
            model.width,
            model.blocks,
            model.coarsening,
            model.illumination_floor,
            support,
            config.seed,
            projective,
            name="generator",
        )
    else:
        generator = UNet(
            data.N,
            R,
            data.group_size,
            model.filters_scale,
            model.object_big,
            config.seed,
            projective,
            name="generator",
        )
    pinn = PtychoPINN(
        generator,
        R,
        support,
        config.mae_weight,
        config.nll_weight,
        config.realspace_weight,
        projective,
        name="pinn",
    )
    pinn.build((config.batch_size, data.group_size, data.N, data.N))
    return pinn


def build_baseline(config: RunConfig, data: Geometry) -> PtychoNN:
    """PtychoNN for the single-pattern form of a dataset, with initial weights."""
    model = PtychoNN(
        data.N,
        data.region_size,
        config.baseline.filters_scale,
        config.seed + 10_000,
        not config.xla.translate,
        name="baseline",
    )
    model.build((config.batch_size, 1, data.N, data.N))
    return model


def parameter_count(model: keras.Model) -> int:
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)


def get_weights(model: keras.Model) -> Arrays:
    """All variables by their path inside the model."""
    return variables.read(model.variables)


def set_weights(model: keras.Model, weights: Arrays) -> None:
    """Assign weights by path; the sets of names and every shape must agree, or none is assigned."""
    variables.assign(model.variables, weights, "weights")
