#!/usr/bin/env python
"""Make a small scan to try the program with: a file with patterns, positions, probe and the true object.

    python scripts/sample.py                                   # sample.cxi
    python scripts/sample.py output=dim.h5 nphotons=1e4        # every key of simulate_scan.py

It takes a few seconds. Then: scripts/scan_workflow.py sample.cxi. All keys: conf/simulate.yaml.

Exit code: 0 written, 1 it could not be written, 2 the arguments cannot be used.
"""

from ptycho.command_line.jobs import run_program
from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

SMALL = ("output=sample.cxi", "n_positions=200", "nphotons=1e6", "N=64")

if __name__ == "__main__":
    run_program("simulate", SimulateConfig, simulate_scan, __doc__, usual=SMALL)
