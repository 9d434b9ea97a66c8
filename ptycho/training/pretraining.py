"""Training of one network on distributions of probes, objects and scans, with the true objects at hand."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import keras
import numpy as np
import tensorflow as tf

from ptycho.config.pretrain_config import BatchConfig, PretrainConfig
from ptycho.networks import GENERATORS, generator_mover
from ptycho.networks.geometry import Geometry
from ptycho.networks.losses import amplitude_error, object_error
from ptycho.networks.unrolled import Unrolled
from ptycho.networks.weights import assign, get_weights, read
from ptycho.progress import Progress
from ptycho.simulation.examples import Examples
from ptycho.training.checkpoint import Checkpoints, Snapshot
from ptycho.training.history import History, Losses
from ptycho.training.interrupt import StopRequest
from ptycho.training.loop import NonFiniteLossError
from ptycho.training.optimizers import Cooled, learning_rate_schedule

log = logging.getLogger(__name__)

EASY = 0.01  # relative error below which an example hardly gains by being better still
AMPLITUDE = 0.5  # weight of the amplitudes' own error
COOLDOWN = 0.15  # of the steps, where they end before the cosine of the learning rate does
ROW = 200  # steps in a row of the history
WORKERS = 3  # threads that make batches
AHEAD = 6  # batches that are made while another is trained on
Step = Callable[[dict[str, tf.Tensor]], tf.Tensor]


def form_name(form: BatchConfig) -> str:
    """Name of a form of batches in the history."""
    return f"N{form.N}_C{form.C}" + (f"_K{form.modes}" if form.modes > 1 else "")


def geometry_of_form(form: BatchConfig) -> Geometry:
    return Geometry(form.N, form.region_size, form.C, form.N, exact=True, masked=True)


class Pretraining:
    """A training and its state; :meth:`run` goes on from the last checkpoint.

    The loss is the mean of ``log(e + EASY) + AMPLITUDE·log(a + EASY)`` with e and a of
    :func:`ptycho.networks.losses.object_error` and :func:`~ptycho.networks.losses.amplitude_error`: what is
    nearly right is worth as much as what is still wrong.
    """

    def __init__(self, config: PretrainConfig, checkpoints: Checkpoints | None, stop: StopRequest) -> None:
        self.config, self.examples = config, Examples(config)
        self.checkpoints, self.stop = checkpoints, stop
        first = self.examples.forms[0]
        self.network: Unrolled = GENERATORS[config.model.kind](
            settings=config.model,
            geometry=geometry_of_form(first),
            seed=config.seed,
            mover=generator_mover(config, geometry_of_form(first)),
            name="generator",
        )
        self.network.build((first.batch, first.C, first.N, first.N))
        horizon = config.horizon or config.steps
        schedule = learning_rate_schedule(config.train, config.train.learning_rate, horizon)
        if config.steps < horizon:
            schedule = Cooled(schedule, config.steps, max(1, round(COOLDOWN * config.steps)))
        self.optimizer = keras.optimizers.Adam(schedule, global_clipnorm=config.train.clip_norm, name="adam")
        self.optimizer.build(self.network.trainable_variables)
        self.history = History()
        self._steps: dict[BatchConfig, Step] = {}

    def run(self) -> History:
        """Train to the end.

        Raises:
            NonFiniteLossError: a loss was NaN or infinite.
            Stopped: ``stop`` was asked for; the step was finished and a checkpoint saved.
        """
        if self.checkpoints is not None and self.checkpoints.restore(self._apply):
            log.info("goes on after step %d of %d", self._done(), self.config.steps)
        done, steps = self._done(), self.config.steps
        with closing(Progress("pretraining", steps, done, delay=0)) as progress, self.stop.deferred():
            for step, batch in enumerate(self._batches(done), start=done):
                began = time.perf_counter()
                form = self.examples.form_of(step)
                error = float(self._step_of(form)(batch))
                if not math.isfinite(error):
                    raise NonFiniteLossError(f"the loss is {error} at step {step}; lower train.learning_rate")
                self.history.running.append({form_name(form): error})
                self.history.running_s += time.perf_counter() - began
                if (step + 1) % ROW == 0:
                    self._row(step + 1)
                progress.advance(1, f"error {error:.3f}")
                self._pause()
        if self.history.running:
            self._row(steps)
        return self.history

    def _done(self) -> int:
        rows = self.history.rows
        return (int(rows[-1]["step"]) if rows else 0) + len(self.history.running)

    def _batches(self, first: int) -> Iterator[dict[str, tf.Tensor]]:
        """The batches from a step on, made ahead by other threads."""
        last = self.config.steps
        with ThreadPoolExecutor(WORKERS) as pool:
            waiting = [pool.submit(self.examples.batch, k) for k in range(first, min(first + AHEAD, last))]
            for step in range(first, last):
                if step + AHEAD < last:
                    waiting.append(pool.submit(self.examples.batch, step + AHEAD))
                yield {key: tf.constant(value) for key, value in waiting.pop(0).result().items()}

    def _step_of(self, form: BatchConfig) -> Step:
        """The compiled step for one form of batches."""
        if form not in self._steps:
            network = self.network.resized(geometry_of_form(form))
            variables = self.network.trainable_variables

            @tf.function(jit_compile=self.config.xla.compile, reduce_retracing=False, autograph=False)
            def train_step(batch: dict[str, tf.Tensor]) -> tf.Tensor:
                inputs = batch["x"], batch["offsets"], batch["probe"]
                start, passes = batch["start"], batch["passes"]
                solved = tf.cond(passes > 0, lambda: network.iterated(*inputs, start, passes), lambda: start)
                start = tf.cond(batch["again"], lambda: network(*inputs, start), lambda: solved)
                with tf.GradientTape() as tape:
                    found = network(*inputs, start)
                    told = found, batch["target"], batch["light"]
                    error = tf.reduce_mean(tf.math.log(object_error(*told) + EASY))
                    loss = error + AMPLITUDE * tf.reduce_mean(tf.math.log(amplitude_error(*told) + EASY))
                self.optimizer.apply(tape.gradient(loss, variables), variables)
                return tf.exp(error)

            self._steps[form] = train_step
        return self._steps[form]

    def _row(self, step: int) -> None:
        """Close a row of the history: the geometric mean of the errors of each form."""
        history = self.history
        row: Losses = {"epoch": len(history.rows) + 1, "step": step}
        for form in self.examples.forms:
            name = form_name(form)
            found = [losses[name] for losses in history.running if name in losses]
            row[name] = float(np.exp(np.mean(np.log(found)))) if found else -1.0
        row |= {"learning_rate": float(self.optimizer.learning_rate), "seconds": history.running_s}
        history.rows.append(row)
        history.running, history.running_s = [], 0.0
        told = ", ".join(f"{key} {value:.3f}" for key, value in row.items() if key.startswith("N"))
        log.info("step %d of %d, %.0f s: %s", step, self.config.steps, row["seconds"], told)

    def _pause(self) -> None:
        due = self.checkpoints is not None and self.checkpoints.due()
        if self.checkpoints is not None and (due or self.stop.signum is not None):
            weights = get_weights(self.network)
            self.checkpoints.save(Snapshot(weights, {}, read(self.optimizer.variables), self.history))
        self.stop.check()

    def _apply(self, snapshot: Snapshot) -> None:
        assign(self.network.variables, snapshot.weights, "weights")
        assign(self.optimizer.variables, snapshot.optimizer, "optimizer")
        self.history = snapshot.history

    def new_errors(self, form: BatchConfig, batches: int) -> np.ndarray:
        """Errors of examples of a form that no training from this seed draws, ``(batches · batch,)``."""
        network, examples = self.network.resized(geometry_of_form(form)), self.examples

        @tf.function(jit_compile=self.config.xla.compile, autograph=False)
        def errors_of(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            found = network(batch["x"], batch["offsets"], batch["probe"], batch["start"])
            return object_error(found, batch["target"], batch["light"])

        seeds = ([self.config.seed + 1, k] for k in range(batches))
        drawn = (examples.draw_batch(form, np.random.default_rng(seed)) for seed in seeds)
        return np.concatenate(
            [errors_of({key: tf.constant(value) for key, value in one.items()}).numpy() for one in drawn]
        )
