"""Training of networks on distributions of probes, objects and scans, with the true objects at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from scipy.stats import gmean

from ptycho.config import AdamConfig
from ptycho.networks import build_pinn
from ptycho.networks.layers import Geometry
from ptycho.networks.unrolled import Unrolled
from ptycho.physics import scaled
from ptycho.run.network import Setup
from ptycho.training.checkpoint import History, Losses
from ptycho.training.fitting import Batch, learning_rate_schedule
from ptycho.training.loop import LossTensors, Task
from ptycho_pretrain.config import BatchConfig, KindsConfig, PretrainConfig
from ptycho_pretrain.examples import Example, Examples
from ptycho_pretrain.kinds import choose_entry
from ptycho_pretrain.probe_kinds import PROBE_KINDS, draw_probe

Step = Callable[[Batch], tf.Tensor]


def form_name(form: BatchConfig) -> str:
    """Return the name of a form of batches in the history."""
    return f"N{form.N}_C{form.C}" + (f"_K{form.modes}" if form.modes > 1 else "")


def geometry_of_form(form: BatchConfig) -> Geometry:
    """Return the sizes that a network is built with for a form of batches."""
    return Geometry(form.N, form.region_size, form.C, form.N, exact=True, masked=True)


def resized(network: Unrolled, geometry: Geometry) -> Unrolled:
    """Return the same network, with the very same variables, for other sizes."""
    settings, mover, name = network.settings, network.mover, network.name
    other = Unrolled(settings=settings, geometry=geometry, seed=0, mover=mover, name=name)
    other.cnns, other.level, other.built = network.cnns, network.level, True
    return other


class KindsTraining(Task):
    """A training whose batches are drawn by their numbers; its epochs are rows of the history.

    Attributes:
        row: steps in a row of the history.
        stored: the network whose weights are kept, of which ``model`` is all, or the part that is trained.
        setup: what else is kept with the weights.
    """

    row = 200
    patterns = 1  # a step counts as one: its patterns depend on its form
    setup: Setup | None = None

    def __init__(self, config: KindsConfig, stored: keras.Model, model: Any) -> None:
        """``stored``, ``model``: built."""
        self.stored, self.model, self._length = stored, model, config.steps
        self.epochs = -(-config.steps // self.row)
        schedule = schedule_to_horizon(config.train, config.steps, config.horizon)
        self.optimizer = keras.optimizers.Adam(schedule, global_clipnorm=config.train.clip_norm, name="adam")
        self.optimizer.build(model.trainable_variables)

    def draw(self, epoch: int) -> Callable[[int], Any]:
        """Return the function that makes the batch of a number in an epoch; threads call it."""
        raise NotImplementedError

    def score(self) -> dict[str, dict[str, Any]]:
        """Return errors on examples that were not trained on, under the name of the score."""
        raise NotImplementedError

    def steps(self, epoch: int) -> int:
        return max(0, min(self.row, self._length - epoch * self.row))

    def batches(self, epoch: int, first: int, workers: int = 3, ahead: int = 6) -> Iterator[Any]:
        """Yield batches; ``workers`` threads make so many ``ahead``."""
        draw, start = self.draw(epoch), epoch * self.row
        numbers = range(start + first, start + self.steps(epoch))
        with ThreadPoolExecutor(workers) as pool:
            waiting = [pool.submit(draw, number) for number in numbers[:ahead]]
            for place in range(len(numbers)):
                waiting += [pool.submit(draw, number) for number in numbers[place + ahead :][:1]]
                yield waiting.pop(0).result()

    def summarise(self, history: History) -> Losses:
        """Return the geometric means of the losses that came up."""
        row: Losses = {"step": history.epoch * self.row + history.step}
        for name in dict.fromkeys(name for losses in history.running for name in losses):
            row[name] = float(gmean([losses[name] for losses in history.running if name in losses]))
        return row


class Pretraining(KindsTraining):
    """A training of the network of groups on examples that are drawn anew.

    The loss is the mean of ``log(e + 0.01) + log(a + 0.01) / 2`` with e and a of
    ``object_error`` and ``amplitude_error`` (:mod:`ptycho_pretrain.pretraining`): what is
    nearly right is worth as much as what is still wrong. The loss of a step is e, under the name of its form.
    """

    name = "pinn"
    model: Unrolled

    def __init__(self, config: PretrainConfig) -> None:
        self.config, self.examples = config, Examples(config)
        geometry = geometry_of_form(self.examples.forms[0])
        pinn = build_pinn(config.model, geometry, config.xla, config.loss_weights, config.seed)
        super().__init__(config, pinn, pinn.generator)
        self.setup = draw_setup(self.examples)
        self._steps: dict[BatchConfig, Step] = {}

    def draw(self, epoch: int) -> Callable[[int], tuple[BatchConfig, Example]]:
        return lambda number: (self.examples.form_of(number), self.examples.batch(number))

    def step(self, batch: tuple[BatchConfig, Example]) -> LossTensors:
        form, arrays = batch
        return {form_name(form): self._step_of(form)(tf.nest.map_structure(tf.constant, arrays))}

    def _step_of(self, form: BatchConfig) -> Step:
        """The compiled step for one form of batches."""
        if form not in self._steps:
            network = resized(self.model, geometry_of_form(form))
            variables = self.model.trainable_variables

            @tf.function(jit_compile=self.config.xla.compile, reduce_retracing=False, autograph=False)
            def train_step(batch: Batch) -> tf.Tensor:
                inputs = batch["x"], batch["offsets"], batch["probe"]
                start, passes = batch["start"], batch["passes"]
                solved = tf.cond(passes > 0, lambda: network.iterate(*inputs, start, passes), lambda: start)
                start = tf.cond(batch["again"], lambda: network(*inputs, start), lambda: solved)
                with tf.GradientTape() as tape:
                    compared = network(*inputs, start), batch["target"], batch["illumination"]
                    error = tf.reduce_mean(tf.math.log(object_error(*compared) + 0.01))
                    loss = error + 0.5 * tf.reduce_mean(tf.math.log(amplitude_error(*compared) + 0.01))
                self.optimizer.apply(tape.gradient(loss, variables), variables)
                return tf.exp(error)

            self._steps[form] = train_step
        return self._steps[form]

    def measure_errors(self, form: BatchConfig, batches: int) -> np.ndarray:
        """Return errors ``(batches · batch,)`` of examples of a form that no training of this seed draws."""
        network, examples = resized(self.model, geometry_of_form(form)), self.examples

        @tf.function(jit_compile=self.config.xla.compile, autograph=False)
        def errors_of(batch: Batch) -> tf.Tensor:
            objects = network(batch["x"], batch["offsets"], batch["probe"], batch["start"])
            return object_error(objects, batch["target"], batch["illumination"])

        seeds = ([self.config.seed + 1, k] for k in range(batches))
        drawn = (examples.draw_batch(form, np.random.default_rng(seed)) for seed in seeds)
        return np.concatenate(
            [errors_of(tf.nest.map_structure(tf.constant, batch)).numpy() for batch in drawn]
        )

    def score(self) -> dict[str, dict[str, Any]]:
        """Return quartiles of the errors of a hundred examples, by form of batches."""
        rows = {}
        for form in self.examples.forms:
            quartiles = np.quantile(self.measure_errors(form, -(-100 // form.batch)), (0.25, 0.5, 0.75))
            rows[form_name(form)] = dict(
                zip(("quarter", "median", "three_quarters"), map(float, quartiles), strict=True)
            )
        return {"relative_error": rows}


def draw_setup(examples: Examples, transmission: float = 0.5) -> Setup:
    """Draw an example of what the network is for: a probe of the distribution, a group of one pattern.

    ``transmission``: mean |O|² that its photon scale implies.
    """
    rng = np.random.default_rng(examples.config.seed)
    N = min(form.N for form in examples.forms)
    entry = choose_entry(examples.probes, rng)
    probe = draw_probe(PROBE_KINDS[entry.kind], N, entry.ranges, rng)
    normalisation = N / 2 / float(np.sqrt(transmission * np.sum(np.abs(probe) ** 2)))
    return Setup(probe, 1.0, normalisation, N, 1, np.zeros((1, 2), np.float32), N)


class Cooled(keras.optimizers.schedules.LearningRateSchedule):
    """Another schedule that ends at step ``last``: over ``length`` steps before, times what falls to zero."""

    def __init__(
        self, schedule: keras.optimizers.schedules.LearningRateSchedule, last: int, length: int
    ) -> None:
        self.schedule, self.last, self.length = schedule, last, length

    def __call__(self, step):
        rate = self.schedule(step)
        left = (self.last - tf.cast(step, rate.dtype)) / self.length
        return rate * tf.clip_by_value(left, 0.0, 1.0)


def schedule_to_horizon(
    config: AdamConfig, steps: int, horizon: int | None, cooldown: float = 0.15
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Return :func:`learning_rate_schedule` of ``horizon`` steps (None: ``steps``).

    Where ``steps`` are fewer, it falls to zero over the last share ``cooldown`` of them.
    """
    whole = horizon or steps
    schedule = learning_rate_schedule(config, config.learning_rate, whole)
    return Cooled(schedule, steps, max(1, round(cooldown * steps))) if steps < whole else schedule


def object_error(
    objects: tf.Tensor, target: tf.Tensor, illumination: tf.Tensor, blank: float = 3e-3
) -> tf.Tensor:
    """Return the error of objects relative to their contrast, whatever their global phase.

        Σ w |O e^{−iφ} − T| / (Σ w |T − T̄| + blank),   φ = arg Σ w O T*,   w of :func:`dose_weights`

    For networks that are trained on simulations only: it uses the truth.

    Args:
        objects, target: O and T, ``(B, R, R)`` complex64.
        illumination: illumination of the regions, its maximum one, ``(B, R, R)`` float32.
        blank: added to the contrast: an object may be constant where it is illuminated.

    Returns:
        ``(B,)`` float32; one for the best constant.
    """
    weights = dose_weights(illumination)
    weighted = scaled(tf.math.conj(target), weights)
    product = tf.reduce_sum(weighted * objects, axis=(1, 2), keepdims=True)
    phase = scaled(tf.math.conj(product), 1 / (tf.abs(product) + 1e-6))
    mean = tf.math.conj(tf.reduce_sum(weighted, axis=(1, 2), keepdims=True))
    contrast = tf.reduce_sum(weights * tf.abs(target - mean), axis=(1, 2))
    wrong = tf.reduce_sum(weights * tf.abs(objects * phase - target), axis=(1, 2))
    return wrong / (contrast + blank)


def amplitude_error(
    objects: tf.Tensor, target: tf.Tensor, illumination: tf.Tensor, blank: float = 0.03
) -> tf.Tensor:
    """Return the error ``(B,)`` of the amplitudes of ``objects (B, H, W)`` relative to their contrast.

        Σ w ||O| − |T|| / (Σ w ||T| − mean| + blank),   w as in :func:`object_error`

    In a strongly phase-shifting object the complex error hardly depends on the amplitude. ``blank`` is
    larger, as many objects absorb next to nothing. Arguments and result as there.
    """
    weights, objects, target = dose_weights(illumination), tf.abs(objects), tf.abs(target)
    mean = tf.reduce_sum(weights * target, axis=(1, 2), keepdims=True)
    contrast = tf.reduce_sum(weights * tf.abs(target - mean), axis=(1, 2))
    wrong = tf.reduce_sum(weights * tf.abs(objects - target), axis=(1, 2))
    return wrong / (contrast + blank)


def dose_weights(illumination: tf.Tensor, half: float = 0.1, least: float = 1e-3) -> tf.Tensor:
    """Return ``l / (l + half)``, zero where l is below ``least``, their sum one for each of ``(B, R, R)``."""
    weights = tf.where(
        illumination > least, illumination / (illumination + half), tf.zeros_like(illumination)
    )
    return weights / tf.reduce_sum(weights, axis=(1, 2), keepdims=True)
