"""One network trained, stored and, in an interrupted run, gone on with: the same for every workflow."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from ptycho.config import ConfigError, TrainedConfig
from ptycho.config.mapping import completed, differences, result_settings
from ptycho.networks import parameter_count
from ptycho.networks.competitors import COMPETITORS, Competitor, training_geometry
from ptycho.networks.probe_learning import ProbeLearner
from ptycho.networks.weights import get_weights, set_weights
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.network import (
    is_stored,
    read_history,
    read_network,
    read_probe,
    setup_of,
    write_network,
)
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import lit_part
from ptycho.training.checkpoint import Checkpoints
from ptycho.training.history import History
from ptycho.training.interrupt import StopRequest
from ptycho.training.loop import NonFiniteLossError, train

log = logging.getLogger(__name__)


def trained(
    name: str,
    config: TrainedConfig,
    scans: tuple[Dataset, Dataset],
    offsets: np.ndarray,
    folder: RunFolder,
    stop: StopRequest | None,
    start: dict[str, np.ndarray] | None = None,
) -> tuple[keras.Model, History, np.ndarray | None]:
    """Build a model, and take it from the folder of an interrupted run or train and store it.

    It is stored too when its loss stops being finite; its checkpoints stay then. Where the PINN learns the
    probe, the modes that it found, ``(K, N, N)`` of any scale, are the third.

    Args:
        scans: for training and for validation, as the network views them.
        offsets: ``(C, 2)`` float32, of a typical group.
        start: weights of a trained network to go on from; None: new ones.
    """
    recipe = COMPETITORS[name]
    training, validation = (recipe.training_view(config, scan) for scan in scans)
    geometry = training_geometry(config, training)
    model = recipe.build(config, geometry)
    if start is not None:
        set_weights(model, start)
    learner = probe_learner(model, training, config) if name == "pinn" and config.learns_probe else None
    history = restored(name, model, config, folder)
    folder.arrays(f"{name}/{names.SETUP}", setup_of(training, offsets, geometry.support).arrays())
    log.info("%s: %d parameters, %d groups", name, parameter_count(model), training.n_groups)
    settings = result_settings(config)
    place, seconds = folder.path / name / names.CHECKPOINTS, config.train.checkpoint_seconds
    checkpoints = Checkpoints(place, settings, seconds, completed)
    if history is None:
        with folder.timed(f"{name}_training"), stored_if_it_diverges(name, model, settings, folder):
            history = fit(recipe, learner or model, (training, validation), config, checkpoints, stop)
        if learner is not None:
            found = training.under_probe(learner.modes(training.model_probe))
            folder.arrays(f"{name}/{names.PROBE}", {"modes": found.probe})
            folder.arrays(f"{name}/{names.SETUP}", setup_of(found, offsets, geometry.support).arrays())
        store(name, model, history, settings, folder)
    checkpoints.remove()
    modes = None if learner is None else read_probe(folder.path, name)
    return model, history, modes


def fit(
    recipe: Competitor,
    model: keras.Model,
    scans: tuple[Dataset, Dataset],
    config: TrainedConfig,
    checkpoints: Checkpoints,
    stop: StopRequest | None,
) -> History:
    """Train a model on the first of two scans, as the configuration says; the second chooses its epoch."""
    return train(
        model,
        *scans,
        config.train,
        epochs=config.nepochs,
        batch_size=config.batch_size,
        learning_rate=recipe.learning_rate(config),
        seed=config.seed,
        compile_xla=config.xla.compile,
        supervised=recipe.supervised,
        checkpoints=checkpoints,
        stop=stop,
        probe_rate=config.probe.rate,
        probe_start=config.probe.start_epoch,
    )


def probe_learner(model: keras.Model, training: Dataset, config: TrainedConfig) -> ProbeLearner:
    """The network with its training probe as a variable."""
    lit = lit_part(config.probe, training.N)
    return ProbeLearner(network=model, probe=training.model_probe, mask=lit, name=model.name)


def restored(name: str, model: keras.Model, config: TrainedConfig, folder: RunFolder) -> History | None:
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


def training_facts(histories: dict[str, History]) -> dict[str, Any]:
    """Training speed of each network, for the manifest."""
    return {
        name: {
            "compile_s": round(h.compile_s, 3),
            "steps_s": round(h.train_s, 3),
            "checkpoint_s": round(h.checkpoint_s, 3),
            "best_epoch": h.best_epoch,
        }
        for name, h in histories.items()
    }
