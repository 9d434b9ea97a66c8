#!/usr/bin/env python3
"""What is the network of groups (run=pretrained) still good for? A start for the solver, a first picture.

    python benchmarks/network_start.py                        some cells of benchmarks/panel.py
    python benchmarks/network_start.py --cells "lens 1e+06"

The beam is known. From a constant and from the network's object (groups of 64 patterns) the solver takes
steps under the prior that keeps edges; a row a cell: error and seconds of the network, of groups and of
single patterns; of the solver after 2 and 10 steps from the constant; steps after which the error is within
2 % of the end's, and the error at the end, from either start. All is compiled before.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import panel
from benchmarks.tables import markdown
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.solver import OBJECT_ALONE, Terms, fit
from ptycho.reconstruction.state import State
from ptycho.run.loaded import LoadedModel, load_model

GROUPS = {"groups": 64, "singly": 1}  # patterns in a group
STRENGTH, STEPS = 10.0, 300
EARLY = (2, 10)
NEAR = 1.02
USUAL = ("lens 1e+04 12", "lens 1e+05 20", "lens 1e+06 5", "lens 1e+06 20", "lens 1e+08 20")


def by_network(model: LoadedModel, cell: panel.Cell, count: int) -> tuple[np.ndarray, float]:
    """Object and seconds."""
    data, _, _ = panel.scan_of(cell)
    tiles = data.tiled(min(count, len(data.positions)))
    model.reconstruct(tiles, "probe")
    began = time.perf_counter()
    made = model.reconstruct(tiles, "probe")
    seconds = time.perf_counter() - began
    return np.where(made.mask, made.objects, 1)[0], seconds


def course(cell: panel.Cell, start: np.ndarray) -> tuple[list[float], list[float]]:
    """Errors and seconds after every step from an object ``(M, M)``, scoring left out."""
    data, truth, probe = panel.scan_of(cell)
    errors, seconds, scoring = list[float](), list[float](), 0.0

    def watch(state: State, value: float) -> None:
        nonlocal scoring
        now = time.perf_counter()
        seconds.append(now - began - scoring)
        errors.append(panel.error_of(state.object, truth, data.beam, probe))
        scoring += time.perf_counter() - now

    terms = Terms(ScanLikelihood(data, data.normalisation), Prior("edge_preserving", STRENGTH))
    begin = replace(State.of(data, start))
    fit(terms, begin, OBJECT_ALONE, 1)
    began = time.perf_counter()
    fit(terms, begin, OBJECT_ALONE, STEPS, watch=watch)
    return errors, seconds


def row_of(model: LoadedModel, cell: panel.Cell) -> dict[str, object]:
    data, truth, probe = panel.scan_of(cell)
    row: dict[str, object] = {"cell": cell.name}
    made = {name: by_network(model, cell, count) for name, count in GROUPS.items()}
    for name, (found, seconds) in made.items():
        row[name] = f"{panel.error_of(found, truth, data.beam, probe):.3f} ({seconds:.2f} s)"
    errors, times = course(cell, np.ones(truth.shape))
    for step in EARLY:
        row[f"solver, {step} steps"] = f"{errors[step]:.3f} ({times[step]:.2f} s)"
    for name, every in {"constant": errors, "network": course(cell, made["groups"][0])[0]}.items():
        near = next(k for k, error in enumerate(every) if error <= NEAR * every[-1])
        row[f"from {name}: steps, end"] = f"{near}, {every[-1]:.4f}"
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", nargs="*", default=USUAL, help="parts of names of the panel's cells")
    options = parser.parse_args()
    model = load_model("pretrained")
    cells = [
        c for c in panel.cells() if c.wrong == "nothing" and any(part in c.name for part in options.cells)
    ]
    rows = []
    for cell in cells:
        rows.append(row_of(model, cell))
        print(rows[-1], flush=True)
    print(markdown(rows))


if __name__ == "__main__":
    main()
