#!/usr/bin/env python
"""Does the memory of a run on a measured scan grow with its patterns, and how fast does a large file open?

    python benchmarks/scan_memory.py                      # 2 000 and 50 000 patterns of 128²: half an hour
    python benchmarks/scan_memory.py --counts 500 4000 --gigabytes 0.5

Two scans of one area, with few and with many patterns, are simulated and go through the whole workflow: two
passes of the solver, one epoch of a tiny network, inference, stitching, one pass of refinement, figures. What
is compared is the peak of the process's resident memory, with ``VmHWM`` of Linux. Then ``inspect_scan.py`` is
timed on an HDF5 file of the given size, whose patterns are zero but for the first and some in between.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).parents[1]
AREA = 2000 * 5.0**2  # of a scan, in (pixels at N = 64)²
RUN = (
    "nepochs=1",
    "model.stages=1",
    "model.width=4",
    "model.neighbours=0",
    "solver.steps=2",
    "probe.modes=1",
    "stitch.passes=1",
    "batch_size=32",
    "overwrite=true",
)


def script(name: str, *arguments: str) -> float:
    """Run one of the scripts; its seconds."""
    began = time.perf_counter()
    subprocess.run([sys.executable, str(ROOT / "scripts" / name), *arguments], check=True, cwd=ROOT)
    return time.perf_counter() - began


def peak_of(count: int, side: int, folder: Path) -> dict[str, float]:
    """Peak memory (MiB) and seconds of a run on so many patterns ``side × side``."""
    scan, out = folder / f"{count}.cxi", folder / f"run_{count}"
    step = (AREA / count) ** 0.5
    script(
        "simulate_scan.py",
        f"output={scan}",
        f"N={side}",
        f"n_positions={count}",
        f"step_px64={step}",
        "oversampling=1",
        "path=jittered",
    )
    seconds = script("scan_workflow.py", f"data.file={scan}", f"output_dir={out}", *RUN)
    manifest = json.loads((out / "manifest.json").read_text())
    size = scan.stat().st_size / 2**20
    scan.unlink()
    return {"file_MiB": size, "peak_MiB": manifest["peak_memory_mib"], "seconds": seconds}


def large_file(path: Path, gigabytes: float, side: int = 512) -> int:
    """An HDF5 file of so many bytes of patterns, uint16, contiguous; how many patterns."""
    count = int(gigabytes * 1e9 / (2 * side**2))
    rng = np.random.default_rng(0)
    axis = np.arange(side) - side / 2
    bright = 2000 * np.exp(-(axis[:, None] ** 2 + axis**2) / (2 * 30**2)) + 0.2
    with h5py.File(path, "w") as file:
        patterns = file.create_dataset("patterns", (count, side, side), np.uint16)
        for k in range(0, count, 8):
            patterns[k] = rng.poisson(bright)
        patterns[count - 1] = rng.poisson(bright)
        width = int(np.ceil(count**0.5))
        grid = np.stack(np.divmod(np.arange(count), width), axis=1)
        file["positions"] = (grid + rng.uniform(-0.3, 0.3, grid.shape)) * 1e-7
    return count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--counts", type=int, nargs=2, default=(2000, 50_000))
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--scratch", help="folder for the files; default: the system's")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as name:
        folder = Path(name)
        found = {count: peak_of(count, options.side, folder) for count in options.counts}
        path = folder / "large.h5"
        count = large_file(path, options.gigabytes)
        keys = ("data.keys.patterns=/patterns", "data.keys.positions=/positions", "data.unit=m")
        lengths = ("data.energy_eV=8000", "data.distance_m=2", "data.detector_pixel_m=75e-6")
        picture = f"output={folder / 'picture.png'}"
        opening = script("inspect_scan.py", str(path), *keys, *lengths, "data.domain=counts", picture)
    for number, row in found.items():
        print(f"{number:>7} patterns: " + ", ".join(f"{key} {value:.0f}" for key, value in row.items()))
    few, many = (found[number]["peak_MiB"] for number in options.counts)
    print(f"peak memory, many against few: {many / few:.3f}")
    print(f"inspect_scan on {options.gigabytes:g} GB ({count} frames of 512²): {opening:.1f} s")


if __name__ == "__main__":
    main()
