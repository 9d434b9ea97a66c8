"""The networks that a run compares, as a table: how each is built, what it is given, how it is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import keras

from ptycho.config import BaselineConfig, NetworkConfig, ProbeConfig
from ptycho.config.sections import NAMED, GeneratorConfig
from ptycho.networks import build_baseline, build_pinn
from ptycho.networks.layers import Geometry
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import make_probe, probe_support


@dataclass(frozen=True)
class Competitor:
    """One of the compared networks."""

    build: Callable[[NetworkConfig, Geometry], keras.Model]  # with initial weights
    view: Callable[[NetworkConfig, Dataset], Dataset]  # what it reconstructs from, of a scan
    training_view: Callable[[NetworkConfig, Dataset], Dataset]  # what it is trained with, of its view
    learning_rate: Callable[[NetworkConfig], float]  # its peak
    supervised: bool  # it is given the true object in training


def add_neighbours(data: Dataset, model: GeneratorConfig, seed: int) -> Dataset:
    """Return groups with the neighbouring patterns that the PINN's loss compares with, too."""
    radius = model.neighbour_distance_px64 * data.N / 64
    return data.with_neighbours(model.neighbours, radius, seed)


def _baseline_of(config: NetworkConfig) -> BaselineConfig:
    """Return the settings of the supervised network, which only a run with a truth has."""
    settings = config.architecture("baseline")
    assert isinstance(settings, BaselineConfig)
    return settings


PINN = Competitor(
    build=lambda config, geometry: build_pinn(
        config.model, geometry, config.xla, config.loss_weights, config.seed
    ),
    view=lambda config, data: data,
    training_view=lambda config, data: add_neighbours(data, config.model, config.seed),
    learning_rate=lambda config: config.train.learning_rate,
    supervised=False,
)
COMPETITORS = {
    "pinn": PINN,
    "baseline": Competitor(
        build=lambda config, geometry: build_baseline(
            _baseline_of(config), geometry, config.xla, config.seed
        ),
        view=lambda config, data: data.single_patterns(_baseline_of(config).patterns_per_group),
        training_view=lambda config, data: data,
        learning_rate=lambda config: _baseline_of(config).learning_rate,
        supervised=True,
    ),
    **dict.fromkeys(NAMED, PINN),
}


def geometry_of(data: Dataset, support: int = 0) -> Geometry:
    """Return sizes for a dataset and its probe, with at least a given support."""
    support = data.N if data.exact else max(support, probe_support(data.probe))
    masked = bool(data.amplitudes.statistics.lacking.any()) or (data.good is not None and not data.good.all())
    return Geometry(data.N, data.region_size, data.group_size, support, data.exact, masked)


def training_geometry(data: Dataset, test_probe: ProbeConfig | None) -> Geometry:
    """Return sizes for the training on ``data``, with a support that holds the training and test probes."""
    return geometry_of(data, 0 if test_probe is None else probe_support(make_probe(test_probe, data.N)))
