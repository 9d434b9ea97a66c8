#!/usr/bin/env python
"""Simulate scans of lines, train a PINN (no ground truth) and a baseline, reconstruct, score, draw.

    python scripts/grid_lines_workflow.py                                 the default run, a few minutes
    python scripts/grid_lines_workflow.py probe=zone_plate set_phi=true   override what you like
    python scripts/grid_lines_workflow.py imperfections=beamline models=[pinn,lsqml] iterative.modes=2
    python scripts/grid_lines_workflow.py -m gridsize=1,2 seed=0,1        a sweep: all combinations
    python scripts/grid_lines_workflow.py resume=outputs/curved           resume an interrupted run
    python scripts/grid_lines_workflow.py --N 64 --output-dir out         flags of the published program

Results: <output_dir>/metrics.json, visuals/compare_amp_phase.png, recons/, config.yaml, manifest.json.
Groups (group=option): probe, model, stitch, imperfections, experiment; conf/ has their options. All keys:
docs/configuration.md, --cfg job. Keys that nearly everyone sets, with their defaults:

    N              64               side of a diffraction pattern; a power of two
    gridsize       2                side of a group, which has gridsize × gridsize neighbouring patterns
    nphotons       1e9              mean number of photons per pattern
    set_phi        false            give the objects a phase
    models         [pinn,baseline]  pinn, baseline, lsqml, unrolled, unet, fno: to train and compare
    probe          ideal_disk       or npz, zone_plate
    nepochs        4                number of passes over the training groups
    model          unrolled         or unrolled_fast, unrolled_fine, unet, fno, custom: generator of the PINN
    imperfections  none             or probe, positions, modes, detector, beamline: of the test scan

Switches from the environment: USE_XLA_COMPILE, USE_XLA_TRANSLATE (0/1/true/false/yes/no). Tracebacks of
errors: HYDRA_FULL_ERROR=1.

Exit code: 0 done, 1 the run failed, 2 the configuration or an input file cannot be used, 130, 143 stopped by
Ctrl-C or SIGTERM, after a checkpoint, with the command that resumes it.
"""

from __future__ import annotations

import sys

from ptycho.command_line.jobs import fail, leave
from ptycho.command_line.training_jobs import Workflow, later, main
from ptycho.command_line.words import translate
from ptycho.config import ITERATIVE, ConfigError, JobConfig, RunConfig
from ptycho.config.mapping import programs_in
from ptycho.config.memory import check_memory, run_memory
from ptycho.reconstruction.lsqml import check_available
from ptycho.run.scan_plan import check_own_code
from ptycho.scan.probe import make_probe


def check(config: JobConfig) -> JobConfig:
    """See that the machine has the memory, that the probes can be made, and pty-chi is there if need be."""
    if not isinstance(config, RunConfig):
        raise ConfigError("resume: is a run of the scan workflow; resume it with its own script")
    check_memory(run_memory(config))
    check_own_code(programs_in(config))
    for role in ("train", "test"):
        make_probe(config.probe_of(role), config.N)
    if ITERATIVE in config.models:
        check_available(config.iterative.python)
    return config


def start() -> int:
    """Run what the command line asks for, in our words or in flags; the exit code."""
    try:
        words = translate(sys.argv[1:])
    except ConfigError as error:
        return fail(error, (ConfigError,))
    if words != sys.argv[1:]:
        sys.stderr.write(f"read as {' '.join(words)}\n")
    run = later("workflows.reconstruct.grid_lines:run")
    return main(Workflow("grid_lines", RunConfig, check, run, __doc__), words)


if __name__ == "__main__":
    leave(start)
