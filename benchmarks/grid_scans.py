"""Simulated scans of the grid-lines workflow with one test object, and scores and refinement of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hydra import compose, initialize_config_dir

from ptycho.command_line.config import run_config
from ptycho.command_line.jobs import CONF
from ptycho.config import RunConfig
from ptycho.evaluation import metrics
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.scan_likelihood import likelihood_of
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.scan.dataset import Dataset
from ptycho.scan.reconstruction import Reconstruction
from ptycho.simulation.simulate import simulate


def configuration(words: Sequence[str]) -> RunConfig:
    """Return the configuration of the workflow with some overrides."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        config = run_config(compose("grid_lines", [*words]), [*words], {})
    assert isinstance(config, RunConfig)
    return config


def scan_of(*words: str) -> Dataset:
    """Return the test scan of one object under some overrides."""
    one = ("nimgs_test=1", "nimgs_train=1", "max_groups_train=64")
    return simulate(configuration([*words, *one]))[0]["test"]


def scores_of(made: Reconstruction, data: Dataset) -> dict[str, Any]:
    """Return the scores of the objects ``(I, M, M)``, as the workflow has them."""
    assert data.objects is not None
    region = metrics.Region(*data.tiling.rectangle)
    return metrics.score_images(made.objects, data.objects, made.mask, region)


def ssim_text(made: Reconstruction, data: Dataset) -> str:
    """Return the SSIM of amplitude and phase as text."""
    return " / ".join("–" if s is None else f"{s:.4f}" for s in scores_of(made, data)["ssim"])


def refine(objects: np.ndarray, data: Dataset, steps: int) -> np.ndarray:
    """Return ``objects (I, M, M)`` after at most so many steps of the solver, with all else known.

    One without patterns stays as it is.
    """
    refined = objects.astype(np.complex64)
    for i in np.unique(data.image):
        part = data.subset(np.flatnonzero(data.image == i), 1)
        start = Estimate.of(part, refined[i])
        refined[i] = fit(Objective(likelihood_of(part)), start, OBJECT_ALONE, steps).estimate.object
    return refined
