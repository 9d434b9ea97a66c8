"""Plan, start, stop and resume training runs by the command line, for every workflow."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from ptycho.config import ConfigError, JobConfig, ScanRunConfig, TrainedConfig
from ptycho.config.backend import require_tensorflow
from ptycho.config.mapping import differences, to_mapping
from ptycho.files.atomic import WriteError
from ptycho.files.lock import is_locked, locked
from ptycho.preparation.start import product_file
from ptycho.quiet_start import start_tensorflow
from ptycho.run.folder import RunFolder, check_free, check_places, check_writable
from ptycho.run.names import CONFIG, REPORT, training_files
from ptycho.run.pretrained import run_folder
from ptycho.run.record import check_links
from ptycho.run.replacing import check_inputs
from ptycho.run.scan_table import check_table
from ptycho.run.stored_config import read_job
from ptycho.training.interrupt import StopRequest, remove_traces
from workflows.command_line.config import SCHEMAS, explained, resumed_config, run_config
from workflows.command_line.jobs import (
    fail,
    in_turn,
    job_path,
    log_to_stderr,
    plan_and_perform,
)
from workflows.command_line.training_job import (
    DONE,
    FAILED,
    STARTED,
    Job,
    Means,
    Progress,
    explain_going_on,
    format_command,
    is_done,
)
from workflows.command_line.words import quote_paths, quoted, split_flags

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Workflow:
    """A program that trains.

    Attributes:
        name: of its primary configuration in ``conf/``.
        check: without TensorFlow; gives the configuration with what follows from other files filled in.
        run: does it in a folder.
        help_text: shown for ``--help``.
        split: the runs by name that a configuration asks for, if several: each stands for itself.
    """

    name: str
    check: Callable[[JobConfig], JobConfig]
    run: Callable[[JobConfig, RunFolder, StopRequest], object]
    help_text: str | None = None
    split: Callable[[JobConfig], Mapping[str, JobConfig]] = lambda config: {}


def main(workflow: Workflow, arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 1 a run failed, 2 the configuration or an input file cannot be used.

    128 and the number of the signal that stopped it: 130, 143. ``arguments``: None: those of the process.
    """
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    if {"-h", "--help"} & {*split_flags(given)[0]}:
        sys.stdout.write(f"{workflow.help_text}\n")
        return 0
    log_to_stderr()
    schema = next((SCHEMAS[word] for word in given if word in SCHEMAS), SCHEMAS[workflow.name])
    explain = partial(explained, schema=schema)
    with StopRequest() as stop:
        means = Means(stop, format_command(*(text for text in given if text != "overwrite=true")), explain)
        words, plan = quote_paths(given, "resume"), partial(plan_jobs, workflow)
        do = partial(perform, workflow, means=means)
        return plan_and_perform(workflow.name, words, plan, do, explain)


def plan_jobs(workflow: Workflow, composed: DictConfig) -> list[Job]:
    """Check everything that needs no TensorFlow, for new runs or for one to resume."""
    require_tensorflow(os.environ)
    if composed.resume is not None:
        return [plan_resumption(workflow, composed)]
    hydra_config = HydraConfig.get()
    overrides = list(hydra_config.overrides.task)
    config = run_config(composed, overrides, os.environ)
    if not config.output_dir:
        raise ConfigError("output_dir=null: must be the path of a folder")
    path, together = job_path(config.output_dir), Path(config.output_dir)
    config = replace(config, output_dir=str(path))
    if scans := workflow.split(config):
        check_table(together)
        common = [text for text in overrides if not text.lstrip("+").startswith("data.file=")]
        return [
            plan_scan(workflow, replace(scan, output_dir=str(path / name)), common, together)
            for name, scan in scans.items()
        ]
    job = plan_new(workflow, config, overrides)
    if hydra_config.mode != RunMode.MULTIRUN:
        return [job]
    if isinstance(config, ScanRunConfig):
        check_table(together)
    return [replace(job, together=together)]


def plan_new(workflow: Workflow, config: JobConfig, overrides: list[str]) -> Job:
    """Check configuration and output folder."""
    path = Path(str(config.output_dir))
    check_free(path, config.overwrite)
    if config.overwrite:
        check_inputs(path, list_inputs(config))
    return Job(workflow.check(config), path, tuple(overrides))


def plan_scan(workflow: Workflow, config: JobConfig, common: list[str], together: Path) -> Job:
    """Check one of several scans: to be done, to be resumed, or unreadable."""
    assert isinstance(config, ScanRunConfig)
    path, overrides = Path(str(config.output_dir)), [*common, f"data.file={quoted(config.data.path)}"]
    try:
        checked = workflow.check(config)
    except ConfigError as error:
        return Job(config, path, tuple(overrides), together=together, scan=path.name, problem=error)
    if is_locked(path):
        return Job(checked, path, tuple(overrides), together=together, scan=path.name)
    if config.overwrite or not (path / CONFIG).is_file():
        return replace(plan_new(workflow, config, overrides), together=together, scan=path.name)
    stored = replace(read_job(path), output_dir=str(path))
    others = differences(to_mapping(stored), to_mapping(replace(checked, overwrite=stored.overwrite)))
    if others:
        raise ConfigError(
            f"output_dir={together}: holds a run of {config.data.path} with another configuration "
            f"({'; '.join(others)}); choose another folder, or overwrite=true to replace it"
        )
    check_writable(path)
    check_places(path, training_files(checked))
    return Job(checked, path, tuple(overrides), resumed=True, together=together, scan=path.name)


def list_inputs(config: JobConfig) -> dict[str, Path]:
    """The files that a run reads, by the key that names them."""
    keys = ("probe.file", "test_probe.file", "data.patterns_file", "data.positions_file", "data.mask_file")
    sections = ((key, *key.split(".")) for key in keys)
    files = {key: getattr(getattr(config, section, None), name, None) for key, section, name in sections}
    if isinstance(config, ScanRunConfig):
        files |= {f"data.file, scan {number}": file for number, file in enumerate(config.data.file, start=1)}
        if config.run is not None:
            files["run"] = str(run_folder(config.run) / CONFIG)
        if config.start is not None:
            files["start"] = str(product_file(config.start))
    return {key: Path(name) for key, name in files.items() if name}


def plan_resumption(workflow: Workflow, composed: DictConfig) -> Job:
    """Check that ``resume`` names a run that can be resumed, and that no other key specifies another run."""
    path, hydra_config = Path(str(composed.resume)), HydraConfig.get()
    overrides = list(hydra_config.overrides.task)
    if not composed.resume:
        raise ConfigError("resume=: must be the folder of the run to resume")
    if hydra_config.mode == RunMode.MULTIRUN:
        raise ConfigError(f"resume={path}: resumes one run; remove -m, and resume job by job")
    if composed.overwrite:
        raise ConfigError(f"resume={path} and overwrite=true: resume the run or replace it; drop one of them")
    check_links(path)
    config = resumed_config(path, overrides, os.environ)
    check_writable(path)
    check_places(path, training_files(config))
    return Job(workflow.check(config), path, tuple(overrides), resumed=True)


def execute(workflow: Workflow, job: Job, stop: StopRequest) -> None:
    """Run a job; TensorFlow is imported only now."""
    if is_done(job):
        return
    with locked(job.path):
        folder = RunFolder(job.path, job.config.overwrite, job.resumed)
        with folder.replacing():
            if not job.resumed:
                folder.config(job.config)
            start_tensorflow()
            workflow.run(job.config, folder, stop)
    if isinstance(job.config, TrainedConfig):
        write_page(job.path)


def write_page(run: Path) -> None:
    """Write the report of a run, and say where; a run without one is done nevertheless."""
    from workflows.read.report import ReportConfig, write_report

    try:
        write_report(ReportConfig(run=str(run)))
    except Exception as error:  # of a page on what is stored already
        log.warning("%s: no report (%s); ptycho report %s says more", run, explained(error), run)
    else:
        log.info("report: %s", run / REPORT)


def perform(workflow: Workflow, jobs: list[Job], means: Means) -> int:
    """Run the jobs one after the other; return the largest exit code.

    Scans that another process works on are skipped: several processes share the scans of a pattern.
    """
    progress = Progress(jobs, means.explain)
    todo, codes = progress.refuse()
    for number, planned in enumerate(in_turn(todo)):
        if planned.scan and is_locked(planned.path):
            log.info("%s: another process works on it", planned.path)
            continue
        job = planned.now
        words, clear = partial(explain_going_on, todo[number:], means.again), partial(remove_traces, job.path)
        with means.stop.end_with(words, clear):
            progress.note(job, STARTED)
            try:
                execute(workflow, job, means.stop)
                progress.note(job, DONE)
            except Exception as error:
                progress.note(job, FAILED, means.explain(error))
                full = f"; make room, then resume with: {job.go_on}" if isinstance(error, WriteError) else ""
                codes.append(fail(error, (ConfigError,), advice=full))
    progress.tell()
    return max(codes)
