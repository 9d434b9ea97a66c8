"""What the programs in ``scripts/`` share: jobs planned by Hydra and done in turn, errors, exit codes.

A program first plans every job that its command line asks for; none starts if one is wrong. Nothing here
imports TensorFlow, so that a mistake is answered at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ptycho.command_line.config import check_folder, explained, plain
from ptycho.command_line.console import EXIT_USAGE, folder_of
from ptycho.command_line.words import asks_help, split_flags
from ptycho.config import ConfigError
from ptycho.config.mapping import to_dataclass
from ptycho.config.own_code import allow
from ptycho.files.atomic import WriteError
from ptycho.progress import EachWarningOnce, PlainFormatter, printable

log = logging.getLogger(__name__)

CONF = folder_of("conf")
EXIT_FAILED, EXIT_INTERRUPTED = 1, 130
ERROR = "error: "  # begins the line that says what went wrong
MISTAKES = (HydraException, OmegaConfBaseException, ValueError)  # in planning; a ConfigError is a ValueError
MAX_NAME = 120
QUIET = (  # Hydra makes no folder and no log of its own; to resolve output_dir gives all jobs one time of day
    "hydra/hydra_logging=none",
    "hydra/job_logging=none",
    "hydra.run.dir=.",
    "hydra.output_subdir=null",
    "hydra.sweep.dir='${scratch:${oc.select:output_dir}}'",
    "hydra.sweep.subdir=.",
)

AnyJob = TypeVar("AnyJob", bound=Any)  # planned, and then done in a folder of its own, ``path``


def log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter("%(asctime)s %(message)s", "%H:%M:%S"))
    handler.addFilter(EachWarningOnce())
    # Hydra writes its own messages, such as those of --info, on stdout
    handler.addFilter(lambda line: line.levelno >= logging.WARNING or not line.name.startswith("hydra."))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def plan_all(
    config_name: str, arguments: Sequence[str], plan: Callable[[DictConfig], Sequence[AnyJob]]
) -> list[AnyJob]:
    """Return the job, or those of a sweep, that a command line specifies; all are valid, none has started."""
    flags, words = split_flags(arguments)
    arguments = [*words, *flags]  # --info takes the word behind it
    for word in words:  # Hydra's own folder would be made, and stay empty
        name, _, value = word.lstrip("+").partition("=")
        if name in ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir"):
            raise ConfigError(f"{word}: is not where a run goes; set output_dir={value or '…'}")
        if name == "hydra/sweeper":
            raise ConfigError(f"{word}: all jobs are planned before the first begins; use ptycho tune")
        if name == "hydra/launcher":
            raise ConfigError(
                f"{word}: all jobs run in this process; start the same command several times (docs/large.md)"
            )
    jobs: list[AnyJob] = []
    mistakes: list[Exception] = []
    path = CONF / config_name  # in a folder of its own where a key has the name of a group

    @hydra.main(version_base="1.3", config_path=str(path.parent), config_name=path.name)
    def collect(composed: DictConfig) -> None:
        try:
            jobs.extend(plan(composed))
        except (ConfigError, OmegaConfBaseException) as error:  # raised here, Hydra would add a line
            mistakes.append(error)

    check_folder(path.name, arguments, path.parent)
    with tempfile.TemporaryDirectory() as scratch, _tell_hydra([*QUIET, *arguments]):
        OmegaConf.register_new_resolver("scratch", lambda _: scratch, replace=True)
        collect()
    if mistakes:
        raise mistakes[0]
    return jobs


@contextlib.contextmanager
def _tell_hydra(arguments: Sequence[str]) -> Iterator[None]:
    """Hand Hydra its arguments, and let its errors come to us, not to its printer.

    ``hydra.main`` reads both from the process, ``sys.argv`` and HYDRA_FULL_ERROR, and its compose API knows
    neither sweeps nor ``--help``; so they are changed here, for its call alone, and restored.
    """
    argv, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR", "0")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = [argv[0], *arguments], "1"
    try:
        yield
    finally:
        sys.argv, os.environ["HYDRA_FULL_ERROR"] = argv, full_error


def job_path(output_dir: str) -> Path:
    """``output_dir``, or for job k of a sweep ``output_dir/<k>_<overrides>``; to be called by a ``plan``."""
    hydra_config = HydraConfig.get()
    if hydra_config.mode != RunMode.MULTIRUN:
        return Path(output_dir)
    name = f"{hydra_config.job.num}_{hydra_config.job.override_dirname}".replace("/", "-")
    return Path(output_dir) / name[:MAX_NAME]


def fail(
    error: Exception,
    mistakes: tuple[type[Exception], ...],  # errors of a wrong configuration or input file
    explain: Callable[[Exception], str] = explained,
    advice: str = "",
) -> int:
    """Log an error on one line, after a traceback on demand; return the exit code."""
    wants_traceback = os.environ.get("HYDRA_FULL_ERROR", "0") not in ("", "0")
    if wants_traceback:
        log.error("failed", exc_info=error)
    usage = isinstance(error, mistakes)
    kind = "" if usage or advice else f"{type(error).__name__}: "
    hint = advice or ("" if usage or wants_traceback else " (traceback: HYDRA_FULL_ERROR=1)")
    sys.stderr.write(printable(f"{ERROR}{kind}{explain(error)}{hint}\n"))
    return EXIT_USAGE if usage else EXIT_FAILED


def leave(main: Callable[[], int]) -> NoReturn:
    """End the process with the exit code of ``main``."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(EXIT_INTERRUPTED)


Config = TypeVar("Config")


class Unfit(Exception):
    """What was examined does not work, as the text that is printed says: the exit code is 1."""


def run_program(
    name: str,
    cls: type[Config],
    do: Callable[[Config], list[str]],
    help_text: str | None,
    read: Callable[[list[str]], list[str]] = list,  # overrides and flags of Hydra from the user's words
    usual: Sequence[str] = (),  # overrides that stand before them
) -> NoReturn:
    """End the process as the program of ``conf/<name>.yaml``; ``do`` gets its keys as ``cls``."""
    words = [*usual, *read(sys.argv[1:])]

    def plan(composed: DictConfig) -> list[Config]:
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            raise ConfigError("-m: this program does one thing at a time; start it once for each")
        return [to_dataclass(cls, plain(composed))]

    def perform() -> list[str]:
        allow(word.partition("=")[2] for word in words)
        return [line for config in plan_all(name, words, plan) for line in do(config)]

    leave(partial(answer, words, help_text, perform, partial(explained, schema=cls)))


def answer(
    words: Sequence[str],
    help_text: str | None,
    do: Callable[[], list[str]],
    explain: Callable[[Exception], str] = explained,
) -> int:
    """Print the lines that ``do`` returns, or the help, where there are no words; return the exit code."""
    if not words or asks_help(words):
        sys.stdout.write(f"{help_text}\n")
        return 0 if words else EXIT_USAGE
    log_to_stderr()
    code = 0
    try:
        text = "\n".join(do())
    except Unfit as error:
        code, text = EXIT_FAILED, str(error)
    except Exception as error:
        full = "; make room and start again" if isinstance(error, WriteError) else ""
        return fail(error, MISTAKES, explain, full)
    sys.stdout.write(printable(f"{text}\n" if text else ""))
    return code
