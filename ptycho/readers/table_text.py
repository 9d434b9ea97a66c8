"""Lines of a table of positions: which are its header, and which columns hold the positions.

=============== ======================================================================================
columns         parted by semicolons, tabs, commas or spaces; numbers with a decimal point, or a comma
                where that parts no columns. Others may hold anything: time stamps, names
header          lines before the numbers, comments (``#``, ``%``) or not: names, and perhaps a line of
                units. ``#L`` of SPEC names columns with two spaces between them
chosen columns  by name (``x_rb`` is ``x_rb_um``, too) or number from 1; x first, unless names that
                end in x and y, or ``data.position_axes``, say otherwise
=============== ======================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.readers.raw_scan import UNITS

COMMENTS = "#%"
AXES = {"x": "col", "col": "col", "column": "col", "y": "row", "row": "row"}
UNIT_WORDS = {unit: unit for unit in UNITS} | {
    "µm": "um",
    "μm": "um",  # the Greek letter; above, the sign for micro
    "micron": "um",
    "microns": "um",
    "metre": "m",
    "metres": "m",
    "meter": "m",
    "meters": "m",
    "pixel": "px",
    "pixels": "px",
    "å": "angstrom",
    "angstroms": "angstrom",
}
Line = tuple[int, str]  # its number, from 1, and what it says


@dataclass(frozen=True)
class Columns:
    """Which columns are the row and the column, each with its unit; None: the table does not say.

    ``unknown``: what stands where a unit is expected, and is none that is known.
    """

    row: int
    col: int
    units: tuple[str | None, str | None] = (None, None)
    named: bool = False
    unknown: str | None = None


def read_text(path: Path, text: str, axes: str | None, chosen: Sequence[str]) -> tuple[np.ndarray, Columns]:
    """Positions ``(J, 2)`` float64, (row, col), and the columns that they are from.

    Raises:
        ConfigError: one line with the line of the table at fault, or the key that is missing.
    """
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    _refuse_several_scans(path, lines)
    first = next((k for k, (_, line) in enumerate(lines) if _holds_numbers(line)), None)
    if first is None:
        raise ConfigError(f"{path}: holds no line of numbers; its first is {short(lines[0][1])}")
    count = len(_cells(lines[first][1]))
    columns = _columns(path, lines[:first], count, axes, chosen)
    rows = [_row(path, line, count, columns) for line in lines[first:] if line[1][0] not in COMMENTS]
    return np.array(rows, np.float64), columns


def unnamed(path: Path, count: int, axes: str | None, names: Sequence[str] = ()) -> Columns:
    """The columns of a table that does not name them: two, in the order that the user says."""
    if count != 2:
        held = f" of {', '.join(names)}" if names else ""
        raise ConfigError(
            f"{path}: has {count} columns and no header that names x and y, or row and col, as in x_um,y_um; "
            f"add one, or choose two{held}: data.position_columns=[{','.join(names[:2]) or '1,2'}]"
        )
    if axes is None:
        raise ConfigError(
            f"{path}: its columns have no names; add data.position_axes=xy or data.position_axes=rc"
        )
    return Columns(0, 1) if axes == "rc" else Columns(1, 0)


def short(line: str) -> str:
    """A line as an error shows it."""
    return repr(line if len(line) <= 40 else line[:40] + "…")


def _refuse_several_scans(path: Path, lines: Sequence[Line]) -> None:
    scans = [line.split()[1:2] for _, line in lines if line.startswith("#S ")]
    if len(scans) > 1:
        numbers = ", ".join(number for scan in scans[:5] for number in scan)
        raise ConfigError(
            f"{path}: holds {len(scans)} scans of SPEC ({numbers} …); copy one to a file of its own"
        )


def _columns(
    path: Path, header: Sequence[Line], count: int, axes: str | None, chosen: Sequence[str]
) -> Columns:
    """Which of ``count`` columns are the positions, by the lines of a header and what the user chose."""
    found: tuple[int, int] | None = None
    names: list[str] = []
    units: list[str | None] = [None] * count
    for number, line in header:
        cells = _names(line)
        said = [UNIT_WORDS.get(cell.strip("[]() ").lower()) for cell in cells]
        if len(cells) == count and any(said) and not _by_axes(cells):
            units = said
            continue
        here = _by_axes(cells) if len(cells) == count and not chosen else None
        names = cells if len(cells) == count and (here or not found) else names
        if here is None and not chosen and line[0] not in COMMENTS:
            raise ConfigError(
                f"{path}: line {number} is {short(line)}; must be numbers, or a header of {count} "
                "names with one x and one y, or row and col, among them, as in x_um,y_um"
                + (f"; or choose two: data.position_columns=[{','.join(cells[:2])}]" if count > 2 else "")
            )
        found = here or found
    if chosen:
        found = _chosen(path, names, count, axes, chosen)
    if found is None:
        return unnamed(path, count, axes, names)
    words = [_unit(names[k]) if names else (None, None) for k in found]
    known = [unit or units[k] for (unit, _), k in zip(words, found, strict=True)]
    unknown = next((said for unit, said in words if unit is None and said), None)
    return Columns(*found, (known[0], known[1]), not chosen, unknown)


def _by_axes(cells: Sequence[str]) -> tuple[int, int] | None:
    """The only (row, col) among names; None: there are none, or several."""
    axes = [{AXES[word] for word in _words(name) if word in AXES} for name in cells]
    rows, cols = ([k for k, found in enumerate(axes) if found == {axis}] for axis in ("row", "col"))
    return (rows[0], cols[0]) if len(rows) == len(cols) == 1 else None


def _chosen(
    path: Path, names: Sequence[str], count: int, axes: str | None, chosen: Sequence[str]
) -> tuple[int, int]:
    """(row, col) of the two columns that the user chose."""
    said = f"{path}: data.position_columns=[{','.join(chosen)}]"
    if len(chosen) != 2:
        raise ConfigError(f"{said}: must be two columns, by name or by number from 1")
    places = []
    for wanted in chosen:
        same = [k for k, name in enumerate(names) if name.lower() == wanted.lower()]
        like = same or [k for k, name in enumerate(names) if name.lower().startswith(wanted.lower())]
        if not like and wanted.isdecimal() and 1 <= int(wanted) <= count:
            like = [int(wanted) - 1]
        if len(like) != 1:
            raise ConfigError(f"{said}: {wanted} must be one of {', '.join(names) or f'1 to {count}'}")
        places.append(like[0])
    words = [(_words(names[k]) or [""])[0] if names else "" for k in places]
    says_rows = words[0] == "row" or [word[-1:] for word in words] == ["y", "x"]
    rows_first = axes == "rc" or (axes is None and says_rows)
    return (places[0], places[1]) if rows_first else (places[1], places[0])


def _unit(name: str) -> tuple[str | None, str | None]:
    """The unit in a name, and what stands in brackets in its place."""
    known = next((UNIT_WORDS[word] for word in _words(name) if word in UNIT_WORDS), None)
    brackets = re.search(r"[\[(]\s*([^\])]*)", name)
    return known, brackets.group(1).strip() if brackets else None


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-zµμå]+", name.lower()) if word]


def _names(line: str) -> list[str]:
    """What a line of a header names, one for each column."""
    if line.startswith("#L "):
        return re.split(r"\s{2,}|\t", line[3:].strip())
    return _fields(line.lstrip(COMMENTS))


def _fields(line: str) -> list[str]:
    line = re.sub(r"\s+([(\[])", r"\1", line.strip())  # x (um) is one name
    parting = next((mark for mark in ";\t," if mark in line), None)
    fields = [field.strip(" \t'\"") for field in line.split(parting)]
    return fields[:-1] if parting and fields[-1] == "" else fields


def _cells(line: str) -> list[str]:
    """The columns of a line; a comma is a decimal one where only that, and spaces, make numbers of all."""
    cells, spaced = _fields(line), line.split()
    if any(_number(cell) is None for cell in cells) and len(spaced) > 1:
        return spaced if all(_number(cell) is not None for cell in spaced) else cells
    return cells


def _number(cell: str) -> float | None:
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return None


def _holds_numbers(line: str) -> bool:
    """Whether a line is one of the table: two columns or more of it are numbers, or its only one."""
    cells = _cells(line)
    many = sum(_number(cell) is not None for cell in cells)
    return line[0] not in COMMENTS and many >= min(2, len(cells))


def _row(path: Path, line: Line, count: int, columns: Columns) -> tuple[float, float]:
    """(row, col) of one line."""
    cells = _cells(line[1])
    if len(cells) == count:
        row, col = _number(cells[columns.row]), _number(cells[columns.col])
        if row is not None and col is not None and not np.isinf(row) and not np.isinf(col):
            return row, col
    wanted = f"{count} finite numbers, or NaN for a frame without a position"
    if count > 2:
        wanted = f"{count} columns, with finite numbers in columns {columns.row + 1} and {columns.col + 1}"
    raise ConfigError(f"{path}: line {line[0]} is {short(line[1])}; must be {wanted}")
