"""Programs that do one thing at once: composed by Hydra, checked, done, and told in a few lines."""

from __future__ import annotations

import difflib
import sys
import typing
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from ptycho.config import ConfigError
from ptycho.config.mapping import show, to_dataclass
from workflows.command_line import CONF, EXIT_USAGE, MISTAKES, fail, log_to_stderr
from workflows.config import NO_KEY, explained

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
    if not words or {"-h", "--help"} & set(words):
        sys.stdout.write(f"{help_text}\n")
        return 0 if words else EXIT_USAGE
    log_to_stderr()
    try:
        path = CONF / name  # in a folder of its own where a key has the name of a group
        with initialize_config_dir(version_base="1.3", config_dir=str(path.parent)):
            composed = compose(path.name, list(words))
        lines = do(config_of(cls, composed))
    except Exception as error:
        return fail(error, MISTAKES, lambda found: _explained(cls, found))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def config_of(cls: type[Config], composed: DictConfig) -> Config:
    """The validated configuration ``cls`` in what Hydra composed.

    Raises:
        ConfigError: an unknown key, or a wrong value.
    """
    values = typing.cast(dict[str, Any], OmegaConf.to_container(composed, resolve=True))
    for key, value in values.items():
        if key not in _keys(cls):
            raise ConfigError(_unknown(cls, key, show(value)))
    found: Config = to_dataclass(cls, values)
    return found


def _explained(cls: type, error: Exception) -> str:
    """An error on one line, with the keys of ``cls``."""
    found = NO_KEY.search(str(error))
    section = "" if found is None else found[1].rpartition(".")[0]
    kind = typing.get_type_hints(cls).get(section)
    if found is not None and is_dataclass(kind):
        return _unknown(typing.cast(type, kind), *found.groups())
    return explained(error) if found is None or section in _keys(cls) else _unknown(cls, *found.groups())


def _unknown(cls: type, key: str, value: str) -> str:
    section, dot, name = key.rpartition(".")
    close = difflib.get_close_matches(name, _keys(cls), n=1)
    hint = f"did you mean {section}{dot}{close[0]}?" if close else f"known are {', '.join(_keys(cls))}"
    return f"{key}={value}: unknown key; {hint}"


def _keys(cls: Any) -> list[str]:
    return [field.name for field in fields(cls)]
