"""A scan put together: patterns and values by the table of a format, positions also of a second file.

``data.positions_file`` is a product of ptychodus or CXI (positions by the patterns' numbers, probe, object,
energy), HDF5 with ``/ppX``, ``/ppY``, an archive with ``data.keys.positions``, or a table (CSV, TXT, NPY).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.waves import conjugate_pitch_m
from ptycho.files.reading import FileError, shown
from ptycho.readers import cxi, positions_table
from ptycho.readers.archive import Archive, container_of
from ptycho.readers.hdf5 import Hdf5Archive
from ptycho.readers.layout import Layout
from ptycho.readers.npz import NpzArchive
from ptycho.readers.patterns import Incomplete, Patterns, Selected
from ptycho.readers.positions import KEYS, Placement, raster_positions, read_mapped
from ptycho.readers.ptychodus import PP, has_positions, read_columns_of_pp, read_product
from ptycho.readers.raw_scan import Frames, RawScan, ReadOptions, checked_frames
from ptycho.readers.tiff import TiffArchive
from ptycho.readers.values import read_whole

ARCHIVES: dict[str, type[Archive]] = {"HDF5": Hdf5Archive, "NPZ": NpzArchive, "TIFF": TiffArchive}
COMPRESSED = {"bzip2": "bunzip2", "gzip": "gunzip"}


def open_archive(path: str | Path, options: ReadOptions) -> Archive:
    """Open an HDF5, NPZ or TIFF file, by its content, or a folder of TIFF files; or raise ConfigError."""
    name, start = ("TIFF", b"") if Path(path).is_dir() else container_of(path)
    if name in ARCHIVES:
        return ARCHIVES[name](path, options)
    what = f"is no HDF5, NPZ or TIFF file; it begins with {start!r}"
    if name in COMPRESSED:
        what = f"is compressed as a whole; unpack it with {COMPRESSED[name]}"
    raise ConfigError(f"{path}: {'is empty' if name == 'empty' else what}")


def read_layout(layout: Layout, path: str | Path, options: ReadOptions) -> RawScan:
    """Read a scan from a file of the format that ``layout`` describes; positions may be in a second one.

    ConfigError: one line with every problem.
    """
    options.refuse_unused(path, layout.name, *layout.options)
    check_keys(path, options, layout.keys)
    with open_archive(path, options) as file:
        table = layout if layout.variant is None else layout.variant(file)
        source = table.source(file)
        return place_scan(file, table, options, source, table.values(file, source))


def place_scan(
    file: Archive, layout: Layout, options: ReadOptions, source: Patterns, values: dict[str, Any]
) -> RawScan:
    """Return the scan with the positions that the user states, or a second file, or else the file itself.

    ``values``: attributes of a :class:`RawScan`; those that come with the positions are put in their place.
    ConfigError: one line with every problem.
    """
    if (good := values.get("good")) is not None and good.ndim == 3:
        source, good = _without_bad_pixels(file, source, good)
        values = {**values, "good": good}
    positioned = file.noted(partial(_positioned, file, layout, options, source, values), needed=True)
    if positioned is None and not file.problems:
        file.complain("lacks positions; add data.positions_file=")
    shape = None if positioned is None else positioned[0].shape[1:]
    for key, what in (("good", "mask"), ("dark", "dark field"), ("flat", "flat field")):
        if shape is not None and (image := values.get(key)) is not None and image.shape != shape:
            file.complain(f"the {what} has shape {image.shape}; must be {shape}, that of a pattern")
    file.refuse()
    assert positioned is not None
    source, positions, unit = positioned
    notes, warnings = ([shown(line, file.longest) for line in lines] for lines in (file.notes, file.warnings))
    attributes: dict[str, Any] = {"notes": tuple(notes), "warnings": tuple(warnings), **values}
    return RawScan(layout.name, source, positions=positions, unit=unit, **attributes)


def _without_bad_pixels(file: Archive, source: Patterns, good: np.ndarray) -> tuple[Patterns, np.ndarray]:
    """Return patterns that hold marks where they are not ``good (J, H, W)``, and which pixels ever are.

    If there is not a mask for each pattern: the patterns, and which pixels always are.
    """
    always, ever = np.logical_and.reduce(good), np.logical_or.reduce(good)
    if good.shape == source.shape:
        return Incomplete(source, Frames(good)), ever
    some = np.count_nonzero(ever & ~always)
    file.warnings.append(f"the mask {good.shape}: {some} pixels are bad in some patterns, and masked in all")
    return source, always


def _positioned(
    file: Archive, layout: Layout, options: ReadOptions, source: Patterns, values: dict[str, Any]
) -> tuple[Patterns, np.ndarray, str] | None:
    """Return the patterns that have positions, these ``(J, 2)`` and their unit; None: there are problems."""
    placement = _placement(file, layout, options, source)
    if placement is None:
        return None
    mine = None
    if layout.numbers is not None and placement.numbers is not None:
        mine = read_whole(file, layout.numbers, source.counts, needed=True)
    source, positions = paired(file, *join(file, source, placement, values, mine), options)
    return source, positions, placement.unit


def _placement(file: Archive, layout: Layout, options: ReadOptions, source: Patterns) -> Placement | None:
    raster, table = options.raster, options.positions_file
    if raster is not None:
        file.notes.append(raster.text)
        return Placement(raster_positions(raster, source, file.path), "m")
    if not table:
        return layout.positions(file, options, source)
    name, _ = container_of(table, "data.positions_file=")
    kind = ARCHIVES.get(name)
    if kind is None or name == "TIFF":
        listed, notes = positions_table.read_table(table, options.unit, options.axes, options.columns)
        file.notes += notes
        return listed
    with kind(table, options) as other:
        placement = other.noted(lambda: _read_second(other, options, source), needed=True)
        file.absorb(other)
    return placement


def _read_second(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    if options.columns:
        file.complain(f"data.position_columns={list(options.columns)}: belongs to a table (CSV, TXT, SPEC)")
    if options.axes is not None and "positions" not in options.keys:
        file.complain(f"data.position_axes={options.axes}: its keys state the axes; remove it")
    if has_positions(file):
        return read_product(file, options)
    if any(key in options.keys for key in KEYS):
        return read_mapped(file, options, source)
    if file.holds_any(*cxi.TRANSLATIONS):
        return cxi.read_product(file, options)
    if file.holds(*PP):
        return read_columns_of_pp(file, options, source)
    held = file.listed()
    raise FileError(f"has no positions of a known layout; add data.keys.positions=; it has {held}")


def join(
    file: Archive, source: Patterns, placement: Placement, values: dict[str, Any], numbers: np.ndarray | None
) -> tuple[Patterns, np.ndarray]:
    """Return the patterns with positions, in their own order, and these ``(J, 2)``; values are merged.

    ``numbers (J,)`` of the patterns; None: they are counted from zero. If the positions have no numbers, both
    have one order. Positions in px are made those of a detector that is used as a whole.
    """
    source = source.order_for(len(placement.positions), file)
    _merge(file, values, placement.values, source.shape[1:])
    positions, theirs = placement.positions, placement.numbers
    if placement.unit == "px" and placement.side is not None:
        positions = positions * (np.array(source.shape[1:]) / placement.side)
    mine = np.arange(source.shape[0]) if numbers is None else numbers
    if theirs is None or _is_one_order(file, mine, theirs):
        return source, positions
    rows, which = _pair_by_number(file, mine, theirs)
    values["numbers"] = theirs[which]
    if values.get("scan_index") is not None:
        values["scan_index"] = values["scan_index"][rows]
    if not np.array_equal(rows, np.arange(len(mine))):
        source = Selected(source, rows)
    return source, positions[which]


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
        raise FileError(f"{both} have numbers that repeat; give each a number of its own")
    if twice[1]:
        share = f"{twice[1]} of {len(theirs)} positions"
        file.warnings.append(f"{share} are of patterns that have another; are they right?")
    return False


def _pair_by_number(file: Archive, mine: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the patterns, increasing, and of the positions that have their numbers."""
    order = np.argsort(mine)
    at = np.minimum(np.searchsorted(mine, theirs, sorter=order), len(mine) - 1)
    which = np.flatnonzero(mine[order[at]] == theirs)
    which = which[np.argsort(order[at[which]], kind="stable")]
    rows = order[at[which]]
    left = f"{len(mine) - len(np.unique(rows))} of {len(mine)} patterns"
    if not len(rows):
        ranges = f"{mine.min()} to {mine.max()}, those of the positions {theirs.min()} to {theirs.max()}"
        raise FileError(f"no pattern has a position: the numbers of the patterns are {ranges}")
    if len(rows) < len(theirs):
        lost = f"{len(theirs) - len(rows)} of {len(theirs)} positions"
        file.warnings.append(f"{left} and {lost} are excluded: no partner")
    elif len(rows) < len(mine):
        file.notes.append(f"{left} have no position, and are excluded")
    return rows, which


def _merge(file: Archive, values: dict[str, Any], others: dict[str, Any], shape: tuple[int, ...]) -> None:
    """Put ``others``, which came with positions, into ``values``; a pitch that is not, from the probe's."""
    for key, value in others.items():
        there = values.get(key)
        if key == "detector_pixel_m" and there is not None:  # the patterns' file knows better
            continue
        if isinstance(there, float) and abs(there - value) > 0.01 * abs(value):
            file.warnings.append(
                f"{key} is {there:g} beside the patterns and {value:g} with the positions: taken"
            )
        values[key] = value
    probe = values.get("probe")
    if others and values.get("detector_pixel_m") is None and probe is not None and probe.shape[1:] == shape:
        energy, distance, pixel = (values.get(key) for key in ("energy_eV", "distance_m", "probe_pixel_m"))
        values["detector_pixel_m"] = conjugate_pitch_m(energy, distance, pixel, shape)


def check_keys(path: str | Path, options: ReadOptions, allowed: tuple[str, ...]) -> None:
    """Raise ConfigError unless the user's keys are known and say in one way where positions are."""
    if not allowed:
        return
    if unknown := [key for key in options.keys if key not in allowed]:
        raise ConfigError(f"{path}: data.keys.{unknown[0]}: must be one of {', '.join(allowed)}")
    named = [key for key in KEYS if key in options.keys]
    if options.raster is not None and named:
        raise ConfigError(
            f"{path}: data.keys.{named[0]}: positions are those of a raster (data.scan_step_A); remove one"
        )
    elsewhere = options.positions_file or options.raster
    if named not in ([KEYS[0]], [*KEYS[1:]]) and not (elsewhere and not named):
        raise ConfigError(
            f"{path}: data.keys={', '.join(options.keys)}: needs either positions, or positions_row and "
            "positions_col, or data.positions_file"
        )
    if KEYS[1] in named and options.axes is not None:
        raise ConfigError(
            f"{path}: data.position_axes={options.axes}: positions_row and positions_col state the axes; "
            "remove it"
        )


def paired(
    file: Archive, source: Patterns, positions: np.ndarray, choice: ReadOptions
) -> tuple[Patterns, np.ndarray]:
    """Pair patterns and positions, where the user's keys say which of either have no counterpart.

    Those of ``positions (P, 2)`` belong to the frames that are used, if there are as many; else position i to
    frame i, if every frame that is used, or every ``stride``-th, has one. NaN stands for a frame without one.
    """
    count, places = source.shape[0], len(positions)
    if count == places or file.problems:
        return source, positions
    used, both = checked_frames(choice, count), min(count, places)
    every = np.full((count, 2), np.nan)
    if len(used) == places < count and not choice.growing:
        every[used] = positions
        file.notes.append(f"{count} patterns, {places} positions: those of the {places} that are used")
        return source, every
    first_ones = not choice.growing and choice.frames is not None and used[-1] < places
    if not (choice.growing or first_ones or choice.stride > 1):
        message = f"{source.label} holds {count} patterns, and there are {places} positions; exclude those "
        message += f"that have no counterpart: data.frames={both} takes the first ones"
        drop = f", data.drop=[…] {count - places} patterns by their numbers" if count > places else ""
        raise FileError(message + drop)
    if not choice.growing:
        what = (
            f"{places} positions have no pattern" if places > count else f"{count} patterns have no position"
        )
        excluded = "and are excluded; position i is taken as that of frame i"
        file.warnings.append(f"{abs(count - places)} of {what}, {excluded}")
    if first_ones:  # frames beyond them keep their numbers
        every[:both] = positions[:both]
        return source, every
    return Selected(source, np.arange(both)), positions[:both]
