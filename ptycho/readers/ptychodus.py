"""ptychodus: a product with its patterns in a second file, or with PtychoPINN's ``/raw_data`` in it.

=========================== =============== ==================================================================
the product                                 :mod:`~ptycho.readers.product`
``data.patterns_file``                      HDF5 or NPZ with patterns, of any of :data:`READERS`
``raw_data/diffraction``    (J, H, W)       amplitudes; zero frequency in the centre
``raw_data/scan_index``     (J,)            which scan a pattern belongs to
=========================== =============== ==================================================================

Patterns and positions are paired by ``probe_position_indexes``. The other way round, those readers take a
product as ``data.positions_file``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.readers import cxi, eiger, foldslice, keymap, nexus, pinn, ptychodus_patterns, tike
from ptycho.readers.archive import Archive
from ptycho.readers.places import join, open_archive
from ptycho.readers.positions import make_scan
from ptycho.readers.product import INDEXES, has_energy, has_positions, read_product
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.values import find_domain, read_array

NAME = "ptychodus"
READERS = {
    "HDF5": (ptychodus_patterns, foldslice, eiger, nexus, cxi, keymap),
    "NPZ": (ptychodus_patterns, pinn, tike),
}
PATTERNS, SCANS = "raw_data/diffraction", "raw_data/scan_index"


def detect(file: Archive) -> bool:
    return has_positions(file) and (file.holds(INDEXES) or has_energy(file))


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from a product and its patterns."""
    options.refuse_unused(path, NAME, "unit", "patterns_file")
    if options.patterns_file:
        return _read_beside(path, options.patterns_file, options)
    with open_archive(path, options) as file:
        if not file.holds(PATTERNS):
            file.complain("has no patterns; add data.patterns_file=, the file that has them")
            file.refuse()
        source = file.patterns(PATTERNS)
        values: dict[str, Any] = {
            "domain": find_domain(file, source, "amplitude"),
            "zero_frequency": "centre",
            "scan_index": _scans(file, 0 if source is None else source.shape[0]),
        }
        product = read_product(file, options)
        return make_scan(file, NAME, options, *join(file, source, product, values), values)


def _read_beside(path: str | Path, patterns: str, options: ReadOptions) -> RawScan:
    with open_archive(patterns, options) as file:
        reader = next((reader for reader in READERS[file.kind] if reader.detect(file)), None)
        listed = file.listed()
    if reader is None:
        raise ConfigError(f"{patterns}: data.patterns_file: no patterns of a known layout; it has {listed}")
    swapped = replace(options, patterns_file=None, positions_file=str(path))
    scan: RawScan = reader.read(patterns, swapped)
    return replace(scan, format=NAME)


def _scans(file: Archive, count: int) -> np.ndarray | None:
    """Which scan each pattern belongs to, if the file says."""
    found = read_array(file, SCANS)
    if found is None or found.shape == (count,):
        return None if found is None else found.astype(np.int64)
    file.warnings.append(f"{SCANS} {found.shape} is ignored: must be ({count},)")
    return None
