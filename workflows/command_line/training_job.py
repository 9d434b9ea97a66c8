"""A training run as a job of the command line, its messages, and the table of all jobs as they finish."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ptycho.config import ConfigError, JobConfig, ScanRunConfig
from ptycho.config.mapping import programs_in
from ptycho.files.atomic import WriteError
from ptycho.run.folder import config_text, kept_aside
from ptycho.run.names import CONFIG
from ptycho.run.record import damaged
from ptycho.run.replacing import waits
from ptycho.run.scan_table import LAST, MARKDOWN, MEASURED, override_cells, write_table
from ptycho.run.stored_config import is_finished
from ptycho.training.interrupt import StopRequest
from workflows.command_line.console import typed_words
from workflows.command_line.jobs import fail
from workflows.command_line.words import quoted

log = logging.getLogger(__name__)
WAITING, STARTED, DONE, FAILED = "waiting", "started", "done", "failed"


@dataclass(frozen=True)
class Job:
    """A validated run, the folder that it will fill, and the overrides that specify it."""

    config: JobConfig
    path: Path
    overrides: tuple[str, ...]
    resumed: bool = False  # the folder holds this run, or a part of it
    together: Path | None = None  # the folder of all jobs of a sweep, or of the scans of a pattern
    scan: str = ""  # the name of a scan of a pattern
    problem: ConfigError | None = None  # why such a scan cannot be done

    @property
    def go_on(self) -> str:
        """The command that resumes the job, if it has begun, or starts it."""
        return format_command(*self.going_on)

    @property
    def going_on(self) -> list[str]:
        """The overrides of that command; a run that this one is to replace is not resumed."""
        programs = [f"{key}={quoted(value)}" for key, value in programs_in(self.config).items()]
        return [f"resume={self.path}", *programs] if self.begun else self.starting

    @property
    def begun(self) -> bool:
        """Whether the folder holds this run, or a part of it."""
        try:
            return self.resumed or (self.path / CONFIG).read_text() == config_text(self.config)
        except (OSError, ValueError):
            return False

    @property
    def now(self) -> Job:
        """The job as it is when its turn comes: another process may have begun its scan, or ended it."""
        shared = bool(self.scan) and not self.config.overwrite
        return replace(self, resumed=self.begun) if shared else self

    @property
    def starting(self) -> list[str]:
        """The overrides of the command that starts this job alone."""
        own = [text for text in self.overrides if not text.startswith("output_dir=")]
        return [*own, f"output_dir={quoted(str(self.path))}"]


@dataclass(frozen=True)
class Means:
    """Context of the jobs: ``again`` is the command that was typed; ``explain`` puts an error on one line."""

    stop: StopRequest
    again: str  # without overwrite
    explain: Callable[[Exception], str]


def format_command(*overrides: str) -> str:
    """This program with other overrides, as typed into a shell."""
    return shlex.join([*(typed_words() or [sys.executable, sys.argv[0]]), *overrides])


def is_done(job: Job) -> bool:
    """Return whether a job resumes a run that is finished and whole; log this, and what is damaged."""
    if not (job.resumed and is_finished(job.path)):
        return False
    if problems := damaged(job.path):
        log.warning("%s: is finished, but %s; this is made again", job.path, "; ".join(problems))
        return False
    log.info("%s: is finished; nothing is left to do", job.path)
    return True


def explain_going_on(jobs: list[Job], again: str = "") -> str:
    """Return how to resume after the first of ``jobs`` was stopped; ``again`` resumes scans of a pattern."""
    if again and jobs[0].scan:
        return f"resume with:\n{again}"
    lines = ["resume with:", jobs[0].go_on]
    if waits(jobs[0].path):
        lines.append(kept_aside(jobs[0].path))
    if len(jobs) > 1:
        lines += [f"then, for the {len(jobs) - 1} jobs of the sweep that had not started:"]
        lines += [format_command(*job.starting) for job in jobs[1:]]
    return "\n".join(lines)


def row_of(run: Path) -> dict[str, str]:
    """Return the cells of a finished run, as in ``ptycho compare``; none if it is not finished."""
    if not is_finished(run):
        return {}
    from ptycho.report.entries import entry_of
    from ptycho.report.gather import gather
    from ptycho.report.page import score_text

    cells = entry_of("", gather(run)).cells
    return {name: score_text(value) for name, value in cells.items() if name in (*MEASURED, *LAST)}


class Progress:
    """How far all jobs have come, written into a table after each; for jobs on measured scans."""

    def __init__(self, jobs: list[Job], explain: Callable[[Exception], str]) -> None:
        self._jobs, self._explain = jobs, explain
        self._states = {job.path: (WAITING, "") for job in jobs}
        self._rows: dict[Path, dict[str, Any]] = {}  # of jobs that are done
        self._texts: dict[Path, str] = {}  # of the tables, by folder

    def refuse(self) -> tuple[list[Job], list[int]]:
        """Say which jobs cannot be done; the others, and the exit codes so far."""
        codes = [0]
        for job in self._jobs:
            if job.problem is not None:
                codes.append(fail(job.problem, (ConfigError,), self._explain))
                self.note(job, FAILED, self._explain(job.problem))
        return [job for job in self._jobs if job.problem is None], codes

    def note(self, job: Job, state: str, reason: str = "") -> None:
        """Note how it stands with a job, and write the table; a run goes on where that cannot be written."""
        self._states[job.path] = (state, reason)
        if state == DONE:
            self._rows[job.path] = row_of(job.path)
        if job.together is not None and isinstance(job.config, ScanRunConfig):
            try:
                self._texts[job.together] = write_table(job.together, self._table(job.together))
            except WriteError as error:
                log.warning("%s", error)

    def tell(self) -> None:
        """The tables in the log."""
        for folder, text in self._texts.items():
            log.info("%s:\n%s", folder / MARKDOWN, text.rstrip())

    def _table(self, folder: Path) -> list[dict[str, Any]]:
        """The rows of the jobs in a folder."""
        jobs = [job for job in self._jobs if job.together == folder]
        table: list[dict[str, Any]] = []
        for job, cells in zip(jobs, override_cells([job.overrides for job in jobs]), strict=True):
            state, reason = self._states[job.path]
            if state == WAITING and job.now.resumed:  # another process has begun it, or an earlier one
                self._rows[job.path] = row_of(job.path)
                state = DONE if self._rows[job.path] else STARTED
            known = cells | {"state": state, "folder": str(job.path), "error": reason}
            name = job.scan or job.config.data.name if isinstance(job.config, ScanRunConfig) else ""
            table.append({"scan": name} | self._rows.get(job.path, {}) | known)
        return table
