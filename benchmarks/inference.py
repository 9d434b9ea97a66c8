#!/usr/bin/env python
"""Speed of inference with a stored network, from the patterns to the stitched object.

    python benchmarks/inference.py                 patterns/s after start-up and compilation, medians

The network has the architecture ``--model`` and initial weights, which cost as much as trained ones. The
scan has one object of 278 pixels.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import zipfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from ptycho.config import RunConfig, UNetModel, UnrolledModel

SIZE = 278
PITCH = 10  # of the groups: 484 groups of four patterns
MODELS = {"unrolled_fast": UnrolledModel(stages=3), "unrolled": UnrolledModel(), "unet": UNetModel()}


def write_run(folder: Path, config: RunConfig) -> None:
    """Write the folder of a run with untrained networks."""
    from ptycho.networks.layers import get_weights
    from ptycho.run.folder import RunFolder
    from ptycho.run.names import SETUP
    from ptycho.run.network import regular_offsets, setup_of, write_network
    from ptycho.simulation.simulate import simulate
    from ptycho.training.competitors import COMPETITORS, geometry_of

    training, run = simulate(config)[0]["train"], RunFolder(folder, overwrite=True)
    run.config(config)
    for name, competitor in COMPETITORS.items():
        data = competitor.view(config, training)
        geometry = geometry_of(data)
        offsets = regular_offsets(config.offset, data.group_size)
        run.arrays(f"{name}/{SETUP}", setup_of(data, offsets, geometry.support).arrays())
        write_network(run, name, get_weights(competitor.build(config, geometry)), {}, [])


def write_scan(path: Path, config: RunConfig, pitch: int) -> int:
    """Write a noise-free scan of one object pattern by pattern, and return the number of patterns."""
    from ptycho.scan.beam import Beam
    from ptycho.scan.positions import nested_grid
    from ptycho.scan.probe import make_probe
    from ptycho.simulation.simulate import make_object, noise_free_amplitudes

    grid, groups = nested_grid(config.size, config.N, config.gridsize, config.offset, pitch)
    positions = grid[groups].reshape(-1, 2).astype(np.float32)  # groups share no patterns
    probe = make_probe(config.probe, config.N)
    truth = make_object(config.object, config.size, config.set_phi, np.random.default_rng(0))
    arrays = {
        "format": np.asarray(1),
        "positions": positions,
        "image": np.zeros(len(positions), np.int32),
        "groups": np.arange(len(positions), dtype=np.int32).reshape(groups.shape),
        "probe": probe,
        "photon_scale": np.asarray(1.0),
        "object_size": np.asarray(config.size),
        "region_size": np.asarray(config.region_size),
        "objects": truth[None],
    }
    np.savez(path, allow_pickle=False, **arrays)
    shape = (len(positions), config.N, config.N)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive,
        archive.open("amplitudes.npy", "w", force_zip64=True) as member,
    ):
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(member, header)
        for start in range(0, len(positions), 512):
            part = noise_free_amplitudes(truth, Beam(probe, positions[start : start + 512]))
            member.write(part.astype("<f4").tobytes())
    return len(positions)


def timed(run: Path, scan: Path, name: str, repeats: int) -> dict[str, float]:
    """Return patterns per second of each step, and the CPU time of prediction and stitching in seconds.

    The CPU time, summed over all threads, can be compared even if the machine is busy.
    """
    from ptycho.files.file_array import FileArray
    from ptycho.reconstruction.stitching import stitch
    from ptycho.run.loaded import load_model
    from ptycho.scan.dataset_file import load_dataset

    model, rows = load_model(run, name), []
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(repeats + 1):  # the first compiles
            view = model.view(load_dataset(scan))
            regions = FileArray.temporary(
                Path(scratch), (view.n_groups, view.region_size, view.region_size), np.complex64
            )
            began, cpu = time.perf_counter(), time.process_time()
            model.predict_regions(view, regions)
            predicted = time.perf_counter()
            stitch(regions, view, "probe")
            stitched = time.perf_counter()
            parts = (predicted - began, stitched - predicted, stitched - began)
            rows.append((*parts, time.process_time() - cpu))
    *seconds, cpu = [statistics.median(column) for column in zip(*rows[1:], strict=True)]
    names = ("prediction", "stitching", "prediction and stitching")
    return {name: view.groups.size / s for name, s in zip(names, seconds, strict=True)} | {"CPU / s": cpu}


def speed(folder: Path, model: str, repeats: int) -> None:
    config = RunConfig(size=SIZE, nimgs_train=1, max_groups_train=16, model=MODELS[model])
    write_run(folder / "run", config)
    patterns = write_scan(folder / "scan.npz", config, PITCH)
    print(f"{patterns} patterns, N={config.N}, gridsize {config.gridsize}, batch {config.batch_size}\n")
    print(f"Patterns/s, after start-up and compilation; load average before: {os.getloadavg()[0]:.1f}\n")
    print("| network | prediction | stitching | prediction and stitching | CPU / s |")
    print("|---|---|---|---|---|")
    for name in ("pinn", "baseline"):
        row = timed(folder / "run", folder / "scan.npz", name, repeats)
        label = model if name == "pinn" else "baseline"
        *speeds, cpu = row.values()
        print(f"| {label} | " + " | ".join(f"{v:.0f}" for v in speeds) + f" | {cpu:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=MODELS, default="unrolled_fast")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        speed(Path(folder), arguments.model, arguments.repeats)


if __name__ == "__main__":
    main()
