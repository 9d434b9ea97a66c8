"""Programs that do one thing at once: composed by Hydra, checked, done, and reported in a few lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn, TypeVar

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from ptycho.config import ConfigError
from ptycho.config.mapping import to_dataclass
from ptycho.config.own_code import allow
from ptycho.files.atomic import WriteError
from ptycho.files.text import printable
from workflows.command_line.config import explained, plain
from workflows.command_line.jobs import (
    EXIT_FAILED,
    EXIT_USAGE,
    MISTAKES,
    fail,
    leave,
    plan_and_perform,
)
from workflows.command_line.words import place_words, split_flags

Config = TypeVar("Config")


class Unfit(Exception):
    """What was examined does not work, as the lines that are printed say: the exit code is 1."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))


def run_program(
    name: str,
    cls: type[Config],
    do: Callable[[Config], list[str]],
    help_text: str | None,
    place: str = "",
    words: Sequence[str] = (),
) -> NoReturn:
    """End the process as the program of ``conf/<name>.yaml`` that the command line asks for something.

    Args:
        cls, do, help_text: as for :func:`perform`.
        place: the key that a word which is a path stands for, as for :func:`place_words`.
        words: that stand before those of the user.
    """
    typed = sys.argv[1:] if not place else place_words(place, sys.argv[1:])
    leave(partial(perform, name, cls, do, help_text, [*words, *typed]))


def perform(
    name: str,
    cls: type[Config],
    do: Callable[[Config], list[str]],
    help_text: str | None,
    words: Sequence[str],
) -> int:
    """Do what the overrides ``words`` of ``conf/<name>.yaml`` ask for, and print its lines; the exit code.

    Args:
        cls: what the keys become.
        help_text: shown for ``--help``, and where there are no words.
    """
    if not words or {"-h", "--help"} & set(split_flags(words)[0]):
        sys.stdout.write(f"{help_text}\n")
        return 0 if words else EXIT_USAGE
    allow(word.partition("=")[2] for word in words)
    explain = partial(explained, schema=cls)

    def plan(composed: DictConfig) -> list[Config]:
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            raise ConfigError("-m: this program does one thing at a time; start it once for each")
        return [config_of(cls, composed)]

    def do_planned(configs: list[Config]) -> int:
        code, lines = 0, list[str]()
        for config in configs:  # none: Hydra has shown something
            try:
                lines = do(config)
            except Unfit as error:
                code, lines = EXIT_FAILED, str(error).splitlines()
            except Exception as error:
                full = "; make room and start again" if isinstance(error, WriteError) else ""
                return fail(error, MISTAKES, explain, full)
        sys.stdout.write(printable("".join(f"{line}\n" for line in lines)))
        return code

    return plan_and_perform(name, words, plan, do_planned, explain)


def config_of(cls: type[Config], composed: DictConfig) -> Config:
    """Return the configuration ``cls`` that Hydra composed; ConfigError: an unknown key, a wrong value."""
    return to_dataclass(cls, plain(composed))
