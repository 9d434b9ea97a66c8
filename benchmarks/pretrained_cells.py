#!/usr/bin/env python
"""The pretrained network on the grid-lines cells: without training, and after passes of the solver.

    python benchmarks/pretrained_cells.py                            every cell below, seed 0
    python benchmarks/pretrained_cells.py --cells gs1_curved lines128

A cell is the test scan of ``conf/experiment/<name>.yaml`` with one object, some with further overrides. The
network gets the groups of the cell (one or four patterns), or tiles of 64 patterns, as ``ptycho scan
run=pretrained`` uses; ``refined``: then up to five passes of the solver. The table has the SSIM of amplitude
/ phase, scored as in the workflow. Scores of a network trained on each cell: docs/results.md.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks import parser
from benchmarks.grid_scans import refine, scan_of, ssim_text
from benchmarks.tables import last_line, markdown
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.scan.dataset import Dataset
from ptycho.scan.reconstruction import Reconstruction

PASSES = 5  # of the solver
CELLS: dict[str, tuple[str, ...]] = {
    name: (f"experiment={name}",)
    for name in (
        "gs1_ideal",
        "gs1_curved",
        "gs2_ideal",
        "gs2_curved",
        "gs1_curved_phase",
        "gs2_ideal_phase",
        "gs2_curved_phase",
        "sparse_scan",
        "lines128",
    )
} | {
    "gs1_ideal_phase": ("experiment=gs1_ideal", "set_phi=true"),
    "gs2_curved_phase, N = 128": ("experiment=gs2_curved_phase", "N=128", "outer_offset_test=40"),
    "gs2_ideal_phase, N = 128": ("experiment=gs2_ideal_phase", "N=128", "outer_offset_test=40"),
    "gs1_curved_phase, defocus −60 µm": ("experiment=gs1_curved_phase", "probe.defocus_um=-60"),
    "gs2_ideal_phase, disk of 34 px": ("experiment=gs2_ideal_phase", "probe.diameter_px64=34"),
}


def row(model: LoadedModel, data: Dataset) -> dict[str, str]:
    own = model.reconstruct(data, "probe")
    tiles = data.tiled(min(model.config.group_size, len(data.amplitudes)))  # type: ignore[union-attr]
    began = time.perf_counter()
    tiled = model.reconstruct(tiles, "probe")
    seconds = time.perf_counter() - began
    refined = refine(tiled.objects, data, PASSES)
    return {
        "patterns": str(len(data.amplitudes)),
        "C": str(data.group_size),
        "groups of the cell": ssim_text(own, data),
        "tiles": ssim_text(tiled, data),
        "refined": ssim_text(Reconstruction(refined, tiled.mask), data),
        "disagreement": f"{np.nanmax(tiled.disagreement):.3f}",
        "seconds (tiles, with compilation)": f"{seconds:.1f}",
    }


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS), metavar="NAME")
    model, rows = load_model("pretrained"), []
    for name in options_of.parse_args().cells:
        rows.append({"cell": name} | row(model, scan_of(*CELLS[name], "seed=0")))
        print(last_line(rows[-1]), flush=True)
    print(f"\n{markdown(rows)}")


if __name__ == "__main__":
    main()
