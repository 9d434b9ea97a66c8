"""Open a file of anyone, or say in a line what is wrong with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ptycho.config import ConfigError
from ptycho.files.text import shown


class FileError(ValueError):
    """Fault of a file or of something in it, in one line that does not name the file."""


def open_file(path: str | Path) -> IO[bytes]:
    """Open a file to be read; FileError: it is not there, not readable, or a pipe or device without end."""
    if "\0" in str(path):
        raise FileError("no such file")
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise FileError("is no file")
        return Path(path).open("rb")
    except FileNotFoundError as error:
        raise FileError("no such file") from error
    except OSError as error:
        raise FileError(f"cannot be read ({error.strerror or error})") from error


@contextlib.contextmanager
def damage_named(what: str) -> Iterator[None]:
    """Raise whatever damaged bytes lead to as FileError: ``what`` is wrong, and the reason."""
    try:
        yield
    except (FileError, ConfigError):
        raise
    except Exception as error:
        raise FileError(f"{what} ({describe_error(error)})") from error


@contextlib.contextmanager
def faults_of(name: str | Path) -> Iterator[None]:
    """Raise a FileError as ConfigError that begins with the ``name`` of the file."""
    try:
        yield
    except FileError as error:
        raise ConfigError(f"{name}: {error}") from error


def describe_error(error: BaseException) -> str:
    """Return the message of an exception, in 300 letters at most; a ``KeyError`` would add quotes."""
    text = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
    return shown(getattr(error, "strerror", None) or text, 300) or type(error).__name__
