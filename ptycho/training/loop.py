"""The training loop: steps, validation, history. Callbacks act between two steps."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from ptycho.networks.layers import Arrays, check_weights, get_weights, set_weights
from ptycho.training.checkpoint import History, Losses, Snapshot

log = logging.getLogger(__name__)

LossTensors = dict[str, tf.Tensor]


class TwoOptimizers:
    """An optimizer of the network, and one of ``own``, which is trained beside it."""

    def __init__(
        self, network: keras.optimizers.Optimizer, other: keras.optimizers.Optimizer, own: keras.Variable
    ) -> None:
        self._network, self._other, self._own = network, other, own

    def build(self, variables: list[keras.Variable]) -> None:
        self._network.build([v for v in variables if v is not self._own])
        self._other.build([self._own])

    def apply(self, gradients: list[tf.Tensor], variables: list[keras.Variable]) -> None:
        pairs = list(zip(gradients, variables, strict=True))
        for optimizer, theirs in ((self._network, False), (self._other, True)):
            chosen = [(g, v) for g, v in pairs if (v is self._own) == theirs]
            optimizer.apply([g for g, _ in chosen], [v for _, v in chosen])

    @property
    def variables(self) -> list[keras.Variable]:
        return [*self._network.variables, *self._other.variables]

    @property
    def learning_rate(self) -> keras.Variable:
        """Learning rate of the network."""
        return self._network.learning_rate


Optimizer: TypeAlias = keras.optimizers.Optimizer | TwoOptimizers


class NonFiniteLossError(RuntimeError):
    """Loss that became NaN or infinite; the model holds its last good weights."""

    history: History


class Task:
    """Task of a loop: a model, its optimizer, its batches, and the summary of an epoch."""

    name: str  # that of messages
    model: keras.Model | keras.layers.Layer  # which training changes, as the optimizer; both are built
    optimizer: Optimizer
    epochs: int  # at most
    patterns: int  # of a step, for the progress bar
    validates: bool = False  # the weights of the smallest validation loss are the result; otherwise the last

    def steps(self, epoch: int) -> int:
        """Return the number of optimizer steps of an epoch."""
        raise NotImplementedError

    def batches(self, epoch: int, first: int) -> Iterator[Any]:
        """Yield the batches of an epoch from its step ``first`` on."""
        raise NotImplementedError

    def step(self, batch: Any) -> LossTensors:
        """Take one optimizer step, and return its losses."""
        raise NotImplementedError

    def summarise(self, history: History) -> Losses:
        """Return the losses in the row of a complete epoch, from ``history.running`` of its steps."""
        raise NotImplementedError

    def compile(self) -> None:
        """Prepare whatever else will be needed; it is called after the first step."""

    def validate(self) -> Iterator[LossTensors]:
        """Yield the losses of the validation batches, if it ``validates``."""
        return iter(())

    def check(self, history: History) -> None:
        """Raise ValueError if a training with this history cannot be resumed."""


class Callback:
    """Addition to a training loop; each method is called where its name says, in the given order."""

    def begin(self, training: Training) -> None:
        """Prepare before the first step."""

    def is_due(self) -> bool:
        """Return whether there is a reason to wait for the device, and to pause; asked after every step."""
        return False

    def reason_to_end(self, training: Training) -> str | None:
        """Return why the training shall end before its time, or None; asked between two epochs."""
        return None

    def pause(self, training: Training) -> None:
        """Act between two steps or validation batches, whose losses are known."""

    def end_epoch(self, training: Training) -> None:
        """Act after an epoch and its validation."""

    def close(self) -> None:
        """Clean up at the end, whatever ended it; the last callback first."""


class Training:
    """A training and its state: the variables of model and optimizer, ``best`` and ``history``.

    Attributes:
        best: weights of the smallest validation loss so far; none without a validation.
        history: what was done; the next step is the one after it.
        read_s: seconds between two readings of the losses; to read one waits for its step.
        clock: its laps are the times of the history.
    """

    def __init__(self, task: Task, callbacks: Sequence[Callback] = (), read_s: float = 0.5) -> None:
        self.task, self.callbacks, self.read_s = task, callbacks, read_s
        self.best: Arrays = get_weights(task.model) if task.validates else {}
        self.history = History()

    def run(self) -> History:
        """Train to the end; the model then holds its best weights, or without a validation its last.

        Raises:
            NonFiniteLossError: a loss was NaN or infinite. The model is left with its best weights so far
                (the initial ones during the first epoch); ``error.history`` holds what was recorded.
        """
        self.clock, self._compiled = Clock(), False
        with contextlib.ExitStack() as ends:
            ends.callback(self._keep_best)
            for callback in self.callbacks:
                callback.begin(self)
                ends.callback(callback.close)
            self.clock.lap()
            while self.history.epoch < self.task.epochs and not self._reason_to_end():
                try:
                    self._epoch()
                except NonFiniteLossError as error:
                    self.history.stopped, error.history = str(error), self.history
                    raise
        if reason := self._reason_to_end():
            self.history.stopped = reason
            log.info("%s: stopped after epoch %d, %s", self.task.name, self.history.epoch, reason)
        return self.history

    @property
    def where(self) -> str:
        """Progress of the training in words, for the user."""
        epoch, step = self.history.epoch, self.history.step
        place = f"epoch {epoch + 1}/{self.task.epochs}, step {step}/{self.task.steps(epoch)}"
        return f"{place}, loss {total(self.history.running[-1]):.4g}" if step else place

    def snapshot(self) -> Snapshot:
        """Return all that is needed to go on from here."""
        self.history.running_s += self.clock.lap()
        weights, optimizer = get_weights(self.task.model), get_weights(self.task.optimizer)
        return Snapshot(weights, self.best, optimizer, self.history)

    def restore(self, snapshot: Snapshot) -> None:
        """Take over a snapshot, or raise ValueError and change nothing."""
        task = self.task
        task.check(snapshot.history)
        if task.validates:
            check_weights(task.model, snapshot.best, "best weights")
        check_weights(task.model, snapshot.weights)
        set_weights(task.optimizer, snapshot.optimizer, "optimizer variables")
        set_weights(task.model, snapshot.weights)
        self.best, self.history = snapshot.best, snapshot.history

    def _reason_to_end(self) -> str | None:
        return next(filter(None, (callback.reason_to_end(self) for callback in self.callbacks)), None)

    def _keep_best(self) -> None:
        if self.best:
            set_weights(self.task.model, self.best)

    def _epoch(self) -> None:
        """The rest of the epoch in which the history ends, and its validation."""
        history, task = self.history, self.task
        self._steps()
        row: Losses = {"epoch": history.epoch + 1} | task.summarise(history)
        row |= self._validate() | {"learning_rate": float(task.optimizer.learning_rate)}
        history.running_s += self.clock.lap()
        history.rows.append(row | {"seconds": history.running_s})
        history.running, history.running_s = [], 0.0
        log.info("%s: %s", task.name, _describe(history.rows[-1], task.epochs))
        if task.validates and history.best_epoch == history.epoch:
            self.best = get_weights(task.model)
        for callback in self.callbacks:
            callback.end_epoch(self)

    def _steps(self) -> None:
        """The rest of the epoch's steps. Their losses are read now and then, so that the device runs on."""
        epoch, first = self.history.epoch, self.history.step
        last, waiting = self.task.steps(epoch) - 1, []
        for step, batch in enumerate(self.task.batches(epoch, first), start=first):
            waiting.append(self.task.step(batch))
            due = self.clock.running() >= self.read_s or any(callback.is_due() for callback in self.callbacks)
            if not self._compiled or step == last or due:  # a reason to wait for the device
                self._read(waiting)
                waiting = []
                self._pause()

    def _read(self, waiting: list[LossTensors]) -> None:
        """Note the losses of finished steps."""
        history = self.history
        for tensors in waiting:
            losses = _numbers(tensors)
            _check_finite(losses, f"epoch {history.epoch + 1}, step {history.step + 1}")
            history.running.append(losses)
        if not self._compiled:
            self.task.compile()
        seconds = self.clock.lap()
        history.running_s += seconds
        history.compile_s += 0.0 if self._compiled else seconds
        self._compiled = True

    def _validate(self) -> Losses:
        """Means over the validation batches, ``val_…``."""
        if not self.task.validates:
            return {}
        rows = []
        for tensors in self.task.validate():
            rows.append(_numbers(tensors))
            self._pause()
        losses = mean(rows)
        _check_finite(losses, f"validation after epoch {self.history.epoch + 1}")
        return {f"val_{name}": value for name, value in losses.items()}

    def _pause(self) -> None:
        for callback in self.callbacks:
            callback.pause(self)


class Clock:
    """Wall time, cut into laps without gaps."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def running(self) -> float:
        """Return seconds since the last lap, which goes on."""
        return time.perf_counter() - self._last

    def lap(self) -> float:
        """Return seconds since the last lap, or since the beginning."""
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        return seconds


def total(losses: Losses) -> float:
    """Return the loss itself; where none is called so, the sum of all."""
    return losses.get("loss", sum(losses.values()))


def mean(rows: list[Losses]) -> Losses:
    """Return the mean of each loss, over steps or batches."""
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _numbers(losses: LossTensors) -> Losses:
    return {name: float(value) for name, value in losses.items()}


def _check_finite(losses: Losses, where: str) -> None:
    if not math.isfinite(loss := total(losses)):
        raise NonFiniteLossError(
            f"the loss is {loss} at {where}; the last good weights are kept. "
            "Try a smaller train.learning_rate, or check the data"
        )


def _describe(row: Losses, epochs: int) -> str:
    """The validation loss beside the loss; where there is none, every loss of the row."""
    rest = ("epoch", "step", "learning_rate", "seconds")
    shown = {"loss": "loss", "val_loss": "validation loss"}
    names = shown if "val_loss" in row else {name: name for name in row if name not in rest}
    losses = ", ".join(f"{text} {row[name]:.5g}" for name, text in names.items())
    return f"epoch {row['epoch']}/{epochs} done in {row['seconds']:.1f} s: {losses}"
