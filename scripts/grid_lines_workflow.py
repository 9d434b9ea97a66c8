#!/usr/bin/env python
"""Run the grid-lines workflow; ``--help`` lists keys, groups and defaults.

python scripts/grid_lines_workflow.py probe=zone_plate set_phi=true output_dir=outputs/curved
python scripts/grid_lines_workflow.py -m gridsize=1,2 seed=0,1
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ptycho.config import ConfigError, RunConfig
from ptycho.probe import make_probe
from ptycho.report import RunFolder, check_free
from workflows.config import explained, run_config

log = logging.getLogger("grid_lines")
EXIT_FAILED, EXIT_USAGE = 1, 2
MAX_NAME = 120


@dataclass(frozen=True)
class Job:
    """A validated run and the folder it will fill."""

    config: RunConfig
    path: Path


def planned() -> list[Job]:
    """The run, or the runs of a sweep, that the command line asks for; none has started, all are valid."""
    jobs: list[Job] = []
    mistakes: list[Exception] = []

    @hydra.main(version_base="1.3", config_path="../conf", config_name="grid_lines")
    def collect(composed: DictConfig) -> None:
        try:
            jobs.append(validated(composed))
        except (ConfigError, OmegaConfBaseException) as error:  # raised here, Hydra would add a line
            mistakes.append(error)

    with tempfile.TemporaryDirectory() as scratch:  # Hydra insists on a folder for a sweep
        OmegaConf.register_new_resolver("scratch", lambda _: scratch, replace=True)
        collect()
    if mistakes:
        raise mistakes[0]
    return jobs


def validated(composed: DictConfig) -> Job:
    """Check everything that needs no TensorFlow: configuration, probe and output folder."""
    config = run_config(composed, list(HydraConfig.get().overrides.task), os.environ)
    path = run_path(config)
    check_free(path, config.overwrite)
    for role in ("train", "test"):
        make_probe(config.probe_of(role), config.N)
    return Job(config, path)


def run_path(config: RunConfig) -> Path:
    """``output_dir``, or for job k of a sweep ``output_dir/<k>_<overrides>``."""
    if not config.output_dir:
        raise ConfigError("output_dir=null: must be the path of a folder")
    path, hydra_config = Path(config.output_dir), HydraConfig.get()
    if hydra_config.mode != RunMode.MULTIRUN:
        return path
    name = f"{hydra_config.job.num}_{hydra_config.job.override_dirname}".replace("/", "-")
    return path / name[:MAX_NAME]


def execute(job: Job) -> None:
    """Run a job; TensorFlow is imported only now."""
    folder = RunFolder(job.path, job.config.overwrite)

    from workflows.grid_lines import run

    run(job.config, folder)


def main() -> int:
    """Exit code: 0 done, 1 a run failed, 2 the configuration or an input file cannot be used."""
    wants_traceback = os.environ.get("HYDRA_FULL_ERROR", "0") not in ("", "0")
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come to us, not to Hydra's printer
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("hydra._internal.core_plugins").setLevel(logging.WARNING)
    try:
        jobs = planned()
    except (HydraException, OmegaConfBaseException, ValueError) as error:  # a ConfigError is a ValueError
        return _fail(error, EXIT_USAGE, wants_traceback)
    except Exception as error:
        return _fail(error, EXIT_FAILED, wants_traceback)
    codes = []
    for number, job in enumerate(jobs):
        if len(jobs) > 1:
            log.info("job %d of %d: %s", number + 1, len(jobs), job.path.name)
        codes.append(_attempt(job, wants_traceback))
    return max(codes, default=0)


def _attempt(job: Job, wants_traceback: bool) -> int:
    """Run a job; if it fails, say so and let the rest of a sweep go on."""
    try:
        execute(job)
    except ConfigError as error:
        return _fail(error, EXIT_USAGE, wants_traceback)
    except Exception as error:
        return _fail(error, EXIT_FAILED, wants_traceback)
    return 0


def _fail(error: Exception, code: int, wants_traceback: bool) -> int:
    if wants_traceback:
        log.error("failed", exc_info=error)
    hint = "" if code == EXIT_USAGE or wants_traceback else " (traceback: HYDRA_FULL_ERROR=1)"
    kind = "" if code == EXIT_USAGE else f"{type(error).__name__}: "
    sys.stderr.write(f"error: {kind}{explained(error)}{hint}\n")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
