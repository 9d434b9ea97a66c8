"""What a file is, by its first bytes and not by its name."""

from __future__ import annotations

from pathlib import Path

import h5py

from ptycho.config import ConfigError
from ptycho.files.opening import FileError, open_file

STARTS = {
    "NPZ": (b"PK",),
    "TIFF": (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),  # classic and BigTIFF
    "NPY": (b"\x93NUMPY",),
    "MATLAB": (b"MATLAB 5",),
    "bzip2": (b"BZh",),
    "gzip": (b"\x1f\x8b",),
}


def container_of(path: str | Path, key: str = "") -> tuple[str, bytes]:
    """Return what a file is, HDF5, empty, or one of ``STARTS`` (nothing: unknown), and its first bytes.

    ConfigError: it cannot be read; ``key`` is put before its name.
    """
    try:
        with open_file(path) as file:
            start = file.read(8)
    except FileError as error:
        windows = "\\" in str(path) and "/" not in str(path)
        hint = "; folders are parted by / here, not by \\" if windows else ""
        raise ConfigError(f"{key}{path}: {error}{hint}") from error
    kinds = (name for name, starts in STARTS.items() if start.startswith(starts))
    kind = "HDF5" if h5py.is_hdf5(path) else next(kinds, "")
    return kind if start else "empty", start
