"""Does it compile, is it the same, is it faster: one row for each case, dtype and device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ptycho.xla_report.cases import CompileCase


@dataclass(frozen=True)
class Row:
    """The outcome for one case.

    Attributes:
        compiles: whether value and gradient compile and run.
        error: the first line of the error if not.
        value_difference, gradient_difference: largest difference from the result without XLA, over the
            largest magnitude of that result.
        compile_s: seconds of the first compiled call.
        speed_ratio: time without XLA over time with it, value and gradient together.
    """

    case: str
    dtype: str
    device: str
    compiles: bool
    error: str = ""
    value_difference: float | None = None
    gradient_difference: float | None = None
    compile_s: float | None = None
    speed_ratio: float | None = None


def devices() -> list[str]:
    """The GPUs if there are any, and the CPU."""
    return [d.name for kind in ("GPU", "CPU") for d in tf.config.list_logical_devices(kind)]


def report(
    cases: dict[str, CompileCase], dtypes: Iterable[str], on: Iterable[str], repeats: int = 5
) -> Iterable[Row]:
    """Rows, one after the other, for every case in every dtype it takes, on every device."""
    wanted = tuple(dtypes)
    for device in on:
        for name, case in cases.items():
            for dtype in case.dtypes:
                if dtype in wanted:
                    yield try_case(name, case, dtype, device, repeats)


def try_case(name: str, case: CompileCase, dtype: str, device: str, repeats: int = 5) -> Row:
    """Compile, compare and time one case; an error becomes a row that says so."""
    with tf.device(device):
        function, inputs = case.build(tf.as_dtype(dtype))
        plain = tf.function(_value_and_gradient(function), autograph=False)
        compiled = tf.function(_value_and_gradient(function), autograph=False, jit_compile=True)
        try:
            expected = plain(*inputs)
            start = time.perf_counter()
            result = compiled(*inputs)
            _wait(result)
            seconds = time.perf_counter() - start
        except Exception as error:  # whatever the compiler raises is the finding
            message = [*str(error).splitlines(), ""][0]
            return Row(name, dtype, device, False, f"{type(error).__name__}: {message}")
        differences = [_difference(*pair) for pair in zip(result, expected, strict=True)]
        ratio = _seconds(plain, inputs, repeats) / _seconds(compiled, inputs, repeats)
    gradients = max(differences[1:], default=None)
    return Row(name, dtype, device, True, "", differences[0], gradients, seconds, ratio)


def _value_and_gradient(function: Callable[..., tf.Tensor]) -> Callable[..., tuple[tf.Tensor, ...]]:
    """``function`` and the gradient of its summed squared magnitude to every floating or complex input."""

    def both(*inputs: tf.Tensor) -> tuple[tf.Tensor, ...]:
        watched = [t for t in inputs if t.dtype.is_floating or t.dtype.is_complex]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            value = function(*inputs)
            energy = tf.reduce_sum(tf.cast(tf.abs(value), tf.float32) ** 2)
        gradients = tape.gradient(energy, watched)
        return value, *(tf.convert_to_tensor(g) for g in gradients if g is not None)

    return both


def _difference(result: tf.Tensor, expected: tf.Tensor) -> float:
    a, b = (tf.cast(t, tf.complex128).numpy() for t in (result, expected))
    largest = np.abs(b).max(initial=0.0)
    return float(np.abs(a - b).max(initial=0.0) / (largest if largest > 0 else 1.0))


def _wait(results: Any) -> None:
    for result in tf.nest.flatten(results):
        result.numpy()


def _seconds(function: Callable[..., Any], inputs: tuple[tf.Tensor, ...], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        _wait(function(*inputs))
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def markdown(rows: Iterable[Row]) -> str:
    """The rows as one table."""
    lines = [
        "| what | dtype | device | compiles | value differs | gradient differs | compile s | speed ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        numbers = (
            "–" if v is None else f.format(v)
            for f, v in (
                ("{:.1e}", r.value_difference),
                ("{:.1e}", r.gradient_difference),
                ("{:.2f}", r.compile_s),
                ("{:.2f}", r.speed_ratio),
            )
        )
        compiles = "yes" if r.compiles else f"no: {r.error[:120]}".replace("|", "/")
        lines.append(f"| {r.case} | {r.dtype} | {r.device} | {compiles} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"
