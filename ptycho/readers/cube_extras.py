"""Cubes that optional packages read: Zarr stores by zarr, files of Gatan and NanoMEGAS by RosettaSciIO.

=========================== ==================================================================================
Zarr, ``.zspy`` (folders)   the largest array; it is read by parts. HyperSpy's axes ``axis-0 …`` beside it
                            state the step
``.dm3``, ``.dm4``          read by parts; at once where the raster is the last two axes: where the tag
                            ``Data Order Swapped`` is 0, or is missing and not the first two alone are lengths
``.blo``                    read at once
=========================== ==================================================================================
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.file_array import gather
from ptycho.readers.cube_axes import Axis, Cube, listed, step_m
from ptycho.readers.cube_records import frames_in_file
from ptycho.readers.raw_scan import Frames

ZARR = (".zgroup", ".zarray", "zarr.json")


class ZarrFrames:
    """Patterns ``(J, H, W)`` of an array of Zarr, ``(A, B, H, W)`` or ``(J, H, W)``."""

    def __init__(self, array: Any) -> None:
        self._array, self.dtype = array, np.dtype(array.dtype)
        self.shape, self.grid = listed(tuple(array.shape))

    def read(self, index: slice | np.ndarray) -> np.ndarray:
        return gather(np.arange(self.shape[0])[index], self.shape, self.dtype, self._fill, "pattern")

    def _fill(self, first: int, into: np.ndarray) -> None:
        line, done = self._array.shape[-3], 0  # a reading stays within a line of the raster
        while done < len(into):
            row, column = divmod(first + done, line)
            count = min(len(into) - done, line - column)
            lead = () if self.grid is None else (row,)
            into[done : done + count] = self._array[(*lead, slice(column, column + count))]
            done += count

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _at_once(
    load: Callable[[], np.ndarray], shape: tuple[int, ...], dtype: np.dtype, axes: list[Axis]
) -> Cube:
    """Return the patterns ``(A, B, H, W)`` or ``(J, H, W)`` that ``load`` gives, in memory."""
    form, grid = listed(shape)
    if (size := math.prod(shape) * dtype.itemsize) > 2**33:
        raise ConfigError(f"takes {size} bytes; at most 8 GiB are read at once; save it as .hspy")
    return Cube(Frames(np.asarray(load()).reshape(form)), grid, step_m=step_m(axes))


def is_zarr(path: Path) -> bool:
    """Return whether a folder is a Zarr store."""
    return any((path / name).is_file() for name in ZARR)


def read_zarr(path: Path) -> Cube:
    """Return the largest array of a store."""
    try:
        import zarr
    except ImportError as error:
        raise ConfigError("is a Zarr store, which zarr reads; pip install 'ptychopinn[zarr]'") from error
    store = zarr.open(str(path), mode="r")
    members = [("", store)] if isinstance(store, zarr.Array) else list(store.members(max_depth=None))
    arrays = {
        key: member for key, member in members if isinstance(member, zarr.Array) and member.ndim in (3, 4)
    }
    if not arrays:
        raise ConfigError("holds no array of three or four axes")
    key = max(arrays, key=lambda name: arrays[name].size)
    if arrays[key].dtype.kind not in "fiu" or "pickle" in str(arrays[key].metadata.to_dict()):
        raise ConfigError(f"{key} is {arrays[key].dtype}; must be real numbers, and nothing is unpickled")
    beside = {name: dict(member.attrs) for name, member in members}
    group = key.rpartition("/")[0]
    axes = [beside.get(f"{group}/axis-{number}".lstrip("/"), {}) for number in range(arrays[key].ndim - 2)]
    source = ZarrFrames(arrays[key])
    return Cube(source, source.grid, step_m=step_m([_axis(axis) for axis in axes]))


def read_by_rosettasciio(path: Path) -> Cube:
    """Return the largest array of a file in a format of electron microscopy."""
    try:
        import rsciio
    except ImportError as error:
        raise ConfigError(f"{path.suffix} is read by RosettaSciIO; pip install 'ptychopinn[stem]'") from error
    ending = path.suffix.lower().lstrip(".")
    plugin = next(entry for entry in rsciio.IO_PLUGINS if ending in entry["file_extensions"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        signals = importlib.import_module(plugin["api"]).file_reader(str(path), lazy=True)
    cubes = [signal for signal in signals if np.ndim(signal["data"]) in (3, 4)]
    if not cubes:
        raise ConfigError("holds no array of three or four axes")
    signal = max(cubes, key=lambda cube: cube["data"].size)
    cube, axes = signal["data"], [_axis(axis) for axis in signal["axes"]]
    if cube.dtype.kind not in "fiu":
        raise ConfigError(f"is an array {cube.shape} of {cube.dtype}; must be of real numbers")
    if tags := signal["original_metadata"].get("ImageList"):
        return _read_gatan(path, tags["TagGroup0"], cube.shape, cube.dtype, axes)
    return _at_once(lambda: cube, cube.shape, cube.dtype, axes[:-2])


def _read_gatan(
    path: Path, tags: dict[str, Any], shape: tuple[int, ...], dtype: np.dtype, axes: list[Axis]
) -> Cube:
    """Return the frames of an array of DigitalMicrograph, whose tags say where it begins."""
    start = tags["ImageData"]["Data"]["offset"]
    if len(shape) != 4 or not _ends_with_the_raster(tags, axes):
        return frames_in_file(path, shape, dtype, start)._replace(step_m=step_m(axes[:-2]))

    def load() -> np.ndarray:
        cube = np.fromfile(path, dtype, math.prod(shape), offset=start)
        return cube.reshape(shape).transpose(2, 3, 0, 1)

    return _at_once(load, shape[2:] + shape[:2], dtype, axes[2:])


def _axis(axis: dict[str, Any]) -> Axis:
    scale, unit = axis.get("scale"), axis.get("units")
    return (float(scale) if isinstance(scale, int | float) else 0.0), unit if isinstance(unit, str) else ""


def _ends_with_the_raster(tags: dict[str, Any], axes: list[Axis]) -> bool:
    """Return whether the detector's axes come first, as in older files of DigitalMicrograph."""
    swapped = tags.get("ImageTags", {}).get("Meta Data", {}).get("Data Order Swapped")
    if swapped is not None:
        return not int(swapped)
    return step_m(axes[:2]) is None or step_m(axes[2:]) is not None
