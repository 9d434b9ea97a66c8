"""Train any model that has ``losses_of(batch, probe, normalisation)`` on a dataset, or with its probe too."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.config import AdamConfig
from ptycho.networks.layers import Model
from ptycho.networks.pinn import PtychoPINN
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import orthogonal_modes
from ptycho.scan.windows import cut_windows
from ptycho.training.checkpoint import History, Losses
from ptycho.training.loop import Callback, LossTensors, Optimizer, Task, Training, TwoOptimizers, mean

log = logging.getLogger(__name__)


class ProbeLearner(Model):
    """A network, and the change of the probe that it is trained with: both are variables.

        P = c (P₀ + δ),   c so that Σ|P|² = Σ|P₀|²,   δ ⊥ ∂P₀/∂y, ∂P₀/∂x, i y P₀, i x P₀, i P₀

    The patterns leave open what δ is kept from: a shift or a phase ramp of all modes, which the object can
    undo, and the phase. The power is what the counts say. Orthogonal is meant as for vectors of real numbers.

    Args:
        network: what predicts the patterns; its weights are its own.
        probe: P₀, ``s·f·P`` of the training data, ``(N, N)`` complex64 or with modes ``(K, N, N)``.
        mask: ``(N, N)`` bool, where the probe may be other than zero; None: everywhere.
    """

    def __init__(
        self, *, network: PtychoPINN, probe: np.ndarray, mask: np.ndarray | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.network = network
        self._mask = None if mask is None else tf.constant(mask, tf.float32)
        self._open = tf.constant(find_ambiguities(probe))
        self.change = self.add_weight(shape=(2, *probe.shape), initializer="zeros", name="probe_change")
        self.built = True

    def apply_change(self, probe: tf.Tensor) -> tf.Tensor:
        """Return the learned P ``(…, N, N)`` complex64 of P₀, of its shape and power."""
        flat = tf.reshape(self.change, (-1, 1))
        kept = flat - tf.matmul(self._open, tf.matmul(self._open, flat, transpose_a=True))
        kept = tf.reshape(kept, self.change.shape)
        wave = probe + tf.complex(kept[0], kept[1])
        if self._mask is not None:
            wave = physics.scaled(wave, self._mask)
        power = tf.reduce_sum(physics.intensity(probe)) / tf.reduce_sum(physics.intensity(wave))
        return physics.scaled(wave, tf.sqrt(power))

    def losses_of(self, batch, probe, normalisation):
        """Return the network's losses under the learned probe; ``probe`` is P₀."""
        return self.network.losses_of(batch, self.apply_change(probe), normalisation)

    def modes(self, probe: np.ndarray) -> np.ndarray:
        """Return the learned modes, ``(K, N, N)`` complex64, orthogonal and the strongest first."""
        wave = self.apply_change(tf.constant(probe)).numpy()
        return orthogonal_modes(wave.reshape(-1, *wave.shape[-2:]))[0]


def find_ambiguities(probe: np.ndarray) -> np.ndarray:
    """Return orthonormal columns that span ∂P/∂y, ∂P/∂x, i y P, i x P and i P, ``(2·P.size, 5)`` float32.

    Each is the real parts of a change of the probe, then its imaginary parts.
    """
    wave = probe.astype(np.complex128)
    rows, cols = np.meshgrid(*(np.arange(side) - side / 2 for side in probe.shape[-2:]), indexing="ij")
    far = np.fft.fft2(wave)
    q = [2j * np.pi * np.fft.fftfreq(side) for side in probe.shape[-2:]]
    slopes = [np.fft.ifft2(far * q[0][:, None]), np.fft.ifft2(far * q[1][None, :])]
    changes = [*slopes, 1j * rows * wave, 1j * cols * wave, 1j * wave]
    columns = np.stack([np.concatenate([c.real.ravel(), c.imag.ravel()]) for c in changes], axis=1)
    return np.linalg.qr(columns)[0].astype(np.float32)


Batch = dict[str, tf.Tensor]


def batch_of(data: Dataset, indices: np.ndarray, truth: bool = False) -> Batch:
    """Return normalised amplitudes ``x (B, C, N, N)`` and ``offsets (B, C, 2)`` of some groups, float32.

    With neighbours, also theirs, as ``near_x (B, K, N, N)`` and ``near_offsets (B, K, 2)``. With
    ``truth``, also the true object patches ``target (B, C, N, N)`` complex64.
    """
    members = data.groups[indices]
    batch = {"x": data.normalised(members), "offsets": data.offsets[indices]}
    if data.neighbours is not None:
        near = data.neighbours[indices]
        offsets = data.positions[near] - data.centres[indices][:, None]
        batch |= {"near_x": data.normalised(near), "near_offsets": offsets}
    if truth:
        patches = true_patches(data, members.ravel())
        batch["target"] = tf.reshape(patches, (*members.shape, data.N, data.N))
    return {key: tf.constant(value) for key, value in batch.items()}


def true_patches(data: Dataset, patterns: np.ndarray) -> tf.Tensor:
    """Return the object under some patterns, ``(K, N, N)`` complex64."""
    if data.objects is None:
        raise ValueError("this dataset has no true objects")
    whole = np.floor(data.positions[patterns]).astype(np.int64)
    windows = np.empty((len(patterns), data.N + 1, data.N + 1), np.complex64)
    for image in np.unique(data.image[patterns]):
        chosen = data.image[patterns] == image
        windows[chosen] = cut_windows(data.objects[image], whole[chosen], data.N + 1)
    fraction = tf.constant((data.positions[patterns] - whole)[:, None], tf.float32)
    return physics.extract_patches(tf.constant(windows), fraction, data.N)[:, 0]


def training_batches(
    data: Dataset, batch_size: int, seed: int, epoch: int, truth: bool = False, first: int = 0
) -> Iterator[Batch]:
    """Yield full batches of one epoch in an order that (seed, epoch) decides; the remainder is dropped.

    The first ``first`` batches are skipped.
    """
    order = np.random.default_rng([seed, epoch]).permutation(data.n_groups)
    for step in range(first, data.n_groups // batch_size):
        yield batch_of(data, order[step * batch_size : (step + 1) * batch_size], truth)


def padded_batches(data: Dataset, batch_size: int, truth: bool = False) -> Iterator[tuple[Batch, int]]:
    """Yield all groups in order with their real number; the last batch repeats its last group to fill up."""
    for start in range(0, data.n_groups, batch_size):
        indices = np.arange(start, start + batch_size)
        real = min(batch_size, data.n_groups - start)
        yield batch_of(data, np.minimum(indices, data.n_groups - 1), truth), real


def prefetched(batches: Iterator[Batch], count: int = 2) -> Iterator[Batch]:
    """Yield the same batches, all of one form; the next ``count`` are made while the device works on one."""
    first = next(batches, None)
    if first is None:
        return
    form = {key: tf.TensorSpec.from_tensor(value) for key, value in first.items()}
    every = tf.data.Dataset.from_generator(lambda: itertools.chain([first], batches), output_signature=form)
    yield from every.prefetch(count)


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
    # The probe of a :class:`~ptycho.training.fitting.ProbeLearner` is trained at so many times the
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
