"""Import a user's own code, which some keys name by an import path, ``package.module:name``.

A path is imported only if the command line or a call from Python names it (:func:`allow`): the folder of
another user has keys, too, and must not run code. So :func:`load` refuses every path that has not been
allowed in this process.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterable
from typing import Any

from ptycho.config.messages import ConfigError

SYNTAX = "package.module:name, as in my_module:name for my_module.py in this folder"
DOORS: dict[str, tuple[str, ...] | None] = {  # key: the keywords that its function gets; None: no function
    "loss": ("predicted", "measured", "objects", "normalisation"),
    "model.target": ("geometry", "seed"),
    "data.format": ("path", "options"),
    "solver.regulariser": None,
    "train.callbacks": (),
}
_allowed: set[str] = set()


def is_import_path(value: Any) -> bool:
    """Return whether a value names code; words such as ``learned`` do not."""
    return isinstance(value, str) and re.fullmatch(r"[^\W\d][\w.]*:[^\W\d]\w*", value) is not None


def check_import_path(key: str, value: str | None) -> None:
    """Refuse a value that is not an import path."""
    if value is not None and not is_import_path(value):
        raise ConfigError(f"{key}={value or repr(value)}: must be {SYNTAX}")


def allow(paths: Iterable[Any]) -> None:
    """Let :func:`load` import the import paths among some values, which the user has named."""
    _allowed.update(path for path in paths if is_import_path(path))


def check_allowed(key: str, path: str) -> None:
    """Refuse an import path that only a file has named."""
    if path not in _allowed:
        named = f"model=custom {key}={path}" if key == "model.target" else f"{key}={path}"
        raise ConfigError(
            f"{key}={path}: is code that a file names; it is imported only where you name it: add {named} "
            f"(for export and export-model trust={path}) if it is yours"
        )


def load(key: str, path: str) -> Any:
    """Return the value that an import path names; modules of the working directory are found, too.

    ConfigError: a file names it and the user does not, it cannot be imported, or its function does not take
    the keywords of :data:`DOORS`.
    """
    check_allowed(key, path)
    name, _, attribute = path.partition(":")
    if os.getcwd() not in sys.path:  # behind what is installed, so that no file there replaces a module
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(name)
    except Exception as error:  # whatever the module does when it is imported
        advice = f"start in the folder of {name.split('.')[0]}, or install it"
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ConfigError(f"{key}={path}: {name} cannot be imported ({reason}); {advice}") from error
    if not hasattr(module, attribute):
        close = difflib.get_close_matches(attribute, vars(module), n=1)
        hint = f"; did you mean {name}:{close[0]}?" if close else ""
        raise ConfigError(f"{key}={path}: {name} ({module.__file__}) has no {attribute}{hint}")
    value, keywords = getattr(module, attribute), DOORS[key]
    if keywords is not None:
        _check_call(f"{key}={path}", value, keywords)
    return value


def _check_call(source: str, value: Any, keywords: tuple[str, ...]) -> None:
    wanted = f"({', '.join(keywords)}), by keyword" if keywords else "() without arguments"
    if not callable(value):
        raise ConfigError(f"{source}: is no function; must be one that is called as {wanted}")
    try:
        signature = inspect.signature(value)
    except ValueError:  # as some built-in functions have none
        return
    try:
        signature.bind(**dict.fromkeys(keywords))
    except TypeError as error:
        raise ConfigError(f"{source}: takes {signature}; must be callable as {wanted} ({error})") from error
