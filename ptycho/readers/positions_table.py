"""Positions in a table beside the patterns: CSV, TXT, or NPY ``(J, 2)`` or ``(2, J)``.

Columns are parted by semicolons, tabs, commas or spaces (``#L`` of SPEC: two spaces); numbers have a decimal
point, or a comma where that parts no columns. A header names them, ``x_um, y_um``, ``row [px]; col [px]``,
``index  x (mm)  y (mm)``, perhaps with a line of units, or the user chooses two, x first
(``data.position_columns``). ``x`` and ``col`` are the column of the object's array, ``y`` and ``row`` its
row, each the probe's place, increasing with the array's index (of a sample stage, both signs are turned).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.reading import FileError, damage_named, faults_of, open_file
from ptycho.readers.positions import PIXELS, Placement
from ptycho.readers.raw_scan import UNITS
from ptycho.readers.values import LENGTHS

COMMENTS = "#%"
AXES = {"x": "col", "col": "col", "column": "col", "y": "row", "row": "row"}
UNIT_WORDS = dict.fromkeys(PIXELS, "px") | {
    word: unit for word, size in LENGTHS.items() for unit in UNITS if UNITS[unit] == size and word != "a"
}
Line = tuple[int, str]  # its number, from 1, and what it says


@dataclass(frozen=True)
class Columns:
    """Columns of the row and the column, each with its unit, perhaps an unknown one; empty: it has none."""

    row: int
    col: int
    units: tuple[str, str] = ("", "")
    named: bool = False


def read_table(
    path: str | Path, unit: str | None = None, axes: str | None = None, chosen: Sequence[str] = ()
) -> tuple[Placement, tuple[str, ...]]:
    """Read the positions in a table, NPY by its content, otherwise text; and what was found, a line each.

    Args:
        unit: a key of ``UNITS``, for a table without one; it takes precedence over that of the table.
        axes: ``xy`` or ``rc``, what its two columns are if they have no names.
        chosen: its two columns, by name or number.
    """
    path = Path(path)
    content = _content(path)
    if content.startswith(b"\x93NUMPY"):
        values, columns = _npy(path), _unnamed(path, 2, axes)
        values = values[:, [columns.row, columns.col]]
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("latin-1")  # so do instruments write their µ
        values, columns = read_text(path, text, axes, chosen)
    if columns.named and axes is not None:
        raise ConfigError(
            f"{path}: data.position_axes={axes}: the names of its columns state the axes; remove it"
        )
    positions, common_unit, note = in_one_unit(path, values, columns, unit)
    rows, cols = columns.row + 1, columns.col + 1
    source = f"{len(values)} positions from {path}: rows in column {rows}, columns in {cols}, {note}"
    notes = source, "positions are taken as the probe's, not the sample's"
    return Placement(positions, common_unit), notes


def _content(path: Path, most: int = 2**28) -> bytes:
    with faults_of(f"data.positions_file={path}"), open_file(path) as file:
        content = file.read(most + 1)
        if not content.strip():
            raise FileError("is empty")
        if len(content) > most:
            raise FileError(f"is larger than {most} bytes; is it a table?")
    return content


def _npy(path: Path) -> np.ndarray:
    """``(J, 2)`` float64; mapping finds out a header that declares more than there is."""
    with faults_of(path), damage_named("no array of numbers can be read from it"):
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    if mapped.dtype.kind not in "fiu" or mapped.ndim != 2 or 2 not in mapped.shape:
        raise ConfigError(
            f"{path}: is {mapped.shape} of {mapped.dtype}; must be real numbers (J, 2) or (2, J)"
        )
    return np.array(mapped if mapped.shape[1] == 2 else mapped.T, np.float64)


def read_text(path: Path, text: str, axes: str | None, chosen: Sequence[str]) -> tuple[np.ndarray, Columns]:
    """Read positions ``(J, 2)`` float64, (row, col), and the columns that they are from."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    scans = [" ".join(line.split()[1:2]) for _, line in lines if line.startswith("#S ")]
    if len(scans) > 1:
        numbers = f"{len(scans)} scans of SPEC ({', '.join(scans[:5])} …)"
        raise ConfigError(f"{path}: holds {numbers}; copy one to a file of its own")
    first = next((k for k, (_, line) in enumerate(lines) if _is_row(line)), None)
    if first is None:
        raise ConfigError(f"{path}: holds no line of numbers; its first is {_short(lines[0][1])}")
    count = len(_cells(lines[first][1]))
    columns = _columns(path, lines[:first], count, axes, chosen)
    rows = [_row(path, line, count, columns) for line in lines[first:] if line[1][0] not in COMMENTS]
    return np.array(rows, np.float64), columns


def _is_row(line: str) -> bool:
    """Whether two columns or more are numbers, or its only one."""
    cells = _cells(line)
    many = sum(_number(cell) is not None for cell in cells)
    return line[0] not in COMMENTS and many >= min(2, len(cells))


def in_one_unit(
    path: Path, values: np.ndarray, columns: Columns, unit: str | None
) -> tuple[np.ndarray, str, str]:
    """Return positions ``(J, 2)``, their unit, and a note on where it is from."""
    row, col = columns.units
    if unit is not None:
        against = f", against {row}, {col} in its header" if {row, col} - {"", unit} else ""
        return values, unit, f"in {unit} (data.unit{against})"
    if unknown := {row, col} - set(UNITS):
        silent = unknown == {""}
        problem = "does not say the unit of its positions"
        problem = problem if silent else f"its unit {max(unknown)} is none that is known"
        raise ConfigError(f"{path}: {problem}; add data.unit= {', '.join(UNITS)}")
    scales = UNITS[row], UNITS[col]
    if row == col:
        return values, row, f"in {row} (its header)"
    if None in scales:
        raise ConfigError(
            f"{path}: its header says {row} for the rows and {col} for the columns; must be one unit"
        )
    return values * np.array(scales), "m", f"in {row} and {col} (its header)"


def _columns(
    path: Path, header: Sequence[Line], count: int, axes: str | None, chosen: Sequence[str]
) -> Columns:
    indices: tuple[int, int] | None = None
    names: list[str] = []
    units = [""] * count
    for number, line in header:
        cells = re.split(r"\s{2,}|\t", line[3:].strip()) if line.startswith("#L ") else _fields(line)
        fits, here = len(cells) == count, None
        if fits:  # the only row and the only column among the names
            axes_named = [{AXES[word] for word in _words(name) if word in AXES} for name in cells]
            rows, cols = ([k for k, a in enumerate(axes_named) if a == {axis}] for axis in ("row", "col"))
            here = (rows[0], cols[0]) if len(rows) == len(cols) == 1 else None
        said = [UNIT_WORDS.get(cell.strip("[]() ").lower(), "") for cell in cells]
        if fits and any(said) and not here:
            units = said
            continue
        here = None if chosen else here
        names = cells if fits and (here or not indices) else names
        if here is None and not chosen and line[0] not in COMMENTS:
            choose = f"; or choose two: data.position_columns=[{','.join(cells[:2])}]" if count > 2 else ""
            raise ConfigError(
                f"{path}: line {number} is {_short(line)}; must be numbers, or a header of {count} "
                f"names with one x and one y, or row and col, among them, as in x_um,y_um{choose}"
            )
        indices = here or indices
    if chosen:
        indices = _chosen(path, names, count, axes, chosen)
    if indices is None:
        return _unnamed(path, count, axes, names)
    row, col = (units[k] or (_unit(names[k]) if names else "") for k in indices)
    return Columns(*indices, (row, col), not chosen)


def _unnamed(path: Path, count: int, axes: str | None, names: Sequence[str] = ()) -> Columns:
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


def _chosen(
    path: Path, names: Sequence[str], count: int, axes: str | None, chosen: Sequence[str]
) -> tuple[int, int]:
    key = f"{path}: data.position_columns=[{','.join(chosen)}]"
    if len(chosen) != 2:
        raise ConfigError(f"{key}: must be two columns, by name or by number from 1")
    places = []
    for wanted in chosen:
        same = [k for k, name in enumerate(names) if name.lower() == wanted.lower()]
        like = same or [k for k, name in enumerate(names) if name.lower().startswith(wanted.lower())]
        if not like and wanted.isdecimal() and 1 <= int(wanted) <= count:
            like = [int(wanted) - 1]
        if len(like) != 1:
            raise ConfigError(f"{key}: {wanted} must be one of {', '.join(names) or f'1 to {count}'}")
        places += like
    words = [(_words(names[k]) or [""])[0] if names else "" for k in places]
    says_rows = words[0] == "row" or [word[-1:] for word in words] == ["y", "x"]
    rows_first = axes == "rc" or (axes is None and says_rows)
    return (places[0], places[1]) if rows_first else (places[1], places[0])


def _unit(name: str) -> str:
    """The unit in a name, or what stands in brackets in its place."""
    known = next((UNIT_WORDS[word] for word in _words(name) if word in UNIT_WORDS), None)
    brackets = re.search(r"[\[(]\s*([^\])]*)", name)
    return known or (brackets.group(1).strip() if brackets else "")


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-zµμå]+", name.lower()) if word]


def _fields(line: str) -> list[str]:
    line = re.sub(r"\s+([(\[])", r"\1", line.lstrip(COMMENTS).strip())  # x (um) is one name
    parting = next((mark for mark in ";\t," if mark in line), None)
    fields = [field.strip(" \t'\"") for field in line.split(parting)]
    return fields[:-1] if parting and fields[-1] == "" else fields


def _cells(line: str) -> list[str]:
    """The columns of a line; a comma is a decimal one where only that, and spaces, make numbers of all."""
    cells, spaced = _fields(line), line.split()
    by_spaces = len(spaced) > 1 and None in map(_number, cells) and None not in map(_number, spaced)
    return spaced if by_spaces else cells


def _number(cell: str) -> float | None:
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return None


def _row(path: Path, line: Line, count: int, columns: Columns) -> tuple[float, float]:
    cells = _cells(line[1])
    if len(cells) == count:
        row, col = _number(cells[columns.row]), _number(cells[columns.col])
        if row is not None and col is not None and not np.isinf(row) and not np.isinf(col):
            return row, col
    wanted = f"{count} finite numbers, or NaN for a frame without a position"
    if count > 2:
        wanted = f"{count} columns, with finite numbers in columns {columns.row + 1} and {columns.col + 1}"
    raise ConfigError(f"{path}: line {line[0]} is {_short(line[1])}; must be {wanted}")


def _short(line: str) -> str:
    return repr(line if len(line) <= 40 else line[:40] + "…")
