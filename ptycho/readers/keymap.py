"""HDF5 or NPZ of any layout, by a map of keys that the user writes: ``data.keys.patterns=entry/data/data …``.

=============================== ==============================================================================
``patterns``                    (J, H, W) or a raster (A, B, H, W); in NPZ also (1, J, H, W) or (H, W, J). If
                                it is not said, one of :data:`PATTERNS`. Arrays of MATLAB 7.3 are as MATLAB
                                shows them, patterns (H, W, J), (H, W, A, B) or (J, H, W)
``positions``                   (J, 2) or (2, J), in ``data.unit`` or its ``units``; **(row, col)** unless
                                ``data.position_axes=xy``
``positions_row``, ``…_col``    (J,) each, (A, B) each, or the two axes of the raster
``probe``, ``object``           (h, w) with modes before it, and (h, w); complex, or MATLAB's real and imag
``good``, ``bad``               (H, W): other than nought where a pixel counts, or does not
``dark``, ``flat``              (H, W), or several, of which the mean is taken
``energy_eV``, ``distance_m``   a number, in its ``units`` or in eV and metres
``detector_pixel_m``            a number, or (row, col)
=============================== ==============================================================================

A key of HDF5 is a path, or that of an attribute: ``entry/data/eiger_4@Pixel_size``. Positions may be in a
second file (``data.positions_file=``), or the patterns (``data.patterns_file=``). Signs: the probe's
positions, increasing with the index of the object's array.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ptycho.config import ConfigError
from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.npz import NpzArchive
from ptycho.readers.places import check_keys, open_archive, place_scan
from ptycho.readers.positions import KEYS as POSITIONS
from ptycho.readers.positions import read_mapped
from ptycho.readers.quantities import DISTANCE
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.values import (
    find_domain,
    read_energy,
    read_frame,
    read_good,
    read_number,
    read_object,
    read_pitch,
    read_probe,
)

NAMES = {"HDF5": "hdf5", "NPZ": "npz"}
PATTERNS = ("entry/data/data", "exchange/data", "entry/measurement/Eiger/data", "diffamp")
VALUES = ("probe", "object", "good", "bad", "dark", "flat", "energy_eV", "distance_m", "detector_pixel_m")
KEYS = ("patterns", *POSITIONS, *VALUES)
MOST_NAMES = 2000  # of arrays, among which the largest is looked for


def detect(file: Archive) -> bool:
    """Patterns at a usual place of HDF5; the last format to ask, for nothing is said of positions."""
    return file.kind == "HDF5" and any(file.holds(key) for key in PATTERNS)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from a file of which ``options.keys`` says what is where."""
    check_keys(path, options, KEYS)
    if options.columns and not options.positions_file:
        raise ConfigError(f"{path}: data.position_columns: belongs to a table, data.positions_file=")
    with open_archive(options.patterns_file or path, options) as file:
        source = _patterns(file, options.keys.get("patterns"), options.raster is not None)
        if options.patterns_file is None:
            values, positions = _read_description(file, options, source)
        else:
            with open_archive(path, options) as other:
                values, positions = _read_description(other, options, source)
            file.absorb(other)
        return place_scan(file, NAMES[file.kind], options, source, values, lambda: positions)


def _patterns(file: Archive, key: str | None, raster: bool) -> Patterns | None:
    key = file.need("patterns", *([key] if key else [*PATTERNS, *(largest(file) if raster else [])]))
    if isinstance(file, NpzArchive):
        return file.patterns(key, either=True, raster=True)
    return file.patterns(key)


def largest(file: Archive) -> list[str]:
    """Return the key of the largest array of three or four axes, in a list; empty: there is none."""
    sizes = {}
    for key in file.names(MOST_NAMES):
        entry = file.entry(key)
        if entry is not None and entry.shape is not None and len(entry.shape) in (3, 4):
            sizes[key] = math.prod(entry.shape)
    return [max(sizes, key=sizes.__getitem__)] if sizes else []


def _read_description(
    file: Archive, options: ReadOptions, source: Patterns | None
) -> tuple[dict[str, Any], Any]:
    """The attributes of the scan, and its positions, unless a second file has these."""
    keys, file.strict = options.keys, True
    for name in VALUES:
        if name in keys and not file.holds(keys[name]):
            file.need(name, keys[name])
    good, bad = read_good(file, keys.get("good"), "good"), read_good(file, keys.get("bad"), "bad")
    if good is not None and bad is not None and good.shape != bad.shape:
        file.complain(f"{keys['good']} {good.shape} and {keys['bad']} {bad.shape} must have one shape")
        bad = None
    energies, distances = ([keys[name]] if name in keys else [] for name in ("energy_eV", "distance_m"))
    key = keys.get("patterns", "diffamp" if source is not None and source.label == "diffamp" else "")
    values = {
        "domain": find_domain(file, source, key=key.rpartition("/")[2]),
        "zero_frequency": None,
        "probe": read_probe(file, keys.get("probe")),
        "object": read_object(file, keys.get("object")),
        "good": good & bad if good is not None and bad is not None else bad if good is None else good,
        "dark": read_frame(file, keys.get("dark")),
        "flat": read_frame(file, keys.get("flat")),
        "energy_eV": read_energy(file, "eV", energies),
        "distance_m": read_number(file, DISTANCE, "m", *distances),
        "detector_pixel_m": read_pitch(file, keys.get("detector_pixel_m")),
    }
    elsewhere = options.positions_file or options.raster
    return values, None if elsewhere else read_mapped(file, options, source)
