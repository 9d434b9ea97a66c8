"""The table of a sweep, or of the scans of a pattern, as it fills."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ptycho.config import ConfigError, ScanRunConfig
from ptycho.files.atomic import WriteError
from ptycho.run.scan_table import MARKDOWN, override_cells, row_of, write_table
from workflows.command_line.jobs import fail
from workflows.command_line.training_job import Job

log = logging.getLogger(__name__)

WAITING, STARTED, DONE, FAILED = "waiting", "started", "done", "failed"


class Progress:
    """How far jobs have come, written into a table after each; for jobs on measured scans.

    Args:
        jobs: all of them.
        explain: an error on one line.
    """

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
        if job.together is None or not has_table(job):
            return
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
            known = cells | {"state": state, "folder": str(job.path), "error": reason}
            table.append({"scan": name_of(job)} | self._rows.get(job.path, {}) | known)
        return table


def has_table(job: Job) -> bool:
    return isinstance(job.config, ScanRunConfig)


def name_of(job: Job) -> str:
    """What the scan of a job is called."""
    return job.scan or job.config.data.name if isinstance(job.config, ScanRunConfig) else ""
