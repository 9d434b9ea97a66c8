#!/usr/bin/env python
"""Reconstruct new data with the networks of a run; ``--help`` lists the keys.

python scripts/infer.py run=outputs/mine data=new.npz output_dir=outputs/new
python scripts/infer.py -m run=outputs/mine data=a.npz,b.npz
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ptycho.config import ConfigError
from workflows.config import NO_KEY, explained
from workflows.infer_config import InferJob, infer_config, plan, unknown_key

log = logging.getLogger("infer")
EXIT_FAILED, EXIT_USAGE = 1, 2
PATHS = ("run", "data", "output_dir")
MAX_NAME = 120


def planned() -> list[InferJob]:
    """The inference, or those of a sweep, that the command line asks for; all are valid, none has started."""
    jobs: list[InferJob] = []
    mistakes: list[Exception] = []

    @hydra.main(version_base="1.3", config_path="../conf", config_name="infer")
    def collect(composed: DictConfig) -> None:
        try:
            config = infer_config(composed)
            jobs.append(plan(config, output_path(str(config.output_dir))))
        except (ConfigError, OmegaConfBaseException) as error:  # raised here, Hydra would add a line
            mistakes.append(error)

    if not {"-m", "--multirun"} & set(sys.argv):
        sys.argv[1:] = [_as_text(argument) for argument in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as scratch:  # Hydra insists on a folder for a sweep
        OmegaConf.register_new_resolver("scratch", lambda _: scratch, replace=True)
        collect()
    if mistakes:
        raise mistakes[0]
    return jobs


def _as_text(argument: str) -> str:
    """Quote a path that has ``=`` or ``,`` in it, as the folders of a sweep do."""
    key, _, value = argument.partition("=")
    special = key in PATHS and any(sign in value for sign in "=,") and value[0] not in "'\"["
    return f"{key}='{value}'" if special and "'" not in value else argument


def output_path(output_dir: str) -> Path:
    """``output_dir``, or for job k of a sweep ``output_dir/<k>_<overrides>``."""
    hydra_config = HydraConfig.get()
    if hydra_config.mode != RunMode.MULTIRUN:
        return Path(output_dir)
    name = f"{hydra_config.job.num}_{hydra_config.job.override_dirname}".replace("/", "-")
    return Path(output_dir) / name[:MAX_NAME]


def execute(job: InferJob) -> None:
    """Do an inference; TensorFlow is imported only now."""
    from workflows.infer import run

    run(job)


def main() -> int:
    """Exit code: 0 done, 1 an inference failed, 2 the configuration or an input file cannot be used."""
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


def _attempt(job: InferJob, wants_traceback: bool) -> int:
    """Do a job; if it fails, say so and let the rest of a sweep go on."""
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
    found = NO_KEY.search(str(error))
    message = unknown_key(*found.groups()) if found else explained(error)
    sys.stderr.write(f"error: {kind}{message}{hint}\n")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
