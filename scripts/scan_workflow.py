#!/usr/bin/env python
"""Reconstruct measured scans by maximum likelihood, validated on held-out patterns, and by networks.

    python scripts/inspect_scan.py scan.cxi                                  first: how is the file read?
    python scripts/scan_workflow.py scan.cxi output_dir=outputs/mine         the solver
    python scripts/scan_workflow.py data.file=scan.cxi run=pretrained        and the network that is installed
    python scripts/scan_workflow.py data.file=scan.cxi run=outputs/other nepochs=2   a trained one, fine-tuned
    python scripts/scan_workflow.py data.file=scan.cxi nepochs=10            one trained on the scan alone
    python scripts/scan_workflow.py 'data.file=scans/*.h5' output_dir=outputs/batch        a run for each
    python scripts/scan_workflow.py data.file=[a.cxi,b.cxi] output_dir=outputs/batch
    python scripts/scan_workflow.py resume=outputs/mine                      resume an interrupted run
    mpirun -n 4 python scripts/scan_workflow.py data.file=large.cxi output_dir=outputs/large

Results: <output_dir>/report.html, metrics.json, visuals/, recons/, product.h5. Of a pattern or a list:
<output_dir>/<scan>/…, and of these and of a sweep (-m) one table: <output_dir>/scans.md, scans.csv.
All keys: docs/configuration.md, --cfg job. Keys that nearly everyone sets, with their defaults:

    data.file              []         HDF5, NPZ or TIFF file of the scan, or a folder of TIFF files
    data.N                 null       side of a pattern around the zero frequency; null: the detector
    data.domain            null       counts, intensity or amplitude; null: detected
    data.energy_eV         null       photon energy; or data.wavelength_m, data.electrons_keV
    data.distance_m        null       distance from the sample to the detector
    data.detector_pixel_m  null       pixel size of the detector
    run                    null       pretrained, or the folder of a run, whose network is used
    probe                  from_file  or aberrated, ideal_disk, npz, run, zone_plate: initial probe
    solver.positions       null       refine the positions; null: if held-out patterns are explained better

Exit code: 0 done, 1 the run failed, 2 the configuration or an input file cannot be used, 130, 143 stopped.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from ptycho.command_line.jobs import leave
from ptycho.command_line.training_jobs import Workflow, later, main
from ptycho.command_line.words import place_words
from ptycho.config import ScanRunConfig
from ptycho.run.mpi import run_on_all
from ptycho.run.scan_plan import plan
from workflows.reconstruct.scan_pattern import split

if TYPE_CHECKING:
    from ptycho.reconstruction.blocks import Executor


def start(executor: Executor | None) -> int:
    """Run what the command line asks for; ``executor`` fits the blocks of a large scan."""
    run = partial(later("workflows.reconstruct.scan:run"), executor=executor)
    workflow = Workflow("scan", ScanRunConfig, plan, run, __doc__, split)
    return main(workflow, place_words("data.file", sys.argv[1:]))


if __name__ == "__main__":
    leave(partial(run_on_all, start))
