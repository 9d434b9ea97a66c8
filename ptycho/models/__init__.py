"""The networks by name, built from the configuration."""

from __future__ import annotations

import math
from typing import Protocol

import keras
import numpy as np

from ptycho.config import RunConfig, UnrolledModel
from ptycho.models.baseline import PtychoNN
from ptycho.models.pinn import PtychoPINN
from ptycho.models.unet import UNet
from ptycho.models.unrolled import Unrolled
from ptycho.probe import make_probe

NEGLIGIBLE = 1e-6  # of the probe's largest amplitude


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


def probe_support(probe: np.ndarray) -> int:
    """Even side of the central square outside which the probe's amplitude is negligible."""
    N = probe.shape[0]
    rows, cols = np.nonzero(np.abs(probe) > NEGLIGIBLE * np.abs(probe).max())
    index = np.concatenate([rows, cols])
    return 2 * max(N // 2 - int(index.min()), int(index.max()) - N // 2 + 1)


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


def get_weights(model: keras.Model) -> dict[str, np.ndarray]:
    """All variables by their path inside the model."""
    return {variable.path: variable.numpy() for variable in model.variables}


def set_weights(model: keras.Model, weights: dict[str, np.ndarray]) -> None:
    """Assign weights by path; the sets of names and every shape must agree."""
    variables = {variable.path: variable for variable in model.variables}
    if variables.keys() != weights.keys():
        odd = sorted(variables.keys() ^ weights.keys())
        raise ValueError(f"weights do not belong to this network: {len(odd)} names differ, first {odd[0]}")
    for path, variable in variables.items():
        if tuple(variable.shape) != weights[path].shape:
            raise ValueError(f"weights: {path} has shape {weights[path].shape}; must be {variable.shape}")
        variable.assign(weights[path])
