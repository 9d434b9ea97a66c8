"""Positions in a table beside the patterns: CSV, TXT, or NPY.

=============== ======================================================================================
CSV, TXT        a line for each pattern; columns parted by commas, semicolons, tabs or spaces; lines
                that begin with ``#`` or ``%`` are comments
header          the line before the numbers, comment or not: ``x_um, y_um``, ``row [px]; col [px]``,
                ``index  x (mm)  y (mm)`` … Other columns are passed over
NPY             ``(J, 2)`` or ``(2, J)``
=============== ======================================================================================

``x`` and ``col`` are the column of the object's array, ``y`` and ``row`` its row; each is the probe's place
on the object and increases with the array's index (of a sample stage that moves instead, both signs are
turned). What the header does not say, the user does: programs write x first or y first under one name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.readers.raw_scan import UNITS

LARGEST = 2**28  # bytes of a table
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


@dataclass(frozen=True, eq=False)
class Table:
    """Positions ``(J, 2)`` float64, (row, col), in ``unit``, and what was found, a line each."""

    positions: np.ndarray
    unit: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Columns:
    """Which columns are the row and the column, each with its unit; None: the table does not say."""

    row: int
    col: int
    units: tuple[str | None, str | None] = (None, None)
    named: bool = False


def read_table(path: str | Path, unit: str | None = None, axes: str | None = None) -> Table:
    """The positions in a table.

    Args:
        path: of it; NPY by its content, otherwise text.
        unit: a key of ``UNITS``, for a table that does not say; stands against one that does.
        axes: ``xy`` or ``rc``, what its two columns are if they have no names.

    Raises:
        ConfigError: one line with the line of the table at fault, or the option that is missing.
    """
    path = Path(path)
    content = _content(path)
    if content.startswith(b"\x93NUMPY"):
        values, columns = _npy(path), None
    else:
        values, columns = _text(path, content)
    columns = columns or _unnamed(path, values.shape[1], axes)
    if columns.named and axes is not None:
        raise ConfigError(
            f"{path}: data.position_axes={axes}: its columns have names that say this; leave it out"
        )
    positions, found, note = _in_one_unit(path, values[:, [columns.row, columns.col]], columns, unit)
    where = (
        f"{len(values)} positions from {path}: rows in column {columns.row + 1}, columns in {columns.col + 1}"
    )
    return Table(
        positions, found, (f"{where}, {note}", "positions are taken as the probe's, not the sample's")
    )


def _content(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():  # a pipe or a device would never end
            raise ConfigError(f"data.positions_file={path}: is no file")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except ConfigError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"data.positions_file={path}: cannot be read ({reason})") from error
    if not content.strip():
        raise ConfigError(f"data.positions_file={path}: is empty")
    if content.startswith((b"PK", b"\x89HDF")):
        raise ConfigError(f"data.positions_file={path}: is no table (CSV, TXT, NPY) but an archive of arrays")
    if len(content) > LARGEST:
        raise ConfigError(f"data.positions_file={path}: is larger than {LARGEST} bytes; is it a table?")
    return content


def _npy(path: Path) -> np.ndarray:
    """``(J, 2)`` float64; mapping finds out a header that declares more than there is."""
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged file raises whatever its bytes lead to
        raise ConfigError(f"{path}: no array of numbers can be read from it ({error})") from error
    if mapped.dtype.kind not in "fiu" or mapped.ndim != 2 or 2 not in mapped.shape:
        raise ConfigError(
            f"{path}: is {mapped.shape} of {mapped.dtype}; must be real numbers (J, 2) or (2, J)"
        )
    values = np.array(mapped if mapped.shape[1] == 2 else mapped.T, np.float64)
    wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(wrong):
        raise ConfigError(
            f"{path}: position {wrong[0]} is {values[wrong[0]].tolist()}; leave out such patterns"
        )
    return values


def _text(path: Path, content: bytes) -> tuple[np.ndarray, Columns | None]:
    """The numbers ``(J, columns)``, and which columns are which if a header says."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # so do instruments write their µ
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    numeric = (k for k, (_, line) in enumerate(lines) if _numbers(line) is not None)
    first = next(numeric, None)
    if first is None:
        raise ConfigError(f"{path}: holds no line of numbers; its first is {_short(lines[0][1])}")
    values = _body(path, [entry for entry in lines[first:] if entry[1][0] not in COMMENTS])
    columns = None
    for number, line in lines[:first]:
        found = _header(line.lstrip(COMMENTS), values.shape[1])
        if found is None and line[0] not in COMMENTS:
            raise ConfigError(
                f"{path}: line {number} is {_short(line)}; must be numbers, or a header of {values.shape[1]} "
                "names with one x and one y, or row and col, among them, as in x_um,y_um"
            )
        columns = found or columns
    return values, columns


def _body(path: Path, lines: list[tuple[int, str]]) -> np.ndarray:
    rows: list[list[float]] = []
    for number, line in lines:
        values = _numbers(line)
        many = len(rows[0]) if rows else len(values or ())
        if values is None or len(values) != many or not np.isfinite(values).all():
            wanted = f"{many} finite numbers with a decimal point"
            raise ConfigError(f"{path}: line {number} is {_short(line)}; must be {wanted}")
        rows.append(values)
    return np.array(rows, np.float64)


def _fields(line: str) -> list[str]:
    line = re.sub(r"\s+([(\[])", r"\1", line.strip())  # x (um) is one name
    parting = next((mark for mark in ";\t," if mark in line), None)
    fields = [field.strip(" \t'\"") for field in line.split(parting)]
    return fields[:-1] if parting and fields[-1] == "" else fields


def _numbers(line: str) -> list[float] | None:
    try:
        return [float(field) for field in _fields(line)]
    except ValueError:
        return None


def _header(line: str, count: int) -> Columns | None:
    """What a line of ``count`` names says of the columns; None: it does not name a row and a column."""
    words = [re.split(r"[^a-zµμå]+", field.lower()) for field in _fields(line)]
    axes = [{AXES[word] for word in name if word in AXES} for name in words]
    rows, cols = ([k for k, found in enumerate(axes) if found == {axis}] for axis in ("row", "col"))
    if len(words) != count or len(rows) != 1 or len(cols) != 1:
        return None
    units = [
        next((UNIT_WORDS[word] for word in words[k] if word in UNIT_WORDS), None) for k in (*rows, *cols)
    ]
    return Columns(rows[0], cols[0], (units[0], units[1]), named=True)


def _unnamed(path: Path, count: int, axes: str | None) -> Columns:
    if count != 2:
        raise ConfigError(
            f"{path}: has {count} columns and no header that names x and y, or row and col, as in x_um,y_um; "
            "add one, or leave two columns"
        )
    if axes is None:
        raise ConfigError(
            f"{path}: its columns have no names; add data.position_axes=xy or data.position_axes=rc"
        )
    return Columns(0, 1) if axes == "rc" else Columns(1, 0)


def _in_one_unit(
    path: Path, values: np.ndarray, columns: Columns, unit: str | None
) -> tuple[np.ndarray, str, str]:
    """Positions, their unit, and a note on where it is from."""
    row, col = columns.units
    if unit is not None:
        against = f", against {row}, {col} in its header" if {row, col} - {None, unit} else ""
        return values, unit, f"in {unit} (data.unit{against})"
    if row is None or col is None:
        raise ConfigError(
            f"{path}: does not say the unit of its positions; add data.unit= {', '.join(UNITS)}"
        )
    if row == col:
        return values, row, f"in {row} (its header)"
    scales = UNITS[row], UNITS[col]
    if scales[0] is None or scales[1] is None:
        raise ConfigError(
            f"{path}: its header says {row} for the rows and {col} for the columns; must be one unit"
        )
    return values * np.array(scales), "m", f"in {row} and {col} (its header)"


def _short(line: str) -> str:
    return repr(line if len(line) <= 40 else line[:40] + "…")
