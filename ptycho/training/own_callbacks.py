"""External observers of a training: callbacks of Keras, an ``on_event``, TensorBoard."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from ptycho.config import ConfigError
from ptycho.config.own_code import load
from ptycho.progress import Event, OnEvent
from ptycho.training.history import Losses
from ptycho.training.loop import Callback, Training


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


class TensorBoard(Callback):
    """The rows of ``history.csv`` as scalars for TensorBoard; a training that goes on writes them anew."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, training: Training) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = tf.io.TFRecordWriter(str(self._path))
        self._write(tf.compat.v1.Event(wall_time=time.time(), file_version="brain.Event:2"))
        for row in training.history.rows:
            self._write_row(row)

    def end_epoch(self, training: Training) -> None:
        self._write_row(training.history.rows[-1])

    def close(self) -> None:
        self._file.close()

    def _write_row(self, row: Losses) -> None:
        scalars = ((name, value) for name, value in row.items() if name != "epoch")
        values = [tf.compat.v1.Summary.Value(tag=name, simple_value=value) for name, value in scalars]
        summary = tf.compat.v1.Summary(value=values)
        self._write(tf.compat.v1.Event(wall_time=time.time(), step=int(row["epoch"]), summary=summary))

    def _write(self, event: Any) -> None:
        self._file.write(event.SerializeToString())
        self._file.flush()
