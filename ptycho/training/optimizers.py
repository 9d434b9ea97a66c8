"""Optimizers of a training: one for the network and, where the probe is learned, one of its own for that."""

from __future__ import annotations

import keras
import tensorflow as tf

from ptycho.config import AdamConfig


def learning_rate_schedule(
    config: AdamConfig, peak: float, steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Return a linear warm-up from zero to ``peak``, then half a cosine down to its final fraction."""
    warmup = round(config.warmup_fraction * steps)
    return keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0 if warmup else peak,
        decay_steps=max(steps - warmup, 1),
        alpha=config.final_learning_rate_fraction,
        warmup_target=peak if warmup else None,
        warmup_steps=warmup,
    )


class Later(keras.optimizers.schedules.LearningRateSchedule):
    """Another schedule times ``factor``, and zero before step ``first``."""

    def __init__(
        self, schedule: keras.optimizers.schedules.LearningRateSchedule, factor: float, first: int
    ) -> None:
        self.schedule, self.factor, self.first = schedule, factor, first

    def __call__(self, step):
        rate = self.factor * self.schedule(step)
        return tf.where(step < self.first, tf.zeros_like(rate), rate)


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
