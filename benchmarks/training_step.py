#!/usr/bin/env python
"""Training step and inference of the PINN with and without XLA, alternated in one process.

    python benchmarks/training_step.py [--repeats 30]

Ideal disk, N = 64, gridsize 2, batch 16 (64 patterns). Medians of the repeats; inference includes the
transfer of the patterns to TensorFlow and of the object regions back. Writes a Markdown table and CSV.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from benchmarks import parser
from benchmarks.tables import write
from benchmarks.timing import alternated
from ptycho.config import RunConfig, UnrolledModel
from ptycho.networks import build_pinn
from ptycho.networks.layers import make_predict_step
from ptycho.scan.dataset import Dataset
from ptycho.simulation.simulate import simulate
from ptycho.training.competitors import geometry_of
from ptycho.training.fitting import batch_of, make_train_step

MODELS = {"unrolled_fast": UnrolledModel(stages=3, width=32, blocks=1), "unrolled": RunConfig().model}


def calls(config: RunConfig, data: Dataset, compile_xla: bool) -> dict[str, Callable[[], object]]:
    """Return a training step and a batch of inference, each from NumPy arrays to NumPy results."""
    model = build_pinn(config.model, geometry_of(data), config.xla, config.loss_weights, config.seed)
    step = make_train_step(model, keras.optimizers.Adam(1e-4, global_clipnorm=1.0), compile_xla)
    predict = make_predict_step(model, compile_xla)
    probe, f = tf.constant(data.model_probe), tf.constant(data.normalisation, tf.float32)
    indices = np.arange(config.batch_size)

    def train() -> float:
        return float(step(batch_of(data, indices), probe, f)["loss"])

    def infer() -> np.ndarray:
        batch = batch_of(data, indices)
        return predict(batch["x"], batch["offsets"], probe).numpy()

    return {"train": train, "infer": infer}


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--repeats", type=int, default=30, help="of which the median is taken (30)")
    repeats, rows = options_of.parse_args().repeats, []
    data = simulate(RunConfig(size=160, nimgs_train=1, nimgs_test=1, max_groups_train=64))[0]["train"]
    for name, model in MODELS.items():
        config = RunConfig(size=160, max_groups_train=64, model=model)
        timed = {
            (kind, xla): call for xla in (True, False) for kind, call in calls(config, data, xla).items()
        }
        seconds, row = alternated(timed, repeats), {"model": name}
        for kind in ("train", "infer"):
            xla, plain = seconds[kind, True], seconds[kind, False]
            row |= {f"{kind} XLA / ms": f"{1e3 * xla:.1f}", f"{kind} plain / ms": f"{1e3 * plain:.1f}"}
            rate = config.batch_size * config.group_size / xla
            row |= {f"{kind} ratio": f"{plain / xla:.2f}", f"{kind} patterns/s": f"{rate:.0f}"}
        rows.append(row)
    write(Path("outputs/benchmarks/training_step"), rows)


if __name__ == "__main__":
    main()
