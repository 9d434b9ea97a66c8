"""The networks that a run compares, as a table: how each is built, what it is given, how it is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import keras

from ptycho.config import RunConfig
from ptycho.networks import build_baseline, build_pinn
from ptycho.networks.geometry import Geometry
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import make_probe, probe_support


@dataclass(frozen=True)
class Competitor:
    """One of the compared networks.

    Attributes:
        build: the network for a configuration and sizes, with initial weights.
        view: what it reconstructs from, of a scan.
        training_view: what it is trained with, of its view.
        learning_rate: its peak.
        supervised: it is given the true object in training.
    """

    build: Callable[[RunConfig, Geometry], keras.Model]
    view: Callable[[RunConfig, Dataset], Dataset]
    training_view: Callable[[RunConfig, Dataset], Dataset]
    learning_rate: Callable[[RunConfig], float]
    supervised: bool


def with_neighbours(config: RunConfig, data: Dataset) -> Dataset:
    """Groups with the neighbouring patterns that the PINN's loss compares with, too."""
    radius = config.model.neighbour_distance_px64 * config.N / 64
    return data.with_neighbours(config.model.neighbours, radius, config.seed)


COMPETITORS = {
    "pinn": Competitor(
        build=build_pinn,
        view=lambda config, data: data,
        training_view=with_neighbours,
        learning_rate=lambda config: config.train.learning_rate,
        supervised=False,
    ),
    "baseline": Competitor(
        build=build_baseline,
        view=lambda config, data: data.single_patterns(config.baseline.patterns_per_group),
        training_view=lambda config, data: data,
        learning_rate=lambda config: config.baseline.learning_rate,
        supervised=True,
    ),
}


def training_geometry(config: RunConfig, data: Dataset) -> Geometry:
    """Sizes for the training on ``data``, with a support that holds the probes of training and test."""
    probes = [data.probe]
    if config.test_probe is not None:
        probes.append(make_probe(config.test_probe, config.N))
    support = max(probe_support(probe) for probe in probes)
    return Geometry(data.N, data.region_size, data.group_size, support)
