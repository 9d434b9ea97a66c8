#!/usr/bin/env python
"""Time from a file to the image: the pretrained network, and the solver from a constant, on a dense scan.

    python benchmarks/first_picture.py                                    1 089 patterns, N = 64
    python benchmarks/first_picture.py --rounds 1 --group-size 24 --batch 4

The test scan of ``experiment=gs1_curved`` is simulated (one object; beam known) and written to a file. Timed
are reading, network (groups of ``--group-size`` patterns that tile the scan, ``--rounds`` rounds), stitching,
and passes of the solver. Every step runs once before, so that compilation is not timed. The table has medians
of three runs, with the amplitude and phase SSIM after each step. Run it on a quiet machine. FLOPs and Fourier
transforms per pattern are counted, not measured.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import parser
from benchmarks.grid_scans import refine, scan_of, ssim_text
from benchmarks.tables import machine, markdown
from ptycho.config import UnrolledModel
from ptycho.reconstruction.stitching import predict_in_rounds, stitch
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.scan.dataset import Dataset
from ptycho.scan.dataset_file import load_dataset, to_arrays
from ptycho.scan.reconstruction import Reconstruction

PASSES, REPEATS = 3, 3
Steps = list[tuple[str, float, np.ndarray]]  # name, seconds since the file was opened, objects


def by_network(path: Path, model: LoadedModel, options: argparse.Namespace) -> Steps:
    began = time.perf_counter()
    data = load_dataset(path)
    view = data.tiled(options.group_size)
    regions = np.empty((view.n_groups, view.region_size, view.region_size), np.complex64)
    predict_in_rounds(regions, model.step_for(view), view, options.batch, options.rounds)
    objects = stitch(regions, view, "probe").objects
    return [("the network", time.perf_counter() - began, objects), *passes(objects, data, began)]


def by_solver(path: Path) -> Steps:
    began = time.perf_counter()
    data = load_dataset(path)
    return passes(np.full((1, data.object_size, data.object_size), 0.5, np.complex64), data, began)


def passes(objects: np.ndarray, data: Dataset, began: float) -> Steps:
    """Return (name, seconds, objects) after 1 to ``PASSES`` passes of the solver, each from the start."""
    before, steps = time.perf_counter() - began, []
    for number in range(1, PASSES + 1):
        start = time.perf_counter()
        refined = refine(objects, data, number)
        steps.append((f"{number} passes", before + time.perf_counter() - start, refined))
    return steps


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


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--group-size", type=int, help="patterns in a group (the network's)")
    options_of.add_argument("--rounds", type=int, default=2, help="of the network (2)")
    options_of.add_argument("--batch", type=int, help="groups in a batch (the network's)")
    options = options_of.parse_args()
    model, data = load_model("pretrained"), scan_of("experiment=gs1_curved")
    options.group_size = options.group_size or model.config.group_size  # type: ignore[union-attr]
    options.batch = options.batch or model.config.batch_size
    ways = {"network": partial(by_network, model=model, options=options), "solver from a constant": by_solver}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scan.npz"
        np.savez(path, **to_arrays(data))
        for name, way in ways.items():
            way(path)
            for steps in zip(*[way(path) for _ in range(REPEATS)], strict=True):
                (after, _, objects), seconds = steps[0], np.median([step[1] for step in steps])
                ssim = ssim_text(Reconstruction(objects, np.abs(objects) > 0), data)
                rows.append({"way": name, "after": after, "seconds": f"{seconds:.2f}", "SSIM": ssim})
    print(f"{machine()}; {len(data.amplitudes)} patterns, N = {data.N}\n{markdown(rows)}")
    print(counted(model, data, options.group_size, options.rounds))


if __name__ == "__main__":
    main()
