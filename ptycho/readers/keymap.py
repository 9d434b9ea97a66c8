"""HDF5 or NPZ of any layout: by the user's map of keys, or 4D-STEM whose patterns have axes beside them.

``data.keys`` are paths in HDF5 (``entry/data/eiger_4@Pixel_size``: an attribute) or keys of NPZ. Patterns are
(J, H, W) or a raster (A, B, H, W), in NPZ also (1, J, H, W) or (H, W, J); those of MATLAB 7.3 are as MATLAB
shows them. Positions: (J, 2), (2, J), or a key each of rows and columns, (J,), (A, B), or the two axes of the
raster; **(row, col)** unless ``data.position_axes=xy``, increasing with the index of the object's array.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.reading import FileError
from ptycho.readers.archive import Archive
from ptycho.readers.layout import Layout
from ptycho.readers.patterns import Patterns, largest
from ptycho.readers.places import check_keys, open_archive, place_scan
from ptycho.readers.positions import KEYS as POSITIONS
from ptycho.readers.positions import Axis, complete, read_mapped, step_m
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.values import read_good

PATTERNS = ("entry/data/data", "exchange/data", "entry/measurement/Eiger/data", "diffamp")
VALUES = ("probe", "object", "good", "bad", "dark", "flat", "energy_eV", "distance_m", "detector_pixel_m")
KEYS = ("patterns", *POSITIONS, *VALUES)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """Read a scan from a file, or two, by the paths in ``options.keys``."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_archive(options.patterns_file or path, options))
        table = _table(options.keys, file.kind.lower(), _largest(file) if options.raster is not None else [])
        options.refuse_unused(path, table.name, *table.options)
        check_keys(path, options, KEYS)
        source = table.source(file)
        other = stack.enter_context(open_archive(path, options)) if options.patterns_file else file
        other.strict = True
        for name in VALUES:
            if name in options.keys and not other.holds(options.keys[name]):
                other.noted(partial(other.need, name, options.keys[name]))
        values, placement = table.values(other, source), None
        if not (options.positions_file or options.raster):
            placement = other.noted(partial(read_mapped, other, options, source))
        if other is not file:
            file.absorb(other)
        return place_scan(file, replace(table, positions=lambda *_: placement), options, source, values)


def _table(keys: Mapping[str, str], name: str, others: list[str]) -> Layout:
    def at(*names: str) -> tuple[str, ...]:
        return tuple(keys[name] for name in names if name in keys)

    def good(file: Archive, source: Patterns, values: dict[str, Any]) -> dict[str, Any]:
        masks = {keys[kind]: read_good(file, {keys[kind]: kind}) for kind in ("good", "bad") if kind in keys}
        given = {key: mask for key, mask in masks.items() if mask is not None}
        if len({mask.shape for mask in given.values()}) > 1:
            shapes = " and ".join(f"{key} {mask.shape}" for key, mask in given.items())
            raise FileError(f"{shapes} must have one shape")
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


def _largest(file: Archive, most: int = 2000) -> list[str]:
    """Return the key of the largest array of patterns, if any; ``most`` arrays are inspected."""
    entries = {key: file.noted(partial(file.entry, key)) for key in file.names(most)}
    with contextlib.suppress(FileError):
        return [largest({key: entry.shape for key, entry in entries.items() if entry is not None})]
    return []


WITH_AXES = "4dstem"


def read_axes(path: str | Path, options: ReadOptions) -> RawScan:
    """Read a raster of HyperSpy or EMD; ``data.scan_step_A`` goes before the file's step."""
    options.refuse_unused(path, WITH_AXES, *(("positions_file", "unit") if options.positions_file else ()))
    with open_archive(path, options) as file:
        location = _find_axes(file)
        if location is None:
            raise ConfigError(f"{path}: data.format={WITH_AXES}: has no axes of HyperSpy or EMD; remove it")
    key, axes = location
    raster = None if options.positions_file else complete(options.raster, step_m(axes), path)
    return read(path, replace(options, keys={"patterns": key}, raster=raster))


def _find_axes(file: Archive) -> tuple[str, list[Axis]] | None:
    """Return the key of the patterns, and the axes of their raster.

    HyperSpy has groups ``axis-0 …`` beside ``data``, EMD arrays ``dim1 …``, emdfile ``dim0 …``.
    """
    for key in _largest(file):
        entry, group = file.entry(key), key.rpartition("/")[0]
        numbers = range(0 if entry is None or entry.shape is None else len(entry.shape) - 2)
        if file.holds(f"{group}/axis-0"):
            return key, [_axis(file, f"{group}/axis-{number}", "@scale") for number in numbers]
        for first in (0, 1):
            if file.holds(f"{group}/dim{first}"):
                return key, [_axis(file, f"{group}/dim{first + number}") for number in numbers]
    return None


def _axis(file: Archive, key: str, scale: str = "") -> Axis:
    """The scale of HyperSpy, or the first step of EMD; zero: there is none."""
    coordinates = file.read(f"{key}{scale}")
    places = [0.0] if coordinates is None or not coordinates.size else coordinates.ravel()[:2].tolist()
    size = places[0] if scale else places[-1] - places[0]
    return float(size), file.text(f"{key}@units") or ""


HDF5 = Layout(name="hdf5", detect=lambda file: file.holds_any(*PATTERNS), read=read)
NPZ = Layout(name="npz", read=read)
AXES = Layout(name=WITH_AXES, detect=lambda file: _find_axes(file) is not None, read=read_axes)
