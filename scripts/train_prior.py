#!/usr/bin/env python
"""Make the weights of solver.regulariser=learned; ``--help`` lists keys and defaults.

pip install -e ".[pretrain]"
python scripts/train_prior.py output_dir=outputs/prior
python scripts/train_prior.py scans=100 steps=400 output_dir=outputs/trial
python scripts/train_prior.py resume=outputs/prior
"""

from __future__ import annotations

from ptycho.config import ConfigError, JobConfig, PriorConfig
from ptycho.run.folder import RunFolder
from ptycho.training.interrupt import StopRequest
from workflows.command_line.jobs import leave
from workflows.command_line.training_jobs import Workflow, main


def check_config(config: JobConfig) -> PriorConfig:
    """The configuration of a training; its distributions are those of the tables."""
    if not isinstance(config, PriorConfig):
        raise ConfigError("resume: is a run of another workflow; resume it with its own script")
    from ptycho.simulation.prior_scans import PriorScans  # SciPy takes half a second

    PriorScans(config)
    return config


def run(config: JobConfig, folder: RunFolder, stop: StopRequest) -> None:
    """Run it; TensorFlow is imported only now."""
    from workflows import train_prior as workflow

    workflow.run(check_config(config), folder, stop)


if __name__ == "__main__":
    leave(lambda: main(Workflow("prior", check_config, run)))
