#!/usr/bin/env python3
"""Does the model that is selected hang on which patterns are held out?

    python benchmarks/model_selection.py scan.npz [--seeds 0 1 2 3]

The scan is aligned once, as the command does. Then its model is selected with several choices of the patterns
that are held out of the core. A line for each decision goes to stderr, the table to stdout. The deviances of
different seeds are those of different patterns.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import parser
from benchmarks.tables import markdown
from ptycho.align.aligned import RunContext
from ptycho.align.cached import align
from ptycho.config import ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.methods.prepared import prepare
from ptycho.methods.solver import options_for
from ptycho.reconstruction.model_selection import select_model
from ptycho.run.scan_plan import interpret_scan
from ptycho.scan.finding import Finding


def show(decision: Finding) -> None:
    print(f"  {decision}", file=sys.stderr, flush=True)


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("file", help="a measured scan")
    options_of.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3], help="choices (0 1 2 3)")
    arguments = options_of.parse_args()
    config = ScanRunConfig(data=DataConfig(file=(arguments.file,)))
    scan = interpret_scan(config.data)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        aligned = align(scan, config, RunContext(Path(folder)))
        prepared = prepare(Path(arguments.file).stem, aligned)
        data = prepared.fitted(prepared.whole.beam)
        options = options_for(prepared, config.solver, config.probe)
        for seed in arguments.seeds:
            print(f"seed {seed}", file=sys.stderr)
            began = time.perf_counter()
            selection = select_model(data, options, seed, config.xla.compile, on_decision=show)
            row = {
                "seed": str(seed),
                "deviance of the held-out patterns": f"{np.exp(selection.deviance):.3f}",
            }
            row |= {finding.what: finding.value for finding in selection.decisions}
            rows.append(row | {"seconds": f"{time.perf_counter() - began:.0f}"})
    print(markdown(rows))


if __name__ == "__main__":
    main()
