"""Times of functions that take turns, and implementations of a function with and without XLA."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

MEASURES = {"forward": (), "with gradient": (0,), "with both gradients": (0, 1)}
"""Name to the positions of the arguments differentiated, with a given upstream gradient and the value
returned too."""
LOSSES = {
    "gradient of Σy²": lambda y: tf.reduce_sum(tf.square(y)),
    "gradient of MAE": lambda y: tf.reduce_mean(tf.abs(y - 1)),
}
"""Name to a loss whose gradient to the first argument is returned with its value, as in training."""


@dataclass(frozen=True)
class Variant:
    """One implementation of a function.

    Attributes:
        function: function of the tensors of a cell.
        compiled: True: ``jit_compile=True``; False: a plain ``tf.function``.
        measures: the measures that it supports.
    """

    function: Callable[..., Any]
    compiled: bool
    measures: tuple[str, ...] = (*MEASURES, *LOSSES)

    def timed(self, measure: str, tensors: Sequence[tf.Tensor]) -> Callable[[], object]:
        """Return a callable without arguments that returns when the result is complete."""
        upstream = None
        if measure in MEASURES:
            upstream = tf.random.stateless_normal(tf.shape(self.function(*tensors)), (0, 0))

        def step(upstream: tf.Tensor | None, *tensors: tf.Tensor) -> Any:
            watched = [tensors[i] for i in MEASURES.get(measure, (0,))]
            with tf.GradientTape() as tape:
                tape.watch(watched)
                value = self.function(*tensors)
                value = LOSSES[measure](value) if measure in LOSSES else value
            return value, tape.gradient(value, watched, upstream) if watched else ()

        traced = tf.function(step, jit_compile=self.compiled, autograph=False)
        return lambda: [
            part.numpy() for part in tf.nest.flatten(traced(upstream, *tensors), expand_composites=True)
        ]


def alternated(functions: Mapping[Any, Callable[[], object]], repeats: int) -> dict[Any, float]:
    """Return the median seconds of each function; they take turns, after one round of warm-up.

    A turn is one untimed call, so that caches and memory are as in steady work, and one timed call.
    """
    times: dict[Any, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            function()
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(t)) for name, t in times.items()}


def images_per_second(
    variants: Mapping[str, Variant],
    tensors: Sequence[tf.Tensor],
    repeats: int,
    measures: Iterable[str] = tuple(MEASURES),
    **labels: Any,
) -> list[dict[str, Any]]:
    """Return a row for each measure: the labels, and the images per second of each variant; else –."""
    rows, count = [], int(tensors[1].shape[0])
    for measure in measures:
        able = {name: v.timed(measure, tensors) for name, v in variants.items() if measure in v.measures}
        rates = {name: f"{count / seconds:.0f}" for name, seconds in alternated(able, repeats).items()}
        rows.append({**labels, "measure": measure, **dict.fromkeys(variants, "–"), **rates})
    return rows
