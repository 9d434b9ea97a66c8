#!/usr/bin/env python
"""Training step and inference of the PINN with and without XLA, alternated in one process.

    python benchmarks/training_step.py [--models unrolled_fast unrolled] [--repeats 30] [--out FOLDER]

Ideal disk, N = 64, gridsize 2, batch 16 (64 patterns). Medians of the repeats; inference includes the
transfer of the patterns to TensorFlow and of the object regions back. Writes a Markdown table and CSV.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import keras
import numpy as np
import tensorflow as tf

from benchmarks.tables import markdown, write_csv
from benchmarks.timing import machine
from ptycho.config import RunConfig, UnrolledModel, XlaConfig
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


def measure(config: RunConfig, data: Dataset, repeats: int) -> dict[str, float]:
    """Return the median milliseconds of every call, with and without XLA alternated."""
    timed = {
        f"{kind}_{'xla' if xla else 'plain'}": call
        for xla in (True, False)
        for kind, call in calls(config, data, xla).items()
    }
    times: dict[str, list[float]] = {name: [] for name in timed}
    for call in timed.values():
        call()
    for _ in range(repeats):
        for name, call in timed.items():
            began = time.perf_counter()
            call()
            times[name].append(1e3 * (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks/training_step"))
    arguments = parser.parse_args()
    base = RunConfig(size=160, nimgs_train=1, nimgs_test=1, max_groups_train=64)
    data = simulate(base)[0]["train"]
    rows = []
    for name in arguments.models:
        config = RunConfig(size=160, max_groups_train=64, model=MODELS[name], xla=XlaConfig())
        ms = measure(config, data, arguments.repeats)
        patterns = config.batch_size * config.group_size
        rows.append(
            {
                "model": name,
                "train XLA / ms": f"{ms['train_xla']:.1f}",
                "train plain / ms": f"{ms['train_plain']:.1f}",
                "ratio": f"{ms['train_plain'] / ms['train_xla']:.2f}",
                "training patterns/s": f"{1e3 * patterns / ms['train_xla']:.0f}",
                "infer XLA / ms": f"{ms['infer_xla']:.1f}",
                "infer plain / ms": f"{ms['infer_plain']:.1f}",
                "inference patterns/s": f"{1e3 * patterns / ms['infer_xla']:.0f}",
            }
        )
    write(rows, arguments.out)


def write(rows: list[dict[str, str]], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "table.csv", rows)
    text = "\n".join([markdown(rows), "", f"Machine: {json.dumps(machine())}"])
    (out / "table.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
