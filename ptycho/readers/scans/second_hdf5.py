"""Positions for the patterns of an HDF5 file: in a second file (``data.positions_file``), or by keys of the
user.

=========================================== ==================================================================
second file
=========================================== ==================================================================
product of ptychodus, ``_para.hdf5``        positions by the patterns' numbers, probe, object, energy
CXI                                         the same
HDF5 with ``/ppX``, ``/ppY``                column, row in metres
other HDF5                                  where ``data.keys.positions`` (``…_row``, ``…_col``) say
CSV, TXT, NPY                               :mod:`~ptycho.readers.scans.positions_table`
=========================================== ==================================================================
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.readers.scans.cxi_parts import has_translations, read_parts
from ptycho.readers.scans.hdf5 import Hdf5File, has
from ptycho.readers.scans.hdf5_patterns import Hdf5Patterns
from ptycho.readers.scans.hdf5_scan import columns, table
from ptycho.readers.scans.positions_table import read_table
from ptycho.readers.scans.product_hdf5 import INDEXES, Product, has_positions, read_product
from ptycho.readers.scans.raw_scan import ReadOptions

PP = ("ppY", "ppX")
KEYS = ("positions", "positions_row", "positions_col")
Placed = tuple[Hdf5Patterns, tuple[np.ndarray, str]]


def place(
    file: Hdf5File,
    options: ReadOptions,
    source: Hdf5Patterns | None,
    values: dict[str, Any],
    numbers: np.ndarray | None = None,
) -> Placed | None:
    """The patterns that ``options.positions_file`` has positions for, and those; None if there are problems.

    Args:
        values: attributes of a :class:`RawScan`, of which those the second file has are put in place.
        numbers: ``(J,)`` by which the second file refers to the patterns; None: they are counted from nought.
    """
    if source is None:
        return None
    found = _second(file, str(options.positions_file), options, source)
    if found is None:
        return None
    _put(file, values, found.values)
    if found.indexes is None:
        return source, (found.positions_on(source.shape[1:]), found.unit)
    return _numbered(file, source, found, numbers, values)


def by_keys(file: Hdf5File, options: ReadOptions, source: Hdf5Patterns) -> tuple[np.ndarray, str] | None:
    """Positions ``(J, 2)``, (row, col), and their unit, from the keys that the user gave."""
    keys = options.keys
    if "positions" not in keys:
        apart = keys["positions_row"], keys["positions_col"]
        found = columns(file, apart, options, source, unit=None)
    else:
        found = table(file, keys["positions"], options, source.shape[0], unit=None)
    absent = [keys[name] for name in KEYS if name in keys and file.node(keys[name]) is None]
    if found is None and absent:
        file.complain(f"lacks {', '.join(absent)}; it has {file.listed()}")
    if found is None or "positions" not in keys:
        return found
    axes = options.axes or "rc"
    file.notes.append(
        f"positions: {keys['positions']}, {'row, col' if axes == 'rc' else 'col, row'}, in {found[1]}"
    )
    return (found[0][:, ::-1] if axes == "xy" else found[0]), found[1]


def _second(file: Hdf5File, path: str, options: ReadOptions, source: Hdf5Patterns) -> Product | None:
    if not (Path(path).is_file() and h5py.is_hdf5(path)):
        listed = read_table(path, options.unit, options.axes)
        file.notes += listed.notes
        return Product(listed.positions, listed.unit)
    other = Hdf5File(path, options.stated)
    try:
        if options.axes is not None and "positions" not in options.keys:
            other.complain(f"data.position_axes={options.axes}: its keys say this; leave it out")
        if has_positions(other.file):
            return read_product(other, options)
        if has_translations(other.file) and not any(key in options.keys for key in KEYS):
            return read_parts(other, options)
        if not any(key in options.keys for key in KEYS) and not all(has(other.file, key) for key in PP):
            other.complain(
                f"has no positions of a known layout; add data.keys.positions=; it has {other.listed()}"
            )
            return None
        known = not any(key in options.keys for key in KEYS)
        found = columns(other, PP, options, source) if known else by_keys(other, options, source)
        return None if found is None else Product(*found)
    finally:
        file.absorb(other)


def _put(file: Hdf5File, values: dict[str, Any], found: dict[str, Any]) -> None:
    for key, value in found.items():
        there = values.get(key)
        if key == "detector_pixel_m" and there is not None:  # the patterns' file knows better
            continue
        if isinstance(there, float) and abs(there - value) > 0.01 * abs(value):
            file.warnings.append(
                f"{key} is {there:g} beside the patterns and {value:g} with the positions: taken"
            )
        values[key] = value


def _numbered(
    file: Hdf5File,
    source: Hdf5Patterns,
    found: Product,
    numbers: np.ndarray | None,
    values: dict[str, Any],
) -> Placed | None:
    """The patterns that have positions, by their numbers."""
    assert found.indexes is not None
    count = source.shape[0]
    rows = found.indexes
    if numbers is not None:
        row_of = {int(number): row for row, number in enumerate(numbers)}
        rows = np.array([row_of.get(int(number), -1) for number in found.indexes], np.int64)
    there = (rows >= 0) & (rows < count)
    if not there.any():
        known = (0, count - 1) if numbers is None else (numbers.min(), numbers.max())
        file.complain(f"none of the {len(there)} positions is of a pattern from {known[0]} to {known[1]}")
        return None
    indexes, positions = rows[there], found.positions_on(source.shape[1:])[there]
    values["numbers"] = found.indexes[there]
    if not there.all():
        lost = int(np.count_nonzero(~there))
        file.warnings.append(
            f"{lost} of {len(there)} positions are left out: there are only {count} patterns"
        )
    twice = len(indexes) - len(np.unique(indexes))
    if twice:
        file.warnings.append(
            f"{INDEXES}: {twice} of {len(indexes)} numbers repeat, so that a pattern stands at more than one "
            "position; are they right?"
        )
    if len(indexes) < count:
        file.notes.append(f"{len(indexes)} of {count} patterns have positions")
    if not np.array_equal(indexes, np.arange(count)):
        source = source.select(indexes)
    return source, (positions, found.unit)


def check_keys(path: str | Path, options: ReadOptions, allowed: tuple[str, ...]) -> None:
    """Raise unless the user's keys are known ones and say in one way where positions are.

    Raises:
        ConfigError: naming the key.
    """
    for key in options.keys:
        if key not in allowed:
            raise ConfigError(f"{path}: data.keys.{key}: must be one of {', '.join(allowed)}")
    apart = [key in options.keys for key in KEYS[1:]]
    ways = sum([("positions" in options.keys), all(apart)])
    if any(apart) != all(apart) or ways > 1 or (ways == 0 and not options.positions_file):
        raise ConfigError(
            f"{path}: data.keys={', '.join(options.keys)}: needs either positions, or positions_row and "
            "positions_col, or data.positions_file"
        )
