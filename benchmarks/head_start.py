#!/usr/bin/env python
"""How many passes over the scan does a network save? Refinement from its object and from a constant.

    python benchmarks/head_start.py outputs/study/grid_lines/lines128/seed0
    python benchmarks/head_start.py outputs/mine --model baseline --passes 60

The test scan of a run is simulated again from its configuration. Refinement (`stitch=refined`,
ptycho/reconstruction/inference.py) starts from the objects of the network, stitched with `probe`, and from
a constant whose amplitude follows from the energy of the patterns. The latter is an iterative solver with a
known probe. Both are scored as in the workflow after 1, 2, 4, 8 … passes, which are steps of the solver; it
stops earlier where it converges.

The seconds are those of the passes alone. Inference and stitching of the network come in addition; their
times are in `manifest.json`.

Writes head_start.csv (every pass), .md (passes and seconds to .95, .98, .99, .999) and .png.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from matplotlib.figure import Figure

from benchmarks.tables import markdown, write_csv
from benchmarks.timing import machine
from ptycho.config import MODELS, RunConfig
from ptycho.evaluation import metrics
from ptycho.files.npz import read_all
from ptycho.reconstruction.inference import refine
from ptycho.run.stored_run import read_config
from ptycho.scan.dataset import Dataset
from ptycho.simulation.simulate import simulate

LEVELS = (0.95, 0.98, 0.99, 0.999)
Row = dict[str, Any]


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="folder of a finished run with stitch=probe")
    parser.add_argument("--model", choices=MODELS, default="pinn", help="pinn or baseline (pinn)")
    parser.add_argument("--passes", type=int, default=40, help="largest number of passes (40)")
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks/head_start"))
    return parser.parse_args(words)


def reconstruction(run: Path, model: str) -> tuple[np.ndarray, np.ndarray]:
    """Return objects and mask that a run has of its network."""
    arrays = read_all(run / "recons" / model / "recon.npz", {"object": "c", "mask": "b"})
    return arrays["object"], arrays["mask"]


def constant_like(objects: np.ndarray, data: Dataset) -> np.ndarray:
    """Return the constant ``√(⟨Σ x²⟩ / Σ|P|²)``: the flat object whose patterns have the measured energy."""
    level = data.N / 2 / np.linalg.norm(data.model_probe)
    return np.full_like(objects, level)


def curve(start: str, objects: np.ndarray, mask: np.ndarray, data: Dataset, region: Any, n: int) -> list[Row]:
    """Return scores and seconds after 0, 1, 2, 4 … n steps, each counted from the start."""
    refine(objects, data, 1)  # compiles
    rows: list[Row] = []
    for k in [0, *(2**i for i in range(32) if 2**i < n), n]:
        began = time.perf_counter()
        found = refine(objects, data, k) if k else objects
        seconds = time.perf_counter() - began
        values = metrics.score_images(np.where(mask, found, 0), data.objects, mask, region)
        scores = {"amplitude_ssim": values["ssim"][0], "phase_rmse_rad": values["phase_rmse_rad"]}
        rows.append({"start": start, "passes": k, "seconds": seconds if k else 0.0, **scores})
    return rows


def summary(rows: Sequence[Row]) -> Row:
    """Return the passes (seconds) after which a curve first reaches each level."""
    found: Row = {"start": rows[0]["start"], "before": _short(rows[0]["amplitude_ssim"])}
    for level in LEVELS:
        first = next((row for row in rows if (row["amplitude_ssim"] or 0) >= level), None)
        found[f"{level:g}"] = f"{first['passes']} ({first['seconds']:.1f} s)" if first else "–"
    return found


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def plot(rows: Sequence[Row], title: str) -> Figure:
    """Draw ``1 − SSIM`` of the amplitude against the number of passes, a line for each start."""
    figure = Figure(figsize=(6.5, 4.2), layout="constrained")
    ax = figure.subplots()
    for start in dict.fromkeys(row["start"] for row in rows):
        mine = [row for row in rows if row["start"] == start]
        mine = [row for row in mine if row["amplitude_ssim"] is not None]
        wrong = [1 - row["amplitude_ssim"] for row in mine]
        ax.semilogy([row["passes"] for row in mine], wrong, "o-", markersize=3, label=f"from {start}")
    ax.set(xlabel="passes over the scan", ylabel="1 − amplitude SSIM, unseen objects", title=title)
    ax.grid(alpha=0.3, which="both")
    ax.legend()
    return figure


def compared(config: RunConfig, options: argparse.Namespace) -> list[list[Row]]:
    """Return the curves from the objects of the network and from a constant."""
    objects, mask = reconstruction(options.run, options.model)
    data = simulate(config)[0]["test"]
    region = metrics.Region(*data.tiling.rectangle)
    starts = {f"the {options.model}": objects, "a constant": constant_like(objects, data)}
    return [curve(name, start, mask, data, region, options.passes) for name, start in starts.items()]


def main(words: Sequence[str] | None = None) -> None:
    options = arguments(words)
    config = read_config(options.run)
    if config.stitch.method != "probe":
        raise SystemExit(
            f"{options.run}: was stitched by {config.stitch.method}; it must be a run with stitch=probe"
        )
    curves = compared(config, options)
    rows = [row for curve in curves for row in curve]
    title = f"N = {config.N}, gridsize {config.gridsize}, {config.probe.kind}, seed {config.seed}"
    options.out.mkdir(parents=True, exist_ok=True)
    write_csv(options.out / "head_start.csv", rows)
    lines = [f"{title}: passes (seconds) to an amplitude SSIM.", "", markdown([summary(c) for c in curves])]
    text = "\n".join([*lines, "", f"Machine: {json.dumps(machine())}"])
    (options.out / "head_start.md").write_text(text + "\n")
    plot(rows, title).savefig(options.out / "head_start.png", dpi=110)
    print(text)


if __name__ == "__main__":
    main()
