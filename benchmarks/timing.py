"""Shared by the benchmarks of operators: alternating measurement, the grid of sizes, and tables."""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import tensorflow as tf

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.tables import write_csv

SIZES, BATCHES, MOST_PIXELS = (32, 64, 84, 128, 256, 512), (16, 64, 256, 1024), 2**25
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
        compiled: True: ``jit_compile=True``; False: a plain ``tf.function``; None: not TensorFlow.
        measures: the measures that it supports.
    """

    function: Callable[..., Any]
    compiled: bool | None
    measures: tuple[str, ...] = tuple(MEASURES)

    def timed(self, measure: str, tensors: Sequence[tf.Tensor]) -> Callable[[], None]:
        """Return a callable without arguments that returns when the result is complete."""
        if self.compiled is None:
            arrays = [t.numpy() for t in tensors]
            return lambda: self.function(*arrays)
        if measure in LOSSES:
            return self._trained(LOSSES[measure], tensors)
        watched = MEASURES[measure]
        upstream = tf.random.stateless_normal(tf.shape(self.function(*tensors)), (0, 0))

        def step(upstream: tf.Tensor, *tensors: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                tape.watch([tensors[i] for i in watched])
                value = self.function(*tensors)
            return value, tape.gradient(value, [tensors[i] for i in watched], upstream) if watched else ()

        traced = tf.function(step, jit_compile=self.compiled, autograph=False)

        def run() -> None:
            for result in tf.nest.flatten(traced(upstream, *tensors), expand_composites=True):
                result.numpy()

        return run

    def _trained(self, loss: Callable[[tf.Tensor], tf.Tensor], tensors: Sequence[tf.Tensor]) -> Callable:
        def step(*tensors: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(tensors[0])
                value = loss(self.function(*tensors))
            return value, tape.gradient(value, tensors[0])

        traced = tf.function(step, jit_compile=self.compiled, autograph=False)
        return lambda: [result.numpy() for result in traced(*tensors)]


def alternated(functions: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each function; they take turns, after one round of warm-up.

    A turn is one untimed call, so that caches and memory are as in steady work, and one timed call.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(repeats):
        for name, function in functions.items():
            function()
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(t)) for name, t in times.items()}


def cells(
    sizes: Iterable[int], batches: Iterable[int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the (size, batch) pairs to measure, and those with too many pixels."""
    pairs = [(size, batch) for size in sizes for batch in batches]
    fits = [p for p in pairs if p[1] * p[0] ** 2 <= MOST_PIXELS]
    return fits, [p for p in pairs if p not in fits]


def measure_cell(
    variants: dict[str, Variant],
    tensors: Sequence[tf.Tensor],
    repeats: int,
    measures: Iterable[str] = tuple(MEASURES),
    **labels: Any,
) -> list[dict[str, Any]]:
    """Return a row for each variant and measure: labels, median milliseconds, images per second."""
    rows = []
    for measure in measures:
        able = {
            n: v.timed(measure, tensors) for n, v in variants.items() if measure in (*v.measures, *LOSSES)
        }
        count = int(tensors[1].shape[0])
        for name, seconds in alternated(able, repeats).items():
            rate = count / seconds
            rows.append(
                {**labels, "measure": measure, "variant": name, "ms": seconds * 1e3, "images_per_s": rate}
            )
    return rows


def machine() -> dict[str, Any]:
    """Return processor, memory and versions of the machine."""
    gpus = [tf.config.experimental.get_device_details(g) for g in tf.config.get_visible_devices("GPU")]
    model = next(
        (line.split(":")[1].strip() for line in _read("/proc/cpuinfo").splitlines() if "model name" in line),
        platform.processor(),
    )
    return {
        "cpu": model,
        "cores": len(_cores()),
        "gpu": [g.get("device_name", "unknown") for g in gpus],
        "tensorflow": tf.__version__,
        "python": platform.python_version(),
        "load": _read("/proc/loadavg").split(" ")[0],
    }


def _cores() -> set[int]:
    import os

    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _read(path: str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""


def parser(description: str, name: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--quick", action="store_true", help="two sizes, one batch, to see that it runs")
    result.add_argument(
        "--repeats", type=int, default=9, help="repeats of which the median is taken (default: 9)"
    )
    result.add_argument(
        "--out", type=Path, default=Path("outputs/benchmarks") / name, help="folder to write to"
    )
    return result


def write(
    out: Path, name: str, rows: list[dict[str, Any]], notes: Sequence[str], columns: Sequence[str]
) -> None:
    """Write ``name.csv`` (rows), ``name.md`` (a table with variants as columns), ``name.json`` (machine)."""
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / f"{name}.csv", rows)
    about = machine()
    (out / f"{name}.json").write_text(json.dumps(about, indent=1))
    lines = [f"Images per second. Machine: {json.dumps(about)}", "", *notes, "", *table(rows, columns)]
    (out / f"{name}.md").write_text("\n".join(lines) + "\n")


def table(rows: list[dict[str, Any]], columns: Sequence[str]) -> list[str]:
    """Return a Markdown table: a line for each combination of ``columns``, a column for each variant."""
    variants = list(dict.fromkeys(r["variant"] for r in rows))
    lines = ["| " + " | ".join([*columns, *variants]) + " |", "|" + "---|" * (len(columns) + len(variants))]
    for key in dict.fromkeys(tuple(r[c] for c in columns) for r in rows):
        rates = {r["variant"]: r["images_per_s"] for r in rows if tuple(r[c] for c in columns) == key}
        values = [f"{rates[v]:.0f}" if v in rates else "–" for v in variants]
        lines.append("| " + " | ".join([*map(str, key), *values]) + " |")
    return lines


def ratio(rows: list[dict[str, Any]], ours: str, theirs: str, measure: str, **labels: Any) -> float | None:
    """Return how many times faster ``ours`` is in the cell with these labels; None: not measured."""
    wanted = {**labels, "measure": measure}
    rates = {r["variant"]: r["images_per_s"] for r in rows if all(r.get(k) == v for k, v in wanted.items())}
    return rates[ours] / rates[theirs] if ours in rates and theirs in rates else None


def plot(path: Path, rows: list[dict[str, Any]], batch: int, title: str) -> None:
    """Draw images per second against size at one batch, a panel for each measure."""
    figure, axes = plt.subplots(1, len(MEASURES), figsize=(5 * len(MEASURES), 4), sharey=True, squeeze=False)
    for axis, measure in zip(axes[0], MEASURES, strict=True):
        for variant in dict.fromkeys(r["variant"] for r in rows):
            points = [
                (r["size"], r["images_per_s"])
                for r in rows
                if (r["variant"], r["measure"], r["batch"]) == (variant, measure, batch)
            ]
            if points:
                axis.loglog(*zip(*points, strict=True), marker="o", label=variant)
        axis.set(title=f"{title}, {measure}, batch {batch}", xlabel="image side (pixels)")
        axis.grid(True, which="both", alpha=0.3)
    axes[0, 0].set_ylabel("images per second")
    axes[0, 0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
