"""What a training run is as a job of the command line, and what is said of it.

Nothing here imports TensorFlow.
"""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ptycho.config import ConfigError, JobConfig
from ptycho.config.mapping import programs_in
from ptycho.files.atomic import WriteError
from ptycho.run.folder import config_text, kept_aside
from ptycho.run.names import CONFIG
from ptycho.run.record import damaged
from ptycho.run.replacing import waits
from ptycho.run.stored_config import is_finished
from ptycho.training.interrupt import StopRequest
from workflows.command_line.console import typed_words

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A validated run, the folder that it will fill, and the overrides that ask for it.

    Attributes:
        resumed: the folder holds this run, or a part of it.
        together: the folder of all, where this is one of a sweep, or of the scans of a pattern.
        scan: the name of a scan of a pattern.
        problem: why such a scan cannot be done.
    """

    config: JobConfig
    path: Path
    overrides: tuple[str, ...]
    resumed: bool = False
    together: Path | None = None
    scan: str = ""
    problem: ConfigError | None = None

    @property
    def start(self) -> str:
        """The command that starts this job alone."""
        return format_command(*self.starting)

    @property
    def go_on(self) -> str:
        """The command that goes on with it, if it has begun, or starts it."""
        return format_command(*self.going_on)

    @property
    def going_on(self) -> list[str]:
        """The overrides of the command that goes on with it, or starts it."""
        programs = [f"{key}={quote(value)}" for key, value in programs_in(self.config).items()]
        return [f"resume={self.path}", *programs] if self.begun else self.starting

    @property
    def starting(self) -> list[str]:
        """The overrides of the command that starts this job alone."""
        own = [text for text in self.overrides if not text.startswith("output_dir=")]
        return [*own, f"output_dir={quote(str(self.path))}"]

    @property
    def begun(self) -> bool:
        """Whether the run in the folder is this one, not one that it is to replace."""
        try:
            return self.resumed or (self.path / CONFIG).read_text() == config_text(self.config)
        except (OSError, ValueError):
            return False


@dataclass(frozen=True)
class Means:
    """What jobs are done with.

    Attributes:
        again: the command that was given, without ``overwrite``.
        explain: an error on one line.
    """

    stop: StopRequest
    again: str
    explain: Callable[[Exception], str]


def command(*overrides: str) -> list[str]:
    """The words of the command that starts this program with other overrides."""
    return [sys.executable, sys.argv[0], *overrides]


def format_command(*overrides: str) -> str:
    """This program with other overrides, as typed into a shell."""
    typed = typed_words()
    return shlex.join(command(*overrides) if typed is None else [*typed, *overrides])


def quote(text: str) -> str:
    """A text as Hydra's grammar wants it."""
    escaped = text.replace('"', '\\"')
    return f'"{escaped}"'


def is_done(job: Job) -> bool:
    """Whether a job goes on with a run that is finished and whole; says so, and what is damaged."""
    if not (job.resumed and is_finished(job.path)):
        return False
    if problems := damaged(job.path):
        log.warning("%s: is finished, but %s; this is made again", job.path, "; ".join(problems))
        return False
    log.info("%s: is finished; nothing is left to do", job.path)
    return True


def explain_going_on(jobs: list[Job], again: str = "") -> str:
    """What to tell a user who stopped the first of ``jobs``: the commands for it and for those after it.

    ``again``: the command that was given, which goes on with the scans of a pattern.
    """
    if again and jobs[0].scan:
        return f"resume with:\n{again}"
    lines = ["resume with:", jobs[0].go_on]
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
    return f"; make room, then resume with: {job.go_on}"
