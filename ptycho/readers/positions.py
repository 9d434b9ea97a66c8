"""Positions in an archive, in the forms that the formats have them, and a scan put together with them.

A form gives positions ``(J, 2)`` float64, (row, col), and their unit; None: that they are not as they must be
is a problem of the archive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ptycho.files.text import shown
from ptycho.readers.archive import LONGEST, Archive, Patterns
from ptycho.readers.frames import paired
from ptycho.readers.quantities import LENGTHS
from ptycho.readers.raw_scan import UNITS, RawScan, ReadOptions
from ptycho.readers.values import read_array, read_unit

PIXELS = ("px", "pixel", "pixels")
KEYS = ("positions", "positions_row", "positions_col")  # of the user's map
Positions = tuple[np.ndarray, str]


def read_lengths(file: Archive, key: str, options: ReadOptions, unit: str | None) -> Positions | None:
    """Numbers of one key and their unit: the user's; metres, by the ``units`` attribute; else ``unit``.

    NaN is that of a frame without a position, which is refused where that frame is used.
    """
    before = len(file.problems)
    found = read_array(file, key, needed=True, finite=False)
    if options.unit is None and (file.text(f"{key}@units") or "").strip("[]() ").lower() in PIXELS:
        return None if found is None else (found.astype(np.float64), "px")
    said = read_unit(file, key, LENGTHS, "; or set data.unit=") if options.unit is None else None
    if found is None or len(file.problems) > before:
        return None
    if options.unit is not None:
        file.notes.append(f"{key} is in {options.unit}, as data.unit says")
    if said is not None:
        return found.astype(np.float64) * said[1], "m"
    if (options.unit or unit) is None:
        file.complain(f"{key} has no units attribute; add data.unit= {', '.join(UNITS)}")
        return None
    return found.astype(np.float64), str(options.unit or unit)


def read_columns(
    file: Archive,
    keys: tuple[str, str],
    options: ReadOptions,
    source: Patterns | None,
    unit: str | None = "m",
) -> Positions | None:
    """Positions from a key of rows and one of columns.

    ``(J,)`` each; or, of a raster, ``(A, B)`` each; or its two axes, of which the rows are slow if both are
    of one length. Without a ``source`` of patterns, ``(J,)`` of any J.
    """
    row, col = (read_lengths(file, key, options, unit) for key in keys)
    if row is None or col is None:
        return None
    if row[1] != col[1]:  # one of them has a units attribute
        file.complain(f"{keys[0]} is in {row[1]} and {keys[1]} in {col[1]}; add data.unit=")
        return None
    if source is None:
        fits = row[0].size == col[0].size and row[0].size > 0
        pair = (row[0].ravel(), col[0].ravel()) if fits else None
        wanted = "must be one list (J,) each"
    else:
        pair = _spread(np.squeeze(row[0]), np.squeeze(col[0]), source)
        raster = f" of a raster {source.grid}" if source.grid else ""
        wanted = f"do not fit {source.shape[0]} patterns{raster}; exclude those without a counterpart"
    if pair is None:
        file.complain(f"{keys[0]} {row[0].shape} and {keys[1]} {col[0].shape} {wanted}")
        return None
    file.notes.append(f"positions: row is {keys[0]}, col is {keys[1]}, in {row[1]}")
    return np.stack(pair, axis=1), row[1]


def read_rows(
    file: Archive,
    key: str,
    options: ReadOptions,
    counts: tuple[int, ...],
    widths: tuple[int, ...] = (2,),
    unit: str | None = "m",
) -> Positions | None:
    """Positions ``(J, 2)`` or wider at one key, whichever axis they lie along.

    J is one of ``counts``; another number is taken where only one axis can be that of the coordinates.
    """
    found = read_lengths(file, key, options, unit)
    if found is None:
        return None
    listed = np.squeeze(found[0]) if found[0].ndim > 2 else found[0]
    if listed.ndim == 3 and file.columns_first(key):
        listed = listed.swapaxes(0, 1)
    if listed.ndim == 3 and listed.shape[-1] in widths:
        listed = listed.reshape(-1, listed.shape[-1])  # of a raster
    if listed.ndim == 2 and listed.shape[0] in widths and listed.shape[1] not in widths:
        listed = listed.T
    elif listed.ndim == 2 and listed.shape[0] in widths and listed.shape[1] in counts:
        listed = listed if listed.shape[0] in counts else listed.T
    if listed.ndim != 2 or listed.shape[1] not in widths:
        many, wide = (" or ".join(map(str, allowed)) for allowed in (counts, widths))
        file.complain(f"{key} has shape {found[0].shape}; must be ({many}, {wide}), a line for each pattern")
        return None
    return listed, found[1]


def read_mapped(file: Archive, options: ReadOptions, source: Patterns | None) -> Positions | None:
    """Positions at the keys that the user gave."""
    keys = options.keys
    if source is None or not file.require(*[keys[name] for name in KEYS if name in keys]):
        return None
    if "positions" not in keys:
        return read_columns(file, (keys["positions_row"], keys["positions_col"]), options, source, unit=None)
    found = read_rows(file, keys["positions"], options, source.counts, unit=None)
    if found is None:
        return None
    order = "(col, row)" if options.axes == "xy" else "(row, col)"
    guess = "; data.position_axes=xy if x, the column, comes first" if options.axes is None else ""
    file.notes.append(f"positions: {keys['positions']} is taken as {order}{guess}, in {found[1]}")
    return (found[0][:, ::-1] if options.axes == "xy" else found[0]), found[1]


def make_scan(
    file: Archive,
    name: str,
    options: ReadOptions,
    source: Patterns | None,
    positions: Positions | None,
    values: Mapping[str, Any],
) -> RawScan:
    """The scan, if nothing was found to be wrong with it.

    Args:
        name: of the format.
        options: which frames are used decides what positions belong to, where there are more or fewer.
        positions: with their unit.
        values: the other attributes of a :class:`RawScan`.

    Raises:
        ConfigError: one line with every problem.
    """
    if source is not None and positions is not None:
        source = source.order_for(len(positions[0]), file)
        source, places = paired(file, source, positions[0], options)
        positions = places, positions[1]
        _check_shapes(file, source, values)
    elif not file.problems:
        file.complain("lacks patterns" if source is None else "lacks positions; add data.positions_file=")
    file.refuse()
    assert source is not None and positions is not None
    notes, warnings = ([shown(line, LONGEST) for line in lines] for lines in (file.notes, file.warnings))
    return RawScan(
        name,
        source,
        positions=positions[0],
        unit=positions[1],
        notes=tuple(notes),
        warnings=tuple(warnings),
        **values,
    )


def _check_shapes(file: Archive, source: Patterns, values: Mapping[str, Any]) -> None:
    for key, what in (("good", "mask"), ("dark", "dark field"), ("flat", "flat field")):
        found = values.get(key)
        if found is not None and found.shape != source.shape[1:]:
            file.complain(
                f"the {what} has shape {found.shape}; must be {source.shape[1:]}, that of a pattern"
            )


def _spread(row: np.ndarray, col: np.ndarray, source: Patterns) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows and columns ``(J,)`` each; None if they do not fit the patterns."""
    count, grid = source.shape[0], source.grid
    if row.size == col.size and row.size in source.counts:
        turned = grid is not None and row.shape == col.shape == grid[::-1]
        turned = turned and (grid != row.shape or source.columns_first)
        return (row.T.ravel(), col.T.ravel()) if turned else (row.ravel(), col.ravel())
    if row.ndim != 1 or col.ndim != 1 or row.size * col.size != count:
        return (row, col) if row.ndim == col.ndim == 1 and row.size == col.size else None
    stored = grid == (row.size, col.size) and not (source.columns_first and row.size == col.size)
    if grid is not None and math.prod(grid) == count and not stored:
        if grid != (col.size, row.size):
            return None
        cols, rows = np.meshgrid(col, row, indexing="ij")  # (B, A): the columns are slow
        return rows.ravel(), cols.ravel()
    rows, cols = np.meshgrid(row, col, indexing="ij")
    return rows.ravel(), cols.ravel()
