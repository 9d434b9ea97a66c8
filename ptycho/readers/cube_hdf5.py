"""HDF5 of 4D-STEM whose patterns have axes beside them: the step of the raster is theirs.

=================================== ==========================================================================
HyperSpy ``.hspy``                  groups ``axis-0 …`` beside ``data``, with ``scale`` and ``units``
EMD, py4DSTEM up to .13             arrays ``dim1 …`` beside ``data``, with ``units``
emdfile, py4DSTEM from .14 on       the same, ``dim0 …``, of two numbers where the axis is even
=================================== ==========================================================================

The largest array of three or four axes is the patterns; the last two axes are those of the detector.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ptycho.config import ConfigError
from ptycho.readers import keymap
from ptycho.readers.archive import Archive
from ptycho.readers.cube_axes import Axis, complete, step_m
from ptycho.readers.places import open_archive
from ptycho.readers.raw_scan import RawScan, ReadOptions

NAME = "4dstem"


def detect(file: Archive) -> bool:
    """Return whether the largest array has axes beside it."""
    return _find(file) is not None


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """Read a raster; ``data.scan_step_A`` goes before the file's step."""
    options.refuse_unused(path, NAME, *(("positions_file", "unit") if options.positions_file else ()))
    with open_archive(path, options) as file:
        location = _find(file)
        if location is None:
            raise ConfigError(f"{path}: data.format={NAME}: has no axes of HyperSpy or EMD; remove it")
    key, axes = location
    raster = None if options.positions_file else complete(options.raster, step_m(axes), path)
    return keymap.read(path, replace(options, keys={"patterns": key}, raster=raster))


def _find(file: Archive) -> tuple[str, list[Axis]] | None:
    """Return the key of the patterns, and the axes of their raster."""
    for key in keymap.largest(file):
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
