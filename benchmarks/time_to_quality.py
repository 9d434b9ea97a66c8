#!/usr/bin/env python
"""How good is a reconstruction after a number of seconds of training? Several networks, the same data.

    python benchmarks/time_to_quality.py [--seconds 120] [--models unrolled unet]

Each model trains for the same number of seconds with gridsize 2 and the ideal disk. At 0.5, 1, 2, 4 … seconds
the training pauses. An object that is not in the training set is then reconstructed from the middle of a scan
with the test pitch (16 × 16 groups, stitched with `probe`), and scored as in the workflow. Training seconds
include batches and steps, but not the first step, which compiles and changes nothing, evaluation, or
simulation. The learning rate is that of the model, with the warm-up and cosine of the workflow over the whole
time. So the earlier points of a curve are lower than those of a run with a shorter schedule. The weights are
the current ones; at 0 s, the network is untrained. Run it on a quiet machine.

Writes every evaluation to time_to_quality.csv and .md in outputs/benchmarks.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks import parser
from benchmarks.grid_scans import configuration, scores_of
from benchmarks.tables import last_line, write
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

MODELS = ("unrolled", "unrolled_fast", "unet", "baseline")
FIRST_S, GROUPS, SEED = 0.5, 16, 50  # first evaluation; groups along a side; none of the study's seeds
TICKS = 1000  # nominal steps of the learning-rate schedule over the whole budget
Row = dict[str, Any]


def middle(config: RunConfig, test: Dataset) -> Dataset:
    """Return the middle ``GROUPS²`` groups of the test scan, with the rectangle that they tile."""
    pitch, available = config.outer_pitch("test"), config.groups_per_axis("test")
    start = (available - GROUPS) // 2 * pitch + config.group_extent // 2 - pitch // 2
    tiling = Tiling(pitch, start, start, GROUPS * pitch, GROUPS * pitch)
    centres = test.centres + test.N / 2  # (G, 2)
    inside = np.all((centres >= start) & (centres < start + GROUPS * pitch), axis=1)
    return replace(test, groups=test.groups[inside], stated_tiling=tiling)


def batches(data: Dataset, config: RunConfig, supervised: bool) -> Iterator[Batch]:
    """Yield training batches without end, epoch after epoch as in the workflow."""
    for epoch in itertools.count():
        yield from training_batches(data, config.batch_size, config.seed, epoch, supervised)


def curve(
    name: str, config: RunConfig, train: Dataset, exam: Dataset, times: Sequence[float]
) -> Iterator[Row]:
    """Train one model until the last of ``times``; yield a row for each evaluation."""
    recipe = COMPETITORS["baseline" if name == "baseline" else "pinn"]
    data, view = recipe.training_view(config, recipe.view(config, train)), recipe.view(config, exam)
    model = recipe.build(config, geometry_of(data))
    optimizer = keras.optimizers.Adam(0.0, global_clipnorm=config.train.clip_norm)
    rate = learning_rate_schedule(config.train, recipe.learning_rate(config), TICKS)
    step = make_train_step(model, optimizer, config.xla.compile)
    predict = make_predict_step(model, config.xla.compile)
    inputs = tf.constant(data.model_probe), tf.constant(data.normalisation, tf.float32)
    supply = batches(data, config, recipe.supervised)
    step(next(supply), *inputs)  # compiles; at a rate of zero it changes nothing
    seconds, steps, evaluated, loss = 0.0, 0, -1, math.nan
    for due in [0.0, *times]:
        while seconds < due:
            optimizer.learning_rate = rate(min(seconds / times[-1], 1) * TICKS)
            began = time.perf_counter()
            loss = float(step(next(supply), *inputs)["loss"])
            seconds, steps = seconds + time.perf_counter() - began, steps + 1
            if not math.isfinite(loss):
                return
        if evaluated == steps:  # a step was longer than the time between two evaluations
            continue
        regions, evaluated = (
            np.empty((view.n_groups, view.region_size, view.region_size), np.complex64),
            steps,
        )
        predict_scan(regions, predict, view, config.batch_size)
        scores = scores_of(stitch(regions, view, "probe"), exam)
        yield {
            "model": name,
            "parameters": count_parameters(model),
            "seconds": f"{seconds:.1f}",
            "patterns/s": f"{steps * config.batch_size * data.group_size / seconds:.0f}" if steps else "–",
            "loss": f"{loss:.4g}",
            "amplitude SSIM": f"{scores['ssim'][0]:.4f}",
            "phase SSIM": f"{scores['ssim'][1]:.4f}",
        }


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options_of.add_argument("--seconds", type=float, default=120.0, help="training of each model (120)")
    options = options_of.parse_args()
    words = [f"seed={SEED}", "nimgs_test=1", "output_dir=unused"]  # the baseline needs no PINN
    configs = {
        n: configuration([*words, *([] if n == "baseline" else [f"model={n}"])]) for n in options.models
    }
    base = configs[options.models[0]]
    data = simulate(base)[0]
    exam = middle(base, data["test"])
    count = max(0, math.ceil(math.log2(options.seconds / FIRST_S)))
    times = [*(FIRST_S * 2**k for k in range(count)), options.seconds]
    rows: list[Row] = []
    for name, config in configs.items():
        keras.backend.clear_session()
        for row in curve(name, config, data["train"], exam, times):
            rows.append(row)
            print(last_line(row), flush=True)
    references = metrics.reference_rows(exam.objects, metrics.Region(*exam.tiling.rectangle))
    levels = ", ".join(f"`{name}` {row['ssim'][0]:.4f}" for name, row in references.items())
    write(Path("outputs/benchmarks/time_to_quality"), rows, f"References: {levels}.")


if __name__ == "__main__":
    main()
