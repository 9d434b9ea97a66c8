#!/usr/bin/env python
"""Exported networks of finished runs: agreement, sizes of files, speed against TensorFlow, start-up.

    python benchmarks/exported_speed.py agreement RUN [RUN …]     # differences of regions and objects
    taskset -c 0,1 python benchmarks/exported_speed.py speed RUN [RUN …]
    python benchmarks/exported_speed.py startup RUN              # needs "make lite" for its own Python

Speeds are ratios of times measured in turn, so that a busy machine slows all variants alike. The order
changes from round to round. RUN is a folder of ``scripts/grid_lines_workflow.py``.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np
import tensorflow as tf

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


def of_pairs(serve) -> Step:
    """Return the graph of real pairs, as it is exported, as a TensorFlow function."""

    def regions(x, offsets, probe):
        parts = np.stack([probe.real, probe.imag]).astype(np.float32)
        found = serve(*map(tf.constant, (x, offsets, parts)))["regions"].numpy()
        return found[:, 0] + 1j * found[:, 1]

    return regions


def predicted(step: Step, data: Dataset) -> np.ndarray:
    regions = np.empty((data.n_groups, data.region_size, data.region_size), np.complex64)
    predict_scan(regions, step, data, BATCH)
    return regions


def agreement(runs: list[Path]) -> None:
    head = ("run", "network", "consumer", "MB", "regions differ", "99 % of them", "SSIM differs")
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for run, name in networks(runs):
        for cells in agreements(run, name):
            print(f"| {run.name} | {name} | {' | '.join(cells)} |", flush=True)


def agreements(run: Path, name: str) -> Iterator[tuple[str, ...]]:
    """Return rows: runtime, size of the file, and differences from the original, as text."""
    stored, data, description = opened(run, name)
    expected = predicted(original(stored, description, False), data)
    score_of_expected = amplitude_ssim(expected, data)

    def compared(step: Step) -> tuple[str, ...]:
        found = predicted(step, data)
        differs = np.abs(found - expected).max(axis=(1, 2)) / np.abs(expected).max()
        ssim = abs(amplitude_ssim(found, data) - score_of_expected)
        return f"{differs.max():.1e}", f"{np.percentile(differs, 99):.1e}", f"{ssim:.5f}"

    yield "the original, XLA", "", *compared(original(stored, description, True))
    serve = portable(stored, description)
    yield "pairs in TensorFlow", "", *compared(of_pairs(serve))
    with tempfile.TemporaryDirectory() as scratch:
        for suffix, form in FORMATS.items():
            target = Path(scratch) / f"model{suffix}"
            form.write(serve, description, target)
            yield suffix, f"{target.stat().st_size / 1e6:.2f}", *compared(open_exported(target))


def amplitude_ssim(regions: np.ndarray, data: Dataset) -> float:
    """Return the amplitude SSIM of the stitched object on the rectangle in which runs are scored."""
    stitched, region = stitch(regions, data, "probe"), Region(*data.tiling.rectangle)
    return score(stitched.objects[0], data.objects[0], stitched.mask[0], region)["ssim"][0]


def speed(runs: list[Path]) -> None:
    head = ("run", "network", "TF patterns/s", "TF XLA", "TF, pairs", "XLA, pairs", "LiteRT", "ONNX")
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for run, name in networks(runs):
        stored, data, description = opened(run, name)
        serve = portable(stored, description)
        with tempfile.TemporaryDirectory() as scratch:
            steps = {
                "tf": original(stored, description, False),
                "xla": original(stored, description, True),
                "pairs": of_pairs(serve),
                "pairs, xla": of_pairs(tf.function(serve, jit_compile=True)),
            }
            for suffix, form in FORMATS.items():
                target = Path(scratch) / f"model{suffix}"
                form.write(serve, description, target)
                steps[suffix] = open_exported(target)
        indices = np.arange(BATCH) % data.n_groups
        inputs = data.normalised(data.groups[indices]), data.offsets[indices], data.model_probe
        for step in steps.values():
            step(*inputs)
        times: dict[str, list[float]] = {key: [] for key in steps}
        order = list(steps)
        for k in range(ROUNDS):
            for key in order[k % len(order) :] + order[: k % len(order)]:
                start = time.perf_counter()
                steps[key](*inputs)
                times[key].append(time.perf_counter() - start)
        reference = np.array(times["tf"])
        ratios = [np.median(reference / np.array(times[key])) for key in order[1:]]
        patterns = BATCH * data.group_size / np.median(reference)
        cells = " | ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"| {run.name} | {name} | {patterns:.0f} | {cells} |", flush=True)


def startup(runs: list[Path]) -> None:
    """Print the seconds until the first regions, in the environment of ``make lite`` and in the full one."""
    stored, _, description = opened(runs[0], "pinn")
    data = next(runs[0].glob("datasets/*/*/test.npz"))
    print("| environment | model | seconds to the first regions |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for suffix, form in FORMATS.items():
            target = Path(scratch) / f"model{suffix}"
            form.write(portable(stored, description), description, target)
            for python in (ROOT / ".venv-lite/bin/python", Path(sys.executable)):
                words = [f"model={target}", f"data={data}", f"output_dir={scratch}/out", "overwrite=true"]
                command = [str(python), str(ROOT / "scripts/run_exported.py"), *words]
                seconds = [seconds_until(command, "first regions") for _ in range(5)]
                if None not in seconds:
                    row = python.parent.parent.name, suffix, f"{np.median(seconds):.2f}"
                    print(f"| {' | '.join(row)} |", flush=True)


def seconds_until(command: list[str], text: str) -> float | None:
    """Return the seconds from the start of a process until it prints ``text``."""
    start = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        found = next((time.perf_counter() - start for line in process.stderr if text in line), None)
        process.kill()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("agreement", "speed", "startup"))
    parser.add_argument("runs", type=Path, nargs="+")
    args = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    {"agreement": agreement, "speed": speed, "startup": startup}[args.what](args.runs)


if __name__ == "__main__":
    main()
