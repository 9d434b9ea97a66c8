#!/usr/bin/env python
"""Reconstruct measured scans; ``--help`` lists keys, groups and defaults.

python scripts/scan_workflow.py scan.cxi output_dir=outputs/mine
python scripts/scan_workflow.py data.file=[a.cxi,b.cxi] output_dir=outputs/batch
python scripts/scan_workflow.py data.file=scan.cxi run=outputs/other output_dir=outputs/quick
python scripts/scan_workflow.py data.file=scan.cxi run=outputs/other nepochs=2 output_dir=outputs/tuned
python scripts/scan_workflow.py 'data.file=scans/*.h5' output_dir=outputs/batch
python scripts/scan_workflow.py resume=outputs/mine
mpirun -n 4 python scripts/scan_workflow.py data.file=large.cxi output_dir=outputs/large
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from ptycho.config import JobConfig
from ptycho.run.folder import RunFolder
from ptycho.run.mpi import run_on_all
from ptycho.training.interrupt import StopRequest
from workflows.command_line.jobs import leave
from workflows.command_line.training_jobs import Workflow, main
from workflows.command_line.words import place_words
from workflows.reconstruct.scan_pattern import split
from workflows.reconstruct.scan_plan import interpret_scan, plan

if TYPE_CHECKING:
    from ptycho.reconstruction.blocks import Crew


def run(config: JobConfig, folder: RunFolder, stop: StopRequest, crew: Crew | None = None) -> None:
    """Run it; TensorFlow is imported only now."""
    own, scan = interpret_scan(config)
    from workflows.reconstruct import scan as workflow

    workflow.run(own, scan, folder, stop, crew)


if __name__ == "__main__":
    words = place_words("data.file", sys.argv[1:])
    leave(
        lambda: run_on_all(lambda crew: main(Workflow("scan", plan, partial(run, crew=crew), split), words))
    )
