#!/usr/bin/env python
"""How fast does the solver converge? Error and deviance against seconds and Fourier transforms.

    python scripts/simulate_scan.py output=beam.cxi imperfections=beamline
    python benchmarks/solver_course.py beam.cxi --background --modes 2

The object alone is fitted from a constant, and then all refined quantities. The rows have, after every step,
the seconds and Fourier transforms per pattern so far, the deviance per pixel, and the errors of probe and
positions against the truth in the file. Compilation and scoring are not counted.

Writes solver_course.csv and .md into outputs/benchmarks.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import parser
from benchmarks.tables import write
from ptycho.config import ScanRunConfig
from ptycho.config.mapping import from_mapping
from ptycho.evaluation.alignment import position_error_px, probe_error
from ptycho.preparation.dataset import make_dataset
from ptycho.preparation.prepare import interpret
from ptycho.readers.table import open_raw
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.scan_likelihood import ScanLikelihood, noise_unit
from ptycho.reconstruction.solver import FIT, Objective, fit
from ptycho.scan.dataset import Dataset
from ptycho.simulation.truth import Truth, read_truth

Row = dict[str, Any]


class Course:
    """The rows of a run; the clock stops while they are written."""

    def __init__(self, likelihood: ScanLikelihood, truth: Truth) -> None:
        self.likelihood, self.truth = likelihood, truth
        self.rows: list[Row] = []
        self.spent, self.patterns, self.since = 0.0, 0, time.perf_counter()

    def count(self, patterns: int) -> None:
        self.patterns += patterns

    def watch(self, estimate: Estimate, value: float) -> None:
        self.spent += time.perf_counter() - self.since
        count = len(estimate.positions)
        one = np.zeros(count, int)
        row = {
            "step": len(self.rows),
            "seconds": round(self.spent, 2),
            # forward and backward, and as many for the gradient of the probe
            "transforms": 4 * len(estimate.modes) * self.patterns // count,
            "deviance": round(2 * value / float(self.likelihood.pixels.sum()), 5),
            "probe_error": round(probe_error(estimate.modes[0], self.truth.probe[0]), 4),
            "position_error_px": round(position_error_px(estimate.positions, self.truth.positions, one), 4),
        }
        self.rows.append(row)
        self.since = time.perf_counter()


def course(data: Dataset, truth: Truth, options: argparse.Namespace) -> list[Row]:
    """Run the solver, and return a row for every step."""
    unit, noise = (1.0, "poisson") if data.counts else (noise_unit(data), "gaussian")
    likelihood = ScanLikelihood(data, data.normalisation, unit, noise)
    rough = Estimate.of(data, np.ones((data.object_size,) * 2), options.modes)
    if options.background:
        rough = replace(rough, background=np.full((data.N, data.N), 0.1 * likelihood.photon**2, np.float32))
    refine = Refine(True, True, True, options.background)
    for one in (Refine(False), refine):
        fit(Objective(likelihood), rough, one, 1)  # compiles
    course = Course(likelihood, truth)
    counted = Objective(replace(likelihood, advance=course.count))
    first = fit(counted, rough, Refine(False), FIT.first, watch=course.watch)
    fit(counted, first.estimate, refine, options.steps, watch=course.watch)
    return course.rows


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("scan", type=Path, help="a file of simulate_scan.py with imperfections")
    options_of.add_argument("--steps", type=int, default=200, help="steps with all refined quantities (200)")
    options_of.add_argument("--modes", type=int, default=1, help="incoherent modes of the probe (1)")
    options_of.add_argument("--background", action="store_true", help="also refine a background")
    options = options_of.parse_args()
    config = from_mapping({"data": {"file": str(options.scan)}})
    assert isinstance(config, ScanRunConfig)
    truth, scan = read_truth(options.scan), interpret(open_raw(config.data), config.data)
    with tempfile.TemporaryDirectory() as scratch:
        _, data, _ = make_dataset(scan, config, Path(scratch))
        if len(data.positions) != len(truth.positions):
            raise SystemExit(f"{options.scan}: some patterns are not usable; simulate a scan without that")
        rows = course(data, truth, options)
    shown = [row for row in rows if row["step"] % 10 == 0 or row is rows[-1]]
    write(Path("outputs/benchmarks/solver_course"), rows, shown=shown)


if __name__ == "__main__":
    main()
