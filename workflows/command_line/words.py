"""Words of a command line: flags of Hydra, overrides, and paths, which may hold any sign."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from hydra._internal.utils import get_args_parser

OVERRIDE = re.compile(r"[+~]{0,2}[A-Za-z_][\w./@]*=|~[A-Za-z_][\w.]*$")


def key_of(override: str) -> str:
    """Return the key of an override, without its prefix."""
    return override.lstrip("+~").split("=", 1)[0]


def split_flags(words: Iterable[str]) -> tuple[list[str], list[str]]:
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
        if word not in ("--info", "-i") or rest[0] in (action.choices or ()):
            flags.append(rest.pop(0))
    return flags, others


def quoted(text: str) -> str:
    """Return a text as Hydra's grammar wants it; backslashes before a quote are doubled."""
    escaped = re.sub(r'(\\*)("|$)', lambda match: 2 * match[1] + ('\\"' if match[2] else ""), text)
    return f'"{escaped}"'


def quote_paths(words: Iterable[str], *keys: str) -> list[str]:
    """Return words with quotes around the values of some keys; folders of a sweep have ``=`` and ``,``."""
    parts = [word.partition("=") for word in words]
    plain = ("", "null")
    return [
        f"{key}={quoted(value)}" if key in keys and value not in plain and value[0] not in "'\"[" else word
        for word, (key, _, value) in zip(words, parts, strict=True)
    ]


def place_words(key: str, words: Sequence[str]) -> list[str]:
    """Return words with the paths among them as the value of ``key``, or as the list ``key[]``.

    Of several paths the first is the value, and Hydra reports the others.
    """
    flags, others = split_flags(words)
    paths = [word for word in others if Path(word).exists() or OVERRIDE.match(word) is None]
    rest = [*flags, *(word for word in others if word not in paths)]
    if not paths:
        return rest
    if key.endswith("[]"):
        return [*rest, f"{key[:-2]}=[{','.join(map(quoted, paths))}]"]
    return [*rest, *paths[1:], f"{key}={quoted(paths[0])}"]
