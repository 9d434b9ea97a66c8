#!/usr/bin/env python
"""Time from a file to the image: the pretrained network, and the solver from a constant, on a dense scan.

    python benchmarks/first_picture.py                                    1 089 patterns, N = 64
    python benchmarks/first_picture.py --experiment gs1_curved_phase --run outputs/pretrained --rounds 1

The test scan of an experiment is simulated (one object; beam known) and written to a file. Timed are reading,
network (groups of ``--group-size`` patterns that tile the scan, ``--rounds`` rounds), stitching, and passes
of the solver. Every step runs once before, so that compilation is not timed. The table has medians of
``--repeats`` runs, with the amplitude and phase SSIM after each step. Run it on a quiet machine. FLOPs and
Fourier transforms per pattern are counted, not measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from hydra import compose, initialize_config_dir

from benchmarks.solver_steps import refine
from benchmarks.tables import markdown
from benchmarks.timing import machine
from ptycho.command_line.config import run_config
from ptycho.config import RunConfig, UnrolledModel
from ptycho.evaluation import metrics
from ptycho.reconstruction.stitching import predict_in_rounds, stitch
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.scan.dataset import Dataset
from ptycho.scan.dataset_file import load_dataset, to_arrays
from ptycho.simulation.simulate import simulate

CONF = Path(__file__).resolve().parents[1] / "conf"
COLUMNS = ("way", "after", "seconds", "amplitude SSIM", "phase SSIM")
Steps = list[tuple[str, float, np.ndarray]]  # name, seconds since the file was opened, objects


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experiment", default="gs1_curved", help="name in conf/experiment (gs1_curved)")
    parser.add_argument("--run", default="pretrained", help="run of the network (pretrained)")
    parser.add_argument("--group-size", type=int, help="patterns in a group (the network's)")
    parser.add_argument("--rounds", type=int, default=2, help="of the network (2)")
    parser.add_argument("--passes", type=int, default=3, help="steps of the solver (3)")
    parser.add_argument("--batch", type=int, help="groups in a batch (the network's)")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs (3)")
    options = parser.parse_args(words)
    model, data = load_model(options.run), scan(options.experiment)
    options.group_size = options.group_size or model.config.group_size  # type: ignore[union-attr]
    options.batch = options.batch or model.config.batch_size
    ways: dict[str, Callable[[Path], Steps]] = {
        "network": lambda path: by_network(path, model, options),
        "solver from a constant": lambda path: by_solver(path, options.passes),
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scan.npz"
        np.savez(path, **to_arrays(data))
        for name, way in ways.items():
            way(path)
            timed = [way(path) for _ in range(options.repeats)]
            for steps in zip(*timed, strict=True):
                amplitude, phase = scores(data, steps[0][2])
                seconds = np.median([step[1] for step in steps])
                row = [name, steps[0][0], f"{seconds:.2f}", f"{amplitude:.4f}", f"{phase:.4f}"]
                rows.append(dict(zip(COLUMNS, row, strict=True)))
    print(f"{machine()}; {len(data.amplitudes)} patterns, N = {data.N}")
    print(markdown(rows))
    print(counted(model, data, options.group_size, options.rounds))
    return 0


def scan(experiment: str) -> Dataset:
    """Return the test scan of an experiment, with one object."""
    words = [f"experiment={experiment}", "nimgs_test=1", "nimgs_train=1", "max_groups_train=64"]
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        config = run_config(compose("grid_lines", words), words, {})
    assert isinstance(config, RunConfig)
    return simulate(config)[0]["test"]


def by_network(path: Path, model: LoadedModel, options: argparse.Namespace) -> Steps:
    began, steps = time.perf_counter(), []
    data = load_dataset(path)
    view = data.tiled(options.group_size)
    regions = np.empty((view.n_groups, view.region_size, view.region_size), np.complex64)
    predict_in_rounds(regions, model.step_for(view), view, options.batch, options.rounds)
    objects = stitch(regions, view, "probe").objects
    steps.append(("the network", time.perf_counter() - began, objects))
    return steps + passes(objects, data, began, options.passes)


def by_solver(path: Path, count: int) -> Steps:
    began = time.perf_counter()
    data = load_dataset(path)
    return passes(np.full((1, data.object_size, data.object_size), 0.5, np.complex64), data, began, count)


def passes(objects: np.ndarray, data: Dataset, began: float, count: int) -> Steps:
    """Return (name, seconds, objects) after 1 to ``count`` passes of the solver, each from the start."""
    before, steps = time.perf_counter() - began, []
    for number in range(1, count + 1):
        start = time.perf_counter()
        found = refine(objects, data, number)
        steps.append((f"{number} passes", before + time.perf_counter() - start, found))
    return steps


def scores(data: Dataset, objects: np.ndarray) -> tuple[float, float]:
    mask = np.abs(objects) > 0
    found = metrics.score_images(objects, data.objects, mask, metrics.Region(*data.tiling.rectangle))
    return found["ssim"][0], found["ssim"][1]


def counted(model: LoadedModel, data: Dataset, group_size: int, rounds: int) -> str:
    """Return FLOPs and Fourier transforms per pattern, from the sizes of convolutions and transforms."""
    view, net = data.tiled(group_size), model.config.model
    assert isinstance(net, UnrolledModel)
    share = view.groups.size / len(data.amplitudes)  # how often a pattern is used
    side = -(-view.region_size // net.coarsening)
    pixels, features = net.coarsening**2, 5 + net.misfit
    channels = features * pixels * net.width + 2 * net.blocks * net.width**2 + net.width * 2 * pixels
    channels += net.memory * net.width**2 / 9  # 1 × 1
    convolutions = 2 * 9 * channels * side**2 / group_size
    transform = 5 * view.N**2 * np.log2(view.N**2)
    ffts = 2 * net.stages + 1
    every = net.stages * convolutions + ffts * transform
    return (
        f"\n{view.n_groups} groups of {group_size} in regions of {view.region_size}: a pattern is used "
        f"{share:.2f} times a round;\n{rounds * share * ffts:.0f} Fourier transforms and "
        f"{rounds * share * every / 1e6:.0f} MFLOP a pattern, {net.stages * convolutions / every:.0%} in "
        "convolutions"
    )


if __name__ == "__main__":
    sys.exit(main())
