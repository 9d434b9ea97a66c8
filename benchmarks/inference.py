#!/usr/bin/env python
"""Speed of inference with a stored network, from the patterns to the stitched object.

    python benchmarks/inference.py [--model unrolled]     patterns/s after start-up and compilation, medians

The network has the architecture ``--model`` and initial weights, which cost as much as trained ones. The
scan has one object of 278 pixels, in 484 groups of four patterns.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import parser
from benchmarks.tables import markdown
from ptycho.config import RunConfig, UNetModel, UnrolledModel
from ptycho.files.file_array import FileArray
from ptycho.networks.layers import get_weights
from ptycho.reconstruction.stitching import stitch
from ptycho.run.folder import RunFolder
from ptycho.run.loaded import load_model
from ptycho.run.names import SETUP
from ptycho.run.network import regular_offsets, setup_of, write_network
from ptycho.scan.dataset import Dataset
from ptycho.scan.dataset_file import load_dataset, to_arrays
from ptycho.simulation.simulate import simulate
from ptycho.training.competitors import COMPETITORS, geometry_of

MODELS = {"unrolled_fast": UnrolledModel(stages=3), "unrolled": UnrolledModel(), "unet": UNetModel()}


def write_run(folder: Path, config: RunConfig, training: Dataset) -> None:
    """Write the folder of a run with untrained networks."""
    run = RunFolder(folder, overwrite=True)
    run.config(config)
    for name, competitor in COMPETITORS.items():
        data = competitor.view(config, training)
        geometry = geometry_of(data)
        offsets = regular_offsets(config.offset, data.group_size)
        run.arrays(f"{name}/{SETUP}", setup_of(data, offsets, geometry.support).arrays())
        write_network(run, name, get_weights(competitor.build(config, geometry)), {}, [])


def timed(run: Path, scan: Path, name: str, repeats: int) -> dict[str, str]:
    """Return patterns per second of each step, and the CPU time of prediction and stitching in seconds.

    The CPU time, summed over all threads, can be compared even if the machine is busy.
    """
    model, rows = load_model(run, name), []
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(repeats + 1):  # the first compiles
            view = model.view(load_dataset(scan))
            shape = (view.n_groups, view.region_size, view.region_size)
            regions = FileArray.temporary(Path(scratch), shape, np.complex64)
            began, cpu = time.perf_counter(), time.process_time()
            model.predict_regions(view, regions)
            predicted = time.perf_counter()
            stitch(regions, view, "probe")
            stitched = time.perf_counter()
            parts = (predicted - began, stitched - predicted, stitched - began)
            rows.append((*parts, time.process_time() - cpu))
    *seconds, cpu = [statistics.median(column) for column in zip(*rows[1:], strict=True)]
    names = ("prediction", "stitching", "prediction and stitching")
    rates = {name: f"{view.groups.size / s:.0f}" for name, s in zip(names, seconds, strict=True)}
    return rates | {"CPU / s": f"{cpu:.2f}"}


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--model", choices=MODELS, default="unrolled_fast")
    options_of.add_argument("--repeats", type=int, default=7)
    options = options_of.parse_args()
    config = RunConfig(
        size=278, nimgs_train=1, nimgs_test=1, max_groups_train=16, model=MODELS[options.model]
    )
    data = simulate(config)[0]
    print(f"{data['test'].groups.size} patterns, N={config.N}, gridsize {config.gridsize}")
    print(f"Patterns/s, after start-up and compilation; load average before: {os.getloadavg()[0]:.1f}\n")
    with tempfile.TemporaryDirectory() as name:
        run, scan = Path(name) / "run", Path(name) / "scan.npz"
        write_run(run, config, data["train"])
        np.savez(scan, **to_arrays(data["test"]))
        labels = {"pinn": options.model, "baseline": "baseline"}
        rows = [{"network": labels[name]} | timed(run, scan, name, options.repeats) for name in labels]
    print(markdown(rows))


if __name__ == "__main__":
    main()
