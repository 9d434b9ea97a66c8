#!/usr/bin/env python3
"""The benchmark of PtychoEP: how accurate is an object from few measured values?

    python benchmarks/expectation_propagation.py ep_lily_3_s0_pub.npz ep_cameraman_3_s0_pub.npz
    python benchmarks/expectation_propagation.py --prior edge_preserving ep_lily_4_s0_pub.npz

The files are those of sacbow/PtychoEP in the published PtychoPINN layout (see its Table I): amplitudes with
normal noise at 30 dB, a known probe, objects of 512². The score is that of PtychoEP: PMSE in dB, the energy
of the central 256² over its squared error, after one global phase. The scale that probe and object share is
removed first. The solver has its default settings with ``probe.learn=false``.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import ptycho
from benchmarks import parser
from benchmarks.photographs import cut

MIDDLE = slice(128, 384)


def score(result: ptycho.Result, file: Path) -> float:
    """Return the PMSE in dB (larger is better) of a result against the truth in ``file``."""
    with np.load(file, allow_pickle=False) as stored:
        truth, rows, columns = stored["objectGuess"], stored["ycoords"], stored["xcoords"]
        given = stored["probeGuess"]
    N, side = given.shape[-1], len(truth)
    corner = np.round([np.min(rows) - N // 2, np.min(columns) - N // 2])
    frame = cut(result.object, np.round(result.beam.positions.min(axis=0)) - corner, side)
    probe = result.beam.probe[0]
    scale = np.vdot(given, probe) / np.vdot(given, given)
    frame, truth = (scale * frame)[MIDDLE, MIDDLE], truth[MIDDLE, MIDDLE]
    along = np.vdot(frame, truth)
    error = np.abs(truth - frame * along / abs(along)) ** 2
    return float(10 * np.log10(np.sum(np.abs(truth) ** 2) / error.sum()))


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("files", nargs="+", type=Path)
    options_of.add_argument("--prior", default="learned")
    options = options_of.parse_args()
    for file in options.files:
        scan = ptycho.open_scan(file, domain="amplitude", hot_pixels=False)
        began = time.perf_counter()
        found = ptycho.reconstruct(
            scan, regulariser=options.prior, learn_probe=False, progress=False, error_map=False
        )
        seconds = time.perf_counter() - began
        decisions = [
            str(one) for one in found.decisions if "regulariser" in str(one) or "initial object" in str(one)
        ]
        print(
            f"{file.stem}: {score(found, file):.2f} dB, {seconds:.0f} s; {'; '.join(decisions)}", flush=True
        )


if __name__ == "__main__":
    main()
