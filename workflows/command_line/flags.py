"""Hydra's flags on a command line, apart from keys and paths."""

from __future__ import annotations

from collections.abc import Sequence

from hydra._internal.utils import get_args_parser

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
