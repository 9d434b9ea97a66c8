#!/usr/bin/env python
"""Run the grid-lines workflow; ``--help`` lists keys, groups and defaults.

python scripts/grid_lines_workflow.py probe=zone_plate set_phi=true output_dir=outputs/curved
python scripts/grid_lines_workflow.py -m gridsize=1,2 seed=0,1
python scripts/grid_lines_workflow.py imperfections=beamline models=[pinn,lsqml] iterative.modes=2
python scripts/grid_lines_workflow.py resume=outputs/curved
python scripts/grid_lines_workflow.py --N 64 --gridsize 2 --output-dir out   flags of the published program,
too
"""

from __future__ import annotations

import sys

from ptycho.config import ITERATIVE, ConfigError, JobConfig, RunConfig
from ptycho.config.memory import check_memory, run_memory
from ptycho.iterative.lsqml import available
from ptycho.run.folder import RunFolder
from ptycho.run.own_code import check_own_code
from ptycho.scan.probe import make_probe
from ptycho.training.interrupt import StopRequest
from workflows.command_line.jobs import fail, leave
from workflows.command_line.published_flags import translate
from workflows.command_line.training_jobs import Workflow, main


def check(config: JobConfig) -> JobConfig:
    """See that the machine has the memory, that the probes can be made, and pty-chi is there if need be."""
    if not isinstance(config, RunConfig):
        raise ConfigError("resume: is a run of the scan workflow; resume it with its own script")
    check_memory(run_memory(config))
    check_own_code(config)
    for role in ("train", "test"):
        make_probe(config.probe_of(role), config.N)
    if ITERATIVE in config.models and (missing := available(config.iterative.python)):
        raise ConfigError(missing)
    return config


def run(config: JobConfig, folder: RunFolder, stop: StopRequest) -> None:
    """Run it; TensorFlow is imported only now."""
    from workflows.reconstruct import grid_lines

    assert isinstance(config, RunConfig)
    grid_lines.run(config, folder, stop)


def start() -> int:
    """Run what the command line asks for, in our words or in flags; the exit code."""
    try:
        words = translate(sys.argv[1:])
    except ConfigError as error:
        return fail(error, (ConfigError,))
    if words != sys.argv[1:]:
        sys.stderr.write(f"read as {' '.join(words)}\n")
    return main(Workflow("grid_lines", check, run), words)


if __name__ == "__main__":
    leave(start)
