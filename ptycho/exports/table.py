"""The formats in which a scan can be written, and the endings of file names that select them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ptycho.config import ConfigError, check
from ptycho.exports import cxi, npz, product
from ptycho.exports.exported_scan import ExportedScan

FORMATS: dict[str, Callable[[Path, ExportedScan], None]] = {
    "ptychodus": product.write,
    "cxi": cxi.write,
    "nexus": cxi.write_nexus,
    "npz": npz.write,
}
SUFFIXES = {".h5": "ptychodus", ".hdf5": "ptychodus", ".cxi": "cxi", ".nxs": "nexus", ".npz": "npz"}


def format_of(name: str | None, output: str | None) -> str:
    """Return the specified format, or else the one that belongs to the ending of the output's name."""
    if name is None and output is not None:
        name = SUFFIXES.get(Path(output).suffix.lower())
        if name is None:
            raise ConfigError(f"output={output}: has no known ending; add format={' or '.join(FORMATS)}")
    check(name in FORMATS, "format", name, f"one of {', '.join(FORMATS)}")
    return str(name)


def check_output(path: Path, overwrite: bool, inputs: Iterable[Path] = ()) -> None:
    """Raise :class:`ConfigError` if a file cannot be written, or is there; ``inputs`` are never replaced."""
    if path.is_dir():
        raise ConfigError(f"output={path}: is a folder; name a file")
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise ConfigError(f"output={path}: is the input file; choose another file")
    if path.exists() and not overwrite:
        raise ConfigError(f"output={path}: is there already; choose another file, or overwrite=true")
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        raise ConfigError(f"output={path}: {nearest} is no folder that can be written")
