"""Which formats of measured scans there are, and which of them a file has: its content says, not its name.

=========== =================================================================================================
HDF5        the signature of HDF5, at its beginning or after a block of the user's
NPZ         a ZIP archive
TIFF        the signature of TIFF, or a folder with such files
=========== =================================================================================================

Of the formats of one container the first that recognises the file reads it; the most specific come first.
``data.format`` goes before, and so does a map of keys that says where the patterns are (some detectors' files
want a map of the positions alone).
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import h5py

from ptycho.config import ConfigError, check
from ptycho.config.data import DataConfig
from ptycho.files.npz import Archive, NpzError
from ptycho.files.text import shown
from ptycho.readers.scans import tiff
from ptycho.readers.scans.npz_arrays import reason
from ptycho.readers.scans.raw_scan import UNITS, RawScan, ReadOptions

HDF5 = {
    "ptychodus": "ptychodus",
    "ptychodus_patterns": "ptychodus_patterns",
    "ptyd": "ptyd",
    "ptylab": "ptylab",
    "nexus": "nexus",
    "cxi": "cxi",
    "foldslice": "foldslice",
    "eiger": "eiger",
    "hdf5": "keymap_hdf5",
}
NPZ = {"ptychopinn": "pinn_npz", "ptychodus_npz": "ptychodus_npz", "tike": "tike_npz", "npz": "keymap_npz"}
TIFF = {"tiff": "tiff"}
CONTAINERS = {"HDF5": HDF5, "NPZ": NPZ, "TIFF": TIFF}
FORMATS = HDF5 | NPZ | TIFF  # name → module beside this one; of a container, the most specific first
KEYMAPS = {"HDF5": "hdf5", "NPZ": "npz"}
LISTED = 12  # arrays that an error names
OTHERS = {
    b"\x93NUMPY": "is a single NPY array without positions; save both with np.savez, and add data.keys",
    b"MATLAB 5": "is a MATLAB file of version 5; save it in MATLAB with -v7.3, which is HDF5",
    b"BZh": "is compressed as a whole; unpack it with bunzip2",
    b"\x1f\x8b": "is compressed as a whole; unpack it with gunzip",
}
MAP = "data.keys.patterns=… data.keys.positions=… data.unit=um"


def open_scan(path: str | Path, options: ReadOptions | None = None) -> RawScan:
    """Read a measured scan of any format; its patterns are read when they are asked for.

    Args:
        path: a file, or a folder of TIFF files.
        options: what the file does not say.

    Raises:
        ConfigError: one line with what is wrong, or with what the file holds if it has no known layout.
    """
    path, options = Path(path), options or ReadOptions()
    check(options.unit in (None, *UNITS), "data.unit", options.unit, f"one of {', '.join(UNITS)}")
    check(options.axes in (None, "rc", "xy"), "data.position_axes", options.axes, "rc (row, column) or xy")
    container = _container(path)
    module = _module(_format(path, container, options))
    scan: RawScan = module.read(path, options)
    return scan


def opened(config: DataConfig) -> RawScan:
    """The scan that the section ``data`` names, its patterns still in the file."""
    options = ReadOptions(
        format=config.format,
        keys=config.keys.stated(),
        unit=config.unit,
        axes=config.position_axes,
        positions_file=config.positions_file,
        patterns_file=config.patterns_file,
        stated=config.stated_quantities(),
    )
    return open_scan(config.path, options)


def _module(name: str) -> Any:
    return import_module(f"{__package__}.{FORMATS[name]}")


def _container(path: Path) -> str:
    """``HDF5``, ``NPZ`` or ``TIFF``."""
    try:
        if path.is_dir():
            if tiff.detect(path):
                return "TIFF"
            raise ConfigError(
                f"{path}: is a folder without TIFF files ({', '.join(tiff.SUFFIXES)}); name a file"
            )
        if not path.is_file():  # a pipe or a device would never end
            raise ConfigError(f"{path}: {'is no file' if path.exists() else 'no such file'}")
        with path.open("rb") as file:
            magic = file.read(8)
        if h5py.is_hdf5(path):
            return "HDF5"
        if magic.startswith(b"PK"):
            return "NPZ"
        if tiff.detect(path):
            return "TIFF"
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path}: cannot be read ({reason(error)})") from error
    what = next((text for start, text in OTHERS.items() if magic.startswith(start)), None)
    if not magic:
        what = "is empty"
    raise ConfigError(f"{path}: {what or f'is no HDF5, NPZ or TIFF file; it begins with {magic!r}'}")


def _format(path: Path, container: str, options: ReadOptions) -> str:
    """The name of the format to read with."""
    known = CONTAINERS[container]
    if options.format is not None:
        if options.format not in FORMATS:
            raise ConfigError(f"data.format={options.format}: must be one of {', '.join(FORMATS)}")
        if options.format not in known:
            raise ConfigError(
                f"{path}: data.format={options.format}: it is {container}; must be one of {', '.join(known)}"
            )
        return options.format
    if container == "TIFF":
        return "tiff"
    if options.keys and (container == "NPZ" or "patterns" in options.keys):
        return KEYMAPS[container]
    name, held = (_in_hdf5 if container == "HDF5" else _in_npz)(path)
    if name is None:
        raise ConfigError(
            f"{path}: has none of the layouts {', '.join(known)}; it holds {held}; say what is where: {MAP}"
        )
    return name


def _in_npz(path: Path) -> tuple[str | None, str]:
    """The format that recognises an archive; and what it holds."""
    try:
        with Archive(path) as archive:
            name = next((name for name in NPZ if _module(name).detect(archive)), None)
            return name, "" if name else _arrays(archive)
    except NpzError as error:
        raise ConfigError(f"{path}: {reason(error)}") from error


def _arrays(archive: Archive) -> str:
    """Some of the arrays, with their shapes."""
    found = []
    for key in archive.keys[:LISTED]:
        try:
            header = archive.header(key, "cfiu")
            found.append(f"{shown(key, 60)} {header.shape} {header.dtype}")
        except (NpzError, KeyError):  # KeyError: a kind that Archive has no word for
            found.append(f"{shown(key, 60)} (no numbers)")
    return ", ".join(found + ["…"] * (len(archive.keys) > LISTED)) or "no arrays"


def _in_hdf5(path: Path) -> tuple[str | None, str]:
    """The format that recognises an HDF5 file; and what it holds."""
    hdf5 = import_module(f"{__package__}.hdf5")
    with hdf5.opened(path) as file:
        try:
            name = next((name for name in HDF5 if _module(name).detect(file.file)), None)
            return name, "" if name else file.listed()
        finally:
            file.close()
