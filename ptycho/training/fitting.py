"""Train any model that has ``losses_of(batch, probe, normalisation)`` on a dataset, in epochs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import keras
import tensorflow as tf

from ptycho.config import AdamConfig
from ptycho.scan.batches import Batch, padded_batches, prefetched, training_batches
from ptycho.scan.dataset import Dataset
from ptycho.training.history import History, Losses
from ptycho.training.loop import Callback, LossTensors, Optimizer, Task, Training, TwoOptimizers, mean
from ptycho.training.probe_learning import ProbeLearner

log = logging.getLogger(__name__)

Schedule: TypeAlias = keras.optimizers.schedules.LearningRateSchedule
Step: TypeAlias = Callable[[Batch, tf.Tensor, tf.Tensor], LossTensors]


def learning_rate_schedule(config: AdamConfig, peak: float, steps: int) -> Schedule:
    """Return a linear warm-up from zero to ``peak``, then half a cosine down to its final fraction."""
    warmup = round(config.warmup_fraction * steps)
    return keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0 if warmup else peak,
        decay_steps=max(steps - warmup, 1),
        alpha=config.final_learning_rate_fraction,
        warmup_target=peak if warmup else None,
        warmup_steps=warmup,
    )


class Later(Schedule):
    """Another schedule times ``factor``, and zero before step ``first``."""

    def __init__(self, schedule: Schedule, factor: float, first: int) -> None:
        self.schedule, self.factor, self.first = schedule, factor, first

    def __call__(self, step):
        rate = self.factor * self.schedule(step)
        return tf.where(step < self.first, tf.zeros_like(rate), rate)


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """Settings of the training of a model on a dataset."""

    adam: AdamConfig  # the schedule of the learning rate, and the clipping of gradients
    epochs: int  # passes over the groups
    batch_size: int  # groups in a batch; more than there are make one batch of all
    learning_rate: float  # its peak
    seed: int = 0  # with the number of an epoch it decides the order of the groups
    compile_xla: bool = True  # of the steps
    supervised: bool = False  # the model is given the true object
    # The probe of a :class:`~ptycho.training.probe_learning.ProbeLearner` is trained at so many times the
    # learning rate, from so many epochs on.
    probe_rate: float = 0.0
    probe_start: int = 0
    name: str | None = None  # by which progress is shown; None: the model's


def train(
    model: keras.Model, data: Dataset, val: Dataset, settings: FitSettings, callbacks: Sequence[Callback] = ()
) -> History:
    """Train ``model`` in place; at the end it holds the weights of the best validation loss.

    Every epoch visits the full batches of a permutation decided by (seed, epoch); fewer groups than
    ``batch_size`` are one batch.

    Args:
        data, val: what is trained on, and what chooses the epoch.
        callbacks: as of :func:`ptycho.training.callbacks.standard_callbacks`.

    Raises:
        NonFiniteLossError: a loss was NaN or infinite. The model is left with its best weights so far
            (the initial ones during the first epoch); ``error.history`` holds what was recorded.
        Stopped: a callback was asked to stop; the step was finished and a checkpoint saved.
        ConfigError: the checkpoints were made with another configuration.
    """
    return Training(Fit(model, data, val, settings), callbacks).run()


class Fit(Task):
    """Training on the groups of a dataset; an epoch visits them all, but for a remainder."""

    validates = True

    def __init__(self, model: keras.Model, data: Dataset, val: Dataset, settings: FitSettings) -> None:
        self.name, self.model, self.epochs = settings.name or model.name, model, settings.epochs
        self._data, self._settings = data, settings
        self._batch_size = min(settings.batch_size, data.n_groups)
        if self._batch_size < settings.batch_size:
            log.info("batch_size=%d: is more than there are groups; they are one batch", settings.batch_size)
        self._steps = data.n_groups // self._batch_size
        self.patterns = self._batch_size * data.group_size
        self.optimizer = build_optimizer(model, settings, self._steps)
        self._train_step = bind_data(data, make_train_step(model, self.optimizer, settings.compile_xla))

        @tf.function(jit_compile=settings.compile_xla, reduce_retracing=False, autograph=False)
        def eval_step(batch: Batch, probe: tf.Tensor, normalisation: tf.Tensor) -> LossTensors:
            return model.losses_of(batch, probe, normalisation)

        self._eval_step = bind_data(val, eval_step)
        self._val_batches = full_batches(val, self._batch_size, settings.supervised)

    def steps(self, epoch: int) -> int:
        return self._steps

    def batches(self, epoch: int, first: int) -> Iterator[Batch]:
        seed, supervised = self._settings.seed, self._settings.supervised
        batches = training_batches(self._data, self._batch_size, seed, epoch, supervised, first)
        on_gpu = tf.config.list_physical_devices("GPU")  # on a CPU it costs 6 %
        return prefetched(batches) if on_gpu else batches

    def step(self, batch: Batch) -> LossTensors:
        return self._train_step(batch)

    def compile(self) -> None:
        self._eval_step(self._val_batches[0])

    def validate(self) -> Iterator[LossTensors]:
        return (self._eval_step(batch) for batch in self._val_batches)

    def summarise(self, history: History) -> Losses:
        return mean(history.running)

    def check(self, history: History) -> None:
        epoch, step = history.epoch, history.step
        if epoch + (step > 0) > self.epochs or step > self._steps:
            raise ValueError(f"epoch {epoch}, step {step} is beyond the end of the training")


def build_optimizer(model: keras.Model, settings: FitSettings, steps: int) -> Optimizer:
    """Return Adam on its schedule over all epochs of so many steps; a learned probe has one of its own."""
    adam = settings.adam
    schedule = learning_rate_schedule(adam, settings.learning_rate, steps * settings.epochs)
    optimizer = keras.optimizers.Adam(schedule, global_clipnorm=adam.clip_norm, name="adam")
    if not isinstance(model, ProbeLearner):
        return optimizer
    later = Later(schedule, settings.probe_rate, settings.probe_start * steps)
    return TwoOptimizers(optimizer, keras.optimizers.Adam(later, name="probe_adam"), model.change)


def make_train_step(model: keras.Model, optimizer: Optimizer, compile_xla: bool) -> Step:
    """Return one optimizer step as a ``tf.function``; XLA-compiled exactly if ``compile_xla``."""
    variables = model.trainable_variables
    optimizer.build(variables)

    @tf.function(jit_compile=compile_xla, reduce_retracing=False, autograph=False)
    def train_step(batch: Batch, probe: tf.Tensor, normalisation: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.GradientTape() as tape:
            losses = model.losses_of(batch, probe, normalisation)
        optimizer.apply(tape.gradient(losses["loss"], variables), variables)
        return losses

    return train_step


def bind_data(data: Dataset, step: Step) -> Callable[[Batch], LossTensors]:
    """Return ``step`` with the probe and normalisation of ``data``."""
    probe, normalisation = tf.constant(data.model_probe), tf.constant(data.normalisation, tf.float32)
    return lambda batch: step(batch, probe, normalisation)


def full_batches(val: Dataset, batch_size: int, supervised: bool) -> list[Batch]:
    """Return the full batches of the validation groups; a padded one where there are fewer groups."""
    full = [batch for batch, real in padded_batches(val, batch_size, supervised) if real == batch_size]
    return full or [next(padded_batches(val, batch_size, supervised))[0]]
