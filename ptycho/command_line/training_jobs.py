"""Plan, start, stop and resume training runs by the command line, for every workflow."""

from __future__ import annotations

import contextlib
import logging
import os
import pkgutil
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from ptycho.command_line.config import explained, resumed_config, run_config
from ptycho.command_line.console import typed_words
from ptycho.command_line.jobs import MISTAKES, fail, job_path, log_to_stderr, plan_all
from ptycho.command_line.words import asks_help, quote_resume, quoted
from ptycho.config import NETWORK, ConfigError, JobConfig, ScanRunConfig, TrainedConfig, check
from ptycho.config.mapping import differences, programs_in, result_settings
from ptycho.files.atomic import WriteError
from ptycho.files.lock import BusyError, is_locked, locked
from ptycho.installed import PAGES, remedy
from ptycho.preparation.start import product_file
from ptycho.quiet_start import require_tensorflow, start_tensorflow
from ptycho.report.entries import (
    MARKDOWN,
    check_table,
    override_cells,
    row_of,
    write_table,
)
from ptycho.run.folder import RunFolder, check_free, check_writable, config_text, kept_aside
from ptycho.run.names import CONFIG, REPORT
from ptycho.run.record import check_files, check_links, damaged
from ptycho.run.replacing import check_inputs, waits
from ptycho.run.stored_run import is_finished, read_job, run_folder
from ptycho.training.interrupt import StopRequest, remove_traces

log = logging.getLogger(__name__)

Run = Callable[..., object]  # of a configuration, in its folder, until a request to stop
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
    def starting(self) -> list[str]:
        """The overrides of the command that starts this job alone."""
        own = [text for text in self.overrides if not text.startswith("output_dir=")]
        return [*own, f"output_dir={quoted(str(self.path))}"]

    @property
    def resuming(self) -> list[str]:
        """Those that resume the job, if it has begun, or start it; a run that it replaces is not resumed."""
        with contextlib.suppress(OSError, ValueError):
            if self.resumed or (self.path / CONFIG).read_text() == config_text(self.config):
                programs = [f"{key}={quoted(value)}" for key, value in programs_in(self.config).items()]
                return [f"resume={self.path}", *programs]
        return self.starting

    @property
    def now(self) -> Job:
        """The job as it is when its turn comes: another process may have begun it, or ended it."""
        if self.together is not None and not self.config.overwrite:
            with contextlib.suppress(ConfigError):
                return replace(self, resumed=not self.changes())
        return self

    def changes(self) -> list[str]:
        """Return the keys in which the run in the folder has other values, but for where it is written."""
        return differences(result_settings(read_job(self.path)), result_settings(self.config))

    def check_place(self) -> None:
        """Refuse an output folder that a new run cannot have, or that holds a file which it reads."""
        config = self.config
        check_free(self.path, config.overwrite)
        if not config.overwrite:
            return
        data = ("data.patterns_file", "data.positions_file", "data.mask_file")
        sections = ((key, *key.split(".")) for key in ("probe.file", "test_probe.file", *data))
        files = {key: getattr(getattr(config, section, None), name, None) for key, section, name in sections}
        if isinstance(config, ScanRunConfig):
            files |= {f"data.file, scan {k}": file for k, file in enumerate(config.data.file, start=1)}
            if config.run is not None:
                files["run"] = str(run_folder(config.run) / CONFIG)
            if config.start is not None:
                files["start"] = str(product_file(config.start))
        check_inputs(self.path, {key: Path(name) for key, name in files.items() if name})


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


def explain_going_on(jobs: Sequence[Job], words: Sequence[str]) -> str:
    """Return how to continue after the first of ``jobs`` was stopped; ``words`` are those that were typed.

    Several jobs are continued by their own command, unless it would replace what is finished.
    """
    job, *rest = jobs
    if job.together is None or job.config.overwrite:
        commands = [format_command(*job.resuming), *(format_command(*other.starting) for other in rest)]
    else:
        known = any(word.startswith("output_dir=") for word in words)
        commands = [format_command(*words, *([] if known else [f"output_dir={job.together}"]))]
    kept = [kept_aside(job.path)] if waits(job.path) else []
    return "\n".join(["resume with:", *commands, *kept])


class Progress:
    """The table of all jobs on measured scans, written after each."""

    def __init__(self, jobs: list[Job]) -> None:
        self._jobs, self._cells = jobs, dict[Path, dict[str, str]]()  # of jobs that were begun here, or done
        self._texts: dict[Path, str] = {}  # of the tables, by folder

    def note(self, job: Job, state: str, error: str = "") -> None:
        """Note how it stands with a job, and write the table; a run goes on where that cannot be written."""
        if job.together is None or not isinstance(job.config, ScanRunConfig):
            return
        done = row_of(job.path) if state == DONE else {}
        self._cells[job.path] = done | {"state": state, "error": error}
        jobs = [other for other in self._jobs if other.together == job.together]
        overrides = override_cells([other.overrides for other in jobs])
        rows = [self._row(other) | cells for other, cells in zip(jobs, overrides, strict=True)]
        try:
            self._texts[job.together] = write_table(job.together, rows)
        except WriteError as fault:
            log.warning("%s", fault)

    def log_tables(self) -> None:
        for folder, text in self._texts.items():
            log.info("%s:\n%s", folder / MARKDOWN, text.rstrip())

    def _row(self, job: Job) -> dict[str, str]:
        cells = self._cells.get(job.path, {"state": WAITING})
        if cells["state"] == WAITING and job.now.resumed:  # another process has begun it, or an earlier one
            cells = {"state": STARTED}
            if done := row_of(job.path):
                cells = self._cells[job.path] = done | {"state": DONE}
        assert isinstance(job.config, ScanRunConfig)
        return {"scan": job.scan or job.config.data.name, "folder": str(job.path)} | cells


def later(name: str) -> Run:
    """Return the function ``module:function``, whose module, with TensorFlow, is imported by the call."""
    return lambda *arguments, **keys: pkgutil.resolve_name(name)(*arguments, **keys)


@dataclass(frozen=True)
class Workflow:
    """A program that trains."""

    name: str  # of its primary configuration in conf/
    schema: type[JobConfig]  # of its keys
    check: Callable[[JobConfig], JobConfig]  # without TensorFlow; fills in what follows from other files
    run: Run
    help_text: str | None = None  # shown for --help
    split: Callable[[JobConfig], Mapping[str, JobConfig]] = lambda config: {}  # several runs, by name


def main(workflow: Workflow, arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 1 a run failed, 2 the configuration or an input file cannot be used.

    128 and the number of the signal that stopped it: 130, 143. ``arguments``: None: those of the process.
    """
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    if asks_help(given):
        sys.stdout.write(f"{workflow.help_text}\n")
        return 0
    log_to_stderr()
    explain = partial(explained, schema=workflow.schema)
    with StopRequest() as stop:
        try:
            jobs = plan_all(workflow.name, quote_resume(given), partial(plan_jobs, workflow))
        except Exception as error:
            return fail(error, MISTAKES, explain)
        return perform(workflow, jobs, stop, given, explain)


def plan_jobs(workflow: Workflow, composed: DictConfig) -> list[Job]:
    """Check everything that needs no TensorFlow, for new runs or for one to resume."""
    require_tensorflow(os.environ)
    if composed.resume is not None:
        return [plan_resumption(workflow, composed)]
    hydra_config = HydraConfig.get()
    overrides = list(hydra_config.overrides.task)
    config = run_config(composed, overrides, os.environ)
    check(bool(config.output_dir), "output_dir", "null", "the path of a folder")
    path, together = job_path(str(config.output_dir)), Path(str(config.output_dir))
    config = replace(config, output_dir=str(path))
    scans = workflow.split(config)
    job = Job(config, path, tuple(overrides))
    if not scans and hydra_config.mode != RunMode.MULTIRUN:
        job.check_place()
        return [replace(job, config=workflow.check(config))]
    if isinstance(config, ScanRunConfig):
        check_table(together)
    common = [text for text in overrides if not text.lstrip("+").startswith("data.file=")]
    jobs = [] if scans else [replace(job, together=together)]
    for name, scan in scans.items():
        assert isinstance(scan, ScanRunConfig)
        of_scan, own = replace(scan, output_dir=str(path / name)), f"data.file={quoted(scan.data.path)}"
        jobs.append(Job(of_scan, path / name, (*common, own), together=together, scan=name))
    return [plan_one(workflow, job) for job in jobs]


def plan_one(workflow: Workflow, job: Job) -> Job:
    """Check one of several jobs: to be done or to be resumed; a scan of a pattern may be unreadable."""
    try:
        checked = replace(job, config=workflow.check(job.config))
    except ConfigError as error:
        if not job.scan:
            raise
        return replace(job, problem=error)
    if is_locked(job.path):
        return checked
    if job.config.overwrite or not (job.path / CONFIG).is_file():
        job.check_place()
        return checked
    if others := checked.changes():
        raise ConfigError(
            f"output_dir={job.together}: holds the run {job.path.name} with another configuration "
            f"({'; '.join(others)}); choose another folder, or overwrite=true to replace it"
        )
    check_writable(job.path)
    check_files(job.path)
    return replace(checked, resumed=True)


def plan_resumption(workflow: Workflow, composed: DictConfig) -> Job:
    """Check that ``resume`` names a run that can be resumed, and that no other key specifies another run."""
    path, hydra_config = Path(str(composed.resume)), HydraConfig.get()
    overrides = list(hydra_config.overrides.task)
    check(bool(composed.resume), "resume", "", "the folder of the run to resume")
    if hydra_config.mode == RunMode.MULTIRUN:
        raise ConfigError(
            f"resume={path}: resumes one run; remove resume: a sweep is continued by its own command"
        )
    if composed.overwrite:
        raise ConfigError(f"resume={path} and overwrite=true: resume the run or replace it; drop one of them")
    check_links(path)
    config = resumed_config(path, overrides, os.environ)
    check_writable(path)
    check_files(path)
    return Job(workflow.check(config), path, tuple(overrides), resumed=True)


def execute(run: Run, job: Job, stop: StopRequest) -> None:
    """Do a job, unless another process has done it; TensorFlow is imported only now."""
    if is_done(job.now):
        return
    with locked(job.path):
        job = job.now
        if is_done(job):
            return
        folder = RunFolder(job.path, job.config.overwrite, job.resumed)
        with folder.replacing():
            if not job.resumed:
                folder.config(job.config)
            solver_alone = isinstance(job.config, ScanRunConfig) and NETWORK not in job.config.models
            start_tensorflow(for_solver=solver_alone)
            run(job.config, folder, stop)
    if isinstance(job.config, TrainedConfig):
        write_page(job.path)


def write_page(run: Path) -> None:
    """Write the report of a run, and say where; a run without one is done nevertheless."""
    if (advice := remedy(PAGES)) is not None:
        log.info("%s: no report.html, which %s", run, advice)
        return
    page, record = (import_module(f"{PAGES}.{name}") for name in ("page", "page_record"))
    try:
        page.write_page(run / REPORT, page.report_page(record.gather_page(run)))
    except Exception as error:  # of a page on what is stored already
        log.warning("%s: no report (%s); ptycho report %s says more", run, explained(error), run)
    else:
        log.info("report: %s", run / REPORT)


def perform(
    workflow: Workflow,
    jobs: list[Job],
    stop: StopRequest,
    words: Sequence[str],  # that were typed
    explain: Callable[[Exception], str],
) -> int:
    """Run the jobs one after the other; return the largest exit code.

    Jobs that another process works on are skipped: several processes share those of a pattern or a sweep.
    """
    progress, codes, todo = Progress(jobs), [0], [job for job in jobs if job.problem is None]
    for job in jobs:
        if job.problem is not None:
            codes.append(fail(job.problem, (ConfigError,), explain))
            progress.note(job, FAILED, explain(job.problem))
    for number, job in enumerate(todo):
        if len(todo) > 1:
            log.info("job %d of %d: %s", number + 1, len(todo), job.path.name)
        clear = partial(remove_traces, job.path)
        with stop.end_with(partial(explain_going_on, todo[number:], words), clear):
            progress.note(job, STARTED)
            try:
                execute(workflow.run, job, stop)
                progress.note(job, DONE)
            except Exception as error:
                if isinstance(error, BusyError) and job.together is not None:
                    log.info("%s: another process works on it", job.path)
                    progress.note(job, WAITING)
                    continue
                progress.note(job, FAILED, explain(error))
                command = format_command(*job.resuming)
                full = f"; make room, then resume with: {command}" if isinstance(error, WriteError) else ""
                codes.append(fail(error, (ConfigError,), advice=full))
    progress.log_tables()
    return max(codes)
