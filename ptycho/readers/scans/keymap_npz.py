"""An NPZ archive of any layout, by a map of keys that the user writes: ``data.keys.patterns=… …``.

=============================== ============================================================================
``patterns``                    (J, H, W), (1, J, H, W), a raster (A, B, H, W), or (H, W, J)
``positions``                   (J, 2) or (2, J), in ``data.unit``; **(row, col)**; x, y: ``position_axes=xy``
``positions_row``, ``…_col``    (J,) each, instead
``probe``, ``object``           (h, w) with modes before it, and (h, w)
``good``, ``bad``               (H, W): other than nought where a pixel counts, or does not
``dark``, ``flat``              (H, W)
``energy_eV``, ``distance_m``   a number
``detector_pixel_m``            a number, or (row, col)
=============================== ============================================================================

Positions may be in a table beside the file instead (``data.positions_file=``), or the patterns in a second
archive (``data.patterns_file=``). Signs: the probe's positions, increasing with the index of the object's
array.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.npz import Archive, NpzError
from ptycho.readers.scans.domain import told_domain
from ptycho.readers.scans.npz_arrays import Arrays, flattened, opened, order_of, places
from ptycho.readers.scans.npz_patterns import NpzPatterns
from ptycho.readers.scans.positions_table import read_table
from ptycho.readers.scans.quantities import DISTANCE, ENERGY, PIXEL
from ptycho.readers.scans.raw_scan import UNITS, RawScan, ReadOptions

NAME = "npz"
KEYS = (
    *("patterns", "positions", "positions_row", "positions_col", "probe", "object", "good", "bad"),
    *("dark", "flat", "energy_eV", "distance_m", "detector_pixel_m"),
)


def detect(archive: Archive) -> bool:
    """Never by itself: only a map tells where things are."""
    return False


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from an archive of which ``options.keys`` says what is where.

    Raises:
        ConfigError: the map is incomplete, or names what is not there or does not fit.
    """
    _check_map(path, options)
    keys, holder = options.keys, options.patterns_file or path
    with opened(path, strict=True, stated=options.stated) as arrays:
        arrays.require([key for name, key in keys.items() if not (name == "patterns" and holder != path)])
        positions, unit = _positions(arrays, path, options)
        values = _values(arrays, keys)
    with opened(holder) as other:
        header = flattened(other.header(keys["patterns"]), raster=True)
        patterns = NpzPatterns(holder, header, order_of(header, len(positions), arrays.warnings))
        for name in ("good", "dark", "flat"):
            _fits(keys.get(name) or keys.get("bad", name), values[name], patterns.shape[1:])
        domain, reason = told_domain(patterns.dtype, patterns.blocks(), keys["patterns"])
    return RawScan(
        format=NAME,
        patterns=patterns,
        domain=domain,
        zero_frequency=None,
        positions=positions,
        unit=unit,
        notes=(f"{domain or 'domain unknown'}: {reason}", *arrays.notes),
        warnings=tuple(arrays.warnings),
        **values,
    )


def _check_map(path: str | Path, options: ReadOptions) -> None:
    """Raise unless the map says where patterns and positions are, in one way."""
    keys = options.keys
    unknown = [name for name in keys if name not in KEYS]
    if unknown:
        raise ConfigError(f"{path}: data.keys.{unknown[0]}: must be one of {', '.join(KEYS)}")
    ways = [
        "positions" in keys,
        "positions_row" in keys and "positions_col" in keys,
        bool(options.positions_file),
    ]
    if "patterns" not in keys or sum(ways) != 1:
        raise ConfigError(
            f"{path}: data.keys={', '.join(keys)}: needs patterns, and one of positions, positions_row with "
            "positions_col, and data.positions_file"
        )
    if options.unit is None and not options.positions_file:
        raise ConfigError(
            f"{path}: data.unit is missing: the unit of the positions, one of {', '.join(UNITS)}"
        )
    if options.axes is not None and ways[1]:
        raise ConfigError(
            f"{path}: data.position_axes={options.axes}: positions_row and positions_col say it; leave it out"
        )


def _positions(arrays: Arrays, path: str | Path, options: ReadOptions) -> tuple[np.ndarray, str]:
    """``(J, 2)``, (row, col), and their unit."""
    keys = options.keys
    if options.positions_file:
        table = read_table(options.positions_file, options.unit, options.axes)
        arrays.notes += table.notes
        return table.positions, table.unit
    assert options.unit is not None  # checked with the map
    if "positions" not in keys:
        names = keys["positions_row"], keys["positions_col"]
        return places(arrays.finite(names[0]), arrays.finite(names[1]), names), options.unit
    key = keys["positions"]
    listed = arrays.finite(key)
    listed = listed[0] if listed.ndim == 3 and len(listed) == 1 else listed
    if listed.ndim != 2 or 2 not in listed.shape:
        raise NpzError(f"{key} has shape {listed.shape}; must be (J, 2) or (2, J)")
    listed = listed if listed.shape[1] == 2 else listed.T
    if options.axes is None:
        arrays.notes.append(
            f"{key} is taken as (row, col); data.position_axes=xy if x, the column, comes first"
        )
    first, second = listed.T if options.axes != "xy" else listed[:, ::-1].T
    return places(first, second, (key, key)), options.unit


def _values(arrays: Arrays, keys: Mapping[str, str]) -> dict[str, Any]:
    """The attributes of a scan that are whole arrays or numbers."""
    images = {
        name: arrays.finite(keys[name], "bfiu") for name in ("good", "bad", "dark", "flat") if name in keys
    }
    images = {name: np.squeeze(image) for name, image in images.items()}
    masks = [
        image != 0 if name == "good" else image == 0
        for name, image in images.items()
        if name in ("good", "bad")
    ]
    if len(masks) == 2 and masks[0].shape != masks[1].shape:
        raise NpzError(
            f"{keys['good']} {masks[0].shape} and {keys['bad']} {masks[1].shape} must have one shape"
        )
    return {
        "probe": arrays.probe(keys["probe"]) if "probe" in keys else None,
        "object": arrays.object(keys["object"]) if "object" in keys else None,
        "good": np.logical_and.reduce(masks) if masks else None,
        "dark": images.get("dark"),
        "flat": images.get("flat"),
        "energy_eV": arrays.quantity(keys["energy_eV"], ENERGY) if "energy_eV" in keys else None,
        "distance_m": arrays.quantity(keys["distance_m"], DISTANCE) if "distance_m" in keys else None,
        "detector_pixel_m": _pitch(arrays, keys["detector_pixel_m"]) if "detector_pixel_m" in keys else None,
    }


def _pitch(arrays: Arrays, key: str) -> tuple[float, float]:
    """(row, col) of the detector, metres; what the user states goes before."""
    if (stated := arrays.stated.get("detector_pixel_m")) is not None:
        return stated, stated
    pitch = arrays.finite(key).ravel()
    if len(pitch) not in (1, 2) or np.any(pitch <= 0):
        raise NpzError(f"{key} is {pitch.tolist()[:4]}; must be one length in metres, or (row, col)")
    for value in pitch:
        if problem := PIXEL.problem(key, float(value), PIXEL.base):
            raise NpzError(problem)
    return float(pitch[0]), float(pitch[-1])


def _fits(key: str, image: np.ndarray | None, wanted: tuple[int, ...]) -> None:
    if image is not None and image.shape != wanted:
        raise NpzError(f"{key} has shape {image.shape}; must be {wanted}, that of a pattern")
