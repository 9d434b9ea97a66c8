#!/usr/bin/env python
"""Train a network on simulated scans of random probes, objects and measurements.

    python scripts/pretrain.py output_dir=outputs/pretrained
    python scripts/pretrain.py network=denoiser output_dir=outputs/denoiser
    python scripts/pretrain.py steps=500 horizon=null output_dir=outputs/trial
    python scripts/pretrain.py resume=outputs/pretrained

network=group makes the weights of run=pretrained, in hours on two cores; network=denoiser those of
solver.regulariser=learned, in about two.
scan_workflow.py uses what was made: run=outputs/pretrained, or
solver.denoiser_weights=outputs/denoiser/prior/weights.npz.

Results: <output_dir>/pinn or prior (weights, history), card.md, metrics.json. All keys:
docs/configuration.md, --cfg job.

Exit code: 0 done, 1 the run failed, 2 the configuration cannot be used, 130, 143 stopped.
"""

from __future__ import annotations

from ptycho.command_line.console import require
from ptycho.command_line.jobs import leave
from ptycho.command_line.training_jobs import Workflow, main
from ptycho.config import ConfigError, JobConfig, KindsConfig
from ptycho.run.folder import RunFolder
from ptycho.training.interrupt import StopRequest

require("ptycho_pretrain")


def check_config(config: JobConfig) -> KindsConfig:
    """The configuration of a pretraining; its distributions are those of the tables."""
    if not isinstance(config, KindsConfig):
        raise ConfigError("resume: is a run of another workflow; resume it with its own script")
    from ptycho_pretrain.distributions import Distributions  # SciPy takes half a second

    Distributions(config)
    return config


def run(config: JobConfig, folder: RunFolder, stop: StopRequest) -> None:
    """Run it; TensorFlow is imported only now."""
    from workflows import pretrain as workflow

    workflow.run(check_config(config), folder, stop)


if __name__ == "__main__":
    leave(lambda: main(Workflow("pretrain", check_config, run, __doc__)))
