#!/usr/bin/env python
"""Reconstruct new data with the networks of a run; ``--help`` lists the keys.

python scripts/infer.py run=outputs/mine data=new.npz output_dir=outputs/new
python scripts/infer.py -m run=outputs/mine data=a.npz,b.npz
"""

from __future__ import annotations

import os
import sys
from functools import partial

from omegaconf import DictConfig

from ptycho.config import ConfigError
from ptycho.config.backend import require_tensorflow
from ptycho.files.atomic import WriteError
from ptycho.quiet_start import start_tensorflow
from ptycho.training.interrupt import StopRequest
from workflows.command_line.config import explained
from workflows.command_line.jobs import attempt, in_turn, job_path, leave, plan_and_perform
from workflows.command_line.one_shot import config_of
from workflows.command_line.words import quote_paths
from workflows.reconstruct.infer_config import InferConfig, InferJob, plan

in_words = partial(explained, schema=InferConfig)


def main() -> int:
    """Exit code: 0 done, 1 an inference failed, 2 the configuration or an input file cannot be used.

    128 and the number of the signal that stopped it: 130, 143.
    """
    arguments, sweeps = sys.argv[1:], {"-m", "--multirun"} & {*sys.argv[1:]}
    arguments = arguments if sweeps else quote_paths(arguments, "run", "data", "output_dir")
    with StopRequest() as stop:
        return plan_and_perform("infer", arguments, plan_job, partial(perform, stop=stop), in_words)


def plan_job(composed: DictConfig) -> list[InferJob]:
    """Check everything that needs no TensorFlow: configuration, networks, data and output folder."""
    require_tensorflow(os.environ)
    alone = dict(composed.get("stitch") or {})
    if alone and "method" not in alone:  # of an option that nothing names
        name, value = next(iter(alone.items()))
        raise ConfigError(f"stitch.{name}={value}: needs stitch=… beside it")
    config = config_of(InferConfig, composed)
    return [plan(config, job_path(str(config.output_dir)))]


def perform(jobs: list[InferJob], stop: StopRequest) -> int:
    """Do one after the other; the largest exit code."""
    todo = (partial(execute, job, stop) for job in in_turn(jobs))
    return max((attempt(each, in_words, explain_mending) for each in todo), default=0)


def execute(job: InferJob, stop: StopRequest) -> None:
    """Do an inference; TensorFlow is imported only now."""
    start_tensorflow()
    from workflows.reconstruct.infer import run

    run(job, stop)


def explain_mending(error: Exception) -> str:
    """What to do about an error; nothing is known of most."""
    return "; make room and start again" if isinstance(error, WriteError) else ""


if __name__ == "__main__":
    leave(main)
