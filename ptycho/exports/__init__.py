"""Scans written for other programs: one value, :class:`ExportedScan`, and a module for each format.

To add a format: a module with ``write(path, scan)`` and an entry in :data:`FORMATS`.
What is written is read back by ``ptycho.readers``. Imports ``ptycho.scan``, ``ptycho.files`` and
``ptycho.config``; never TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ptycho.config import ConfigError, check
from ptycho.exports import cxi, npz, product
from ptycho.exports.exported_scan import ExportedScan

FORMATS: dict[str, Callable[[Path, ExportedScan], None]] = {
    "ptychodus": product.write,
    "cxi": cxi.write,
    "npz": npz.write,
}
SUFFIXES = {".h5": "ptychodus", ".hdf5": "ptychodus", ".cxi": "cxi", ".npz": "npz"}


def format_of(name: str | None, output: str | None) -> str:
    """Return the specified format, or else the one that belongs to the ending of the output's name."""
    if name is None and output is not None:
        name = SUFFIXES.get(Path(output).suffix.lower())
        if name is None:
            raise ConfigError(f"output={output}: has no known ending; add format={' or '.join(FORMATS)}")
    check(name in FORMATS, "format", name, f"one of {', '.join(FORMATS)}")
    return str(name)
