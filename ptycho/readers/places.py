"""Positions for the patterns of a file in a second file, ``data.positions_file``.

=========================================== ==================================================================
second file
=========================================== ==================================================================
product of ptychodus, ``_para.hdf5``        positions by the patterns' numbers, probe, object, energy
CXI                                         the same
HDF5 with ``/ppX``, ``/ppY``                column, row in metres
other HDF5 and NPZ                          where ``data.keys.positions`` (``…_row``, ``…_col``) say
CSV, TXT, NPY                               :mod:`~ptycho.readers.positions_table`
=========================================== ==================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.readers import positions_table
from ptycho.readers.archive import Archive, Patterns, Selected
from ptycho.readers.cube import raster_positions
from ptycho.readers.cxi_parts import has_translations, read_parts
from ptycho.readers.hdf5 import Hdf5Archive
from ptycho.readers.npz import NpzArchive
from ptycho.readers.positions import KEYS, Positions, make_scan, read_columns, read_mapped
from ptycho.readers.product import Product, has_positions, read_product
from ptycho.readers.raw_scan import Raster, RawScan, ReadOptions, detector_pitch_m

PP = ("ppY", "ppX")


def find_container(path: str | Path) -> type[Archive] | None:
    """The kind of archive that a file is by its content; None: neither HDF5 nor NPZ."""
    try:
        if not Path(path).is_file():  # a pipe or a device would never end
            return None
        if h5py.is_hdf5(path):
            return Hdf5Archive
        with Path(path).open("rb") as file:
            return NpzArchive if file.read(2) == b"PK" else None
    except (OSError, ValueError):  # ValueError: a zero byte in the name
        return None


def open_archive(path: str | Path, options: ReadOptions) -> Archive:
    """An HDF5 or NPZ file.

    Raises:
        ConfigError: it is neither, or cannot be read.
    """
    return (find_container(path) or Hdf5Archive)(path, options)


def place_scan(
    file: Archive,
    name: str,
    options: ReadOptions,
    source: Patterns | None,
    values: dict[str, Any],
    positions: Callable[[], Positions | None],
    numbers: np.ndarray | None = None,
) -> RawScan:
    """The scan, with the positions of ``data.positions_file`` if there is one.

    Args:
        values: attributes of a :class:`RawScan`; those that the second file has are put in their place.
        positions: gives those in the file itself.
        numbers: ``(J,)`` by which the second file refers to the patterns; None: they are counted from nought.

    Raises:
        ConfigError: one line with every problem.
    """
    if options.raster is not None:
        return make_scan(file, name, options, source, _on_a_raster(file, options.raster, source), values)
    if not options.positions_file:
        return make_scan(file, name, options, source, positions(), values)
    product = None if source is None else _read_second(file, options.positions_file, options, source)
    return make_scan(file, name, options, *join(file, source, product, values, numbers), values)


def _on_a_raster(file: Archive, raster: Raster, source: Patterns | None) -> Positions | None:
    """Positions that the user states."""
    if source is None:
        return None
    file.notes.append(raster.text)
    return raster_positions(raster, source.shape[0], source.grid, source.columns_first, file.path), "m"


def join(
    file: Archive,
    source: Patterns | None,
    product: Product | None,
    values: dict[str, Any],
    numbers: np.ndarray | None = None,
) -> tuple[Patterns | None, Positions | None]:
    """The patterns that a product has positions for, in their own order, and those; its values are merged.

    Args:
        numbers: ``(J,)`` of the patterns; None: they are counted from nought. Without numbers of the
            positions both have one order.
    """
    if source is None or product is None:
        return source, None
    source = source.order_for(len(product.positions), file)
    _merge(file, values, product.values, source.shape[1:])
    positions, theirs = product.positions_on(source.shape[1:]), product.numbers
    mine = np.arange(source.shape[0]) if numbers is None else numbers
    if theirs is None or _is_one_order(file, mine, theirs):
        return source, (positions, product.unit)
    rows, which = _pair_by_number(file, mine, theirs)
    values["numbers"] = theirs[which]
    if values.get("scan_index") is not None:
        values["scan_index"] = values["scan_index"][rows]
    if not np.array_equal(rows, np.arange(len(mine))):
        source = Selected(source, rows)
    return source, (positions[which], product.unit)


def _is_one_order(file: Archive, mine: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether numbers repeat, so that as many patterns as positions are paired by their order."""
    twice = [len(listed) - len(np.unique(listed)) for listed in (mine, theirs)]
    if any(twice) and len(mine) == len(theirs):
        file.warnings.append(
            f"numbers of patterns or positions repeat, {max(twice)} of {len(mine)}: "
            "they are paired in the order of the files; are they right?"
        )
        return True
    if twice[0]:
        both = f"{len(mine)} patterns and {len(theirs)} positions"
        file.complain(f"{both} have numbers that repeat; give each a number of its own")
    elif twice[1]:
        said = f"{twice[1]} of {len(theirs)} positions"
        file.warnings.append(f"{said} are of patterns that have another; are they right?")
    return False


def _pair_by_number(file: Archive, mine: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the patterns, increasing, and of the positions that have their numbers."""
    order = np.argsort(mine)
    at = np.minimum(np.searchsorted(mine, theirs, sorter=order), len(mine) - 1)
    which = np.flatnonzero(mine[order[at]] == theirs)
    along = np.argsort(order[at[which]], kind="stable")
    rows, which = order[at[which]][along], which[along]
    left = f"{len(mine) - len(np.unique(rows))} of {len(mine)} patterns"
    if not len(rows):
        ranges = f"{mine.min()} to {mine.max()}, those of the positions {theirs.min()} to {theirs.max()}"
        file.complain(f"no pattern has a position: the numbers of the patterns are {ranges}")
    elif len(rows) < len(theirs):
        lost = f"{len(theirs) - len(rows)} of {len(theirs)} positions"
        file.warnings.append(f"{left} and {lost} are excluded: no partner")
    elif len(rows) < len(mine):
        file.notes.append(f"{left} have no position, and are excluded")
    return rows, which


def _read_second(file: Archive, path: str, options: ReadOptions, source: Patterns) -> Product | None:
    kind = find_container(path)
    if kind is None:
        listed = positions_table.read_table(path, options.unit, options.axes, options.columns)
        file.notes += listed.notes
        return Product(listed.positions, listed.unit)
    with kind(path, options) as other:
        try:
            return _read_places(other, options, source)
        finally:
            file.absorb(other)


def _read_places(file: Archive, options: ReadOptions, source: Patterns) -> Product | None:
    mapped = any(key in options.keys for key in KEYS)
    if options.columns:
        file.complain(f"data.position_columns={list(options.columns)}: belongs to a table (CSV, TXT, SPEC)")
    if options.axes is not None and "positions" not in options.keys:
        file.complain(f"data.position_axes={options.axes}: its keys state the axes; remove it")
    if has_positions(file):
        return read_product(file, options)
    if has_translations(file) and not mapped:
        return read_parts(file, options)
    if not mapped and not all(file.holds(key) for key in PP):
        file.complain(f"has no positions of a known layout; add data.keys.positions=; it has {file.listed()}")
        return None
    found = read_mapped(file, options, source) if mapped else read_columns(file, PP, options, source)
    return None if found is None else Product(*found)


def _merge(file: Archive, values: dict[str, Any], found: dict[str, Any], shape: tuple[int, ...]) -> None:
    """Put what is ``found`` with the positions into ``values``; a pitch that is not, from the probe's."""
    for key, value in found.items():
        there = values.get(key)
        if key == "detector_pixel_m" and there is not None:  # the patterns' file knows better
            continue
        if isinstance(there, float) and abs(there - value) > 0.01 * abs(value):
            file.warnings.append(
                f"{key} is {there:g} beside the patterns and {value:g} with the positions: taken"
            )
        values[key] = value
    probe = values.get("probe")
    if values.get("detector_pixel_m") is None and probe is not None and probe.shape[1:] == shape:
        pixel, energy, distance = (values.get(key) for key in ("probe_pixel_m", "energy_eV", "distance_m"))
        values["detector_pixel_m"] = detector_pitch_m(pixel, energy, distance, shape)


def check_keys(path: str | Path, options: ReadOptions, allowed: tuple[str, ...]) -> None:
    """Raise unless the user's keys are known ones and say in one way where positions are.

    Raises:
        ConfigError: naming the key.
    """
    for key in options.keys:
        if key not in allowed:
            raise ConfigError(f"{path}: data.keys.{key}: must be one of {', '.join(allowed)}")
    named = [key for key in KEYS if key in options.keys]
    if options.raster is not None and named:
        raise ConfigError(
            f"{path}: data.keys.{named[0]}: positions are those of a raster (data.scan_step_A); remove one"
        )
    apart = [key in options.keys for key in KEYS[1:]]
    ways = sum([("positions" in options.keys), all(apart)])
    if (
        any(apart) != all(apart)
        or ways > 1
        or (ways == 0 and not options.positions_file and not options.raster)
    ):
        raise ConfigError(
            f"{path}: data.keys={', '.join(options.keys)}: needs either positions, or positions_row and "
            "positions_col, or data.positions_file"
        )
    if all(apart) and options.axes is not None:
        raise ConfigError(
            f"{path}: data.position_axes={options.axes}: positions_row and positions_col state the axes; "
            "remove it"
        )
