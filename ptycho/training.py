"""Training of any model that offers ``losses_of(batch, probe, normalisation)``."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf

from ptycho.config import TrainConfig
from ptycho.data import Batch, Dataset, padded_batches, training_batches
from ptycho.models import get_weights, set_weights
from ptycho.progress import Progress

log = logging.getLogger(__name__)

Step = Callable[[Batch, tf.Tensor, tf.Tensor], dict[str, tf.Tensor]]


@dataclass
class History:
    """What a training did: a row of losses for every epoch, the best epoch, and times in seconds."""

    rows: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = 0
    compile_s: float = 0.0
    train_s: float = 0.0
    stopped: str | None = None


class NonFiniteLossError(RuntimeError):
    """The loss became NaN or infinite; the model holds its last good weights."""

    history: History


def learning_rate_schedule(
    config: TrainConfig, peak: float, steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Linear warm-up from zero to ``peak``, then half a cosine down to its final fraction."""
    warmup = round(config.warmup_fraction * steps)
    return keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0 if warmup else peak,
        decay_steps=max(steps - warmup, 1),
        alpha=config.final_learning_rate_fraction,
        warmup_target=peak if warmup else None,
        warmup_steps=warmup,
    )


def make_train_step(model: keras.Model, optimizer: keras.optimizers.Optimizer, compile_xla: bool) -> Step:
    """One optimizer step as a ``tf.function``; XLA-compiled exactly if ``compile_xla``."""
    variables = model.trainable_variables
    optimizer.build(variables)

    @tf.function(jit_compile=compile_xla, reduce_retracing=False)
    def train_step(batch: Batch, probe: tf.Tensor, normalisation: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.GradientTape() as tape:
            losses = model.losses_of(batch, probe, normalisation)
        optimizer.apply(tape.gradient(losses["loss"], variables), variables)
        return losses

    return train_step


def make_eval_step(model: keras.Model, compile_xla: bool) -> Step:
    """The losses of a batch without an update."""

    @tf.function(jit_compile=compile_xla, reduce_retracing=False)
    def eval_step(batch: Batch, probe: tf.Tensor, normalisation: tf.Tensor) -> dict[str, tf.Tensor]:
        return model.losses_of(batch, probe, normalisation)

    return eval_step


def train(
    model: keras.Model,
    data: Dataset,
    val: Dataset,
    config: TrainConfig,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    compile_xla: bool,
    supervised: bool = False,
) -> History:
    """Train ``model`` in place; at the end it holds the weights of the best validation loss.

    Every epoch visits the full batches of a permutation decided by (seed, epoch). Only a ``supervised``
    model is given the true object.

    Raises:
        NonFiniteLossError: a loss was NaN or infinite. The model is left with its best weights so far
            (the initial ones during the first epoch); ``error.history`` holds what was recorded.
    """
    steps = data.n_groups // batch_size
    optimizer = keras.optimizers.Adam(
        learning_rate_schedule(config, learning_rate, steps * epochs), global_clipnorm=config.clip_norm
    )
    train_step = make_train_step(model, optimizer, compile_xla)
    eval_step = make_eval_step(model, compile_xla)
    val_batches = _validation_batches(val, batch_size, supervised)
    history, best, best_loss = History(), get_weights(model), math.inf
    progress = Progress(model.name, epochs, steps, batch_size * data.group_size)
    try:
        for epoch in range(epochs):
            began = time.perf_counter()
            losses = _train_epoch(
                train_step,
                data,
                training_batches(data, batch_size, seed, epoch, supervised),
                epoch,
                progress,
                history,
            )
            val_losses = _mean([_run(eval_step, batch, val) for batch in val_batches])
            _check_finite(val_losses["loss"], f"validation after epoch {epoch + 1}")
            seconds = time.perf_counter() - began
            history.rows.append(_row(epoch, losses, val_losses, optimizer, seconds))
            log.info("%s: %s", model.name, _describe(history.rows[-1], epochs))
            if val_losses["loss"] < best_loss:
                best, best_loss, history.best_epoch = get_weights(model), val_losses["loss"], epoch + 1
            if config.patience is not None and epoch + 1 - history.best_epoch >= config.patience:
                history.stopped = f"no better validation loss in {config.patience} epochs"
                log.info("%s: stopped after epoch %d, %s", model.name, epoch + 1, history.stopped)
                break
    except NonFiniteLossError as error:
        history.stopped = str(error)
        error.history = history
        raise
    finally:
        progress.close()
        set_weights(model, best)
    history.train_s = sum(row["seconds"] for row in history.rows) - history.compile_s
    return history


def _train_epoch(
    train_step: Step,
    data: Dataset,
    batches: Iterator[Batch],
    epoch: int,
    progress: Progress,
    history: History,
) -> dict[str, float]:
    rows = []
    for step, batch in enumerate(batches):
        began = time.perf_counter()
        rows.append(_run(train_step, batch, data))
        if epoch == 0 and step == 0:
            history.compile_s = time.perf_counter() - began
        loss = rows[-1]["loss"]
        _check_finite(loss, f"epoch {epoch + 1}, step {step + 1}")
        progress.step(epoch + 1, step + 1, loss)
    return _mean(rows)


def _run(step: Step, batch: Batch, data: Dataset) -> dict[str, float]:
    losses = step(batch, tf.constant(data.model_probe), tf.constant(data.normalisation, tf.float32))
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


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _row(
    epoch: int,
    losses: dict[str, float],
    val_losses: dict[str, float],
    optimizer: keras.optimizers.Optimizer,
    seconds: float,
) -> dict[str, float]:
    return (
        {"epoch": epoch + 1}
        | losses
        | {f"val_{name}": value for name, value in val_losses.items()}
        | {"learning_rate": float(optimizer.learning_rate), "seconds": seconds}
    )


def _describe(row: dict[str, float], epochs: int) -> str:
    return (
        f"epoch {row['epoch']}/{epochs} done in {row['seconds']:.1f} s: "
        f"loss {row['loss']:.5g}, validation loss {row['val_loss']:.5g}"
    )
