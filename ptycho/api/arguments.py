"""Texts that name an argument, ``positions=True``, where the command line has ``solver.positions=true``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from ptycho.config import ConfigError
from ptycho.config.messages import fields_of

P = ParamSpec("P")
T = TypeVar("T")
VALUES = {"true": "True", "false": "False", "null": "None"}


def argument_words(*sections: Any, renamed: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """Return a function of a text that names arguments where the text has keys of the configuration.

    Keys of ``sections`` are arguments under their own names; ``renamed`` has others.
    """
    keys = {f"{cls.SECTION}.{name}": name for cls in sections for name in fields_of(cls)}
    keys |= renamed or {}
    names = "|".join(map(re.escape, sorted(keys, key=len, reverse=True)))
    known = re.compile(rf"(?<![\w./])({names})\b(?:=({'|'.join(VALUES)})\b)?")

    def argument(key: re.Match[str]) -> str:
        return keys[key[1]] + (f"={VALUES[key[2]]}" if key[2] else "")

    return functools.partial(known.sub, argument)


def name_arguments(
    *sections: Any, renamed: Mapping[str, str] | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let the errors of a function name its arguments by :func:`argument_words`."""
    words = argument_words(*sections, renamed=renamed)
    places = "|".join(re.escape(cls.SECTION) for cls in sections)
    unknown = re.compile(rf"^({places})\.(?=\w+=)")

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> T:
            try:
                return function(*arguments, **named)
            except ConfigError as error:
                text = unknown.sub("", words(str(error)))
                error.args = (re.sub(", or null$", ", or None", text),)
                raise

        return call

    return decorate
