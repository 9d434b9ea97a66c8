#!/usr/bin/env python
"""Simulate a scan as a beamline would measure it, with its truth.

    python scripts/simulate_scan.py output=scan.cxi n_positions=1000 nphotons=1e6 N=64 seed=1
    python scripts/simulate_scan.py output=scan.h5 probe=ideal_disk sample=blobs path=jittered hot_pixels=3

The file holds patterns, positions, probe, units, and as its object the truth, as far as the object's pixels
can show it. The format is told by the name: .cxi, .h5 (ptychodus), .npz. All keys: conf/simulate.yaml.

Exit code: 0 written, 1 it could not be written, 2 the arguments cannot be used.
"""

from __future__ import annotations

import sys

from workflows.command_line import leave
from workflows.one_shot import perform
from workflows.simulate_scan import SimulateConfig, simulate_scan


def main() -> int:
    """See the module's text for the exit code."""
    return perform("simulate", SimulateConfig, simulate_scan, __doc__, sys.argv[1:])


if __name__ == "__main__":
    leave(main)
