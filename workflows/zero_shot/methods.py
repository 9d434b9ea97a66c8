"""The ways to reconstruct a scan that the study compares, as a table."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from ptycho.config import LsqmlConfig
from ptycho.iterative import lsqml
from ptycho.networks.competitors import COMPETITORS, geometry_of
from ptycho.networks.weights import get_weights, set_weights
from ptycho.reconstruction.denoising import denoised, photon_noise
from ptycho.reconstruction.inference import make_predict_step
from ptycho.reconstruction.refinement import refine
from ptycho.reconstruction.regions import predict_in_rounds
from ptycho.reconstruction.stitching import stitch
from ptycho.run.loaded import ROUNDS, LoadedModel
from ptycho.run.network import StoredNetwork
from ptycho.scan.dataset import Dataset
from ptycho.scan.reconstruction import Reconstruction
from ptycho.training.callbacks import standard_callbacks
from ptycho.training.fitting import FitSettings, train
from workflows.zero_shot.definition import DENOISED, LSQML, REFINED, ZERO_SHOT, Definition

log = logging.getLogger(__name__)

STITCHING = "probe"
SIZES = 16  # pixels between the sides of regions
KEPT_OUT = 8  # every so manieth group, drawn at random, is for the validation of a training
TRIAL_EPOCHS = 3  # of LSQ-ML, by which its speed is told
EPOCHS = (5, 400)  # of LSQ-ML, at least and at most
THREADS = 2  # of LSQ-ML
PINN = COMPETITORS["pinn"]
Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Made:
    """A reconstruction.

    Attributes:
        stitched: the object.
        data: the patterns with the probe and positions that go with it.
        seconds: from the patterns to the object, without compilation.
        compile_s: time of compilation, as far as it is told apart.
        moved: the object may lie elsewhere than the true one.
        facts: whatever else is to be noted.
    """

    stitched: Reconstruction
    data: Dataset
    seconds: float
    compile_s: float = 0.0
    moved: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Case:
    """A scan, each pattern a group, the network, and how the study uses it; ``python`` has pty-chi."""

    study: Definition
    stored: StoredNetwork
    model: LoadedModel
    data: Dataset
    python: str | None = None

    @cached_property
    def tiles(self) -> Dataset:
        """Groups for the network; their regions are of few sizes, so that cells share compiled programs."""
        tiles = self.data.tiled(min(self.study.group_size, len(self.data.positions)))
        return replace(tiles, region_size=-(-tiles.region_size // SIZES) * SIZES)

    @cached_property
    def zero_shot(self) -> Made:
        """Once for the compilation, and once more for the time."""
        first, _ = _timed(lambda: self.model.reconstruct(self.tiles, STITCHING))
        seconds, made = _timed(lambda: self.model.reconstruct(self.tiles, STITCHING))
        return Made(made, self.data, seconds, max(first - seconds, 0.0))

    @cached_property
    def refined(self) -> Made:
        begun = self.zero_shot
        mask, start = begun.stitched.mask, begun.stitched.objects
        if not np.isfinite(start).all():
            return begun
        seconds, found = _timed(lambda: refine(start, self.data, self.study.passes))
        made = Reconstruction(np.where(mask, found, 0), mask)  # has no regions to disagree
        return replace(begun, stitched=made, seconds=begun.seconds + seconds)

    @property
    def denoised(self) -> Made:
        begun = self.refined
        objects, mask = begun.stitched.objects, begun.stitched.mask
        seconds, found = _timed(lambda: denoised(objects, mask, photon_noise(self.data)))
        return replace(begun, stitched=Reconstruction(found, mask), seconds=begun.seconds + seconds)


def tuned(case: Case, epochs: int, from_nothing: bool = False) -> Made:
    """The network trained on the scan, without its truth, and used on it.

    From the stored weights, or ``from_nothing``. The validation groups share patterns with the others.
    """
    tuning, config, seed = case.study.tuning, case.model.config, case.study.seed
    view = PINN.training_view(config, case.data.regrouped(tuning.group_size))
    order = np.random.default_rng(seed).permutation(view.n_groups)
    kept = view.n_groups // KEPT_OUT
    network = PINN.build(config, geometry_of(view))
    if not from_nothing:
        set_weights(network, case.stored.weights)
    settings = FitSettings(
        adam=config.train,
        epochs=epochs,
        batch_size=tuning.batch_size,
        learning_rate=config.train.learning_rate if from_nothing else tuning.learning_rate,
        seed=seed,
        compile_xla=tuning.compile,
    )
    parts = _groups(view, order[kept:]), _groups(view, order[:kept])
    history = train(network, *parts, settings, standard_callbacks())
    used = PINN.build(config, geometry_of(case.tiles))
    set_weights(used, get_weights(network))
    tiles, step = case.tiles, make_predict_step(used, tuning.compile)
    regions = np.empty((tiles.n_groups, tiles.region_size, tiles.region_size), np.complex64)
    rounds = 1 if from_nothing else ROUNDS
    inference_s, _ = _timed(lambda: predict_in_rounds(regions, step, tiles, config.batch_size or 1, rounds))
    seconds, made = _timed(lambda: stitch(regions, tiles, STITCHING))
    facts = {"epochs": epochs, "training_s": history.train_s}
    return Made(made, case.data, history.train_s + inference_s + seconds, history.compile_s, facts=facts)


def by_lsqml(case: Case) -> Made:
    """LSQ-ML of pty-chi, for as many epochs as fit into the time of network and refinement."""
    settings = LsqmlConfig(epochs=TRIAL_EPOCHS, positions=False, python=case.python, threads=THREADS)
    trial = lsqml.reconstruct(case.data, settings, case.study.seed)
    epochs = round(case.refined.seconds * TRIAL_EPOCHS / max(trial.reconstruction.seconds, 1e-3))
    settings = replace(settings, epochs=min(max(epochs, EPOCHS[0]), EPOCHS[1]))
    found = lsqml.reconstruct(case.data, settings, case.study.seed).reconstruction
    assert found.beam is not None
    made = replace(found, mask=case.zero_shot.stitched.mask)
    facts = {"epochs": settings.epochs, "version": found.program}
    return Made(made, case.data.under(found.beam), found.seconds, moved=True, facts=facts)


METHODS: dict[str, Callable[[Case], Made]] = {
    ZERO_SHOT: lambda case: case.zero_shot,
    REFINED: lambda case: case.refined,
    DENOISED: lambda case: case.denoised,
    "tuned1": partial(tuned, epochs=1),
    "tuned2": partial(tuned, epochs=2),
    "scratch": partial(tuned, epochs=2, from_nothing=True),
    LSQML: by_lsqml,
}
"""Method to function ``(case) → Made``."""


def _groups(data: Dataset, chosen: np.ndarray) -> Dataset:
    """Some groups of a dataset, which keeps all its patterns."""
    near = None if data.neighbours is None else data.neighbours[chosen]
    return replace(data, groups=data.groups[chosen], neighbours=near)


def _timed(work: Callable[[], Found]) -> tuple[float, Found]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found
