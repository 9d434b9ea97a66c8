"""Programs that do one thing at once: composed by Hydra, checked, done, and told in a few lines."""

from __future__ import annotations

import re
import sys
import typing
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from ptycho.config.former_names import current_words
from ptycho.config.mapping import to_dataclass
from ptycho.config.own_code import allow
from ptycho.files.text import printable
from workflows.command_line.config import explained, plain
from workflows.command_line.console import NAME, PROGRAMS
from workflows.command_line.flags import split_flags, wants_keys
from workflows.command_line.jobs import CONF, EXIT_USAGE, MISTAKES, fail, log_to_stderr

Config = typing.TypeVar("Config")


def perform(
    name: str,
    cls: type[Config],
    do: Callable[[Config], list[str]],
    help_text: str | None,
    words: Sequence[str],
) -> int:
    """Do what the overrides ``words`` of the configuration ``name`` ask for; the exit code.

    Args:
        name: of a file in ``conf/``; cls: what its keys become.
        do: does it and returns lines to print.
        help_text: shown for ``--help``, and where there are no words.
    """
    flags, overrides = split_flags(words)
    if not words or {"-h", "--help"} & set(flags):
        sys.stdout.write(f"{help_text}\n")
        return 0 if words else EXIT_USAGE
    log_to_stderr()
    allow(word.partition("=")[2] for word in words)
    try:
        shown = wants_keys(command_of(Path(sys.argv[0]).stem), flags)
        path = CONF / name  # in a folder of its own where a key has the name of a group
        with initialize_config_dir(version_base="1.3", config_dir=str(path.parent)):
            composed = compose(path.name, current_words(overrides))
        if shown:
            sys.stdout.write(OmegaConf.to_yaml(composed))
            return 0
        lines = do(config_of(cls, composed))
    except Exception as error:
        return fail(error, MISTAKES, partial(explained, schema=cls))
    sys.stdout.write(printable("".join(f"{line}\n" for line in lines)))
    return 0


def command_of(script: str) -> str:
    """What the program of a script is called."""
    return next((f"{NAME} {name}" for name, program in PROGRAMS.items() if program.script == script), script)


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
    """The validated configuration ``cls`` in what Hydra composed.

    Raises:
        ConfigError: an unknown key, or a wrong value.
    """
    return to_dataclass(cls, plain(composed))
