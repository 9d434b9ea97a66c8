"""Read untrusted JSON and YAML: the size, the depth and the numbers of the values are limited."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml


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
        _check_aliases(yaml.parse(text, Loader=loader))
        values = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error
    _check(values)
    return values


def _check_aliases(events: Iterable[yaml.Event], deepest: int = 60, most: int = 2**20) -> None:
    """Raise ValueError for aliases that stand for too much, or for a part that they are in, and for depth."""
    sizes, open_parts = dict[str, int](), [(0, "")]  # what anchors stand for, and the parts that are open
    for event in events:
        size, anchor = 0, getattr(event, "anchor", None) or ""
        if isinstance(event, yaml.AliasEvent):
            if anchor not in sizes:
                raise ValueError(f"a part of it is in itself, by the alias *{anchor[:40]}")
            size = sizes[anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            open_parts.append((1, anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            size, anchor = open_parts.pop()
            sizes[anchor] = size
        elif isinstance(event, yaml.ScalarEvent):
            size = sizes[anchor] = 1
        open_parts[-1] = open_parts[-1][0] + size, open_parts[-1][1]
        if len(open_parts) > deepest:
            raise ValueError("it is nested too deep")
        if open_parts[-1][0] > most:
            raise ValueError(f"it stands for more than {most} values, by aliases of aliases")


def _content(path: Path, largest: int) -> bytes:
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe or a device would never end
        raise ValueError("it is no file")
    with path.open("rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"it has more than {largest} bytes")
    return content


def _check(values: Any, deepest: int = 60, largest: int = 10**300) -> None:
    """Raise ValueError for nesting, or integers beyond what a float holds."""
    level, depth = [values], 0
    while level:
        if depth > deepest:
            raise ValueError("it is nested too deep")
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, int) and abs(value) > largest:
                raise ValueError(f"a number in it has {len(str(abs(value)))} digits")
        level, depth = below, depth + 1
