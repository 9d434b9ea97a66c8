"""A raster scan that is one array, as 4D-STEM writes it: the user states its step, ``data.scan_step_A=…``.

=================== ==========================================================================================
NPY                 (A, B, H, W), rows and columns of the raster first, or (J, H, W)
``.raw`` of EMPAD   float32, (J, 130, 128); the last two rows of a frame are no pixels
MATLAB 5            the largest array, (H, W, A, B) or (H, W, J) as MATLAB shows it
others              what RosettaSciIO reads: :data:`ENDINGS`
=================== ==========================================================================================

HDF5 (py4DSTEM, EMD, HyperSpy, MATLAB 7.3) and NPZ are read as by a map of keys (``keymap.py``); their
patterns are the largest array of three or four axes, unless ``data.keys.patterns`` names another.
Sources: Savitzky et al., Microsc. Microanal. 27 (2021) 712; Tate et al., Microsc. Microanal. 22 (2016) 237.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ptycho.config import ConfigError
from ptycho.files.file_array import FileArray
from ptycho.readers.archive import describe_error
from ptycho.readers.domain import tell_domain
from ptycho.readers.raw_scan import Frames, PatternSource, Raster, RawScan, ReadOptions

EMPAD = (130, 128)  # rows and columns of a frame
ENDINGS = (".mib", ".dm3", ".dm4", ".blo", ".mrc", ".zspy")
IN_MEMORY = 2**33  # bytes of an array that is read at once
SAMPLED = 64  # frames that tell what their numbers are


class EmpadFrames(Frames):
    """Frames of EMPAD without the two rows that are no pixels."""

    def read(self, index: slice | np.ndarray) -> np.ndarray:
        return self.array[index][:, : EMPAD[1]]

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.array), EMPAD[1], EMPAD[1]


def reader_of(path: Path) -> Callable[[Path], tuple[PatternSource, tuple[int, int] | None, bool]] | None:
    """Return what reads a cube, or None: patterns, the raster of its axes, whether rows run first."""
    if path.is_dir():
        return _read_by_rosettasciio if path.suffix.lower() == ".zspy" else None
    try:
        if not path.is_file():  # a pipe or a device would never end
            return None
        with path.open("rb") as file:
            magic = file.read(8)
    except (OSError, ValueError):  # the formats after this one say what is wrong
        return None
    if magic.startswith(b"\x93NUMPY"):
        return _read_npy
    if magic.startswith(b"MATLAB 5"):
        return _read_matlab
    if path.suffix.lower() == ".raw":
        return _read_empad
    return _read_by_rosettasciio if path.suffix.lower() in ENDINGS else None


def read(path: Path, options: ReadOptions) -> RawScan:
    """Read a raster scan; its patterns stay in the file where it is NPY or EMPAD.

    Raises:
        ConfigError: the step is not stated, the raster does not have as many positions as there are patterns,
            or the file is damaged.
    """
    options.refuse_unused(path, "of one array")
    choose = reader_of(path)
    assert choose is not None
    if options.raster is None:
        raise ConfigError(
            f"{path}: holds patterns without positions; state the step of the raster, data.scan_step_A=… (or "
            "data.scan_step_nm, data.scan_step_m), and data.scan_shape=[rows,columns] where its axes do not; "
            "or save patterns and positions in one NPZ, and add data.keys"
        )
    try:
        source, grid, rows_first = choose(path)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except Exception as error:  # whatever a damaged file leads to
        raise ConfigError(f"{path}: cannot be read ({describe_error(error)})") from error
    positions = raster_positions(options.raster, count := source.shape[0], grid, rows_first, path)
    some = source.read(np.unique(np.linspace(0, count - 1, min(SAMPLED, count)).astype(int)))
    domain = tell_domain(np.dtype(source.dtype), [some])
    notes = (f"patterns: {source.shape} of {source.dtype}; {domain.why}", options.raster.text)
    name = path.suffix.lower().lstrip(".") or "cube"
    return RawScan(name, source, domain.name, None, positions, "m", notes=notes)


def raster_positions(
    raster: Raster, count: int, grid: tuple[int, int] | None, rows_first: bool, path: Path | str
) -> np.ndarray:
    """Return positions ``(J, 2)`` in metres of ``count`` patterns.

    Args:
        grid: that the file's axes state; None: ``raster.shape`` must.
        rows_first: a list of patterns runs along the rows first, as MATLAB stores it.

    Raises:
        ConfigError: there is no raster of so many positions.
    """
    shape = raster.shape or grid
    if shape is None:
        raise ConfigError(f"{path}: {count} patterns in a list; set data.scan_shape=[rows,columns]")
    if raster.shape and grid and min(grid) > 1 and raster.shape != grid:
        raise ConfigError(
            f"data.scan_shape={list(raster.shape)}: the first axes of the patterns in {path} are "
            f"{list(grid)}; remove it"
        )
    if math.prod(shape) != count:
        raise ConfigError(
            f"data.scan_shape={list(shape)}: is a raster of {math.prod(shape)} positions, and {path} holds "
            f"{count} patterns"
        )
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    if raster.path == "snake":
        columns[1::2] = columns[1::2, ::-1]
    order = "F" if rows_first else "C"
    return raster.step_m * np.stack([rows.ravel(order), columns.ravel(order)], axis=1).astype(float)


def _read_npy(path: Path) -> tuple[PatternSource, tuple[int, int] | None, bool]:
    file = path.open("rb")
    version = npy.read_magic(file)
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = header(file)
    if dtype.hasobject or dtype.kind not in "fiu" or fortran:
        wrong = "in Fortran order" if fortran and not dtype.hasobject else str(dtype)
        raise ConfigError(f"is an array {shape} {wrong}; must be of real numbers in C order")
    listed, grid = _listed(shape)
    start, size = file.tell(), math.prod(shape) * dtype.itemsize
    if path.stat().st_size < start + size:
        raise ConfigError(f"declares {shape} of {dtype}, {size} bytes, and ends before")
    return Frames(FileArray(file, listed, dtype, start)), grid, False  # type: ignore[arg-type]


def _listed(shape: tuple[int, ...]) -> tuple[tuple[int, int, int], tuple[int, int] | None]:
    """Return ``(J, H, W)``, and the raster of ``(A, B, H, W)``."""
    if len(shape) == 4 and min(shape) > 0:
        return (shape[0] * shape[1], *shape[2:]), (shape[0], shape[1])
    if len(shape) == 3 and min(shape) > 0:
        return (shape[0], shape[1], shape[2]), None
    raise ConfigError(f"is an array {shape}; must be (rows, columns, H, W) or (patterns, H, W)")


def _read_empad(path: Path) -> tuple[PatternSource, tuple[int, int] | None, bool]:
    frame, size = 4 * math.prod(EMPAD), path.stat().st_size
    if size == 0 or size % frame:
        raise ConfigError(
            f"has {size} bytes; must be EMPAD frames of {EMPAD[0]} × {EMPAD[1]} float32, {frame} bytes each"
        )
    array = FileArray(path.open("rb"), (size // frame, *EMPAD), "<f4")
    return EmpadFrames(array), None, False  # type: ignore[arg-type]


def _read_matlab(path: Path) -> tuple[PatternSource, tuple[int, int] | None, bool]:
    from scipy.io import loadmat, whosmat

    cubes = [(math.prod(shape), name) for name, shape, _ in whosmat(path) if len(shape) in (3, 4)]
    if not cubes:
        raise ConfigError("holds no array of three or four axes")
    size, name = max(cubes)
    if 8 * size > IN_MEMORY:
        raise ConfigError(f"{name} has {size} numbers; save it with -v7.3, which is read by parts")
    cube = np.asarray(loadmat(path, variable_names=[name])[name])
    if cube.dtype.kind not in "fiu":
        raise ConfigError(f"{name} is {cube.dtype}; must be real numbers")
    cube = np.moveaxis(cube, (0, 1), (-2, -1))
    listed, grid = _listed(cube.shape)
    return Frames(np.ascontiguousarray(cube.reshape(listed))), grid, grid is None


def _read_by_rosettasciio(path: Path) -> tuple[PatternSource, tuple[int, int] | None, bool]:
    try:
        import rsciio
    except ImportError as error:
        raise ConfigError(f"{path.suffix} is read by RosettaSciIO; pip install 'ptychopinn[stem]'") from error
    import importlib

    ending = path.suffix.lower().lstrip(".")
    known: list[Any] = [one for one in rsciio.IO_PLUGINS if ending in one["file_extensions"]]
    plugin = next(one for one in known if one["name"] != "MRCZ")  # which claims plain MRC, too
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        signals = importlib.import_module(plugin["api"]).file_reader(str(path))
    cubes = [np.asarray(one["data"]) for one in signals if np.ndim(one["data"]) in (3, 4)]
    if not cubes:
        raise ConfigError("holds no array of three or four axes")
    cube = max(cubes, key=lambda one: one.size)
    listed, grid = _listed(cube.shape)
    return Frames(cube.reshape(listed)), grid, False
