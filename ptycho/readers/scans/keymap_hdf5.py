"""Plain HDF5 of any layout, by a map of keys that the user writes: ``data.keys.patterns=entry/data/data …``.

=============================== ==============================================================================
``patterns``                    (J, H, W) or a raster (A, B, H, W); if it is not said, one of :data:`PATTERNS`
``positions``                   (J, 2) or (2, J), in ``data.unit`` or its ``units``; **(row, col)** unless
                                ``data.position_axes=xy``
``positions_row``, ``…_col``    (J,) each, (A, B) each, or the two axes of the raster
``probe``, ``object``           (h, w) with modes before it, and (h, w); complex, or MATLAB's real and imag
``good``, ``bad``               (H, W): other than nought where a pixel counts, or does not
``dark``, ``flat``              (H, W), or several, of which the mean is taken
``energy_eV``, ``distance_m``   a number, in its ``units`` or in eV and metres
``detector_pixel_m``            a number, or (row, col)
=============================== ==============================================================================

A key is a path, or that of an attribute: ``entry/data/eiger_4@Pixel_size``. Positions may be in a second file
(``data.positions_file=``), or the patterns (``data.patterns_file=``). Signs: the probe's positions,
increasing with the index of the object's array.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py

from ptycho.readers.scans.hdf5 import Hdf5File, has, opened
from ptycho.readers.scans.hdf5_patterns import Hdf5Patterns, domain_of, patterns
from ptycho.readers.scans.hdf5_scan import frame_of, good_of, layer_of, modes_of, only, scan
from ptycho.readers.scans.hdf5_values import image, number
from ptycho.readers.scans.ptylab import pixels_at
from ptycho.readers.scans.quantities import DISTANCE, ENERGY
from ptycho.readers.scans.raw_scan import RawScan, ReadOptions
from ptycho.readers.scans.second_hdf5 import KEYS as POSITIONS
from ptycho.readers.scans.second_hdf5 import by_keys, check_keys, place

NAME = "hdf5"
PATTERNS = ("entry/data/data", "exchange/data", "entry/measurement/Eiger/data", "diffamp")
VALUES = ("probe", "object", "good", "bad", "dark", "flat", "energy_eV", "distance_m", "detector_pixel_m")
KEYS = ("patterns", *POSITIONS, *VALUES)


def detect(file: h5py.File) -> bool:
    """Patterns at a usual place; the last format to ask, for nothing is said of positions."""
    return any(has(file, key) for key in PATTERNS)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from a file of which ``options.keys`` says what is where.

    Raises:
        ConfigError: the map is incomplete, or names what is not there or does not fit.
    """
    only(path, NAME, options, "keys", "unit", "axes", "positions_file", "patterns_file")
    check_keys(path, options, KEYS)
    with opened(options.patterns_file or path, options.stated) as file:
        key = options.keys.get("patterns")
        source = patterns(file, file.need("patterns", *([key] if key else PATTERNS)))
        described = file if options.patterns_file is None else Hdf5File(path, options.stated)
        try:
            values = _values(described, options, source)
            own = source is not None and not options.positions_file
            positions = by_keys(described, options, source) if own and source is not None else None
        finally:
            if described is not file:
                file.absorb(described)
        if options.positions_file:
            placed = place(file, options, source, values)
            source, positions = placed if placed is not None else (source, None)
        values["domain"] = domain_of(file, source, "amplitude" if key == "diffamp" else None)
        return scan(file, NAME, source, positions, values)


def _values(file: Hdf5File, options: ReadOptions, source: Hdf5Patterns | None) -> dict[str, Any]:
    keys = options.keys
    for name in VALUES:
        if name in keys and file.node(keys[name].partition("@")[0] or "/") is None:
            file.need(name, keys[name])
    probe, found = keys.get("probe"), keys.get("object")
    good = good_of(file, keys.get("good"), "good")
    bad = good_of(file, keys.get("bad"), "bad")
    return {
        "zero_frequency": None,
        "probe": modes_of(file, str(probe), image(file, probe)),
        "object": layer_of(file, str(found), image(file, found)),
        "good": good & bad if good is not None and bad is not None else bad if good is None else good,
        "dark": frame_of(file, keys.get("dark")),
        "flat": frame_of(file, keys.get("flat")),
        "energy_eV": number(file, ENERGY, "eV", keys["energy_eV"]) if "energy_eV" in keys else None,
        "distance_m": number(file, DISTANCE, "m", keys["distance_m"]) if "distance_m" in keys else None,
        "detector_pixel_m": pixels_at(file, keys["detector_pixel_m"]) if "detector_pixel_m" in keys else None,
    }
