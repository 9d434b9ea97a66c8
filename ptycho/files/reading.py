"""Read files of others: faults in one line, JSON and YAML with limits of size, depth and numbers."""

from __future__ import annotations

import contextlib
import json
import math
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import yaml

from ptycho.config import ConfigError

DEEPEST = 60  # levels of values in values


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


def shown(text: str, longest: int = 200) -> str:
    """Return a text on one line, without control characters, and cut after ``longest`` characters."""
    line = "".join(letter if letter.isprintable() else "·" for letter in " ".join(text.split()))
    return line if len(line) <= longest else line[:longest] + "…"


def read_json(path: Path, largest: int = 2**25) -> dict[str, Any]:
    """Return names and values of a file; ValueError: more than ``largest`` bytes, no JSON, something else."""
    values = parse_json(_content(path, largest))
    if not isinstance(values, dict):
        raise ValueError("it must hold names and values")
    return values


def parse_json(text: str | bytes) -> Any:
    """Return the values in a text; ValueError: it is no JSON, nested too deep, or has an infinite number."""
    try:
        values = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    _check(values)
    return values


def read_yaml(path: Path, largest: int = 2**20) -> Any:
    """Return the values in a file, without Python's objects; ValueError: no such YAML, or too large."""
    text = _content(path, largest).decode("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=loader):  # the loader in C would end the process
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise ValueError("it is nested too deep")
        values = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error
    _check(values, most=2**20)
    return values


def _content(path: Path, largest: int) -> bytes:
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe or a device would never end
        raise ValueError("it is no file")
    with path.open("rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"it has more than {largest} bytes")
    return content


def _check(values: Any, most: float = math.inf, largest: int = 10**300) -> None:
    """Raise ValueError for deep nesting, too many values, or integers beyond what a float holds."""
    level, depth = [values], 0
    while level:
        if depth > DEEPEST:
            raise ValueError("it is nested too deep, or a part of it is in itself")
        below: list[Any] = []
        for value in level:
            if len(below) > most:
                raise ValueError(f"it stands for more than {most} values, by aliases of aliases")
            if isinstance(value, dict):
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, int) and abs(value) > largest:
                raise ValueError(f"a number in it has {len(str(abs(value)))} digits")
        level, depth = below, depth + 1
