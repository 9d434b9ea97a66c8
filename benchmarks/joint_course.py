#!/usr/bin/env python
"""How fast are the probe and the positions found? The joint solver on a simulated scan, pass by pass.

    python scripts/simulate_scan.py output=beam.cxi imperfections=beamline
    python benchmarks/joint_course.py beam.cxi --background
    python benchmarks/joint_course.py beam.cxi --background --lsqml PYTHON   # of an environment with pty-chi

After every pass: seconds so far, R-factor of the patterns that are kept out, error of the probe and of the
positions against the truth in the file, amplitude and phase SSIM. The compilation is not counted, nor is the
scoring. With --lsqml the end of pty-chi's LSQ-ML on the same patterns stands beside it: its own seconds.

Writes joint_course.csv, .md and .png.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from matplotlib.figure import Figure
from ptycho.reconstruction.joint import JointSolver
from ptycho.reconstruction.joint_state import Freedom, State, continued, from_scratch

from benchmarks.tables import markdown, write_csv
from benchmarks.timing import machine
from ptycho.config import ScanRunConfig
from ptycho.config.mapping import from_mapping
from ptycho.evaluation.beam import position_error_px, probe_error
from ptycho.iterative import lsqml
from ptycho.preparation.dataset import kept_out, measured_dataset
from ptycho.preparation.prepare import Understood, understand
from ptycho.reconstruction.stitching import Stitched, covered
from ptycho.scan.dataset import Dataset
from ptycho.simulation.truth import Truth, read_truth
from workflows.inspect_scan import opened
from workflows.scan_assessment import Recon, compared

Row = dict[str, Any]
SHOWN = {
    "r_free": "R of the patterns kept out",
    "probe_error": "probe error",
    "position_error_px": "position error / px",
    "amplitude_ssim": "amplitude SSIM",
}


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scan", type=Path, help="a file of simulate_scan.py with imperfections")
    parser.add_argument("--passes", type=int, default=15, help="from a constant object (15)")
    parser.add_argument("--more", type=int, default=25, help="that go on from there (25)")
    parser.add_argument("--modes", type=int, default=2, help="incoherent modes of the probe (2)")
    parser.add_argument("--background", action="store_true", help="a background is found, too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lsqml", metavar="PYTHON", help="a Python that has pty-chi")
    parser.add_argument("--epochs", type=int, default=60, help="of LSQ-ML (60)")
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks/joint_course"))
    return parser.parse_args(words)


class Scores:
    """The truth of a scan, and how far a state is from it."""

    def __init__(self, scan: Understood, truth: Truth, kept: np.ndarray) -> None:
        self.scan, self.truth, self.kept = scan, truth, kept

    def of(self, image: np.ndarray, probe: np.ndarray, data: Dataset) -> Row:
        """Of an object ``(M, M)``, the first mode of the probe, and a dataset with its positions."""
        mask = covered(data)
        recon = Recon(Stitched(np.where(mask, image, 0).astype(np.complex64), mask), data, None, 0.0)
        found = compared(recon, self.scan)
        one = np.zeros(len(self.kept), int)
        return {
            "probe_error": round(probe_error(probe, self.truth.probe[0]), 4),
            "position_error_px": round(
                position_error_px(data.positions, self.truth.positions[self.kept], one), 4
            ),
            "amplitude_ssim": round(found["ssim"][0], 4) if found else None,
            "phase_ssim": round(found["ssim"][1], 4) if found else None,
        }


def course(options: argparse.Namespace, data: Dataset, free: Dataset, scores: Scores) -> list[Row]:
    """A row for the start and one for every pass."""
    freedom = Freedom(True, True, True, options.background)
    plan = from_scratch(options.passes, freedom) + continued(options.more, freedom)
    start = State.of(data, np.ones((data.object_size,) * 2, np.complex64), options.modes)
    solver = JointSolver(data, free, options.seed, "amplitude")
    solver.run(start, [plan[0], plan[1], plan[-1]], 99)  # compiles what the passes need
    rows, clock = [], {"spent": 0.0, "since": time.perf_counter()}

    def watch(state: State, r_free: float) -> None:
        clock["spent"] += time.perf_counter() - clock["since"]
        seen = replace(data, positions=state.positions.astype(np.float32))
        found = scores.of(state.object, state.modes[0], seen)
        told = {"pass": len(rows), "seconds": round(clock["spent"], 2), "r_free": round(r_free, 4)}
        rows.append(told | found)
        clock["since"] = time.perf_counter()

    watch(start, float("nan"))
    clock |= {"spent": 0.0, "since": time.perf_counter()}
    solver.run(start, plan, 99, watch=watch)
    return rows


def iterated(options: argparse.Namespace, data: Dataset, scores: Scores) -> Row:
    """The end of LSQ-ML on the same patterns."""
    settings = {"epochs": options.epochs, "modes": options.modes, "python": options.lsqml}
    config = from_mapping({"data": {"file": "-"}, "iterative": settings})
    found = lsqml.reconstruct(data, config.iterative, options.seed)
    seen = replace(data, positions=found.positions.astype(np.float32))
    told = {"pass": f"LSQ-ML, {len(found.r_factors)} epochs", "seconds": round(found.seconds, 2)}
    return told | {"r_free": None} | scores.of(found.object, found.probe[0], seen)


def plot(rows: Sequence[Row], other: Row | None) -> Figure:
    """Each of ``SHOWN`` against the seconds; the end of LSQ-ML as a cross."""
    figure = Figure(figsize=(13, 3.4), layout="constrained")
    for ax, (key, label) in zip(figure.subplots(1, len(SHOWN)), SHOWN.items(), strict=True):
        seen = [row for row in rows if row[key] is not None and np.isfinite(row[key])]
        ax.plot(
            [row["seconds"] for row in seen],
            [row[key] for row in seen],
            "o-",
            markersize=3,
            label="joint solver",
        )
        if other is not None and other[key] is not None:
            ax.plot(other["seconds"], other[key], "kx", markersize=9, label="LSQ-ML, its end")
        ax.set(xlabel="seconds", title=label)
        if key != "amplitude_ssim":
            ax.set_yscale("log")
        ax.grid(alpha=0.3, which="both")
    figure.axes[-1].legend(loc="lower right")
    return figure


def main(words: Sequence[str] | None = None) -> None:
    options = arguments(words)
    config = from_mapping({"data": {"file": str(options.scan)}})
    assert isinstance(config, ScanRunConfig)
    truth, scan = read_truth(options.scan), understand(opened(config.data), config.data)
    options.out.mkdir(parents=True, exist_ok=True)
    whole, _ = measured_dataset(scan, config, options.out)
    kept, out = kept_out(whole, config.free_fraction, options.seed)
    if len(whole.positions) != len(truth.positions):
        raise SystemExit(f"{options.scan}: some patterns are not usable; simulate a scan without that")
    data, free, scores = whole.subset(kept, 1), whole.subset(out, 1), Scores(scan, truth, kept)
    rows = course(options, data, free, scores)
    other = iterated(options, data, scores) if options.lsqml else None
    table = [*rows, other] if other else rows
    write_csv(options.out / "joint_course.csv", table)
    text = "\n".join([*markdown(table), "", f"Machine: {json.dumps(machine())}"])
    (options.out / "joint_course.md").write_text(text + "\n")
    plot(rows, other).savefig(options.out / "joint_course.png", dpi=110)
    print(text)


if __name__ == "__main__":
    main()
