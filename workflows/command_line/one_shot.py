"""Programs that do one thing at once: composed by Hydra, checked, done, and reported in a few lines."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from ptycho.config import ConfigError
from ptycho.config.former_names import current_words
from ptycho.config.mapping import to_dataclass
from ptycho.config.own_code import allow
from ptycho.files.text import printable
from workflows.command_line.config import explained, plain
from workflows.command_line.console import NAME, PROGRAMS
from workflows.command_line.foreign import split_flags
from workflows.command_line.jobs import (
    EXIT_USAGE,
    MISTAKES,
    attempt,
    fail,
    in_turn,
    job_path,
    plan_and_perform,
)

Config = TypeVar("Config")
OUTPUTS = ("output", "output_dir", "to")  # keys that name what a program writes


@dataclass(frozen=True)
class Task(Generic[Config]):
    """One thing to do, and a name by which a sweep announces it."""

    config: Config
    path: Path


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
    flags, _ = split_flags(words)
    if not words or {"-h", "--help"} & set(flags):
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

    def tell(task: Task[Config]) -> None:
        sys.stdout.write(printable("".join(f"{line}\n" for line in do(task.config))))

    def perform_each(tasks: list[Task[Config]]) -> int:
        try:
            _check_outputs([task.config for task in tasks])
        except ConfigError as error:
            return fail(error, MISTAKES, explain)
        each = (partial(tell, task) for task in in_turn(tasks))
        return max((attempt(one, explain, mistakes=MISTAKES) for one in each), default=0)

    return plan_and_perform(name, current_words(words), plan, perform_each, explain)


def _check_outputs(configs: Sequence[object]) -> None:
    """Raise ConfigError if one job of a sweep would write over what another wrote."""
    for key in OUTPUTS:
        for value, count in Counter(getattr(config, key, None) for config in configs).items():
            if value is not None and count > 1:
                raise ConfigError(
                    f"{key}={value}: {count} jobs of the sweep would write there; name a key of the sweep "
                    f"in it, as in '{key}=${{seed}}_{Path(value).name}'"
                )


OVERRIDE = re.compile(r"[+~]{0,2}[A-Za-z_][\w./@]*=|~[A-Za-z_][\w.]*$")


def place_words(key: str, words: Sequence[str], several: bool = False) -> list[str]:
    """Words with the bare ones among them as values of ``key``; folders of a sweep have ``=`` in their names.

    ``several``: they become a list; else the first is taken, and another is a mistake that Hydra tells.
    """
    flags, others = split_flags(words)
    bare = [word for word in others if is_place(word)]
    rest = [*flags, *(word for word in others if word not in bare)]
    if not bare:
        return rest
    given = f"[{','.join(map(quoted, bare))}]" if several else quoted(bare[0])
    return [*rest, *([] if several else bare[1:]), f"{key}={given}"]


def is_place(word: str) -> bool:
    """Whether a word of the command line is a path, not an override."""
    return Path(word).exists() or OVERRIDE.match(word) is None


def quoted(text: str) -> str:
    """A path as Hydra's grammar wants it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def config_of(cls: type[Config], composed: DictConfig) -> Config:
    """The configuration ``cls`` in what Hydra composed; ConfigError: an unknown key, or a wrong value."""
    return to_dataclass(cls, plain(composed))
