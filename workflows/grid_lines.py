"""The grid-lines workflow: simulate, train, infer, stitch, score, draw."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ptycho.config import ConfigError, RunConfig
from ptycho.config.mapping import completed, differences, result_settings
from ptycho.evaluation.metrics import Region
from ptycho.networks import parameter_count
from ptycho.networks.competitors import COMPETITORS, training_geometry
from ptycho.networks.weights import get_weights, set_weights
from ptycho.readers import load_dataset
from ptycho.readers.own import to_arrays
from ptycho.reconstruction.inference import predict_regions
from ptycho.reconstruction.stitching import STITCHINGS, Stitched, stitch_each
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.network import is_stored, read_history, read_network, setup_of, write_network
from ptycho.scan.dataset import Dataset
from ptycho.simulation.simulate import simulate
from ptycho.training.checkpoint import Checkpoints
from ptycho.training.history import History
from ptycho.training.interrupt import StopRequest
from ptycho.training.loop import NonFiniteLossError, train
from workflows.assess import drawn, probe_doubts, scored, store_recon
from workflows.device import device_facts, prepare_tensorflow

log = logging.getLogger(__name__)


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
        test = data["test"]
        truth, region = _truth(test), Region(*test.tiling.rectangle)
        doubts = probe_doubts(test.probe, data["train"].probe)
        scores = scored(truth, region, stitched, config.stitch.method, folder, doubts)
        recons = {name: by_method[config.stitch.method] for name, by_method in stitched.items()}
        drawn(truth, region, test.probe, recons, histories, scores, folder)
    folder.manifest(provenance(config, histories) | {"resumed": folder.resumed})
    log.info("results: %s", folder.path)
    return Result(scores, recons, folder.path)


def stored_data(config: RunConfig, folder: RunFolder) -> dict[str, Dataset] | None:
    """The three datasets just as this run wrote them; None where one is missing or another."""
    if not folder.resumed:
        return None
    files = {role: names.dataset(config, role) for role in ("train", "val", "test")}
    other = [name for name in files.values() if not folder.holds(name)]
    if other:
        log.warning("%s: missing, changed or damaged; the datasets are simulated again", ", ".join(other))
        return None
    return {role: load_dataset(folder.path / name) for role, name in files.items()}


def simulated(config: RunConfig, folder: RunFolder) -> dict[str, Dataset]:
    """Simulate the three datasets and store them."""
    with folder.timed("simulation"):
        data = simulate(config)
    for role, part in data.items():
        log.info("%s: %d patterns in %d groups", role, len(part.amplitudes), part.n_groups)
    with folder.timed("writing"):
        for role, part in data.items():
            folder.arrays(names.dataset(config, role), to_arrays(part))
    return data


def trained(
    name: str, config: RunConfig, data: dict[str, Dataset], folder: RunFolder, stop: StopRequest | None
) -> tuple[keras.Model, History]:
    """Build a model, and take it from the folder of an interrupted run or train and store it.

    It is stored too when its loss stops being finite; its checkpoints stay then.
    """
    recipe = COMPETITORS[name]
    training, validation = (
        recipe.training_view(config, recipe.view(config, data[role])) for role in ("train", "val")
    )
    geometry = training_geometry(config, training)
    model = recipe.build(config, geometry)
    history = restored(name, model, config, folder)
    folder.arrays(f"{name}/{names.SETUP}", setup_of(config, training, geometry.support).arrays())
    log.info("%s: %d parameters, %d groups", name, parameter_count(model), training.n_groups)
    settings = result_settings(config)
    place, seconds = folder.path / name / names.CHECKPOINTS, config.train.checkpoint_seconds
    checkpoints = Checkpoints(place, settings, seconds, completed)
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


def restored(name: str, model: keras.Model, config: RunConfig, folder: RunFolder) -> History | None:
    """Give ``model`` the weights with which an interrupted run stored it; None if it must be trained.

    Raises:
        ConfigError: it was trained with another configuration.
    """
    if not (folder.resumed and is_stored(folder.path, name)):
        return None
    try:
        stored, rows = read_network(folder.path, name), read_history(folder.path, name)
    except ConfigError as error:
        log.warning("%s; it is trained again", error)
        return None
    description = stored.description
    if not description.get("complete"):
        return None
    if found := differences(completed(description["run_config"]), result_settings(config)):
        raise ConfigError(
            f"{folder.path / name}: was trained with another configuration than config.yaml has "
            f"({'; '.join(found)}); restore config.yaml, or remove this folder to train again"
        )
    set_weights(model, stored.weights)
    log.info("%s: is trained; its weights are loaded", name)
    return History(rows, stopped=description["stopped"], **description["times_s"])


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
        "parameters": parameter_count(model),
        "best_epoch": history.best_epoch,
        "stopped": history.stopped,
        "complete": complete,
        "times_s": {"compile_s": history.compile_s, "checkpoint_s": history.checkpoint_s},
        "run_config": settings,
    }
    write_network(folder, name, get_weights(model), description, history.rows)


def reconstructed(
    name: str, model: keras.Model, config: RunConfig, test: Dataset, folder: RunFolder
) -> dict[str, Stitched]:
    """Infer on the test scan, stitch by every method, and store the objects of ``stitch.method``."""
    view = COMPETITORS[name].view(config, test)
    with folder.timed(f"{name}_inference"):
        regions = predict_regions(model, view, config.batch_size, config.xla.compile)
    with folder.timed("stitching"):
        stitched = stitch_each(regions, view, STITCHINGS, config.stitch.passes)
    store_recon(name, stitched[config.stitch.method], folder)
    return stitched


def _truth(test: Dataset) -> np.ndarray:
    if test.objects is None:
        raise ValueError("the test dataset has no true objects to score against")
    return test.objects


def provenance(config: RunConfig, histories: dict[str, History]) -> dict[str, Any]:
    """Device, effective switches, seed, and training speed, for the manifest."""
    return device_facts(config.xla) | {
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
