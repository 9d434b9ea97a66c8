#!/usr/bin/env python
"""Run the grid-lines workflow; ``--help`` lists keys, groups and defaults.

python scripts/grid_lines_workflow.py probe=zone_plate set_phi=true output_dir=outputs/curved
python scripts/grid_lines_workflow.py -m gridsize=1,2 seed=0,1
python scripts/grid_lines_workflow.py resume=outputs/curved
"""

from __future__ import annotations

import logging
import os
import shlex
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
from ptycho.files import WriteError, locked
from ptycho.interrupt import Stopped, StopRequest
from ptycho.probe import make_probe
from ptycho.report import RunFolder, check_free, check_writable
from ptycho.stored import CONFIG, is_finished
from workflows.config import explained, resumed_config, run_config

log = logging.getLogger("grid_lines")
EXIT_FAILED, EXIT_USAGE = 1, 2
MAX_NAME = 120


@dataclass(frozen=True)
class Job:
    """A validated run, the folder that it will fill, and the overrides that ask for it."""

    config: RunConfig
    path: Path
    overrides: tuple[str, ...]
    resumed: bool = False

    @property
    def start(self) -> str:
        """The command that starts this job alone."""
        own = [text for text in self.overrides if not text.startswith(("output_dir=", "overwrite="))]
        return command(*own, f"output_dir={_quoted(str(self.path))}")

    @property
    def resume(self) -> str:
        """The command that goes on with it."""
        return command(f"resume={self.path}")


def command(*overrides: str) -> str:
    """This program with other overrides, as typed into a shell."""
    return shlex.join([sys.executable, sys.argv[0], *overrides])


def planned() -> list[Job]:
    """The run, or the runs of a sweep, that the command line asks for; none has started, all are valid."""
    jobs: list[Job] = []
    mistakes: list[Exception] = []

    @hydra.main(version_base="1.3", config_path="../conf", config_name="grid_lines")
    def collect(composed: DictConfig) -> None:
        try:
            jobs.append(validated(composed) if composed.resume is None else resumed(composed))
        except (ConfigError, OmegaConfBaseException) as error:  # raised here, Hydra would add a line
            mistakes.append(error)

    sys.argv[1:] = [_as_text(argument) for argument in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as scratch:  # Hydra insists on a folder for a sweep
        OmegaConf.register_new_resolver("scratch", lambda _: scratch, replace=True)
        collect()
    if mistakes:
        raise mistakes[0]
    return jobs


def _as_text(argument: str) -> str:
    """Quote the folder in ``resume=<folder>``: those of a sweep have ``=`` and ``,`` in their names."""
    key, _, value = argument.partition("=")
    plain = key == "resume" and value not in ("", "null") and value[0] not in "'\""
    return f"resume={_quoted(value)}" if plain else argument


def _quoted(text: str) -> str:
    """A text as Hydra's grammar wants it."""
    escaped = text.replace('"', '\\"')
    return f'"{escaped}"'


def validated(composed: DictConfig) -> Job:
    """Check everything that needs no TensorFlow: configuration, probe and output folder."""
    overrides = list(HydraConfig.get().overrides.task)
    config = run_config(composed, overrides, os.environ)
    path = run_path(config)
    check_free(path, config.overwrite)
    check_probes(config)
    return Job(config, path, tuple(overrides))


def check_probes(config: RunConfig) -> None:
    """Make the probes of training and test, to see that it can be done."""
    for role in ("train", "test"):
        make_probe(config.probe_of(role), config.N)


def resumed(composed: DictConfig) -> Job:
    """Check that ``resume`` names a run to go on with, and that nothing else asks for another."""
    path, hydra_config = Path(str(composed.resume)), HydraConfig.get()
    overrides = list(hydra_config.overrides.task)
    if not composed.resume:
        raise ConfigError("resume=: must be the folder of the run to go on with")
    if hydra_config.mode == RunMode.MULTIRUN:
        raise ConfigError(f"resume={path}: goes on with one run; leave out -m, and resume job by job")
    if composed.overwrite:
        raise ConfigError(
            f"resume={path} and overwrite=true: go on with the run or replace it; drop one of them"
        )
    config = resumed_config(path, composed, hydra.compose("grid_lines"), overrides, os.environ)
    check_writable(path)
    check_probes(config)
    return Job(config, path, tuple(overrides), resumed=True)


def run_path(config: RunConfig) -> Path:
    """``output_dir``, or for job k of a sweep ``output_dir/<k>_<overrides>``."""
    if not config.output_dir:
        raise ConfigError("output_dir=null: must be the path of a folder")
    path, hydra_config = Path(config.output_dir), HydraConfig.get()
    if hydra_config.mode != RunMode.MULTIRUN:
        return path
    name = f"{hydra_config.job.num}_{hydra_config.job.override_dirname}".replace("/", "-")
    return path / name[:MAX_NAME]


def execute(job: Job, stop: StopRequest) -> None:
    """Run a job; TensorFlow is imported only now."""
    if job.resumed and is_finished(job.path):
        log.info("%s: is finished; nothing is left to do", job.path)
        return
    with locked(job.path):
        folder = RunFolder(job.path, job.config.overwrite, job.resumed)
        if not job.resumed:
            folder.config(job.config)

        from workflows.grid_lines import run

        run(job.config, folder, stop)


def main() -> int:
    """Exit code: 0 done, 1 a run failed, 2 the configuration or an input file cannot be used.

    128 and the number of the signal that stopped it: 130, 143.
    """
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
    return perform(jobs, wants_traceback)


def perform(jobs: list[Job], wants_traceback: bool) -> int:
    """Run the jobs one after the other, until a signal stops them; the largest exit code."""
    codes = [0]
    stop = StopRequest()
    try:
        with stop:
            for number, job in enumerate(jobs):
                stop.farewell = how_to_go_on(jobs[number:])
                if len(jobs) > 1:
                    log.info("job %d of %d: %s", number + 1, len(jobs), job.path.name)
                codes.append(_attempt(job, stop, wants_traceback))
    except Stopped as stopped:
        sys.stderr.write(f"{stopped}\n{stop.farewell}\n")
        return stopped.exit_code
    return max(codes)


def how_to_go_on(jobs: list[Job]) -> str:
    """What to tell a user who stopped the first of ``jobs``: the commands for it and for those after it."""
    lines = ["go on with:", jobs[0].resume]
    if len(jobs) > 1:
        lines += [f"then, for the {len(jobs) - 1} jobs of the sweep that had not started:"]
        lines += [job.start for job in jobs[1:]]
    return "\n".join(lines)


def _attempt(job: Job, stop: StopRequest, wants_traceback: bool) -> int:
    """Run a job; if it fails, say so and let the rest of a sweep go on."""
    try:
        execute(job, stop)
    except ConfigError as error:
        return _fail(error, EXIT_USAGE, wants_traceback)
    except WriteError as error:
        begun = (job.path / CONFIG).exists()
        advice = f"; make room, then go on with: {job.resume if begun else job.start}"
        return _fail(error, EXIT_FAILED, wants_traceback, advice)
    except Exception as error:
        return _fail(error, EXIT_FAILED, wants_traceback)
    return 0


def _fail(error: Exception, code: int, wants_traceback: bool, advice: str = "") -> int:
    if wants_traceback:
        log.error("failed", exc_info=error)
    hint = advice or ("" if code == EXIT_USAGE or wants_traceback else " (traceback: HYDRA_FULL_ERROR=1)")
    kind = "" if advice or code == EXIT_USAGE else f"{type(error).__name__}: "
    sys.stderr.write(f"error: {kind}{explained(error)}{hint}\n")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
