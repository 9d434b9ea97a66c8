"""HDF5 or NPZ of any layout, by a map of keys that the user writes: ``data.keys.patterns=entry/data/data …``.

=============================== ==============================================================================
``patterns``                    (J, H, W) or a raster (A, B, H, W); in NPZ also (1, J, H, W) or (H, W, J). If
                                it is not said, one of :data:`PATTERNS`. Arrays of MATLAB 7.3 are as MATLAB
                                shows them, patterns (H, W, J), (H, W, A, B) or (J, H, W)
``positions``                   (J, 2) or (2, J), in ``data.unit`` or its ``units``; **(row, col)** unless
                                ``data.position_axes=xy``
``positions_row``, ``…_col``    (J,) each, (A, B) each, or the two axes of the raster
``probe``, ``object``           (h, w) with modes before it, and (h, w); complex, or MATLAB's real and imag
``good``, ``bad``               (H, W): other than zero where a pixel counts, or does not
``dark``, ``flat``              (H, W), or several, of which the mean is taken
``energy_eV``, ``distance_m``   a number, in its ``units`` or in eV and metres
``detector_pixel_m``            a number, or (row, col)
=============================== ==============================================================================

A key of HDF5 is a path, or that of an attribute: ``entry/data/eiger_4@Pixel_size``. Positions may be in a
second file (``data.positions_file=``), or the patterns (``data.patterns_file=``). Signs: the probe's
positions, increasing with the index of the object's array.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.layout import Layout
from ptycho.readers.places import check_keys, open_archive, place_scan
from ptycho.readers.positions import KEYS as POSITIONS
from ptycho.readers.positions import read_mapped
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.values import read_good

NAMES = {"HDF5": "hdf5", "NPZ": "npz"}
PATTERNS = ("entry/data/data", "exchange/data", "entry/measurement/Eiger/data", "diffamp")
VALUES = ("probe", "object", "good", "bad", "dark", "flat", "energy_eV", "distance_m", "detector_pixel_m")
KEYS = ("patterns", *POSITIONS, *VALUES)


def detect(file: Archive) -> bool:
    """Return whether patterns are at a usual place of HDF5; this format asks last: it knows no positions."""
    return file.kind == "HDF5" and file.holds_any(*PATTERNS)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """Read a scan from a file, or two, by the paths in ``options.keys``."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_archive(options.patterns_file or path, options))
        table = _table(options.keys, NAMES[file.kind], largest(file) if options.raster is not None else [])
        options.refuse_unused(path, table.name, *table.options)
        check_keys(path, options, KEYS)
        source = table.source(file)
        other = stack.enter_context(open_archive(path, options)) if options.patterns_file else file
        other.strict = True
        for name in VALUES:
            if name in options.keys and not other.holds(options.keys[name]):
                other.need(name, options.keys[name])
        values = table.values(other, source)
        elsewhere = options.positions_file or options.raster
        placement = None if elsewhere else read_mapped(other, options, source)
        if other is not file:
            file.absorb(other)
        return place_scan(file, replace(table, positions=lambda *_: placement), options, source, values)


def _table(keys: Mapping[str, str], name: str, others: list[str]) -> Layout:
    """The user's map as the table of a format."""

    def at(*names: str) -> tuple[str, ...]:
        return tuple(keys[name] for name in names if name in keys)

    def good(file: Archive, source: Patterns | None, values: dict[str, Any]) -> dict[str, Any]:
        masks = {keys[kind]: read_good(file, keys[kind], kind) for kind in ("good", "bad") if kind in keys}
        given = {key: mask for key, mask in masks.items() if mask is not None}
        if len({mask.shape for mask in given.values()}) > 1:
            shapes = " and ".join(f"{key} {mask.shape}" for key, mask in given.items())
            file.complain(f"{shapes} must have one shape")
            return {}
        return {"good": np.logical_and.reduce(list(given.values())) if given else None}

    return Layout(
        name=name,
        patterns=at("patterns") or (*PATTERNS, *others),
        any_order=True,
        energy=at("energy_eV"),
        distance=at("distance_m"),
        pixel=at("detector_pixel_m"),
        probe=at("probe"),
        object=at("object"),
        dark=at("dark"),
        flat=at("flat"),
        more=good,
        options=("keys", "unit", "axes", "positions_file", "patterns_file"),
    )


def largest(file: Archive, most: int = 2000) -> list[str]:
    """Return the key of the largest array of three or four axes, in a list; ``most`` arrays are inspected."""
    sizes = {}
    for key in file.names(most):
        entry = file.entry(key)
        if entry is not None and entry.shape is not None and len(entry.shape) in (3, 4):
            sizes[key] = math.prod(entry.shape)
    return [max(sizes, key=sizes.__getitem__)] if sizes else []
