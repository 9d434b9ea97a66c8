"""Hydra's flags on a command line, apart from keys and paths."""

from __future__ import annotations

from collections.abc import Sequence

from hydra._internal.utils import get_args_parser

from ptycho.config import ConfigError

OPTIONAL = ("--info", "-i")  # may be followed by what about


def split_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return Hydra's flags, each with its value behind it, and the other words."""
    actions = get_args_parser()._option_string_actions
    flags, others, rest = list[str](), list[str](), list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            others.append(word)
            continue
        flags.append(word)
        action = actions.get(word)
        if action is None or action.nargs == 0 or not rest:
            continue
        if word not in OPTIONAL or rest[0] in (action.choices or ()):
            flags.append(rest.pop(0))
    return flags, others


def wants_keys(command: str, flags: Sequence[str]) -> bool:
    """Whether a program that does one thing at once is to show its keys, by ``--cfg job``, and do nothing.

    Raises:
        ConfigError: another flag.
    """
    words = [part for flag in flags for part in flag.split("=", 1)]
    if not words or words in (["--cfg", "job"], ["-c", "job"]):
        return bool(words)
    reason = "does one thing at once and takes keys alone"
    several = words[0] in ("-m", "--multirun")
    advice = "start it once for each" if several else "--cfg job shows the keys, --help what it does"
    raise ConfigError(f"{flags[0]}: {command} {reason}; {advice}")
