"""Callbacks of a training.

Those of the program save checkpoints, show a bar, and stop early or on a signal; others are Keras callbacks
of the user, and an ``on_event``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from typing import Any

import keras

from ptycho.config import ConfigError
from ptycho.config.own_code import load
from ptycho.progress import Event, OnEvent, Progress
from ptycho.training.checkpoint import Checkpoints
from ptycho.training.interrupt import StopRequest
from ptycho.training.loop import Callback, Training

log = logging.getLogger(__name__)


def standard_callbacks(
    checkpoints: Checkpoints | None = None,
    stop: StopRequest | None = None,
    patience: int | None = None,
    bar: bool | None = None,
    more: Iterable[Callback] = (),
) -> list[Callback]:
    """Return the callbacks of every training, in order: what is saved on a signal is saved before it stops.

    Args:
        checkpoints: a training that they hold is continued; None: nothing is saved.
        stop: None: signals end the process, or the training, as Python has it.
        patience: epochs without a better validation loss; None: any.
        bar: as for :class:`~ptycho.progress.Progress`.
        more: those of the user, after what is saved.
    """
    callbacks: list[Callback] = [ShowProgress(bar), *more]
    if checkpoints is not None:
        callbacks.insert(0, SaveCheckpoints(checkpoints, stop))
    if patience is not None:
        callbacks.append(Patience(patience))
    return callbacks if stop is None else [*callbacks, StopOnSignal(stop)]


class SaveCheckpoints(Callback):
    """Save a checkpoint after every epoch, at regular intervals, and when ``stop`` is requested.

    A training is resumed from its checkpoints with exactly the weights and losses that it would have had
    without the interruption.
    """

    def __init__(self, checkpoints: Checkpoints, stop: StopRequest | None = None) -> None:
        self._checkpoints, self._stop = checkpoints, stop

    def begin(self, training: Training) -> None:
        if self._checkpoints.restore(training.restore):
            epoch, step = training.history.epoch, training.history.step
            log.info("%s: resumed after epoch %d and %d further steps", training.task.name, epoch, step)

    def is_due(self) -> bool:
        return self._checkpoints.is_due()

    def pause(self, training: Training) -> None:
        if self.is_due() or (self._stop is not None and self._stop.signum is not None):
            self._save(training)

    def end_epoch(self, training: Training) -> None:
        self._save(training)

    def _save(self, training: Training) -> None:
        self._checkpoints.save(training.snapshot())
        training.history.checkpoint_s += training.clock.lap()


class ShowProgress(Callback):
    """A bar of patterns, and the loss."""

    def __init__(self, bar: bool | None = None) -> None:
        self._wanted = bar

    def begin(self, training: Training) -> None:
        task, history = training.task, training.history
        every = sum(map(task.steps, range(task.epochs)))
        done = sum(map(task.steps, range(history.epoch))) + history.step
        counts = every * task.patterns, done * task.patterns
        self._step = history.step
        self._progress = Progress(task.name, *counts, delay=0, bar=self._wanted)

    def pause(self, training: Training) -> None:
        if new := training.history.step - self._step:
            self._progress.advance(new * training.task.patterns, training.where)
            self._step += new

    def end_epoch(self, training: Training) -> None:
        self._step = 0

    def close(self) -> None:
        self._progress.close()


class Patience(Callback):
    """The end of a training, none of whose last ``epochs`` epochs brought a better validation loss."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs

    def reason_to_end(self, training: Training) -> str | None:
        if training.history.epoch - training.history.best_epoch < self._epochs:
            return None
        return f"no better validation loss in {self._epochs} epochs"


class StopOnSignal(Callback):
    """Stop between two steps after a signal.

    Before the end of the first step a signal ends the process at once, because there is little to save and
    the step takes long.

    Raises:
        Stopped: from ``pause`` and ``end_epoch``, if ``stop`` has received a signal.
    """

    def __init__(self, stop: StopRequest) -> None:
        self._stop, self._deferred, self._begun = stop, contextlib.ExitStack(), False

    def is_due(self) -> bool:
        return self._stop.signum is not None

    def pause(self, training: Training) -> None:
        if not self._begun:
            self._deferred.enter_context(self._stop.defer())
            self._begun = True
        self._check(training)

    def end_epoch(self, training: Training) -> None:
        self._check(training)

    def close(self) -> None:
        self._deferred.close()

    def _check(self, training: Training) -> None:
        if self.is_due():
            epoch, step = training.history.epoch, training.history.step
            log.warning("%s: stopping after epoch %d and %d steps more", training.task.name, epoch, step)
        self._stop.check()


def callbacks_of(target: str | None, more: Iterable[Any] = ()) -> list[Callback]:
    """Return callbacks of Keras or of the loop, those that the function ``target`` makes and ``more``.

    Raises:
        ConfigError: one of them is neither.
    """
    own = () if target is None else load("train.callbacks", target)()
    every = [*(own if isinstance(own, list | tuple) else [own]), *more]
    for one in every:
        if not isinstance(one, Callback | keras.callbacks.Callback):
            raise ConfigError(
                f"train.callbacks={target}: gives {type(one).__name__}; must give a "
                "keras.callbacks.Callback, or a list of them"
            )
    return [one if isinstance(one, Callback) else KerasCallback(one) for one in every]


class KerasCallback(Callback):
    """Callback of Keras, whose methods for the whole training and for epochs are called.

    ``logs`` is the row of ``history.csv``. ``model.stop_training`` ends the training, as
    ``keras.callbacks.EarlyStopping`` wants it.
    """

    def __init__(self, callback: keras.callbacks.Callback) -> None:
        self._callback = callback

    def begin(self, training: Training) -> None:
        self._model = training.task.model
        self._model.stop_training = False
        self._model.optimizer = training.task.optimizer  # TensorBoard reads its learning rate
        self._callback.set_model(self._model)
        self._callback.set_params({"epochs": training.task.epochs})
        self._callback.on_train_begin()

    def end_epoch(self, training: Training) -> None:
        row = training.history.rows[-1]
        self._callback.on_epoch_end(int(row["epoch"]) - 1, dict(row))

    def reason_to_end(self, training: Training) -> str | None:
        stopped = self._model.stop_training
        return f"as {type(self._callback).__name__} wants it" if stopped else None

    def close(self) -> None:
        self._callback.on_train_end()


class TellEvents(Callback):
    """An ``epoch`` event after each, whose values are the row of ``history.csv``."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event

    def end_epoch(self, training: Training) -> None:
        self._on_event(Event("epoch", training.task.name, dict(training.history.rows[-1])))
