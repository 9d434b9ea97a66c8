#!/usr/bin/env python
"""How good is a reconstruction after a number of seconds of training? Several networks, the same data.

    python benchmarks/time_to_quality.py                                        120 s for each model
    python benchmarks/time_to_quality.py --seconds 30 --probe zone_plate --gridsize 1 --models unrolled unet

Each model trains for the same number of seconds. At 0.5, 1, 2, 4 … seconds the training pauses. An object
that is not in the training set is then reconstructed from the middle of a scan with the test pitch (stitched
with `probe`), and scored as in the workflow. Training seconds include batches and steps, but not the first
step, which compiles and changes nothing, evaluation, or simulation. The learning rate is that of the model,
with the warm-up and cosine of the workflow over the whole time. So the earlier points of a curve are lower
than those of a run with a shorter schedule. The weights are the current ones; at 0 s, the network is
untrained. Run it on a quiet machine.

Writes time_to_quality.csv (every evaluation), .md (time at which each model crosses .9, .95, .98) and .png.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import keras
import numpy as np
import tensorflow as tf
from hydra import compose, initialize_config_dir
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from benchmarks.tables import markdown, write_csv
from benchmarks.timing import machine
from ptycho.command_line.config import run_config
from ptycho.config import RunConfig
from ptycho.evaluation import metrics
from ptycho.networks import count_parameters
from ptycho.networks.layers import make_predict_step
from ptycho.reconstruction.stitching import predict_scan, stitch
from ptycho.scan.dataset import Dataset
from ptycho.scan.groups import Tiling
from ptycho.simulation.simulate import simulate
from ptycho.training.competitors import COMPETITORS, geometry_of
from ptycho.training.fitting import Batch, learning_rate_schedule, make_train_step, training_batches

CONF = Path(__file__).resolve().parents[1] / "conf"
MODELS = ("unrolled", "unrolled_fast", "unet", "baseline")
LEVELS = (0.9, 0.95, 0.98)
TICKS = 1000  # nominal steps of the learning-rate schedule over the whole budget
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Exam:
    """The middle groups of a scan with the test pitch, with the rectangle that they tile."""

    data: Dataset

    @property
    def region(self) -> metrics.Region:
        return metrics.Region(*self.data.tiling.rectangle)

    def score(self, regions: np.ndarray, view: Dataset) -> Row:
        """Return the main scores of the object regions inferred from a ``view`` of the data."""
        made = stitch(regions, view, "probe")
        values = metrics.score_images(made.objects, self.data.objects, made.mask, self.region)
        return {
            "amplitude_ssim": values["ssim"][0],
            "phase_ssim": values["ssim"][1],
            "frc50_amplitude": values["frc50"][0],
        }

    def references(self) -> dict[str, float | None]:
        """Return the amplitude SSIM of a constant, and of the truth blurred by one pixel."""
        rows = metrics.reference_rows(self.data.objects, self.region)
        return {name: row["ssim"][0] for name, row in rows.items()}


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seconds", type=float, default=120.0, help="training of each model (120)")
    parser.add_argument("--first", type=float, default=0.5, help="seconds at the first evaluation (0.5)")
    parser.add_argument("--ratio", type=float, default=2.0, help="of the next evaluation's time (2)")
    parser.add_argument("--groups", type=int, default=16, help="groups along a side of the exam (16)")
    parser.add_argument("--probe", default="ideal_disk", help="ideal_disk, zone_plate")
    parser.add_argument("--gridsize", type=int, default=2)
    parser.add_argument("--seed", type=int, default=50, help="of everything (50: none of the study's)")
    parser.add_argument("--override", nargs="+", default=[], metavar="KEY=VALUE", help="for all models")
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks/time_to_quality"))
    return parser.parse_args(words)


def configuration(options: argparse.Namespace, model: str) -> RunConfig:
    """Return the configuration of the workflow with one test image; ``baseline`` needs no PINN."""
    words = [f"probe={options.probe}", f"gridsize={options.gridsize}", f"seed={options.seed}", "nimgs_test=1"]
    if model != "baseline":
        words.append(f"model={model}")
    words += [*options.override, "output_dir=unused"]
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return run_config(compose("grid_lines", words), words, os.environ)


def middle(config: RunConfig, test: Dataset, per_axis: int) -> Exam:
    """Return the middle ``per_axis × per_axis`` groups of the test scan, or all."""
    pitch, available = config.outer_pitch("test"), config.groups_per_axis("test")
    per_axis = min(per_axis, available)
    start = (available - per_axis) // 2 * pitch + config.group_extent // 2 - pitch // 2
    tiling = Tiling(pitch, start, start, per_axis * pitch, per_axis * pitch)
    centres = test.centres + test.N / 2  # (G, 2)
    inside = np.all((centres >= start) & (centres < start + per_axis * pitch), axis=1)
    return Exam(replace(test, groups=test.groups[inside], stated_tiling=tiling))


def exam_times(first: float, ratio: float, budget: float) -> list[float]:
    """Return the times ``first · ratio^k`` below the budget, and the budget, seconds."""
    count = math.ceil(math.log(budget / first) / math.log(ratio) - 1e-9) if budget > first else 0
    return [*(first * ratio**k for k in range(count)), budget]


def crossing(rows: Sequence[Row], level: float) -> float | None:
    """Return the seconds at which the amplitude SSIM reaches a level, interpolated linearly in log time."""
    before: Row = {"seconds": 0.0, "amplitude_ssim": None}
    for row in rows:
        start, end = before["amplitude_ssim"], row["amplitude_ssim"]
        if end is not None and end >= level:
            if start is None or before["seconds"] == 0:
                return row["seconds"]
            part = (level - start) / (end - start)
            return before["seconds"] * (row["seconds"] / before["seconds"]) ** part
        before = row
    return None


def batches(data: Dataset, config: RunConfig, supervised: bool) -> Iterator[Batch]:
    """Yield training batches without end, epoch after epoch as in the workflow."""
    for epoch in itertools.count():
        yield from training_batches(data, config.batch_size, config.seed, epoch, supervised)


def curve(
    name: str, config: RunConfig, train: Dataset, exam: Exam, times: Sequence[float]
) -> tuple[list[Row], Row]:
    """Train one model until the last of ``times``; return a row for each evaluation, and costs."""
    recipe = COMPETITORS["baseline" if name == "baseline" else "pinn"]
    data, view = recipe.training_view(config, recipe.view(config, train)), recipe.view(config, exam.data)
    model = recipe.build(config, geometry_of(data))
    optimizer = keras.optimizers.Adam(0.0, global_clipnorm=config.train.clip_norm)
    rate = learning_rate_schedule(config.train, recipe.learning_rate(config), TICKS)
    step = make_train_step(model, optimizer, config.xla.compile)
    predict = make_predict_step(model, config.xla.compile)
    inputs = tf.constant(data.model_probe), tf.constant(data.normalisation, tf.float32)
    supply = batches(data, config, recipe.supervised)
    step(next(supply), *inputs)  # compiles; at a rate of zero it changes nothing
    rows: list[Row] = []
    seconds, steps, loss = 0.0, 0, math.nan
    for due in [0.0, *times]:
        while seconds < due:
            optimizer.learning_rate = rate(min(seconds / times[-1], 1) * TICKS)
            began = time.perf_counter()
            loss = float(step(next(supply), *inputs)["loss"])
            seconds, steps = seconds + time.perf_counter() - began, steps + 1
            if not math.isfinite(loss):
                break
        if rows and rows[-1]["steps"] == steps:  # a step was longer than the time between two evaluations
            continue
        regions = np.empty((view.n_groups, view.region_size, view.region_size), np.complex64)
        predict_scan(regions, predict, view, config.batch_size)
        scores = exam.score(regions, view)
        rows.append({"model": name, "seconds": seconds, "steps": steps, "loss": loss, **scores})
        shown = _short(scores["amplitude_ssim"], 4)
        print(f"{name}: {seconds:.1f} s, {steps} steps, loss {loss:.4g}, amplitude SSIM {shown}", flush=True)
        if steps and not math.isfinite(loss):
            print(f"{name}: the loss is {loss}; it stops here")
            break
    patterns = steps * config.batch_size * data.group_size
    return rows, {
        "model": name,
        "parameters": count_parameters(model),
        "training groups": data.n_groups,
        "steps/s": round(steps / seconds, 1),
        "patterns/s": round(patterns / seconds),
    }


def summary(cost: Row, rows: Sequence[Row]) -> Row:
    """Return the costs of a model, its last score, and the times at which it crossed each level."""
    crossed = {f"{level:g} after / s": _short(crossing(rows, level)) for level in LEVELS}
    first, last = (_short(row["amplitude_ssim"], 4) for row in (rows[0], rows[-1]))
    return cost | {"amplitude SSIM untrained": first, "at the end": last} | crossed


def _short(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def plot(rows: Sequence[Row], references: dict[str, float | None], title: str) -> Figure:
    """Draw amplitude SSIM against training seconds: a curve for each model, a level for each reference.

    A logarithmic axis has no zero, so untrained networks are drawn at half the time of the first evaluation.
    """
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    ax = figure.subplots()
    untrained = min(row["seconds"] for row in rows if row["seconds"]) / 2
    for name in dict.fromkeys(row["model"] for row in rows):
        mine = [row for row in rows if row["model"] == name and row["amplitude_ssim"] is not None]
        seconds = [row["seconds"] or untrained for row in mine]
        ax.semilogx(seconds, [row["amplitude_ssim"] for row in mine], "o-", markersize=3, label=name)
    for (name, value), style in zip(references.items(), (":", "--"), strict=True):
        if value is not None:
            ax.axhline(value, color="gray", linestyle=style, linewidth=1, label=name)
    ax.set(
        xlabel="training / s (leftmost: untrained)",
        ylabel="amplitude SSIM, unseen object",
        title=title,
        ylim=(None, 1),
    )
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(alpha=0.3)
    ax.legend()
    return figure


def write(
    out: Path, rows: list[Row], summaries: list[Row], references: dict[str, float | None], about: str
) -> None:
    """Write the evaluations as CSV, the summary as Markdown, and the plot."""
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "time_to_quality.csv", rows)
    levels = ", ".join(f"`{name}` {_short(value, 4)}" for name, value in references.items())
    lines = [f"{about}. References: {levels}.", "", markdown(summaries)]
    text = "\n".join([*lines, "", f"Machine: {json.dumps(machine())}"])
    (out / "time_to_quality.md").write_text(text + "\n")
    plot(rows, references, about).savefig(out / "time_to_quality.png", dpi=110)
    print(text)


def main(words: Sequence[str] | None = None) -> None:
    options = arguments(words)
    configs = {name: configuration(options, name) for name in options.models}
    base = configs[options.models[0]]
    data = simulate(base)[0]
    exam = middle(base, data["test"], options.groups)
    times = exam_times(options.first, options.ratio, options.seconds)
    rows: list[Row] = []
    summaries: list[Row] = []
    for name, config in configs.items():
        keras.backend.clear_session()
        found, cost = curve(name, config, data["train"], exam, times)
        rows += found
        summaries.append(summary(cost, found))
    about = f"N = {base.N}, gridsize {base.gridsize}, {options.probe}, {options.seconds:g} s for each model"
    write(options.out, rows, summaries, exam.references(), about)


if __name__ == "__main__":
    main()
