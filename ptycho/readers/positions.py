"""Positions ``(J, 2)``, (row, col), with their unit: listed in an archive, or those of a raster.

What is read is float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.reading import FileError
from ptycho.readers.archive import Archive
from ptycho.readers.patterns import Patterns
from ptycho.readers.raw_scan import UNITS, Raster, ReadOptions
from ptycho.readers.values import LENGTHS, read_array, read_unit

PIXELS = ("px", "pixel", "pixels")
KEYS = ("positions", "positions_row", "positions_col")  # of the user's map


@dataclass(frozen=True, eq=False)
class Placement:
    """Positions ``(n, 2)``, (row, col), of the patterns with some ``numbers``, and what else a scan takes.

    Attributes:
        numbers: ``(n,)``; None: the patterns have the order of the positions.
        values: attributes of a :class:`~ptycho.readers.raw_scan.RawScan`.
        side: pixels of the detector that a pattern spans whose object pixel is the unit ``px``; None: all.
        opr_modes, opr_weights: ``(K', h, w)`` and ``(n, K')`` of a probe that varies; None: it does not.
    """

    positions: np.ndarray
    unit: str
    numbers: np.ndarray | None = None
    values: dict[str, Any] = field(default_factory=dict)
    side: int | None = None
    opr_modes: np.ndarray | None = None
    opr_weights: np.ndarray | None = None


def read_lengths(file: Archive, key: str, options: ReadOptions, unit: str | None) -> tuple[np.ndarray, str]:
    """Read numbers ``(…)`` of one key and their unit: the user's; metres, by ``units``; else ``unit``.

    NaN is that of a frame without a position, which is refused where that frame is used.
    """
    file.require(key)
    lengths = np.asarray(read_array(file, key, finite=False), np.float64)
    if options.unit is not None:
        file.notes.append(f"{key} is in {options.unit}, as data.unit says")
        return lengths, options.unit
    if (file.text(f"{key}@units") or "").strip("[]() ").lower() in PIXELS:
        return lengths, "px"
    said = read_unit(file, key, LENGTHS, "; or set data.unit=")
    if said is not None:
        return lengths * said[1], "m"
    if unit is None:
        raise FileError(f"{key} has no units attribute; add data.unit= {', '.join(UNITS)}")
    return lengths, unit


def read_columns(
    file: Archive,
    keys: tuple[str, str],
    options: ReadOptions,
    source: Patterns | None,
    unit: str | None = "m",
) -> Placement:
    """Read positions from a key of rows and one of columns.

    ``(J,)`` each; or, of a raster, ``(A, B)`` each; or its two axes, of which the rows are slow if both are
    of one length. Without a ``source`` of patterns, ``(J,)`` of any J.
    """
    (row, said), (col, other) = (read_lengths(file, key, options, unit) for key in keys)
    if options.growing and all(entry and entry.grows for entry in map(file.entry, keys)):
        count = min(row.size, col.size)
        row, col = row.ravel()[:count], col.ravel()[:count]
    if said != other:  # one of them has a units attribute
        raise FileError(f"{keys[0]} is in {said} and {keys[1]} in {other}; add data.unit=")
    if source is None:
        pair = (row.ravel(), col.ravel()) if row.size == col.size > 0 else None
        wanted = "must be one list (J,) each"
    else:
        pair = _spread(np.squeeze(row), np.squeeze(col), source)
        raster = f" of a raster {source.grid}" if source.grid else ""
        wanted = f"do not fit {source.shape[0]} patterns{raster}; exclude those without a counterpart"
    if pair is None:
        raise FileError(f"{keys[0]} {row.shape} and {keys[1]} {col.shape} {wanted}")
    file.notes.append(f"positions: row is {keys[0]}, col is {keys[1]}, in {said}")
    return Placement(np.stack(pair, axis=1), said)


def read_rows(
    file: Archive,
    key: str,
    options: ReadOptions,
    counts: tuple[int, ...],
    widths: tuple[int, ...] = (2,),
    unit: str | None = "m",
) -> Placement:
    """Read positions ``(J, 2)`` or wider at one key, whichever axis they lie along, columns as they are.

    J is one of ``counts``; another number is taken where only one axis can be that of the coordinates.
    """
    lengths, said = read_lengths(file, key, options, unit)
    listed = np.squeeze(lengths) if lengths.ndim > 2 else lengths
    if listed.ndim == 3 and (entry := file.entry(key)) and entry.columns_first:
        listed = listed.swapaxes(0, 1)
    if listed.ndim == 3 and listed.shape[-1] in widths:
        listed = listed.reshape(-1, listed.shape[-1])  # of a raster
    if listed.ndim == 2 and listed.shape[0] in widths:
        across = listed.shape[1] not in widths
        if across or (listed.shape[1] in counts and listed.shape[0] not in counts):
            listed = listed.T
    if listed.ndim != 2 or listed.shape[1] not in widths:
        many, wide = (" or ".join(map(str, allowed)) for allowed in (counts, widths))
        wanted = f"must be ({many}, {wide}), a line for each pattern"
        raise FileError(f"{key} has shape {lengths.shape}; {wanted}")
    return Placement(listed, said)


def read_mapped(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    """Read positions at the keys that the user gave."""
    keys = options.keys
    file.require(*[keys[name] for name in KEYS if name in keys])
    if "positions" not in keys:
        return read_columns(file, (keys["positions_row"], keys["positions_col"]), options, source, unit=None)
    placement = read_rows(file, keys["positions"], options, source.counts, unit=None)
    guess = "; data.position_axes=xy if x, the column, comes first" if options.axes is None else ""
    return in_axes(file, keys["positions"], placement, options, guess)


def in_axes(file: Archive, key: str, placement: Placement, options: ReadOptions, said: str = "") -> Placement:
    """Return positions whose two columns are those of the array, or x and y, as the user specifies."""
    turned = options.axes == "xy"
    order = "(col, row)" if turned else "(row, col)"
    file.notes.append(f"positions: {key} is taken as {order}{said}, in {placement.unit}")
    return Placement(placement.positions[:, ::-1] if turned else placement.positions, placement.unit)


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


Axis = tuple[float, str]  # scale and unit


def step_m(axes: Sequence[Axis]) -> tuple[float, float] | None:
    """Return the step along the rows and the columns of a raster with ``axes``; None: one is no length.

    A list has one axis, of which the step is that of both. EMD writes nm as ``[n_m]``.
    """
    sizes = [LENGTHS.get(unit.strip("[]() ").replace("_", "").lower(), 0.0) for _, unit in axes]
    steps = [abs(scale) * size for (scale, _), size in zip(axes, sizes, strict=True)]
    return (steps[0], steps[-1]) if steps and all(0 < step < math.inf for step in steps) else None


def complete(raster: Raster | None, step: tuple[float, float] | None, path: str | Path) -> Raster:
    """Return the raster that the user specifies, with the ``step`` of the file if none is specified."""
    raster = raster or Raster(None, None)
    if raster.step_m is None and step is None:
        raise ConfigError(
            f"{path}: holds patterns without positions; state the step of the raster, data.scan_step_A=… (or "
            "data.scan_step_nm, data.scan_step_m), and data.scan_shape=[rows,columns] where its axes do not; "
            "or save patterns and positions in one NPZ, and add data.keys"
        )
    return raster if raster.step_m is not None else replace(raster, step_m=step, source="the file")


def raster_positions(raster: Raster, source: Patterns, path: Path | str) -> np.ndarray:
    """Return positions ``(J, 2)`` in metres; of a list of patterns ``raster.shape`` must be specified."""
    count, grid = source.shape[0], source.grid
    if raster.step_m is None:
        raise ConfigError(
            f"{path}: data.scan_shape, data.scan_path: belong to a raster; add data.scan_step_A=…"
        )
    shape = raster.shape or grid
    if shape is None:
        raise ConfigError(f"{path}: {count} patterns in a list; set data.scan_shape=[rows,columns]")
    if math.prod(shape) != count or (grid and min(grid) > 1 and shape != grid):
        axes = f" with axes {list(grid)}" if grid else ""
        holds = f"is a raster of {math.prod(shape)} positions, and {path} holds {count} patterns{axes}"
        raise ConfigError(f"data.scan_shape={list(shape)}: {holds}; correct or remove it")
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    if raster.path == "snake":
        columns[1::2] = columns[1::2, ::-1]
    order = "F" if source.columns_first else "C"
    return np.stack([rows.ravel(order), columns.ravel(order)], axis=1) * np.array(raster.step_m)
