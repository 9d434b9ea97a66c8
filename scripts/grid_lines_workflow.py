#!/usr/bin/env python
"""Run the grid-lines workflow; ``--help`` lists keys, groups and defaults.

python scripts/grid_lines_workflow.py probe=zone_plate set_phi=true output_dir=outputs/curved
python scripts/grid_lines_workflow.py -m gridsize=1,2 seed=0,1
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from ptycho.config import ConfigError, RunConfig
from ptycho.probe import make_probe
from ptycho.report import RunFolder
from workflows.config import one_line, run_config

log = logging.getLogger("grid_lines")
EXIT_FAILED, EXIT_USAGE = 1, 2
MAX_NAME = 120


@hydra.main(version_base="1.3", config_path="../conf", config_name="grid_lines")
def task(composed: DictConfig) -> None:
    """One run: validate everything, then import TensorFlow and work."""
    config = run_config(composed, list(HydraConfig.get().overrides.task), os.environ)
    make_probe(config.probe, config.N)
    folder = RunFolder(run_path(config), config.overwrite)

    from workflows.grid_lines import run

    run(config, folder)


def run_path(config: RunConfig) -> Path:
    """``output_dir``, or for job k of a sweep ``output_dir/<k>_<overrides>``."""
    if not config.output_dir:
        raise ConfigError("output_dir=null: must be the path of a folder")
    path, hydra_config = Path(config.output_dir), HydraConfig.get()
    if hydra_config.mode != RunMode.MULTIRUN:
        return path
    name = f"{hydra_config.job.num}_{hydra_config.job.override_dirname}".replace("/", "-")
    return path / name[:MAX_NAME]


def main() -> int:
    """Exit code: 0 done, 1 the run failed, 2 the configuration or an input file cannot be used."""
    wants_traceback = os.environ.get("HYDRA_FULL_ERROR", "0") not in ("", "0")
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come to us, not to Hydra's printer
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        task()
    except (ConfigError, HydraException, OmegaConfBaseException) as error:
        return _fail(error, EXIT_USAGE, wants_traceback)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except Exception as error:
        return _fail(error, EXIT_FAILED, wants_traceback)
    return 0


def _fail(error: Exception, code: int, wants_traceback: bool) -> int:
    if wants_traceback:
        log.exception("failed")
    hint = "" if code == EXIT_USAGE or wants_traceback else " (traceback: HYDRA_FULL_ERROR=1)"
    kind = "" if code == EXIT_USAGE else f"{type(error).__name__}: "
    sys.stderr.write(f"error: {kind}{one_line(str(error))}{hint}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
