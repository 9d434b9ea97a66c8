"""Untrusted text: made fit to be shown, and JSON and YAML with limits of size, depth and numbers."""

from __future__ import annotations

import json
import logging
import math
import stat
from pathlib import Path
from typing import Any

import yaml

DEEPEST = 60  # levels of values in values


def shown(text: str, longest: int = 200) -> str:
    """Return a text on one line, without control characters, and cut after ``longest`` characters."""
    line = "".join(letter if letter.isprintable() else "·" for letter in " ".join(text.split()))
    return line if len(line) <= longest else line[:longest] + "…"


def printable(text: str) -> str:
    """Return a text without the control characters of a terminal; names of files may contain any."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "·" for letter in text)


class PlainFormatter(logging.Formatter):
    """Lines of a log that are :func:`printable`."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class EachWarningOnce(logging.Filter):
    """Filter that passes a warning the first time; in a batch, once for each run (:func:`next_run`)."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        before = len(self.passed)
        self.passed.add(record.getMessage())
        return len(self.passed) > before


def next_run() -> None:
    """Let the handlers of the process pass warnings again."""
    for handler in logging.getLogger().handlers:
        for one in handler.filters:
            if isinstance(one, EachWarningOnce):
                one.passed.clear()


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
