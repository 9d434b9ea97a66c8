"""The grid-lines workflow: simulate, train, infer, stitch, score, draw."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import yaml

from ptycho import figures, metrics
from ptycho.config import RunConfig
from ptycho.conversion import to_mapping
from ptycho.data import Dataset, to_arrays
from ptycho.inference import predict_regions
from ptycho.loaded import VIEWS
from ptycho.models import build_baseline, build_pinn, get_weights, parameter_count
from ptycho.report import RunFolder
from ptycho.saved import setup_of
from ptycho.simulate import simulate
from ptycho.stitching import Stitched, stitch
from ptycho.training import History, NonFiniteLossError, train

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recipe:
    """How one of the compared models is made: its network, its views of the data, its learning rate.

    ``view`` is what it reconstructs from, ``training_view`` makes of that what it is trained with.
    """

    build: Callable[[RunConfig, Dataset], keras.Model]
    view: Callable[[RunConfig, Dataset], Dataset]
    training_view: Callable[[RunConfig, Dataset], Dataset]
    learning_rate: Callable[[RunConfig], float]
    supervised: bool


def with_neighbours(config: RunConfig, data: Dataset) -> Dataset:
    """Groups with the neighbouring patterns that the PINN's loss compares with, too."""
    radius = config.model.neighbour_distance_px64 * config.N / 64
    return data.with_neighbours(config.model.neighbours, radius, config.seed)


RECIPES = {
    "pinn": Recipe(
        build_pinn,
        VIEWS["pinn"],
        with_neighbours,
        lambda c: c.train.learning_rate,
        supervised=False,
    ),
    "baseline": Recipe(
        build_baseline,
        VIEWS["baseline"],
        lambda c, data: data,
        lambda c: c.baseline.learning_rate,
        supervised=True,
    ),
}


@dataclass(frozen=True, eq=False)
class Result:
    """What a run gives: its scores, its reconstructions by name, and where everything was written."""

    metrics: dict[str, Any]
    recons: dict[str, Stitched]
    folder: Path


def run(config: RunConfig, folder: RunFolder) -> Result:
    """Run the workflow and write everything into ``folder``."""
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        log.info("XLA: compile=%s, translate=%s", config.xla.compile, config.xla.translate)
        folder.text("config.yaml", yaml.safe_dump(to_mapping(config), sort_keys=False))
        data = simulated(config, folder)
        recons, histories = {}, {}
        for name in config.models:
            model, histories[name] = trained(name, config, data, folder)
            recons[name] = reconstructed(name, model, config, data["test"], folder)
        truth, region = _truth(data["test"]), scored_region(config)
        scores = scored(truth, region, recons, folder)
        drawn(truth, region, data["test"].probe, recons, histories, scores, folder)
    folder.manifest(provenance(config, histories))
    log.info("results: %s", folder.path)
    return Result(scores, recons, folder.path)


def prepare_tensorflow() -> None:
    """Forget earlier models of the process, and keep float32 at 24 bits on every device."""
    keras.backend.clear_session()
    tf.config.experimental.enable_tensor_float_32_execution(False)


def simulated(config: RunConfig, folder: RunFolder) -> dict[str, Dataset]:
    """Simulate the three datasets and store them."""
    with folder.timed("simulation"):
        data = simulate(config)
    for role, part in data.items():
        log.info("%s: %d patterns in %d groups", role, len(part.amplitudes), part.n_groups)
    with folder.timed("writing"):
        for role, part in data.items():
            folder.arrays(f"datasets/N{config.N}/gs{config.gridsize}/{role}.npz", to_arrays(part))
    return data


def trained(
    name: str, config: RunConfig, data: dict[str, Dataset], folder: RunFolder
) -> tuple[keras.Model, History]:
    """Build and train a model and store it, also when its loss stops being finite."""
    recipe = RECIPES[name]
    training, validation = (
        recipe.training_view(config, recipe.view(config, data[role])) for role in ("train", "val")
    )
    model = recipe.build(config, training)
    setup = setup_of(config, training, getattr(model, "support", None))
    folder.arrays(f"{name}/setup.npz", setup.arrays())
    log.info("%s: %d parameters, %d groups", name, parameter_count(model), training.n_groups)
    try:
        with folder.timed(f"{name}_training"):
            history = train(
                model,
                training,
                validation,
                config.train,
                epochs=config.nepochs,
                batch_size=config.batch_size,
                learning_rate=recipe.learning_rate(config),
                seed=config.seed,
                compile_xla=config.xla.compile,
                supervised=recipe.supervised,
            )
    except NonFiniteLossError as error:
        _store(name, model, error.history, folder)
        raise
    _store(name, model, history, folder)
    return model, history


def _store(name: str, model: keras.Model, history: History, folder: RunFolder) -> None:
    description = {
        "class": type(model).__name__,
        "config": keras.saving.serialize_keras_object(model),
        "parameters": parameter_count(model),
        "best_epoch": history.best_epoch,
        "stopped": history.stopped,
    }
    folder.model(name, get_weights(model), description, history.rows)


def reconstructed(
    name: str, model: keras.Model, config: RunConfig, test: Dataset, folder: RunFolder
) -> Stitched:
    """Infer on the test scan, stitch, and store the objects."""
    view = RECIPES[name].view(config, test)
    with folder.timed(f"{name}_inference"):
        regions = predict_regions(model, view, config.batch_size, config.xla.compile)
    with folder.timed("stitching"):
        stitched = stitch(regions, view, config.stitch.method, config.outer_pitch("test"))
    store_recon(name, stitched, folder)
    return stitched


def store_recon(name: str, stitched: Stitched, folder: RunFolder) -> None:
    arrays = {
        "object": stitched.objects,
        "amp": np.abs(stitched.objects),
        "phase": np.angle(stitched.objects),
        "mask": stitched.mask,
    }
    folder.arrays(f"recons/{name}/recon.npz", arrays)


def scored_region(config: RunConfig) -> metrics.Region:
    """The rectangle that the central squares of the test groups tile: the same for every model."""
    pitch = config.outer_pitch("test")
    start = config.group_extent // 2 - pitch // 2
    side = pitch * config.groups_per_axis("test")
    start, stop = max(start, 0), min(start + side, config.size)
    return metrics.Region(start, start, stop - start, stop - start)


def scored(
    truth: np.ndarray, region: metrics.Region, recons: dict[str, Stitched], folder: RunFolder
) -> dict[str, Any]:
    """Score every reconstruction against the truth ``(I, M, M)`` and write ``metrics.json``."""
    store_recon("gt", Stitched(truth, np.ones(truth.shape, bool)), folder)
    with folder.timed("scoring"):
        scores = {
            name: metrics.score_images(recon.objects, truth, recon.mask, region)
            for name, recon in recons.items()
        }
        scores |= metrics.reference_rows(truth, region)
    folder.json("metrics.json", scores | {"region": asdict(region), "conventions": metrics.CONVENTIONS})
    for name, values in scores.items():
        amplitude, phase = values["ssim"]
        alarms = [flag for flag in values["flags"] if flag in metrics.ALARMS]
        note = f"  ! {', '.join(alarms)}" if alarms and name in recons else ""
        log.info("%-18s SSIM amplitude %s  phase %s%s", name, _number(amplitude), _number(phase), note)
    return scores


def _truth(test: Dataset) -> np.ndarray:
    if test.objects is None:
        raise ValueError("the test dataset has no true objects to score against")
    return test.objects


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


def drawn(
    truths: np.ndarray,
    region: metrics.Region,
    probe: np.ndarray,
    recons: dict[str, Stitched],
    histories: dict[str, History],
    scores: dict[str, Any],
    folder: RunFolder,
) -> None:
    """Draw image 0: comparison, reconstructions, errors, ring correlations; and histories, if there are."""
    truth = region.crop(truths[0])
    with folder.timed("drawing"):
        aligned, curves = {}, {}
        for name, recon in recons.items():
            image, mask = region.crop(recon.objects[0]), region.crop(recon.mask[0])
            usable = np.isfinite(image).all() and image[mask].any()
            aligned[name] = metrics.align(image, truth, mask).object if usable else np.zeros_like(truth)
            curves[name] = metrics.frc_curves(aligned[name], truth)
            folder.figure(f"visuals/amp_phase_{name}.png", figures.amp_phase(name, recon.objects[0], region))
            error = figures.amp_phase_error(name, aligned[name], truth)
            folder.figure(f"visuals/amp_phase_error_{name}.png", error)
        first = {name: scores[name]["per_image"][0] for name in recons}
        comparison = figures.compare(truth, aligned, first, probe)
        folder.figure("visuals/compare_amp_phase.png", comparison)
        folder.figure("visuals/frc_curves.png", figures.frc_curves(curves))
        if histories:
            rows = {name: history.rows for name, history in histories.items()}
            folder.figure("visuals/history.png", figures.history(rows))


def provenance(config: RunConfig, histories: dict[str, History]) -> dict[str, Any]:
    """Device, effective switches, seed, and training speed, for the manifest."""
    devices = [f"{d.device_type}:{i}" for i, d in enumerate(tf.config.list_logical_devices())]
    return {
        "device": next((d for d in devices if d.startswith("GPU")), devices[0]),
        "devices": devices,
        "xla": asdict(config.xla),
        "seed": config.seed,
        "training": {
            name: {
                "compile_s": round(h.compile_s, 3),
                "steps_s": round(h.train_s, 3),
                "best_epoch": h.best_epoch,
            }
            for name, h in histories.items()
        },
    }
