"""Jobs handed to submitit, which runs them under Slurm, or here in processes of their own.

``hydra/launcher=submitit_slurm``, ``hydra/launcher=submitit_local``.

They are planned here; then each is started with its own command, and this process waits for all of them.
Hydra's launcher of the same name brings the settings alone (``hydra.launcher.timeout_min=…``).
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from ptycho.config import ConfigError
from ptycho.config.memory import cores
from ptycho.config.messages import one_line
from ptycho.run.mpi import STARTERS, started_by_mpi
from ptycho.run.stored_config import is_finished
from workflows.command_line.jobs import CONF, ERROR, EXIT_FAILED, EXIT_USAGE, attempt
from workflows.command_line.training_job import (
    DONE,
    FAILED,
    SUBMITTED,
    Job,
    Means,
    Progress,
    command,
    is_done,
)

log = logging.getLogger(__name__)

CHOICE, SETTINGS = "hydra/launcher=", "hydra.launcher."
CLUSTERS = {"submitit_local": "local", "submitit_slurm": "slurm"}
REQUEUED = "SLURM_RESTART_COUNT"  # set by Slurm in a job that was preempted and starts again
TERMINATED = 128 + 15  # exit code of a job that was asked to end
NO_MPI = (
    "the processes of this job do not know each other: set SLURM_MPI_TYPE to what `srun --mpi=list` names "
    "and mpi4py was built for (often pmi2 or pmix), or remove nodes and tasks_per_node"
)
OUTSIDE = "it was ended from outside: by its time limit, for its memory, or by hand"


@dataclass(frozen=True)
class Launcher:
    """Where jobs run: ``hydra/launcher=<name>``, with the keys of ``hydra.launcher``."""

    name: str
    settings: dict[str, Any]

    @property
    def tasks(self) -> int:
        return self.settings["nodes"] * self.settings["tasks_per_node"]

    def at_once(self, jobs: int) -> int:
        """How many of some jobs are submitted at a time: to Slurm all, here as many as cores allow."""
        if CLUSTERS[self.name] != "local":
            return jobs
        return max(1, cores() // (self.settings["cpus_per_task"] or cores()))

    def executor(self, folder: Path) -> Any:
        """The executor of submitit with these settings; its logs are below ``folder``."""
        import submitit
        from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf

        logging.getLogger("submitit").setLevel(logging.ERROR)  # it warns at each look without sacct
        cluster, shared = CLUSTERS[self.name], {field.name for field in fields(BaseQueueConf)}
        named = {key if key in shared else f"{cluster}_{key}": value for key, value in self.settings.items()}
        logs, _ = folder / named.pop("submitit_folder"), named.pop(f"{cluster}__target_")
        first = {key: named.pop(key) for key in [f"{cluster}_max_num_timeout"] if key in named}
        try:
            executor = submitit.AutoExecutor(logs, cluster=cluster, **first)
            executor.update_parameters(**named)
        except (RuntimeError, ValueError, NameError, TypeError, OSError) as error:
            raise ConfigError(f"{CHOICE}{self.name}: {one_line(str(error))}") from error
        return executor


@dataclass(frozen=True)
class Command:
    """The command of a job, ``program`` with its overrides: the exit code is the result, the output the log.

    It gets one signal where the job is cancelled or its time ends, so that a training can save what it did;
    that of a terminal goes past it. Where it was asked to end there is no result: Slurm may start it again.
    ``single``: it is the only process, whatever ``srun`` says of MPI.
    """

    program: list[str]
    job: Job
    single: bool

    @property
    def words(self) -> list[str]:
        """A job that Slurm has put into the queue again is gone on with."""
        again = self.job.resumed or REQUEUED in os.environ
        return [*self.program, *(self.job.going_on if again else self.job.starting)]

    def __call__(self) -> int:
        if not (self.single or started_by_mpi()):
            sys.stderr.write(f"{ERROR}{NO_MPI}\n")
            return EXIT_USAGE
        hidden = STARTERS if self.single else ()
        environment = {key: value for key, value in os.environ.items() if key not in hidden}
        # srun talks to MPI through an open file
        child = subprocess.Popen(self.words, env=environment, process_group=0, close_fds=self.single)
        try:
            code = child.wait()
        except BaseException:
            child.terminate()
            child.wait()
            raise
        if code == TERMINATED:
            sys.exit(code)
        return code


def read_launcher(config_name: str, arguments: Sequence[str]) -> tuple[Launcher | None, list[str]]:
    """Where the arguments of a command line want the jobs to run, None: here; and the other arguments."""
    name = next((text.removeprefix(CHOICE) for text in arguments if text.startswith(CHOICE)), "")
    if name not in CLUSTERS:
        return None, list(arguments)
    own = [text for text in arguments if text.lstrip("+").startswith((CHOICE, SETTINGS))]
    try:
        import hydra_plugins.hydra_submitit_launcher.config  # noqa: F401
        import submitit  # noqa: F401
    except ImportError as error:
        advice = "pip install 'ptychopinn[cluster]'"
        raise ConfigError(f"{CHOICE}{name}: cannot be used ({error}); {advice}") from error
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        composed = compose(config_name, [*own, "hydra.sweep.dir=."], return_hydra_config=True)
    settings = cast(dict[str, Any], OmegaConf.to_container(composed.hydra.launcher, resolve=True))
    launcher = Launcher(name, settings)
    if CLUSTERS[name] == "local" and launcher.tasks > 1:
        raise ConfigError(f"{CHOICE}{name}: a job is one process here; nodes and tasks_per_node must be 1")
    return launcher, [text for text in arguments if text not in own]


def submit(launcher: Launcher, jobs: list[Job], means: Means) -> int:
    """Submit the jobs and wait for all of them; the largest exit code. A signal cancels them."""
    progress = Progress(jobs, means.explain)
    left, codes = progress.refuse()
    for job in list(left):
        with contextlib.suppress(ConfigError):  # the job itself reports a damaged record
            if is_done(job):
                progress.note(job, DONE)
                left.remove(job)
    with means.stop.end_with(partial(explain_cancelled, left, means.again)), means.stop.defer():
        codes.append(attempt(partial(follow, launcher, left, means, progress)))
    progress.tell()
    return max(codes)


def follow(
    launcher: Launcher, jobs: list[Job], means: Means, progress: Progress, pause_s: float = 0.5
) -> int:
    """Submit jobs as there is room for them, under Slurm as an array; the largest exit code of all."""
    if not jobs:
        return 0
    executor = launcher.executor((jobs[0].together or jobs[0].path).absolute())
    waiting, active, codes = list(jobs), list[tuple[Job, Any]](), [0]
    try:
        while waiting or active:
            room = launcher.at_once(len(jobs)) - len(active)
            if new := waiting[:room]:
                with executor.batch():
                    handles = [executor.submit(Command(command(), job, launcher.tasks == 1)) for job in new]
                waiting, active = waiting[room:], [*active, *zip(new, handles, strict=True)]
                for job, handle in active[-len(new) :]:
                    place = f"as {handle.job_id}; its log: {handle.paths.stderr}"
                    log.info("%s: submitted, %s", job.path.name, place)
                    progress.note(job, SUBMITTED)
            ended = [entry for entry in active if entry[1].done()]
            active = [entry for entry in active if entry not in ended]
            codes += [take(job, handle, progress) for job, handle in ended]
            means.stop.check()
            time.sleep(pause_s)
    finally:
        for _, handle in active:
            handle.cancel(check=False)
    return max(codes)


def take(job: Job, handle: Any, progress: Progress) -> int:
    """The exit code of a job that has ended; it is logged, and noted in the table with what its log says."""
    codes = [] if handle.exception() else handle.results()
    code = max(codes, default=EXIT_FAILED)
    if code == 0:
        log.info("%s: done", job.path.name)
        progress.note(job, DONE)
        return 0
    lines = (handle.stderr() or handle.stdout() or "").splitlines()
    said = [line.removeprefix(ERROR) for line in lines if line.startswith(ERROR)]
    reason = said[-1] if said else f"exit code {code}" if codes else OUTSIDE
    log.info("%s: failed (%s); its log: %s", job.path.name, reason, handle.paths.stderr)
    progress.note(job, FAILED, reason)
    return code if code > 0 else EXIT_FAILED  # below zero: the signal that killed it


def explain_cancelled(jobs: list[Job], again: str) -> str:
    """What to tell a user who stopped the waiting for some jobs."""
    alone = [job.go_on for job in jobs if not is_finished(job.path)]
    words = [again] if jobs and jobs[0].scan else alone
    return "\n".join(["the jobs are cancelled; resume with:", *words])
