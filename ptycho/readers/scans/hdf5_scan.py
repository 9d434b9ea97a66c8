"""What readers of HDF5 formats share: positions put together, masks, probes, and the checked scan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.text import shown
from ptycho.readers.scans.hdf5 import LONGEST, Hdf5File
from ptycho.readers.scans.hdf5_patterns import Hdf5Patterns
from ptycho.readers.scans.hdf5_values import array, raw, text, unit_of
from ptycho.readers.scans.quantities import LENGTHS
from ptycho.readers.scans.raw_scan import OPTIONS, UNITS, RawScan, ReadOptions

PIXELS = ("px", "pixel", "pixels")
CXI_GOOD = 0x1000  # of CXI's bits of a mask, this one says that a pixel has signal


def only(path: str | Path, name: str, options: ReadOptions, *used: str) -> None:
    """Refuse options that a format has no use for, so that none is dropped in silence."""
    for key, said in OPTIONS.items():
        value = getattr(options, key)
        if value and key not in used:
            shown = ", ".join(value) if key == "keys" else value
            raise ConfigError(f"{path}: {said}={shown}: the format {name} does not need it; leave it out")
    if options.unit is not None and options.unit not in UNITS:
        raise ConfigError(f"{path}: data.unit={options.unit}: must be one of {', '.join(UNITS)}")
    if options.axes not in (None, "rc", "xy"):
        raise ConfigError(
            f"{path}: data.position_axes={options.axes}: must be rc (row first) or xy (x first)"
        )


def lengths(
    file: Hdf5File, key: str, options: ReadOptions, unit: str | None
) -> tuple[np.ndarray, str] | None:
    """Positions of one key and their unit: the user's; metres, by the ``units`` attribute; else ``unit``."""
    before = len(file.problems)
    found = array(file, key)
    if options.unit is None and (text(file, f"{key}@units") or "").strip().lower() in PIXELS:
        return None if found is None else (found.astype(np.float64), "px")
    said = unit_of(file, key, LENGTHS) if options.unit is None else None
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


def columns(
    file: Hdf5File, keys: tuple[str, str], options: ReadOptions, source: Hdf5Patterns, unit: str | None = "m"
) -> tuple[np.ndarray, str] | None:
    """Positions ``(J, 2)`` and their unit, from a key of rows and one of columns.

    ``(J,)`` each; or, of a raster, ``(A, B)`` each; or its two axes, of which the rows are slow if both are
    of one length.
    """
    row, col = (lengths(file, key, options, unit) for key in keys)
    if row is None or col is None:
        return None
    if row[1] != col[1]:  # one of them has a units attribute
        file.complain(f"{keys[0]} is in {row[1]} and {keys[1]} in {col[1]}; add data.unit=")
        return None
    pair = _spread(np.squeeze(row[0]), np.squeeze(col[0]), source)
    if pair is None:
        file.complain(
            f"{keys[0]} {row[0].shape} and {keys[1]} {col[0].shape} do not fit "
            f"{source.shape[0]} patterns{f' of a raster {source.grid}' if source.grid else ''}; "
            "leave out what has no counterpart"
        )
        return None
    file.notes.append(f"positions: row is {keys[0]}, col is {keys[1]}, in {row[1]}")
    return np.stack(pair, axis=1), row[1]


def table(
    file: Hdf5File,
    key: str,
    options: ReadOptions,
    count: int,
    widths: tuple[int, ...] = (2,),
    unit: str | None = "m",
) -> tuple[np.ndarray, str] | None:
    """Positions ``(count, 2)`` or more columns at one key, whichever axis they lie along, and their unit."""
    found = lengths(file, key, options, unit)
    if found is None:
        return None
    listed = np.squeeze(found[0]) if found[0].ndim > 2 else found[0]
    if listed.ndim == 3 and listed.shape[-1] in widths:
        listed = listed.reshape(-1, listed.shape[-1])  # of a raster
    if listed.ndim == 2 and listed.shape[0] in widths and listed.shape == (listed.shape[0], count):
        listed = listed if count in widths else listed.T
    if listed.ndim != 2 or listed.shape[1] not in widths or len(listed) != count:
        wide = " or ".join(map(str, widths))
        file.complain(f"{key} has shape {found[0].shape}; must be ({count}, {wide}), a line for each pattern")
        return None
    return listed, found[1]


def good_of(file: Hdf5File, key: str | None, kind: str) -> np.ndarray | None:
    """``(H, W)``, True where a pixel counts, from a mask: ``good``, ``bad`` (not nought), or ``cxi`` bits."""
    mask = None if key is None else raw(file, key, "fiub")
    if mask is None:
        return None
    if kind == "cxi" and mask.dtype.kind in "iu":
        good = (mask & ~mask.dtype.type(CXI_GOOD) if mask.dtype.itemsize > 1 else mask) == 0
    else:
        good = (mask != 0) == (kind == "good")
    if good.ndim > 2:
        stack = good.reshape(-1, *good.shape[-2:])
        good = stack.all(axis=0)
        differ = int(np.count_nonzero(good != stack.any(axis=0)))
        if differ:
            file.warnings.append(
                f"{key} {mask.shape}: {differ} pixels are bad in some patterns, and left out of all"
            )
    file.notes.append(f"mask: {key}, {int(np.count_nonzero(~good))} of {good.size} pixels are bad")
    return good


def frame_of(file: Hdf5File, key: str | None) -> np.ndarray | None:
    """``(H, W)`` float64: a dark or flat field, or the mean of several."""
    found = array(file, key, "fiu")
    return None if found is None else found.reshape(-1, *found.shape[-2:]).mean(axis=0, dtype=np.float64)


def modes_of(file: Hdf5File, key: str, probe: np.ndarray | None) -> np.ndarray | None:
    """Modes ``(K, h, w)`` of a probe ``(h, w)``, ``(K, h, w)`` or ``(C, K, h, w)``: the first of C."""
    if probe is None:
        return None
    sets = probe.reshape(-1, *((1, *probe.shape) if probe.ndim == 2 else probe.shape[-3:]))
    if len(sets) > 1:
        file.warnings.append(f"{key} {probe.shape}: the first of {len(sets)} sets of modes is taken")
    return sets[0]


def layer_of(file: Hdf5File, key: str, found: np.ndarray | None) -> np.ndarray | None:
    """``(h, w)`` of an object; the product of several layers."""
    if found is None:
        return None
    layers = found.reshape(-1, *found.shape[-2:])
    if len(layers) > 1:
        file.warnings.append(f"{key} {found.shape}: the product of its {len(layers)} layers is taken")
    return np.asarray(np.prod(layers, axis=0))


def centre_of(
    file: Hdf5File, found: tuple[float | None, float | None], source: Hdf5Patterns | None
) -> tuple[float, float] | None:
    """(row, col) of the zero frequency in pixels, if both are known and on the detector."""
    row, col = found
    if row is None or col is None or source is None:
        return None
    inside = 0 < row < source.shape[1] and 0 < col < source.shape[2]
    if not inside:
        file.warnings.append(
            f"the beam's centre ({row:g}, {col:g}) is not on {source.shape[1:]}; taken as not given"
        )
    return (row, col) if inside else None


def scan(
    file: Hdf5File,
    name: str,
    source: Hdf5Patterns | None,
    positions: tuple[np.ndarray, str] | None,
    values: Mapping[str, Any],
) -> RawScan:
    """The scan, if nothing was found to be wrong with it.

    Args:
        positions: with their unit.
        values: the other attributes of a :class:`RawScan`.

    Raises:
        ConfigError: one line with every problem.
    """
    if source is not None and positions is not None:
        _check_positions(file, positions[0], source)
        for key, what in (("good", "mask"), ("dark", "dark field"), ("flat", "flat field")):
            found = values.get(key)
            if found is not None and found.shape != source.shape[1:]:
                file.complain(
                    f"the {what} has shape {found.shape}; must be {source.shape[1:]}, that of a pattern"
                )
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


def _check_positions(file: Hdf5File, positions: np.ndarray, source: Hdf5Patterns) -> None:
    if len(positions) != source.shape[0]:
        file.complain(
            f"{source.shape[0]} patterns, but {len(positions)} positions; leave out those without a partner"
        )


def _spread(row: np.ndarray, col: np.ndarray, source: Hdf5Patterns) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows and columns ``(J,)`` each; None if they do not fit the patterns."""
    count, grid = source.shape[0], source.grid
    if row.size == col.size == count:
        turned = grid is not None and row.shape == col.shape == grid[::-1] != grid
        return (row.T.ravel(), col.T.ravel()) if turned else (row.ravel(), col.ravel())
    if row.ndim != 1 or col.ndim != 1 or row.size * col.size != count:
        return None
    if grid is not None and math.prod(grid) == count and grid != (row.size, col.size):
        if grid != (col.size, row.size):
            return None
        cols, rows = np.meshgrid(col, row, indexing="ij")  # (B, A): the columns are slow
        return rows.ravel(), cols.ravel()
    rows, cols = np.meshgrid(row, col, indexing="ij")
    return rows.ravel(), cols.ravel()
