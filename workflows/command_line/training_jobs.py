"""A training run as a job of the command line: planned, started, stopped, gone on with; for every workflow.

Nothing here imports TensorFlow.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from ptycho.config import ConfigError, JobConfig, ScanRunConfig
from ptycho.files.atomic import WriteError
from ptycho.files.lock import locked
from ptycho.quiet_start import start_tensorflow
from ptycho.run.folder import RunFolder, check_free, check_places, check_writable, config_text, kept_aside
from ptycho.run.names import CONFIG, training_files
from ptycho.run.pretrained import run_folder
from ptycho.run.record import damaged
from ptycho.run.replacing import check_inputs, waits
from ptycho.run.stored_config import is_finished
from ptycho.training.interrupt import StopRequest, remove_traces
from workflows.command_line.config import SCHEMAS, explained, resumed_config, run_config
from workflows.command_line.jobs import attempt, in_turn, job_path, plan_and_perform

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Workflow:
    """A program that trains.

    Attributes:
        name: of its primary configuration in ``conf/``.
        check: everything about a configuration that can be told without TensorFlow; raises ConfigError.
            What it gives is the configuration of the run, with what follows from other files filled in.
        run: does it in a folder; what it needs of TensorFlow is imported only then.
    """

    name: str
    check: Callable[[JobConfig], JobConfig]
    run: Callable[[JobConfig, RunFolder, StopRequest], object]


@dataclass(frozen=True)
class Job:
    """A validated run, the folder that it will fill, and the overrides that ask for it."""

    config: JobConfig
    path: Path
    overrides: tuple[str, ...]
    resumed: bool = False

    @property
    def start(self) -> str:
        """The command that starts this job alone."""
        own = [text for text in self.overrides if not text.startswith("output_dir=")]
        return format_command(*own, f"output_dir={_quote(str(self.path))}")

    @property
    def go_on(self) -> str:
        """The command that goes on with it, if it has begun, or starts it."""
        return format_command(f"resume={self.path}") if self.begun else self.start

    @property
    def begun(self) -> bool:
        """Whether the run in the folder is this one, not one that it is to replace."""
        try:
            return self.resumed or (self.path / CONFIG).read_text() == config_text(self.config)
        except (OSError, ValueError):
            return False


def format_command(*overrides: str) -> str:
    """This program with other overrides, as typed into a shell."""
    return shlex.join([sys.executable, sys.argv[0], *overrides])


def main(workflow: Workflow, arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 1 a run failed, 2 the configuration or an input file cannot be used.

    128 and the number of the signal that stopped it: 130, 143. ``arguments``: None: those of the process.
    """
    given = sys.argv[1:] if arguments is None else arguments
    with StopRequest() as stop:
        return plan_and_perform(
            workflow.name,
            [quote_folder(argument) for argument in given],
            partial(plan_job, workflow),
            partial(perform, workflow, stop=stop),
            partial(explained, schema=SCHEMAS[workflow.name]),
        )


def quote_folder(argument: str) -> str:
    """Quote the folder in ``resume=<folder>``: those of a sweep have ``=`` and ``,`` in their names."""
    key, _, value = argument.partition("=")
    plain = key == "resume" and value not in ("", "null") and value[0] not in "'\""
    return f"resume={_quote(value)}" if plain else argument


def _quote(text: str) -> str:
    """A text as Hydra's grammar wants it."""
    escaped = text.replace('"', '\\"')
    return f'"{escaped}"'


def plan_job(workflow: Workflow, composed: DictConfig) -> Job:
    """Check everything that needs no TensorFlow, for a new run or for one to go on with."""
    plan = plan_new if composed.resume is None else plan_resumption
    return plan(workflow, composed)


def plan_new(workflow: Workflow, composed: DictConfig) -> Job:
    """Check configuration and output folder."""
    overrides = list(HydraConfig.get().overrides.task)
    config = run_config(composed, overrides, os.environ)
    if not config.output_dir:
        raise ConfigError("output_dir=null: must be the path of a folder")
    path = job_path(config.output_dir)
    check_free(path, config.overwrite)
    if config.overwrite:
        check_inputs(path, list_inputs(config))
    return Job(workflow.check(config), path, tuple(overrides))


def list_inputs(config: JobConfig) -> dict[str, Path]:
    """The files that a run reads, by the key that names them."""
    files: dict[str, str | None] = {}
    for key in ("probe", "test_probe"):
        files[f"{key}.file"] = getattr(getattr(config, key, None), "file", None)
    if isinstance(config, ScanRunConfig):
        data = config.data
        files |= {
            f"data.{key}": getattr(data, key) for key in ("patterns_file", "positions_file", "mask_file")
        }
        files |= {f"data.file, scan {number}": file for number, file in enumerate(data.file, start=1)}
        if config.run is not None:
            files["run"] = str(run_folder(config.run) / CONFIG)
    return {key: Path(name) for key, name in files.items() if name}


def plan_resumption(workflow: Workflow, composed: DictConfig) -> Job:
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
    config = resumed_config(path, composed, hydra.compose(workflow.name), overrides, os.environ)
    check_writable(path)
    check_places(path, training_files(config))
    return Job(workflow.check(config), path, tuple(overrides), resumed=True)


def execute(workflow: Workflow, job: Job, stop: StopRequest) -> None:
    """Run a job; TensorFlow is imported only now."""
    if job.resumed and is_finished(job.path):
        problems = damaged(job.path)
        if not problems:
            log.info("%s: is finished; nothing is left to do", job.path)
            return
        log.warning("%s: is finished, but %s; this is made again", job.path, "; ".join(problems))
    with locked(job.path):
        folder = RunFolder(job.path, job.config.overwrite, job.resumed)
        with folder.replacing():
            if not job.resumed:
                folder.config(job.config)
            start_tensorflow()
            workflow.run(job.config, folder, stop)


def perform(workflow: Workflow, jobs: list[Job], stop: StopRequest) -> int:
    """Run the jobs one after the other; the largest exit code."""
    codes = [0]
    for number, job in enumerate(in_turn(jobs)):
        words, clear = partial(explain_going_on, jobs[number:]), partial(remove_traces, job.path)
        with stop.end_with(words, clear):
            codes.append(attempt(partial(execute, workflow, job, stop), advice=partial(explain_mending, job)))
    return max(codes)


def explain_going_on(jobs: list[Job]) -> str:
    """What to tell a user who stopped the first of ``jobs``: the commands for it and for those after it."""
    lines = ["go on with:", jobs[0].go_on]
    if waits(jobs[0].path):
        lines.append(kept_aside(jobs[0].path))
    if len(jobs) > 1:
        lines += [f"then, for the {len(jobs) - 1} jobs of the sweep that had not started:"]
        lines += [job.start for job in jobs[1:]]
    return "\n".join(lines)


def explain_mending(job: Job, error: Exception) -> str:
    """What to do about an error; nothing is known of most."""
    if not isinstance(error, WriteError):
        return ""
    return f"; make room, then go on with: {job.go_on}"
