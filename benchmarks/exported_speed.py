#!/usr/bin/env python
"""Exported networks of finished runs: agreement, sizes of files, speed against TensorFlow.

    python benchmarks/exported_speed.py agreement RUN [RUN …]     # differences of regions and objects
    taskset -c 0,1 python benchmarks/exported_speed.py speed RUN [RUN …]

Speeds are ratios of median times measured in turn, so that a busy machine slows all variants alike. RUN
is a folder of ``scripts/grid_lines_workflow.py``.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

os.environ["KERAS_BACKEND"] = "tensorflow"
ROOT = Path(__file__).resolve().parent.parent

import numpy as np
import tensorflow as tf

from benchmarks import parser
from benchmarks.tables import markdown
from benchmarks.timing import alternated
from ptycho.evaluation.metrics import Region, score
from ptycho.reconstruction.stitching import predict_scan, stitch
from ptycho.run.network import is_stored, read_network
from ptycho.scan.dataset import Dataset
from ptycho.scan.dataset_file import load_dataset
from ptycho_export.export_model_command import ExportModelConfig, describe_network
from ptycho_export.formats import FORMATS, open_exported
from ptycho_export.network import portable, trained_generator

BATCH, ROUNDS = 16, 9
Step = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
Row = dict[str, str]


def networks(runs: list[Path]) -> list[tuple[Path, str]]:
    return [(run, name) for run in runs for name in ("pinn", "baseline") if is_stored(run, name)]


def opened(run: Path, name: str) -> tuple:
    """Return the stored network, its test data as inputs, and its description."""
    stored = read_network(run, name)
    data = load_dataset(next(run.glob("datasets/*/*/test.npz")))
    if name == "baseline":
        data = data.single_patterns(stored.config.baseline.patterns_per_group)

    config = ExportModelConfig(run=str(run), batch_size=BATCH)
    return stored, data, describe_network(config, stored)


def original(stored, description, compiled: bool) -> Step:
    """Return the network of the run as a TensorFlow function of complex tensors."""
    network = trained_generator(stored, description)

    @tf.function(jit_compile=compiled, autograph=False)
    def regions(x, offsets, probe):
        return network.call(x, offsets, probe)

    return lambda *inputs: regions(*map(tf.constant, inputs)).numpy()


def of_pairs(serve, description) -> Step:
    """Return the graph of real pairs, as it is exported, as a TensorFlow function."""

    def regions(x, offsets, probe):
        parts = np.stack([probe.real, probe.imag]).astype(np.float32).reshape(description.probe_shape)
        found = serve(*map(tf.constant, (x, offsets, parts)))["regions"].numpy()
        return found[:, 0] + 1j * found[:, 1]

    return regions


def consumers(stored, description, scratch: Path) -> tuple[dict[str, Step], dict[str, float]]:
    """Return the network as every consumer runs it, TensorFlow without XLA first, and the MB of files."""
    serve = portable(stored, description)
    steps = {
        "TensorFlow": original(stored, description, False),
        "TensorFlow, XLA": original(stored, description, True),
        "pairs in TensorFlow": of_pairs(serve, description),
        "pairs, XLA": of_pairs(tf.function(serve, jit_compile=True), description),
    }
    sizes = {}
    for suffix, form in FORMATS.items():
        target = scratch / f"model{suffix}"
        form.write(serve, description, target)
        steps[suffix], sizes[suffix] = open_exported(target), target.stat().st_size / 1e6
    return steps, sizes


def agreement(steps: dict[str, Step], sizes: dict[str, float], data: Dataset) -> Iterator[Row]:
    """Yield a row for each consumer: size of the file, and differences from TensorFlow without XLA."""

    def predict(step: Step) -> tuple[np.ndarray, float]:
        regions = np.empty((data.n_groups, data.region_size, data.region_size), np.complex64)
        predict_scan(regions, step, data, BATCH)
        stitched, region = stitch(regions, data, "probe"), Region(*data.tiling.rectangle)
        return regions, score(stitched.objects[0], data.objects[0], stitched.mask[0], region)["ssim"][0]

    expected, ssim = predict(steps.pop("TensorFlow"))
    for name, step in steps.items():
        regions, own = predict(step)
        differs = np.abs(regions - expected).max(axis=(1, 2)) / np.abs(expected).max()
        row = {"consumer": name, "MB": f"{sizes[name]:.2f}" if name in sizes else ""}
        row |= {"regions differ": f"{differs.max():.1e}", "99 % of them": f"{np.percentile(differs, 99):.1e}"}
        yield row | {"SSIM differs": f"{abs(own - ssim):.5f}"}


def speed(steps: dict[str, Step], sizes: dict[str, float], data: Dataset) -> Iterator[Row]:
    """Yield the patterns per second of TensorFlow without XLA, and the others relative to it."""
    indices = np.arange(BATCH) % data.n_groups
    inputs = data.normalised(data.groups[indices]), data.offsets[indices], data.model_probe
    seconds = alternated({name: partial(step, *inputs) for name, step in steps.items()}, ROUNDS)
    reference = seconds.pop("TensorFlow")
    row = {"TensorFlow, patterns/s": f"{BATCH * data.group_size / reference:.0f}"}
    yield row | {name: f"{reference / value:.2f}" for name, value in seconds.items()}


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("what", choices=("agreement", "speed"))
    options_of.add_argument("runs", type=Path, nargs="+")
    options, rows = options_of.parse_args(), []
    logging.basicConfig(level=logging.ERROR)
    for run, name in networks(options.runs):
        stored, data, description = opened(run, name)
        with tempfile.TemporaryDirectory() as scratch:
            steps, sizes = consumers(stored, description, Path(scratch))
            for row in {"agreement": agreement, "speed": speed}[options.what](steps, sizes, data):
                rows.append({"run": run.name, "network": name} | row)
                print(*rows[-1].values(), sep=" | ", flush=True)
    print(f"\n{markdown(rows)}")


if __name__ == "__main__":
    main()
