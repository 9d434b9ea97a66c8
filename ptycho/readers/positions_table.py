"""Positions in a table beside the patterns: CSV, TXT, or NPY.

=============== ======================================================================================
CSV, TXT, SPEC  a line for each pattern, and a header: ``x_um, y_um``, ``row [px]; col [px]``,
                ``index  x (mm)  y (mm)`` …; see :mod:`~ptycho.readers.table_text`
NPY             ``(J, 2)`` or ``(2, J)``
=============== ======================================================================================

Of several columns for x and y ``data.position_columns=[x_rb,y_rb]`` chooses two.

``x`` and ``col`` are the column of the object's array, ``y`` and ``row`` its row; each is the probe's place
on the object and increases with the array's index (of a sample stage that moves instead, both signs are
turned). What the header does not say, the user does: programs write x first or y first under one name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.readers.raw_scan import UNITS
from ptycho.readers.table_text import Columns, read_text, unnamed

LARGEST = 2**28  # bytes of a table


@dataclass(frozen=True, eq=False)
class Table:
    """Positions ``(J, 2)`` float64, (row, col), in ``unit``, and what was found, a line each."""

    positions: np.ndarray
    unit: str
    notes: tuple[str, ...]


def read_table(
    path: str | Path, unit: str | None = None, axes: str | None = None, chosen: Sequence[str] = ()
) -> Table:
    """The positions in a table.

    Args:
        path: of it; NPY by its content, otherwise text.
        unit: a key of ``UNITS``, for a table that does not say; stands against one that does.
        axes: ``xy`` or ``rc``, what its two columns are if they have no names.
        chosen: its two columns, by name or number.

    Raises:
        ConfigError: one line with the line of the table at fault, or the option that is missing.
    """
    path = Path(path)
    content = _content(path)
    if content.startswith(b"\x93NUMPY"):
        values, columns = _npy(path), unnamed(path, 2, axes)
        values = values[:, [columns.row, columns.col]]
    else:
        values, columns = read_text(path, _decoded(content), axes, chosen)
    if columns.named and axes is not None:
        raise ConfigError(
            f"{path}: data.position_axes={axes}: the names of its columns state the axes; remove it"
        )
    positions, found, note = in_one_unit(path, values, columns, unit)
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
    return values


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")  # so do instruments write their µ


def in_one_unit(
    path: Path, values: np.ndarray, columns: Columns, unit: str | None
) -> tuple[np.ndarray, str, str]:
    """Positions, their unit, and a note on where it is from."""
    row, col = columns.units
    if unit is not None:
        against = f", against {row}, {col} in its header" if {row, col} - {None, unit} else ""
        return values, unit, f"in {unit} (data.unit{against})"
    if row is None or col is None:
        said = "does not say the unit of its positions"
        said = f"its unit {columns.unknown} is none that is known" if columns.unknown else said
        raise ConfigError(f"{path}: {said}; add data.unit= {', '.join(UNITS)}")
    if row == col:
        return values, row, f"in {row} (its header)"
    scales = UNITS[row], UNITS[col]
    if scales[0] is None or scales[1] is None:
        raise ConfigError(
            f"{path}: its header says {row} for the rows and {col} for the columns; must be one unit"
        )
    return values * np.array(scales), "m", f"in {row} and {col} (its header)"
