"""Training of a prior: on fits by a classical prior, then also on those that its own opinion leads to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from ptycho.config.memory import cores
from ptycho.config.prior_config import PriorConfig
from ptycho.networks.denoiser import new_denoiser
from ptycho.progress import Progress
from ptycho.reconstruction.learned import LIT, Learned, compiled
from ptycho.run.prior_examples import Example, make_example
from ptycho.simulation.prior_scans import PriorScans
from ptycho.training.history import History, Losses
from ptycho.training.loop import LossTensors, Task
from ptycho.training.optimizers import schedule_to_horizon

log = logging.getLogger(__name__)

ROW = 200  # steps in a row of the history
EASY = 0.01  # of the noise's energy: an error below it is hardly worth anything
LEFT_OUT = 40  # scans, the first ones, that are not trained on; a fifth at most
TRIED = 12  # batches of them
AHEAD = 4  # batches that are made while another is trained on
Window = tuple[np.ndarray, ...]
Pair = tuple[tf.Tensor, tf.Tensor]


class PriorTraining(Task):
    """A training on windows of examples; its epochs are rows of :data:`ROW` steps of the history.

    The loss is the mean of ``log(Σ v|D − T|² / Σ v σ² + EASY)`` over windows, v the light but at most a tenth
    of the strongest: what is nearly right is worth as much as what is still wrong. ``error`` of a step is
    the geometric mean of what is left of a window's error, and so is ``val_error`` of scans left out.

    Args:
        config: of the training.
        folder: where examples are kept; those that are there are not made again.
        pause: called after each example; what it raises ends the training.
    """

    name = "prior"
    patterns = 1
    validates = False

    def __init__(self, config: PriorConfig, folder: Path, pause: Callable[[], None] = lambda: None) -> None:
        self.config, self.folder, self.pause = config, folder, pause
        self.epochs = -(-config.steps // ROW)
        self.model = new_denoiser(config.seed)
        schedule = schedule_to_horizon(config.train, config.steps, config.horizon)
        self.optimizer = keras.optimizers.Adam(schedule, global_clipnorm=config.train.clip_norm, name="adam")
        self.optimizer.build(self.model.trainable_variables)
        self.scans = PriorScans(config)
        self._load = lru_cache(4 * config.scans)(Example.load)
        self._step, self._errors = _compile(self.model, self.optimizer)

    @property
    def left_out(self) -> int:
        return min(LEFT_OUT, self.config.scans_again // 5)

    def paths(self, kind: int) -> list[Path]:
        """Of the examples of a kind: fits by a classical prior (0), by what has been learned (1)."""
        count = (self.config.scans, self.config.scans_again)[kind]
        return [self.folder / f"{kind}-{number}.npz" for number in range(count)]

    def make_examples(self, kind: int) -> list[Path]:
        """Those that are missing of :meth:`paths`, which are given."""
        paths = self.paths(kind)
        learned = Learned(compiled(self.model), 1.0) if kind else None
        missing = [number for number, path in enumerate(paths) if not path.exists()]

        def make(number: int) -> None:
            make_example(self.scans, number, learned).save(paths[number])

        if missing:
            progress = Progress(f"scans, part {kind + 1} of 2", len(missing), unit="scan")
            with closing(progress), ThreadPoolExecutor(cores()) as pool:
                try:
                    for made in [pool.submit(make, number) for number in missing]:
                        made.result()
                        progress.advance(1)
                        self.pause()
                finally:
                    pool.shutdown(cancel_futures=True)
        return paths

    def steps(self, epoch: int) -> int:
        return max(0, min(ROW, self.config.steps - epoch * ROW))

    def batches(self, epoch: int, first: int) -> Iterator[Window]:
        paths = self.make_examples(0)[self.left_out :]
        if epoch * ROW >= self.config.second:
            paths = paths + self.make_examples(1)[self.left_out :]
        numbers = range(epoch * ROW + first, epoch * ROW + self.steps(epoch))
        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(self.batch, paths, k) for k in numbers[:AHEAD]]
            for place in range(len(numbers)):
                waiting += [pool.submit(self.batch, paths, k) for k in numbers[place + AHEAD :][:1]]
                yield waiting.pop(0).result()

    def batch(self, paths: list[Path], number: int) -> Window:
        """Windows of random examples, turned and mirrored; it depends on seed and number alone."""
        rng = np.random.default_rng([self.config.seed, 2, number])
        chosen = [self._load(paths[k]) for k in rng.integers(len(paths), size=self.config.batch)]
        windows = [cut_window(example, self.config.window, rng) for example in chosen]
        return tuple(np.stack(parts).astype(np.float32) for parts in zip(*windows, strict=True))

    def step(self, batch: Window) -> LossTensors:
        return {"error": self._step(*map(tf.constant, batch))}

    def summarise(self, history: History) -> Losses:
        """Geometric means of the rest of the error."""
        row: Losses = {"step": history.epoch * ROW + history.step}
        row["error"] = float(np.exp(np.mean([np.log(losses["error"]) for losses in history.running])))
        row["val_error"] = self.error(0)
        return row

    def error(self, kind: int) -> float:
        """What is left of the error in scans that are not trained on."""
        paths = self.paths(kind)[: self.left_out]
        after = self.config.horizon or self.config.steps
        found = [self._errors(*map(tf.constant, self.batch(paths, after + k))) for k in range(TRIED)]
        return float(np.exp(np.mean(np.log(found))))


def _compile(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> tuple[Callable, Callable]:
    """A training step and the measurement of a batch, both ``(x, ν, change, light) → error``."""

    def errors(inputs: tf.Tensor, relative: tf.Tensor, change: tf.Tensor, light: tf.Tensor) -> Pair:
        weight = tf.minimum(light / LIT, 1)
        axes = (1, 2, 3)
        left = tf.reduce_sum(weight * tf.square(model([inputs, relative]) - change), axes)
        before = tf.reduce_sum(weight * tf.square(change), axes)
        noise = 2 * tf.reduce_sum(weight * tf.exp(2 * relative), axes) + 1e-3
        ratio = (left + 1e-6 * noise) / (before + 1e-6 * noise)
        return tf.reduce_mean(tf.math.log(left / noise + EASY)), tf.exp(
            tf.reduce_mean(tf.math.log(ratio)) / 2
        )

    @tf.function(autograph=False)
    def step(*batch: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss, error = errors(*batch)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return error

    @tf.function(autograph=False)
    def measure(*batch: tf.Tensor) -> tf.Tensor:
        return errors(*batch)[1]

    return step, measure


def cut_window(example: Example, side: int, rng: np.random.Generator) -> Window:
    """A window ``(side, side)`` of an example's arrays, zero where they end; turned, mirrored, conjugate."""
    arrays = [example.inputs, example.relative, example.change, example.light]
    height, width = example.light.shape[:2]
    row, column = (int(rng.integers(max(1, n - side + 1))) for n in (height, width))
    turns, mirrored, conjugate = int(rng.integers(4)), rng.random() < 0.5, rng.random() < 0.5
    found = []
    for array in arrays:
        part = array[row : row + side, column : column + side]
        part = np.pad(part, [*((0, side - n) for n in part.shape[:2]), (0, 0)])
        part = np.rot90(part, turns)
        part = part.transpose(1, 0, 2) if mirrored else part
        if conjugate and array.shape[-1] > 1:
            signs = np.repeat([1, -1], array.shape[-1] // 2).astype(np.float32)
            part = signs * part
        found.append(part)
    return tuple(found)
