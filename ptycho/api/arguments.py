"""Errors that name an argument, ``regulariser=x``, where the configuration has ``solver.regulariser``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from ptycho.config import ConfigError
from ptycho.config.messages import fields_of

P = ParamSpec("P")
T = TypeVar("T")


def name_arguments(
    *sections: Any, renamed: Mapping[str, str] | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let the errors of a function name its arguments instead of keys of the configuration.

    Args:
        sections: whose keys are arguments under their own names.
        renamed: further keys with the names of their arguments.
    """
    keys = {f"{cls.SECTION}.{name}": name for cls in sections for name in fields_of(cls)}
    keys |= renamed or {}
    places = "|".join(re.escape(cls.SECTION) for cls in sections)
    known = re.compile(rf"(?<![\w./])({'|'.join(map(re.escape, sorted(keys, key=len, reverse=True)))})\b")
    unknown = re.compile(rf"^({places})\.(?=\w+=)")

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> T:
            try:
                return function(*arguments, **named)
            except ConfigError as error:
                text = known.sub(lambda key: keys[key[1]], str(error))
                error.args = (re.sub(", or null$", ", or None", unknown.sub("", text)),)
                raise

        return call

    return decorate
