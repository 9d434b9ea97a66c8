"""The grid-lines workflow: simulate, train, infer, stitch, score, draw."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptycho import figures, metrics
from ptycho.checkpoint import Checkpoints
from ptycho.config import ConfigError, RunConfig, StitchConfig
from ptycho.conversion import completed, differences, result_settings
from ptycho.data import Dataset, load_dataset, to_arrays
from ptycho.history import History
from ptycho.inference import predict_regions
from ptycho.interrupt import StopRequest
from ptycho.loaded import VIEWS
from ptycho.models import build_baseline, build_pinn, get_weights, parameter_count, set_weights
from ptycho.report import RunFolder
from ptycho.saved import setup_of
from ptycho.simulate import simulate
from ptycho.stitching import Stitched, stitch_each
from ptycho.stored import read_model
from ptycho.training import NonFiniteLossError, train

log = logging.getLogger(__name__)

STITCHING_SCORES = ("ssim", "frc50", "phase_rmse_rad", "uncovered_fraction", "flags")


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


def run(config: RunConfig, folder: RunFolder, stop: StopRequest | None = None) -> Result:
    """Run the workflow, or what is left of it, and write everything into ``folder``."""
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        log.info("the run goes on" if folder.resumed else "the run begins")
        log.info("XLA: compile=%s, translate=%s", config.xla.compile, config.xla.translate)
        data = stored_data(config, folder) or simulated(config, folder)
        stitched, histories = {}, {}
        for name in config.models:
            model, histories[name] = trained(name, config, data, folder, stop)
            stitched[name] = reconstructed(name, model, config, data["test"], folder)
        truth, region = _truth(data["test"]), scored_region(config)
        scores = scored(truth, region, stitched, config.stitch.method, folder)
        recons = {name: by_method[config.stitch.method] for name, by_method in stitched.items()}
        drawn(truth, region, data["test"].probe, recons, histories, scores, folder)
    folder.manifest(provenance(config, histories) | {"resumed": folder.resumed})
    log.info("results: %s", folder.path)
    return Result(scores, recons, folder.path)


def prepare_tensorflow() -> None:
    """Forget earlier models of the process, and keep float32 at 24 bits on every device."""
    keras.backend.clear_session()
    tf.config.experimental.enable_tensor_float_32_execution(False)


def stored_data(config: RunConfig, folder: RunFolder) -> dict[str, Dataset] | None:
    """The three datasets as an interrupted run left them; None if one is missing or damaged."""
    if not folder.resumed:
        return None
    try:
        return {role: load_dataset(folder.path / _dataset(config, role)) for role in ("train", "val", "test")}
    except ConfigError as error:
        log.warning("%s; the datasets are simulated again", error)
        return None


def simulated(config: RunConfig, folder: RunFolder) -> dict[str, Dataset]:
    """Simulate the three datasets and store them."""
    with folder.timed("simulation"):
        data = simulate(config)
    for role, part in data.items():
        log.info("%s: %d patterns in %d groups", role, len(part.amplitudes), part.n_groups)
    with folder.timed("writing"):
        for role, part in data.items():
            folder.arrays(_dataset(config, role), to_arrays(part))
    return data


def _dataset(config: RunConfig, role: str) -> str:
    return f"datasets/N{config.N}/gs{config.gridsize}/{role}.npz"


def trained(
    name: str, config: RunConfig, data: dict[str, Dataset], folder: RunFolder, stop: StopRequest | None
) -> tuple[keras.Model, History]:
    """Build a model, and take it from the folder of an interrupted run or train and store it.

    It is stored too when its loss stops being finite; its checkpoints stay then.
    """
    recipe = RECIPES[name]
    training, validation = (
        recipe.training_view(config, recipe.view(config, data[role])) for role in ("train", "val")
    )
    model = recipe.build(config, training)
    setup = setup_of(config, training, getattr(model, "support", None))
    folder.arrays(f"{name}/setup.npz", setup.arrays())
    log.info("%s: %d parameters, %d groups", name, parameter_count(model), training.n_groups)
    settings = result_settings(config)
    place, seconds = folder.path / name / "checkpoints", config.train.checkpoint_seconds
    checkpoints = Checkpoints(place, settings, seconds, completed)
    history = restored(name, model, settings, folder)
    if history is None:
        with folder.timed(f"{name}_training"), stored_if_it_diverges(name, model, settings, folder):
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
                checkpoints=checkpoints,
                stop=stop,
            )
        store(name, model, history, settings, folder)
    checkpoints.remove()
    return model, history


def restored(name: str, model: keras.Model, settings: dict[str, Any], folder: RunFolder) -> History | None:
    """Give ``model`` the weights with which an interrupted run stored it; None if it must be trained.

    Raises:
        ConfigError: it was trained with another configuration.
    """
    try:
        stored = read_model(folder.path, name) if folder.resumed else None
    except ConfigError as error:
        log.warning("%s; it is trained again", error)
        return None
    if stored is None or not stored.description.get("complete"):
        return None
    if found := differences(completed(stored.description["run_config"]), settings):
        raise ConfigError(
            f"{folder.path / name}: was trained with another configuration than config.yaml has "
            f"({'; '.join(found)}); restore config.yaml, or remove this folder to train again"
        )
    set_weights(model, stored.weights)
    log.info("%s: is trained; its weights are loaded", name)
    return History(stored.rows, stopped=stored.description["stopped"], **stored.description["times_s"])


@contextlib.contextmanager
def stored_if_it_diverges(
    name: str, model: keras.Model, settings: dict[str, Any], folder: RunFolder
) -> Iterator[None]:
    """Store the last good weights of a training whose loss is no longer finite."""
    try:
        yield
    except NonFiniteLossError as error:
        store(name, model, error.history, settings, folder, complete=False)
        raise


def store(
    name: str,
    model: keras.Model,
    history: History,
    settings: dict[str, Any],
    folder: RunFolder,
    complete: bool = True,
) -> None:
    """Store a model, how it was trained, whether that came to its proper end, and its history."""
    description = {
        "class": type(model).__name__,
        "config": keras.saving.serialize_keras_object(model),
        "parameters": parameter_count(model),
        "best_epoch": history.best_epoch,
        "stopped": history.stopped,
        "complete": complete,
        "times_s": {"compile_s": history.compile_s, "checkpoint_s": history.checkpoint_s},
        "run_config": settings,
    }
    folder.model(name, get_weights(model), description, history.rows)


def reconstructed(
    name: str, model: keras.Model, config: RunConfig, test: Dataset, folder: RunFolder
) -> dict[str, Stitched]:
    """Infer on the test scan, stitch by every method, and store the objects of ``stitch.method``."""
    view = RECIPES[name].view(config, test)
    with folder.timed(f"{name}_inference"):
        regions = predict_regions(model, view, config.batch_size, config.xla.compile)
    with folder.timed("stitching"):
        stitched = stitch_each(
            regions, view, StitchConfig.METHODS, config.outer_pitch("test"), config.stitch.passes
        )
    store_recon(name, stitched[config.stitch.method], folder)
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
    truth: np.ndarray,
    region: metrics.Region,
    stitched: dict[str, dict[str, Stitched]],
    chosen: str,
    folder: RunFolder,
) -> dict[str, Any]:
    """Score every model's objects, by stitching method, against the truth ``(I, M, M)``.

    Writes ``metrics.json``; what stands there under a model's name is by the ``chosen`` method.
    """
    store_recon("gt", Stitched(truth, np.ones(truth.shape, bool)), folder)
    with folder.timed("scoring"):
        scores = {
            name: model_scores(by_method, chosen, truth, region) for name, by_method in stitched.items()
        }
        scores |= metrics.reference_rows(truth, region)
    folder.json("metrics.json", scores | {"region": asdict(region), "conventions": metrics.CONVENTIONS})
    for name, values in scores.items():
        amplitude, phase = values["ssim"]
        alarms = [flag for flag in values["flags"] if flag in metrics.ALARMS]
        note = f"  ! {', '.join(alarms)}" if alarms and name in stitched else ""
        level = logging.WARNING if note else logging.INFO
        log.log(level, "%-18s SSIM amplitude %s  phase %s%s", name, _number(amplitude), _number(phase), note)
    return scores


def model_scores(
    by_method: dict[str, Stitched], chosen: str, truth: np.ndarray, region: metrics.Region
) -> dict[str, Any]:
    """All scores of the ``chosen`` stitching; under ``stitching`` the main ones of each method."""
    each = {
        method: metrics.score_images(recon.objects, truth, recon.mask, region)
        for method, recon in by_method.items()
    }
    main = {method: {key: row[key] for key in STITCHING_SCORES} for method, row in each.items()}
    return each[chosen] | {"stitching": main}


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
                "checkpoint_s": round(h.checkpoint_s, 3),
                "best_epoch": h.best_epoch,
            }
            for name, h in histories.items()
        },
    }
