"""Train and store one network, and resume its training in an interrupted run; for every program."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras.src.backend.common import global_state

from ptycho.config import ConfigError, RunConfig, TrainedConfig
from ptycho.config.mapping import differences, result_settings
from ptycho.config.memory import Part, check_memory
from ptycho.config.sections import CustomModel
from ptycho.networks import count_activations, count_parameters
from ptycho.networks.layers import Arrays, Geometry, get_weights, set_weights
from ptycho.preparation.dataset import training_and_validation
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.network import is_stored, read_history, read_network, read_probe, setup_of, write_network
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import probe_mask
from ptycho.training.callbacks import callbacks_of, standard_callbacks
from ptycho.training.checkpoint import Checkpoints, History
from ptycho.training.competitors import COMPETITORS, training_geometry
from ptycho.training.fitting import FitSettings, ProbeLearner, train
from ptycho.training.interrupt import StopRequest
from ptycho.training.loop import NonFiniteLossError

log = logging.getLogger(__name__)


class TrainingScans(NamedTuple):
    """Scans that a network is trained with, as it views them."""

    training: Dataset
    validation: Dataset  # chooses the epoch
    offsets: np.ndarray  # (C, 2) float32, of a typical group


class FittedNetwork(NamedTuple):
    """A network after its training; ``modes (K, N, N)``, of any scale, of the probe if that was learned."""

    model: keras.Model
    history: History
    modes: np.ndarray | None


def train_network(
    name: str,
    config: TrainedConfig,
    scans: TrainingScans,
    folder: RunFolder,
    *,
    stop: StopRequest | None = None,  # saves the training, and stops it, on a signal
    start: Arrays | None = None,  # weights of a trained network to go on from; None: new ones
    bar: bool | None = None,  # as for ptycho.progress.Progress
    callbacks: Iterable[Any] = (),  # of Keras or of the loop, beside those that the configuration names
) -> FittedNetwork:
    """Build a model, and take it from the folder of an interrupted run or train and store it.

    It is stored too when its loss stops being finite; its checkpoints stay then.

    Raises:
        ConfigError: the folder holds a training with another configuration; code of the user cannot be used.
        NonFiniteLossError: the loss became NaN or infinite.
        Stopped: a signal came.
    """
    recipe, own_config = COMPETITORS[name], config.of(name)
    training, validation = (recipe.training_view(own_config, scan) for scan in scans[:2])
    geometry = training_geometry(training, config.test_probe if isinstance(config, RunConfig) else None)
    check_network_memory(name, config, geometry)
    model = recipe.build(own_config, geometry)
    if start is not None:
        set_weights(model, start)
    learner = None  # the network with its training probe as a variable
    if config.learns_probe and not recipe.supervised:
        mask = probe_mask(config.probe, training.N)
        learner = ProbeLearner(network=model, probe=training.model_probe, mask=mask, name=model.name)
    settings = result_settings(config)
    history = restore_network(name, model, settings, folder)
    setup = setup_of(training, scans.offsets, geometry.support)
    folder.arrays(f"{name}/{names.SETUP}", setup.arrays())
    log.info("%s: %d parameters, %d groups", name, count_parameters(model), training.n_groups)
    place, seconds = folder.path / name / names.CHECKPOINTS, config.train.checkpoint_seconds
    checkpoints = Checkpoints(place, settings, seconds)
    if history is None:
        own = callbacks_of(config.train.callbacks, callbacks)
        every = standard_callbacks(checkpoints, stop, config.train.patience, bar, own)
        with folder.timed(f"{name}_training"):
            try:
                history = train(learner or model, training, validation, fit_settings(name, config), every)
            except NonFiniteLossError as error:
                store_network(name, model, error.history, settings, folder, complete=False)
                raise
        if learner is not None:
            training = training.under_probe(learner.modes(training.model_probe))
            folder.arrays(f"{name}/{names.PROBE}", {"modes": training.probe})
            setup = setup_of(training, scans.offsets, geometry.support)
            folder.arrays(f"{name}/{names.SETUP}", setup.arrays())
        store_network(name, model, history, settings, folder)
    checkpoints.remove()
    return FittedNetwork(model, history, None if learner is None else read_probe(folder.path, name))


def fit_settings(name: str, config: TrainedConfig) -> FitSettings:
    """Return how a configuration has one of its networks trained."""
    recipe = COMPETITORS[name]
    return FitSettings(
        name=name,
        adam=config.train,
        epochs=config.nepochs,
        batch_size=config.batch_size,
        learning_rate=recipe.learning_rate(config),
        seed=config.seed,
        compile_xla=config.xla.compile,
        supervised=recipe.supervised,
        probe_rate=config.probe.rate,
        probe_start=config.probe.start_epoch,
    )


def check_network_memory(name: str, config: TrainedConfig, geometry: Geometry) -> None:
    """Refuse a network whose training, besides its data, needs more memory than the machine has.

    It is built without its variables, which takes no memory. The factors were measured as peaks of the
    process (N = 64, batches of 16 to 256, with XLA and without it).
    """
    settings, pixels, B = config.architecture(name), geometry.N**2, config.batch_size
    if isinstance(settings, CustomModel):  # which may need its variables to be built
        return
    with keras.StatelessScope(initialize_variables=False):
        model = COMPETITORS[name].build(config.of(name), geometry)
    global_state.set_global_attribute("uninitialized_variables", [])  # or the next scope would make them
    C, near = geometry.group_size, getattr(settings, "neighbours", 0)
    grouping = "gridsize" if isinstance(config, RunConfig) else "group_size"
    size, fewer = f"lower {settings.SIZED_BY}", f"{grouping} or batch_size"
    copies = 9  # gradient and its clipped copy, moments, best weights, what a checkpoint copies
    physics = 16 * getattr(settings, "stages", 0) * C * pixels  # planes of each iteration, for the gradient
    parts = [
        Part(f"the weights of the {name} and their optimizer", 4 * copies * count_parameters(model), size),
        Part(
            "the patterns of a batch and their neighbours",
            40 * B * (C + near) * pixels,  # five complex planes
            f"lower {'model.neighbours, ' * (near > 0)}{fewer}",
        ),
        Part("the layers of a batch", B * (8 * count_activations(model) + physics), f"{size}, {fewer}"),
    ]
    check_memory({f"trains the {name}": parts})


def restore_network(
    name: str, model: keras.Model, settings: dict[str, Any], folder: RunFolder
) -> History | None:
    """Give ``model`` the weights with which an interrupted run stored it; None if it must be trained.

    ConfigError: it was trained with another configuration than ``settings``.
    """
    if not (folder.resumed and is_stored(folder.path, name)):
        return None
    try:
        stored, rows = read_network(folder.path, name), read_history(folder.path, name)
    except ConfigError as error:
        log.warning("%s; it is trained again", error)
        return None
    if not (description := stored.description).get("complete"):
        return None
    if changes := differences(description["run_config"], settings):
        raise ConfigError(
            f"{folder.path / name}: was trained with another configuration than config.yaml has "
            f"({'; '.join(changes)}); restore config.yaml, or remove this folder to train again"
        )
    set_weights(model, stored.weights)
    log.info("%s: is trained; its weights are loaded", name)
    return History(rows, stopped=description["stopped"], **description["times_s"])


def store_network(
    name: str,
    model: keras.Model,
    history: History,
    settings: dict[str, Any],
    folder: RunFolder,
    complete: bool = True,
) -> None:
    """Store a model, how it was trained, whether that came to its proper end, and its history."""
    description = {
        "parameters": count_parameters(model),
        "best_epoch": history.best_epoch,
        "stopped": history.stopped,
        "complete": complete,
        "times_s": {"compile_s": history.compile_s, "checkpoint_s": history.checkpoint_s},
        "run_config": settings,
    }
    write_network(folder, name, get_weights(model), description, history.rows)


def describe_trainings(histories: dict[str, History]) -> dict[str, Any]:
    """Return the training speed of each network, for the manifest."""
    return {
        name: {
            "compile_s": round(h.compile_s, 3),
            "steps_s": round(h.train_s, 3),
            "checkpoint_s": round(h.checkpoint_s, 3),
            "best_epoch": h.best_epoch,
        }
        for name, h in histories.items()
    }


def split_scan(scan: Dataset, val_fraction: float, seed: int) -> TrainingScans:
    """Divide the groups of a scan into those of training and of validation."""
    training, validation = training_and_validation(scan, val_fraction, seed)
    return TrainingScans(training, validation, training.offsets[0])
