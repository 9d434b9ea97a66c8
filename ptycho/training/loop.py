"""Training of any model that offers ``losses_of(batch, probe, normalisation)``."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import keras
import numpy as np
import tensorflow as tf

from ptycho.config import EpochsConfig
from ptycho.networks import weights as variables
from ptycho.networks.probe_learning import ProbeLearner
from ptycho.networks.weights import Arrays, get_weights, set_weights
from ptycho.progress import Progress
from ptycho.scan.batches import Batch, made_ahead, padded_batches, training_batches
from ptycho.scan.dataset import Dataset
from ptycho.training.checkpoint import Checkpoints, Snapshot
from ptycho.training.history import History, Losses
from ptycho.training.interrupt import StopRequest
from ptycho.training.optimizers import Later, TwoOptimizers, learning_rate_schedule

log = logging.getLogger(__name__)

LossTensors = dict[str, tf.Tensor]
Step = Callable[[Batch, tf.Tensor, tf.Tensor], LossTensors]
Optimizer: TypeAlias = keras.optimizers.Optimizer | TwoOptimizers
READ_S = 0.5  # between two readings of the losses; to read one waits for its step


class NonFiniteLossError(RuntimeError):
    """The loss became NaN or infinite; the model holds its last good weights."""

    history: History


def make_train_step(model: keras.Model, optimizer: Optimizer, compile_xla: bool) -> Step:
    """One optimizer step as a ``tf.function``; XLA-compiled exactly if ``compile_xla``."""
    variables = model.trainable_variables
    optimizer.build(variables)

    @tf.function(jit_compile=compile_xla, reduce_retracing=False, autograph=False)
    def train_step(batch: Batch, probe: tf.Tensor, normalisation: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.GradientTape() as tape:
            losses = model.losses_of(batch, probe, normalisation)
        optimizer.apply(tape.gradient(losses["loss"], variables), variables)
        return losses

    return train_step


def make_eval_step(model: keras.Model, compile_xla: bool) -> Step:
    """The losses of a batch without an update."""

    @tf.function(jit_compile=compile_xla, reduce_retracing=False, autograph=False)
    def eval_step(batch: Batch, probe: tf.Tensor, normalisation: tf.Tensor) -> dict[str, tf.Tensor]:
        return model.losses_of(batch, probe, normalisation)

    return eval_step


def train(
    model: keras.Model,
    data: Dataset,
    val: Dataset,
    config: EpochsConfig,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    compile_xla: bool,
    supervised: bool = False,
    checkpoints: Checkpoints | None = None,
    stop: StopRequest | None = None,
    probe_rate: float = 0.0,
    probe_start: int = 0,
) -> History:
    """Train ``model`` in place; at the end it holds the weights of the best validation loss.

    Every epoch visits the full batches of a permutation decided by (seed, epoch); fewer groups than
    ``batch_size`` are one batch. Only a ``supervised`` model is given the true object. A training that
    ``checkpoints`` holds is continued, to the very weights and losses that it would have had without the
    interruption. The probe of a :class:`ptycho.networks.probe_learning.ProbeLearner` is trained at
    ``probe_rate`` times the learning rate, from epoch ``probe_start`` on.

    Raises:
        NonFiniteLossError: a loss was NaN or infinite. The model is left with its best weights so far
            (the initial ones during the first epoch); ``error.history`` holds what was recorded.
        Stopped: ``stop`` was asked for; the step was finished and a checkpoint saved.
        ConfigError: the checkpoints were made with another configuration.
    """
    if batch_size > data.n_groups:
        log.info("batch_size=%d: is more than there are groups; they are one batch", batch_size)
        batch_size = data.n_groups
    steps = data.n_groups // batch_size
    schedule = learning_rate_schedule(config, learning_rate, steps * epochs)
    optimizer: Optimizer = keras.optimizers.Adam(schedule, global_clipnorm=config.clip_norm, name="adam")
    if isinstance(model, ProbeLearner):
        later = Later(schedule, probe_rate, probe_start * steps)
        own = keras.optimizers.Adam(later, name="probe_adam")
        optimizer = TwoOptimizers(optimizer, own, model.change)
    feed = made_ahead if tf.config.list_physical_devices("GPU") else iter  # on a CPU it costs 6 %
    trainer = Trainer(
        model,
        optimizer,
        _on(data, make_train_step(model, optimizer, compile_xla)),
        _on(val, make_eval_step(model, compile_xla)),
        lambda epoch, first: feed(training_batches(data, batch_size, seed, epoch, supervised, first)),
        _validation_batches(val, batch_size, supervised),
        epochs,
        config.patience,
        steps,
        batch_size * data.group_size,
        checkpoints,
        stop or StopRequest(),
    )
    return trainer.run()


@dataclass(eq=False)
class Trainer:
    """A training and its state: the variables of ``model`` and ``optimizer``, ``best`` and ``history``.

    Attributes:
        train_step, eval_step: losses of a batch, with and without an update.
        batches: (epoch, steps to pass over) → batches of that epoch.
        epochs, patience: epochs at most; end after so many without a better validation loss.
        steps, patterns: optimizer steps in an epoch; diffraction patterns in a step.
        best: weights of the smallest validation loss so far.
    """

    model: keras.Model
    optimizer: Optimizer
    train_step: Callable[[Batch], LossTensors]
    eval_step: Callable[[Batch], LossTensors]
    batches: Callable[[int, int], Iterator[Batch]]
    val_batches: list[Batch]
    epochs: int
    patience: int | None
    steps: int
    patterns: int
    checkpoints: Checkpoints | None
    stop: StopRequest
    best: Arrays = field(default_factory=dict)
    history: History = field(default_factory=History)

    def run(self) -> History:
        """Train from where the checkpoints left off, or from the beginning, to the end."""
        self.best = get_weights(self.model)
        if self.checkpoints is not None and self.checkpoints.restore(self._apply):
            epoch, step = self.history.epoch, self.history.step
            log.info("%s: goes on after epoch %d and %d steps more", self.model.name, epoch, step)
        self._clock, self._compiled = Clock(), False
        done = self.history.epoch * self.steps + self.history.step
        total = self.epochs * self.steps * self.patterns
        self._progress = Progress(self.model.name, total, done * self.patterns, delay=0)
        try:
            with contextlib.ExitStack() as self._from_now_on:  # that both steps are compiled
                while self.history.epoch < self.epochs and not self._out_of_patience():
                    self._epoch()
        except NonFiniteLossError as error:
            self.history.stopped = str(error)
            error.history = self.history
            raise
        finally:
            self._progress.close()
            set_weights(self.model, self.best)
        if self._out_of_patience():
            self.history.stopped = f"no better validation loss in {self.patience} epochs"
            log.info(
                "%s: stopped after epoch %d, %s", self.model.name, self.history.epoch, self.history.stopped
            )
        return self.history

    def _out_of_patience(self) -> bool:
        """Whether none of the last ``patience`` epochs brought a better validation loss."""
        history = self.history
        return self.patience is not None and history.epoch - history.best_epoch >= self.patience

    def _epoch(self) -> None:
        """The rest of the epoch in which the history ends, its validation, and a checkpoint."""
        history = self.history
        self._steps()
        losses, val_losses = _mean(history.running), self._validate()
        history.running_s += self._clock.lap()
        history.rows.append(_row(history, losses, val_losses, float(self.optimizer.learning_rate)))
        history.running, history.running_s = [], 0.0
        log.info("%s: %s", self.model.name, _describe(history.rows[-1], self.epochs))
        if history.best_epoch == history.epoch:
            self.best = get_weights(self.model)
        self._save()
        self._check_stop()

    def _steps(self) -> None:
        """The rest of the epoch's steps. Their losses are read now and then, so that the device runs on."""
        epoch, first = self.history.epoch, self.history.step
        waiting: list[LossTensors] = []
        for step, batch in enumerate(self.batches(epoch, first), start=first):
            waiting.append(self.train_step(batch))
            if self._is_time() or not self._compiled or step + 1 == self.steps:
                waiting = self._read(waiting, epoch)
                self._pause()

    def _is_time(self) -> bool:
        """Whether there is a reason to wait for the device: to show progress, to save, or to stop."""
        due = self.checkpoints is not None and self.checkpoints.due()
        return due or self.stop.signum is not None or self._clock.running() >= READ_S

    def _read(self, waiting: list[LossTensors], epoch: int) -> list[LossTensors]:
        """Note the losses of finished steps; what is left to read, none."""
        history = self.history
        for tensors in waiting:
            losses = _numbers(tensors)
            _check_finite(losses["loss"], f"epoch {epoch + 1}, step {history.step + 1}")
            history.running.append(losses)
        if not self._compiled:
            self.eval_step(self.val_batches[0])
            # Until now a signal ended the process at once: there was little to save, and much to wait for.
            self._from_now_on.enter_context(self.stop.deferred())
        seconds = self._clock.lap()
        history.running_s += seconds
        history.compile_s += 0.0 if self._compiled else seconds
        self._compiled = True
        where = f"epoch {epoch + 1}/{self.epochs}, step {history.step}/{self.steps}"
        self._progress.advance(len(waiting) * self.patterns, f"{where}, loss {losses['loss']:.4g}")
        return []

    def _validate(self) -> Losses:
        rows = []
        for batch in self.val_batches:
            rows.append(_numbers(self.eval_step(batch)))
            self._pause()
        losses = _mean(rows)
        _check_finite(losses["loss"], f"validation after epoch {self.history.epoch + 1}")
        return losses

    def _pause(self) -> None:
        """Between two steps: save if it is time, and stop if that was asked for."""
        if self.stop.signum is not None or (self.checkpoints is not None and self.checkpoints.due()):
            self._save()
        self._check_stop()

    def _check_stop(self) -> None:
        if self.stop.signum is not None:
            epoch, step = self.history.epoch, self.history.step
            log.warning("%s: stopping after epoch %d and %d steps more", self.model.name, epoch, step)
        self.stop.check()

    def _save(self) -> None:
        if self.checkpoints is None:
            return
        self.history.running_s += self._clock.lap()
        weights, optimizer = get_weights(self.model), variables.read(self.optimizer.variables)
        self.checkpoints.save(Snapshot(weights, self.best, optimizer, self.history))
        self.history.checkpoint_s += self._clock.lap()

    def _apply(self, snapshot: Snapshot) -> None:
        """Take over a snapshot, or raise ValueError and change nothing."""
        epoch, step = snapshot.history.epoch, snapshot.history.step
        if epoch + (step > 0) > self.epochs or step > self.steps:
            raise ValueError(f"epoch {epoch}, step {step} is beyond the end of the training")
        variables.check(self.model.variables, snapshot.best, "best weights")
        variables.check(self.model.variables, snapshot.weights, "weights")
        variables.assign(self.optimizer.variables, snapshot.optimizer, "optimizer variables")
        set_weights(self.model, snapshot.weights)
        self.best, self.history = snapshot.best, snapshot.history


class Clock:
    """Wall time, cut into laps without gaps."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def running(self) -> float:
        """Seconds since the last lap, which goes on."""
        return time.perf_counter() - self._last

    def lap(self) -> float:
        """Seconds since the last lap, or since the beginning."""
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        return seconds


def _on(data: Dataset, step: Step) -> Callable[[Batch], LossTensors]:
    """``step`` with the probe and normalisation of ``data``."""
    probe, normalisation = tf.constant(data.model_probe), tf.constant(data.normalisation, tf.float32)
    return lambda batch: step(batch, probe, normalisation)


def _numbers(losses: LossTensors) -> Losses:
    return {name: float(value) for name, value in losses.items()}


def _validation_batches(val: Dataset, batch_size: int, supervised: bool) -> list[Batch]:
    """The full batches of the validation groups; one padded batch where there are fewer groups than that."""
    full = [batch for batch, real in padded_batches(val, batch_size, supervised) if real == batch_size]
    return full or [next(padded_batches(val, batch_size, supervised))[0]]


def _check_finite(loss: float, where: str) -> None:
    if not math.isfinite(loss):
        raise NonFiniteLossError(
            f"the loss is {loss} at {where}; the last good weights are kept. "
            "Try a smaller train.learning_rate, or check the data"
        )


def _mean(rows: list[Losses]) -> Losses:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _row(history: History, losses: Losses, val_losses: Losses, learning_rate: float) -> Losses:
    return (
        {"epoch": history.epoch + 1}
        | losses
        | {f"val_{name}": value for name, value in val_losses.items()}
        | {"learning_rate": learning_rate, "seconds": history.running_s}
    )


def _describe(row: Losses, epochs: int) -> str:
    return (
        f"epoch {row['epoch']}/{epochs} done in {row['seconds']:.1f} s: "
        f"loss {row['loss']:.5g}, validation loss {row['val_loss']:.5g}"
    )
