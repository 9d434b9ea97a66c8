"""The parts of every study: cells, those without a result, the store of the results, and a report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

import pydantic
import yaml
from matplotlib.figure import Figure

from ptycho.config import ConfigError, check
from ptycho.config.mapping import differences
from ptycho.files.atomic import write_atomically
from ptycho.run.folder import check_free

STRICT = pydantic.ConfigDict(extra="forbid")  # for the classes of definitions


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A named set of settings, plain values, on which alone the result depends, apart from the machine.

    Attributes:
        name: name of the file of the result; it may hold ``/``.
        groups: other names by which ``--only`` selects the cell.
    """

    name: str
    settings: Mapping[str, Any]
    groups: tuple[str, ...] = ()


class Store:
    """A folder with one JSON file per cell, written under a temporary name and renamed: never incomplete.

    ConfigError: it holds a run, is no folder, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        check_free(path, overwrite=False)
        self.path = path

    def write(self, name: str, save: Callable[[Any], object]) -> Path:
        """Write a file: ``save`` gets a binary file object."""
        write_atomically(self.path / name, save)
        return self.path / name

    def text(self, name: str, content: str) -> Path:
        """Write a text in UTF-8."""
        return self.write(name, lambda file: file.write(content.encode()))

    def figure(self, name: str, figure: Figure) -> Path:
        """Write a figure as PNG, 110 dots per inch."""
        return self.write(name, lambda file: figure.savefig(file, format="png", dpi=110))

    def result(self, cell: Cell) -> Any:
        """Return the stored result of a cell with its settings; None if there is none."""
        stored = self._stored(cell)
        return stored["result"] if stored is not None and stored["settings"] == cell.settings else None

    def keep(self, cell: Cell, result: Any) -> None:
        content = json.dumps({"settings": cell.settings, "result": result}, indent=1, default=float)
        self.text(f"{cell.name}.json", content + "\n")

    def due(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the cells without a result.

        Raises:
            ConfigError: the result of a cell was measured with other settings.
        """
        waiting = []
        for cell in cells:
            stored = self._stored(cell)
            if stored is None:
                waiting.append(cell)
            elif stored["settings"] != cell.settings:
                changes = differences(stored["settings"], cell.settings)
                raise ConfigError(
                    f"{self.path / cell.name}.json: was measured with other settings ({'; '.join(changes)}); "
                    "choose another --output, or delete it"
                )
        return waiting

    def _stored(self, cell: Cell) -> dict[str, Any] | None:
        try:
            stored = json.loads((self.path / f"{cell.name}.json").read_text())
        except (OSError, ValueError):
            return None
        return stored if isinstance(stored, dict) and stored.keys() == {"settings", "result"} else None


class Study(Protocol):
    """A definition as a value; its construction and that of its cells check all that needs no measurement."""

    def cells(self) -> Sequence[Any]:
        """Return all cells, in the order in which they are measured."""

    def check_due(self, due: Sequence[Any]) -> None:
        """Raise a ConfigError for settings that would only fail when a cell is measured."""

    def measure(self, cell: Any, store: Store) -> Any:
        """Measure a cell; return plain values. Names of further files begin with the name of the cell."""

    def report(self, cells: Sequence[Any], store: Store) -> str:
        """Return the stored results of some cells as Markdown; pictures are written into the store."""


def pick(cells: Sequence[Cell], words: Sequence[str]) -> list[Cell]:
    """Return the cells of the ``words``: groups, or patterns of names such as ``gs2_*``; all without words.

    Raises:
        ConfigError: a word matches no cell.
    """
    for word in words:
        groups = ", ".join(dict.fromkeys(group for cell in cells for group in cell.groups))
        allowed = f"a cell, a pattern of names as 'gs2_*', or one of {groups or cells[0].name}"
        check(any(_is_named(cell, word) for cell in cells), "--only", word, allowed)
    return [cell for cell in cells if not words or any(_is_named(cell, word) for word in words)]


def _is_named(cell: Cell, word: str) -> bool:
    return word in cell.groups or fnmatchcase(cell.name, word)


def load(path: Path, changes: Sequence[str], kinds: Mapping[str, type]) -> Study:
    """Read a definition; its key ``kind`` is the kind of study.

    Args:
        changes: ``key=value`` replaces a key of the file; ``key+=text`` extends a list.

    Raises:
        ConfigError: one line with the wrong key, and the allowed values.
    """
    try:
        values = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read ({' '.join(str(error).split())})") from error
    check(isinstance(values, dict), str(path), values, "a section of keys")
    for change in changes:
        key, sign, text = change.partition("=")
        check(bool(sign), "change", change, "KEY=VALUE or KEY+=TEXT")
        if key.endswith("+"):
            values[key[:-1]] = [*values.get(key[:-1], ()), text]
        else:
            try:
                values[key] = yaml.safe_load(text)
            except yaml.YAMLError as error:
                raise ConfigError(f"{key}={text}: is no YAML ({' '.join(str(error).split())})") from error
    kind = values.pop("kind", None)
    check(kind in kinds, f"{path}: kind", kind, f"one of {', '.join(kinds)}")
    return build(kinds[kind], values)


def build(cls: type, values: Any) -> Any:
    """Build a value of ``cls`` from plain values, all of which are used; raise a ConfigError of one line."""
    try:
        return pydantic.TypeAdapter(cls).validate_python(values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where, why = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{where}: {why}" if where else why) from error


def check_words(words: Iterable[str], ours: Sequence[str]) -> None:
    """Refuse an override, ``key=value``, of a key that the study sets."""
    for word in words:
        key = word.lstrip("+~").split("=", 1)[0]
        check(key not in ours, key, "overridden", "left to the study, which sets it")


def plain(value: Any) -> Any:
    """Return a dataclass as JSON stores it: mappings and lists."""
    return json.loads(json.dumps(asdict(value)))
