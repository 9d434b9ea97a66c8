#!/usr/bin/env python
"""The pretrained network on the grid-lines cells: without training, and after passes of the solver.

    python benchmarks/pretrained_cells.py                            every cell below, seed 0
    python benchmarks/pretrained_cells.py --cells gs1_curved lines128 --run outputs/pretrained --seed 100

A cell is the test scan of ``conf/experiment/<name>.yaml`` with one object, some with further overrides. The
network gets the groups of the cell (one or four patterns), or tiles of 64 patterns, as ``ptycho scan
run=pretrained`` uses; ``refined``: then up to five passes of the solver. The table has the SSIM of amplitude
/ phase, scored as in the workflow. Scores of a network trained on each cell: docs/results.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from hydra import compose, initialize_config_dir

from benchmarks.solver_steps import refine
from benchmarks.tables import markdown
from ptycho.command_line.config import run_config
from ptycho.config import RunConfig
from ptycho.evaluation import metrics
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.scan.dataset import Dataset
from ptycho.scan.reconstruction import Reconstruction
from ptycho.simulation.simulate import simulate

CONF = Path(__file__).resolve().parents[1] / "conf"
ONE = ("nimgs_test=1", "nimgs_train=1", "max_groups_train=64")
CELLS: dict[str, tuple[str, ...]] = {
    name: (f"experiment={name}",)
    for name in (
        *("gs1_ideal", "gs1_curved", "gs2_ideal", "gs2_curved"),
        *("gs1_curved_phase", "gs2_ideal_phase", "gs2_curved_phase", "sparse_scan", "lines128"),
    )
} | {
    "gs1_ideal_phase": ("experiment=gs1_ideal", "set_phi=true"),
    "gs2_curved_phase, N = 128": ("experiment=gs2_curved_phase", "N=128", "outer_offset_test=40"),
    "gs2_ideal_phase, N = 128": ("experiment=gs2_ideal_phase", "N=128", "outer_offset_test=40"),
    "gs1_curved_phase, defocus −60 µm": ("experiment=gs1_curved_phase", "probe.defocus_um=-60"),
    "gs2_ideal_phase, disk of 34 px": ("experiment=gs2_ideal_phase", "probe.diameter_px64=34"),
}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", default="pretrained", help="run of the network (pretrained)")
    parser.add_argument("--cells", nargs="+", default=list(CELLS), metavar="NAME", help="cells (all)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the simulated scans (0)")
    parser.add_argument("--passes", type=int, default=5, help="passes of the solver (5)")
    options = parser.parse_args(words)
    if unknown := set(options.cells) - CELLS.keys():
        parser.error(f"--cells {sorted(unknown)}: must be drawn from {', '.join(CELLS)}")
    model, rows = load_model(options.run), []
    for name in options.cells:
        rows.append({"cell": name} | row(model, scan(CELLS[name], options.seed), options.passes))
        print("  ".join(map(str, rows[-1].values())), file=sys.stderr, flush=True)
    print(markdown(rows))
    return 0


def scan(overrides: Sequence[str], seed: int) -> Dataset:
    words = [*overrides, *ONE, f"seed={seed}"]
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        config = run_config(compose("grid_lines", words), words, {})
    assert isinstance(config, RunConfig)
    return simulate(config)[0]["test"]


def row(model: LoadedModel, data: Dataset, passes: int) -> dict[str, str]:
    own = model.reconstruct(data, "probe")
    tiles = data.tiled(min(model.config.group_size, len(data.amplitudes)))  # type: ignore[union-attr]
    began = time.perf_counter()
    tiled = model.reconstruct(tiles, "probe")
    seconds = time.perf_counter() - began
    refined = refine(tiled.objects, data, passes)
    return {
        "patterns": str(len(data.amplitudes)),
        "C": str(data.group_size),
        "groups of the cell": score(data, own),
        "tiles": score(data, tiled),
        "refined": score(data, Reconstruction(refined, tiled.mask)),
        "disagreement": f"{np.nanmax(tiled.disagreement):.3f}",
        "seconds (tiles, with compilation)": f"{seconds:.1f}",
    }


def score(data: Dataset, made: Reconstruction) -> str:
    region = metrics.Region(*data.tiling.rectangle)
    found = metrics.score_images(made.objects, data.objects, made.mask, region)
    return "{:.4f} / {:.4f}".format(*found["ssim"])


if __name__ == "__main__":
    sys.exit(main())
