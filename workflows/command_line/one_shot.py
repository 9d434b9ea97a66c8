"""Programs that do one thing at once: composed by Hydra, checked, done, and reported in a few lines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from ptycho.config import ConfigError
from ptycho.config.mapping import to_dataclass
from ptycho.config.own_code import allow
from ptycho.files.text import printable
from workflows.command_line.config import explained, plain
from workflows.command_line.console import NAME, PROGRAMS
from workflows.command_line.jobs import (
    EXIT_FAILED,
    EXIT_USAGE,
    MISTAKES,
    attempt,
    fail,
    in_turn,
    job_path,
    leave,
    plan_and_perform,
)
from workflows.command_line.words import place_words, split_flags

Config = TypeVar("Config")


class Unfit(Exception):
    """What was examined does not work, as the lines that are printed say: the exit code is 1."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))


@dataclass(frozen=True)
class Task(Generic[Config]):
    """One thing to do, and a name by which a sweep announces it."""

    config: Config
    path: Path


def run_program(
    name: str,
    cls: type[Config],
    do: Callable[[Config], list[str]],
    help_text: str | None,
    place: str = "",
    words: Sequence[str] = (),
    once: str = "",
) -> NoReturn:
    """End the process as the program of ``conf/<name>.yaml`` that the command line asks for something.

    Args:
        cls, do, help_text, once: as for :func:`perform`.
        place: the key that a word which is a path stands for, as for :func:`place_words`.
        words: that stand before those of the user.
    """
    typed = sys.argv[1:] if not place else place_words(place, sys.argv[1:])
    leave(partial(perform, name, cls, do, help_text, [*words, *typed], once))


def perform(
    name: str,
    cls: type[Config],
    do: Callable[[Config], list[str]],
    help_text: str | None,
    words: Sequence[str],
    once: str = "",
) -> int:
    """Do what the overrides ``words`` of ``conf/<name>.yaml`` ask for, and print its lines; the exit code.

    Args:
        cls: what the keys become.
        help_text: shown for ``--help``, and where there are no words.
        once: why the program does not take ``-m``; empty: it does.
    """
    if not words or {"-h", "--help"} & set(split_flags(words)[0]):
        sys.stdout.write(f"{help_text}\n")
        return 0 if words else EXIT_USAGE
    allow(word.partition("=")[2] for word in words)
    explain = partial(explained, schema=cls)

    def plan(composed: DictConfig) -> list[Task[Config]]:
        if once and HydraConfig.get().mode == RunMode.MULTIRUN:
            script = Path(sys.argv[0]).stem
            named = (f"{NAME} {program}" for program, known in PROGRAMS.items() if known.script == script)
            raise ConfigError(f"-m: {next(named, script)} {once}")
        return [Task(config_of(cls, composed), job_path(name))]

    def tell(task: Task[Config]) -> int:
        try:
            code, lines = 0, do(task.config)
        except Unfit as found:
            code, lines = EXIT_FAILED, str(found).splitlines()
        sys.stdout.write(printable("".join(f"{line}\n" for line in lines)))
        return code

    def perform_each(tasks: list[Task[Config]]) -> int:
        try:
            _check_outputs([task.config for task in tasks])
        except ConfigError as error:
            return fail(error, MISTAKES, explain)
        codes = (attempt(partial(tell, task), explain, mistakes=MISTAKES) for task in in_turn(tasks))
        return max(codes, default=0)

    return plan_and_perform(name, words, plan, perform_each, explain)


def _check_outputs(configs: Sequence[object], keys: Sequence[str] = ("output", "output_dir", "to")) -> None:
    """Refuse jobs of a sweep that would write over what another wrote: ConfigError."""
    for key in keys:
        for value, count in Counter(getattr(config, key, None) for config in configs).items():
            if value is not None and count > 1:
                raise ConfigError(
                    f"{key}={value}: {count} jobs of the sweep would write there; name a key of the sweep "
                    f"in it, as in '{key}=${{seed}}_{Path(value).name}'"
                )


def config_of(cls: type[Config], composed: DictConfig) -> Config:
    """Return the configuration ``cls`` that Hydra composed; ConfigError: an unknown key, a wrong value."""
    return to_dataclass(cls, plain(composed))
