"""``ptycho pretrain``: the words of the command line to a training; nothing here imports TensorFlow."""

from __future__ import annotations

import sys
from functools import partial
from typing import NoReturn

from ptycho.command_line import training_jobs
from ptycho.command_line.jobs import leave
from ptycho.config import ConfigError, JobConfig
from ptycho_pretrain.config import DenoiserConfig, KindsConfig, PretrainConfig


def main(help_text: str | None) -> NoReturn:
    """End the process as ``ptycho pretrain``."""
    schema = DenoiserConfig if "network=denoiser" in sys.argv else PretrainConfig
    run = training_jobs.later("ptycho_pretrain.run:run")
    leave(partial(training_jobs.main, training_jobs.Workflow("pretrain", schema, check, run, help_text)))


def check(config: JobConfig) -> KindsConfig:
    """Return the configuration of a training, whose distributions are those of the tables."""
    if not isinstance(config, KindsConfig):
        raise ConfigError("resume: is a run of another workflow; resume it with its own script")
    from ptycho_pretrain.distributions import Distributions  # SciPy takes half a second

    Distributions(config)
    return config
