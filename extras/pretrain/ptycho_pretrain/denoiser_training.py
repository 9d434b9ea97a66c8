"""Training of the denoiser: on edge-preserving fits, then also on those that its first version leads to."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from scipy.stats import gmean

from ptycho.config.memory import cores
from ptycho.networks.denoiser import new_denoiser
from ptycho.progress import Progress
from ptycho.reconstruction.learned import VIEW, Learned, compiled
from ptycho.run import names
from ptycho.training.checkpoint import History, Losses
from ptycho.training.loop import LossTensors
from ptycho_pretrain.config import DenoiserConfig
from ptycho_pretrain.denoiser_examples import Example, Scans, make_example
from ptycho_pretrain.pretraining import KindsTraining

log = logging.getLogger(__name__)

Window = tuple[np.ndarray, ...]
Pair = tuple[tf.Tensor, tf.Tensor]


class DenoiserTraining(KindsTraining):
    """A training of the denoiser on windows of examples.

    The loss is the mean of ``log(Σ v|D − T|² / Σ v σ² + 0.01)`` over windows, v the illumination but at
    most a tenth of the strongest: what is nearly right is worth as much as what is still wrong. ``error`` of
    a step is the geometric mean of what is left of a window's error, and so is ``val_error`` of scans left
    out.

    Args:
        config: of the training.
        folder: where examples are kept; those that are there are not made again.
        pause: called after each example; what it raises ends the training.
    """

    name = names.PRIOR

    def __init__(
        self, config: DenoiserConfig, folder: Path, pause: Callable[[], None] = lambda: None
    ) -> None:
        denoiser = new_denoiser(config.seed)
        super().__init__(config, denoiser, denoiser)
        self.config, self.folder, self.pause = config, folder, pause
        self.scans = Scans(config)
        self._load = lru_cache(4 * config.scans)(Example.load)
        self._step, self._errors = _compile(self.model, self.optimizer)

    @property
    def left_out(self) -> int:
        """Number of scans, the first ones, that are not trained on."""
        return min(40, self.config.scans_again // 5)

    def paths(self, kind: int) -> list[Path]:
        """Return the paths of examples of a kind: fits by a classical prior (0), by the learned one (1)."""
        count = (self.config.scans, self.config.scans_again)[kind]
        return [self.folder / f"{kind}-{number}.npz" for number in range(count)]

    def make_examples(self, kind: int) -> list[Path]:
        """Make the examples of :meth:`paths` that are missing, and return the paths."""
        paths = self.paths(kind)
        learned = Learned(compiled(self.model), 1.0) if kind else None
        missing = [number for number, path in enumerate(paths) if not path.exists()]

        def make(number: int) -> None:
            make_example(self.scans, number, learned).save(paths[number])

        if missing:
            progress = Progress(f"scans, part {kind + 1} of 2", len(missing), unit="scan")
            with closing(progress), ThreadPoolExecutor(cores()) as pool:
                try:
                    for future in [pool.submit(make, number) for number in missing]:
                        future.result()
                        progress.advance(1)
                        self.pause()
                finally:
                    pool.shutdown(cancel_futures=True)
        return paths

    def draw(self, epoch: int) -> Callable[[int], Window]:
        paths = self.make_examples(0)[self.left_out :]
        if epoch * self.row >= self.config.second:
            paths = paths + self.make_examples(1)[self.left_out :]
        return lambda number: self.batch(paths, number)

    def batch(self, paths: list[Path], number: int) -> Window:
        """Return windows of random examples, turned and mirrored; it depends on seed and number alone."""
        rng = np.random.default_rng([self.config.seed, 2, number])
        chosen = [self._load(paths[k]) for k in rng.integers(len(paths), size=self.config.batch)]
        windows = [cut_window(example, self.config.window, rng) for example in chosen]
        return tuple(np.stack(parts).astype(np.float32) for parts in zip(*windows, strict=True))

    def step(self, batch: Window) -> LossTensors:
        return {"error": self._step(*map(tf.constant, batch))}

    def summarise(self, history: History) -> Losses:
        """Return geometric means of the rest of the error."""
        return super().summarise(history) | {"val_error": self.error(0)}

    def score(self) -> dict[str, dict[str, Any]]:
        """Return what is left of the error of edge-preserving fits, and of fits with the first version."""
        return {"error_left": {"classical": self.error(0), "learned": self.error(1)}}

    def error(self, kind: int, batches: int = 12) -> float:
        """Return what is left of the error in so many ``batches`` of scans that are not trained on."""
        paths = self.make_examples(kind)[: self.left_out]
        after = self.config.horizon or self.config.steps
        errors = [self._errors(*map(tf.constant, self.batch(paths, after + k))) for k in range(batches)]
        return float(gmean(errors))


def _compile(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> tuple[Callable, Callable]:
    """A training step and the measurement of a batch, both ``(x, ν, change, illumination) → error``."""

    def errors(inputs: tf.Tensor, relative: tf.Tensor, change: tf.Tensor, illumination: tf.Tensor) -> Pair:
        weight = tf.minimum(illumination / VIEW.bright, 1)
        axes = (1, 2, 3)
        left = tf.reduce_sum(weight * tf.square(model([inputs, relative]) - change), axes)
        before = tf.reduce_sum(weight * tf.square(change), axes)
        noise = 2 * tf.reduce_sum(weight * tf.exp(2 * relative), axes) + 1e-3
        ratio = (left + 1e-6 * noise) / (before + 1e-6 * noise)
        loss = tf.reduce_mean(tf.math.log(left / noise + 0.01))  # errors far below the noise count little
        return loss, tf.exp(tf.reduce_mean(tf.math.log(ratio)) / 2)

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
    """Return a window ``(side, side)`` of an example, 0 beyond its end; turned, mirrored, conjugate."""
    arrays = [example.inputs, example.relative, example.change, example.light]
    height, width = example.light.shape[:2]
    row, column = (int(rng.integers(max(1, n - side + 1))) for n in (height, width))
    turns, mirrored, conjugate = int(rng.integers(4)), rng.random() < 0.5, rng.random() < 0.5
    parts = []
    for array in arrays:
        part = array[row : row + side, column : column + side]
        part = np.pad(part, [*((0, side - n) for n in part.shape[:2]), (0, 0)])
        part = np.rot90(part, turns)
        part = part.transpose(1, 0, 2) if mirrored else part
        if conjugate and array.shape[-1] > 1:
            signs = np.repeat([1, -1], array.shape[-1] // 2).astype(np.float32)
            part = signs * part
        parts.append(part)
    return tuple(parts)
