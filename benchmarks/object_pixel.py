#!/usr/bin/env python
"""Are finer object pixels selected where the object is finer than those of the detector, and do they help?

    python benchmarks/object_pixel.py [--command]

Cells of the panel, with probe and positions refined in the trial. *Gain* is the fall of the log-deviance of
what is held out; *edge* says whether the patterns have the intensity at the detector edge without which the
program does not try. ``--command`` runs the whole reconstruction of the cells *finer*, with N of the detector
and as the program chooses it, and compares it with the true object, on pixels of half the length.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import ptycho
from benchmarks import parser
from benchmarks.panel import Cell, cells, scan_of
from benchmarks.photographs import cut, error_of, object_of
from benchmarks.tables import markdown
from ptycho.align.object_pixel import try_finer_pixels
from ptycho.preparation.window import finer_pixels, finer_side
from ptycho.reconstruction.estimate import Refine
from ptycho.scan.coarser import finer_waves, on_finer_pixels

WRONG = ("finer", "fraction", "probe", "background", "all")  # and cells without errors, at high dose


def chosen() -> Iterator[Cell]:
    for cell in cells():
        right = cell.wrong == "nothing" and cell.photons >= 1e6 and cell.step == 5
        if cell.wrong in WRONG or right:
            yield cell


def gain(cell: Cell) -> dict[str, object]:
    """Try finer pixels on a cell."""
    data, _, _ = scan_of(cell)
    trial = try_finer_pixels(replace(data, exact=True), finer_side(cell.side), Refine(positions=True), 0)
    mean = data.amplitudes.statistics.mean_intensity
    edge = finer_pixels(mean, np.ones(mean.shape, bool), cell.side) is not None
    change = f"{trial.gain.gain:.3f} ± {trial.gain.error:.3f}"
    return {"cell": cell.name, "gain": change, "edge": "yes" if edge else "no"}


def command(cell: Cell, N: int | None) -> dict[str, object]:
    """Run the whole reconstruction from a file; compare it on pixels of half the detector's."""
    data, _, probe = scan_of(cell)
    counts = np.rint(np.square(data.amplitudes[:])).astype(np.uint32)
    places = {"ycoords": data.positions[:, 0].astype(float), "xcoords": data.positions[:, 1].astype(float)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scan.npz"
        np.savez(file, diff3d=counts, probeGuess=data.probe[0], **places)
        began = time.perf_counter()
        result = ptycho.reconstruct(file, domain="counts", N=N, progress=False, error_map=False)
        seconds = time.perf_counter() - began
    used = result.beam.probe.shape[-1]
    scale, side = 2 * cell.side / used, 2 * data.object_size
    image = on_finer_pixels(result.object, scale)
    shift = np.median(scale * result.beam.positions - 2 * data.positions, axis=0)
    truth, fine = object_of(cell.object, side, 2), finer_waves(probe, 2 * cell.side)
    error = error_of(cut(image, shift, side), truth, 2 * data.positions, fine)
    scores = {name: f"{result.scores[name]:.4f}" for name in ("r_factor", "r_free", "r_noise")}
    return {"cell": cell.name, "N": used, "error": f"{error:.3f}"} | scores | {"s": f"{seconds:.0f}"}


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--command", action="store_true", help="whole reconstructions of the cells finer")
    options = options_of.parse_args()
    if not options.command:
        print(markdown([gain(cell) for cell in chosen()]))
        return
    finer = [cell for cell in chosen() if cell.wrong == "finer"]
    print(markdown([command(cell, N) for cell in finer for N in (cell.side, None)]))


if __name__ == "__main__":
    main()
