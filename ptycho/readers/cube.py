"""A raster scan that is one array, as 4D-STEM writes it; its step is in the file, or ``data.scan_step_A=…``.

======================= ======================================================================================
NPY                     (A, B, H, W), rows and columns of the raster first, or (J, H, W)
EMPAD, Merlin, MRC      frames, :mod:`~ptycho.readers.cube_records`
MATLAB 5                the largest array, (H, W, A, B) or (H, W, J) as MATLAB shows it
Zarr, ``.zspy``         the largest array of a folder, by the package zarr: :mod:`~ptycho.readers.cube_extras`
``.dm3/4``, ``.blo``    by RosettaSciIO, in the same module
======================= ======================================================================================

HDF5 that states its axes is read by :mod:`~ptycho.readers.cube_hdf5`, other HDF5 (MATLAB 7.3) and NPZ as by a
map of keys (``keymap.py``); their patterns are the largest array of three or four axes, unless
``data.keys.patterns`` names another. Source: Savitzky et al., Microsc. Microanal. 27 (2021) 712.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.readers.archive import describe_error
from ptycho.readers.cube_axes import Cube, complete, listed, raster_positions
from ptycho.readers.cube_extras import is_zarr, read_by_rosettasciio, read_zarr
from ptycho.readers.cube_records import frames_in_file, read_empad, read_merlin, read_mrc
from ptycho.readers.domain import tell_domain
from ptycho.readers.raw_scan import Frames, RawScan, ReadOptions

BY_NAME: dict[str, Callable[[Path], Cube]] = {
    ".raw": read_empad,
    ".mib": read_merlin,
    ".mrc": read_mrc,
    ".dm3": read_by_rosettasciio,
    ".dm4": read_by_rosettasciio,
    ".blo": read_by_rosettasciio,
}


def reader_of(path: Path) -> Callable[[Path], Cube] | None:
    """Return what reads a cube; None: it is none."""
    if path.is_dir():
        return read_zarr if is_zarr(path) else None
    try:
        if not path.is_file():  # a pipe or a device would never end
            return None
        with path.open("rb") as file:
            magic = file.read(8)
    except (OSError, ValueError):  # the formats after this one say what is wrong
        return None
    by_content = {b"\x93NUMPY": _read_npy, b"MATLAB 5": _read_matlab}
    reader = next((read for start, read in by_content.items() if magic.startswith(start)), None)
    return reader or BY_NAME.get(path.suffix.lower())


def read(path: Path, options: ReadOptions) -> RawScan:
    """Read a raster scan; its patterns stay in the file, but for MATLAB's and those of RosettaSciIO.

    Raises:
        ConfigError: the step is not stated, the raster does not have as many positions as there are patterns,
            or the file is damaged.
    """
    options.refuse_unused(path, "of one array")
    choose = reader_of(path)
    assert choose is not None
    if choose in (_read_npy, _read_matlab):  # which state no step: before anything is read
        complete(options.raster, None, path)
    try:
        source, grid, rows_first, step = choose(path)
    except Exception as error:  # whatever a damaged file leads to
        reason = str(error) if isinstance(error, ConfigError) else f"cannot be read ({describe_error(error)})"
        raise ConfigError(f"{path}: {reason}") from error
    raster = complete(options.raster, step, path)
    positions = raster_positions(raster, count := source.shape[0], grid, rows_first, path)
    some = source.read(np.unique(np.linspace(0, count - 1, min(64, count)).astype(int)))
    domain = tell_domain(np.dtype(source.dtype), [some])
    notes = (f"patterns: {source.shape} of {source.dtype}; {domain.why}", raster.text)
    name = path.suffix.lower().lstrip(".") or "cube"
    return RawScan(name, source, domain.name, None, positions, "m", notes=notes)


def _read_npy(path: Path) -> Cube:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.dtype.kind not in "fiu" or not array.flags.c_contiguous:
        wrong = str(array.dtype) if array.flags.c_contiguous else "in Fortran order"
        raise ConfigError(f"is an array {array.shape} {wrong}; must be of real numbers in C order")
    return frames_in_file(path, array.shape, array.dtype, array.offset)


def _read_matlab(path: Path) -> Cube:
    from scipy.io import loadmat, whosmat

    cubes = [(math.prod(shape), name) for name, shape, _ in whosmat(path) if len(shape) in (3, 4)]
    if not cubes:
        raise ConfigError("holds no array of three or four axes")
    size, name = max(cubes)
    if 8 * size > 2**33:
        raise ConfigError(f"{name} has {size} numbers; save it with -v7.3, which is read by parts")
    cube = np.asarray(loadmat(path, variable_names=[name])[name])
    if cube.dtype.kind not in "fiu":
        raise ConfigError(f"{name} is {cube.dtype}; must be real numbers")
    cube = np.moveaxis(cube, (0, 1), (-2, -1))
    form, grid = listed(cube.shape)
    return Cube(Frames(np.ascontiguousarray(cube.reshape(form))), grid, rows_first=grid is None)
