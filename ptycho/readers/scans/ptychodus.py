"""ptychodus: a product in HDF5 with its patterns in a second file, or with PtychoPINN's ``/raw_data`` in it.

=========================== =============== ==================================================================
the product                                 :mod:`~ptycho.readers.scans.product_hdf5`
``data.patterns_file``                      HDF5 with patterns, of any of :data:`READERS`
``raw_data/diffraction``    (J, H, W)       amplitudes; zero frequency in the centre
``raw_data/scan_index``     (J,)            which scan a pattern belongs to
=========================== =============== ==================================================================

Patterns and positions are paired by ``probe_position_indexes``. The other way round, those readers take a
product as ``data.positions_file``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.readers.scans import cxi, eiger, foldslice, keymap_hdf5, nexus
from ptycho.readers.scans.hdf5 import Hdf5File, has, opened
from ptycho.readers.scans.hdf5_patterns import Hdf5Patterns, domain_of, patterns
from ptycho.readers.scans.hdf5_scan import only, scan
from ptycho.readers.scans.hdf5_values import array
from ptycho.readers.scans.product_hdf5 import INDEXES, has_positions
from ptycho.readers.scans.raw_scan import RawScan, ReadOptions
from ptycho.readers.scans.second_hdf5 import place

NAME = "ptychodus"
READERS = (foldslice, eiger, nexus, cxi, keymap_hdf5)
PATTERNS, SCANS = "raw_data/diffraction", "raw_data/scan_index"


def detect(file: h5py.File) -> bool:
    return has_positions(file) and (has(file, INDEXES) or "probe_energy_eV" in file.attrs)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from a product and its patterns.

    Raises:
        ConfigError: one line with what is missing or does not fit.
    """
    only(path, NAME, options, "unit", "patterns_file")
    if options.patterns_file:
        swapped = replace(options, patterns_file=None, positions_file=str(path))
        found = _reader(options.patterns_file).read(options.patterns_file, swapped)
        return replace(found, format=NAME)
    with opened(path) as file:
        if not has(file.file, PATTERNS):
            file.complain("a product without patterns; add data.patterns_file=, the file that has them")
            file.refuse()
        source = patterns(file, PATTERNS)
        values: dict[str, Any] = {
            "domain": domain_of(file, source, "amplitude"),
            "zero_frequency": "centre",
        }
        count = 0 if source is None else source.shape[0]
        placed = place(file, replace(options, positions_file=str(path)), source, values)
        if placed is None:
            return scan(file, NAME, None, None, values)
        values["scan_index"] = _scans(file, count, placed[0])
        return scan(file, NAME, *placed, values)


def _reader(path: str) -> ModuleType:
    """The reader of a file of patterns."""
    with opened(path) as file:
        known = [reader for reader in READERS if reader.detect(file.file)]
        listed = file.listed()
        file.close()
    if not known:
        raise ConfigError(f"{path}: data.patterns_file: no patterns of a known layout; it has {listed}")
    return known[0]


def _scans(file: Hdf5File, count: int, source: Hdf5Patterns) -> np.ndarray | None:
    """Which scan each pattern belongs to, if the file says."""
    found = array(file, SCANS)
    if found is None:
        return None
    if found.shape != (count,):
        file.warnings.append(f"{SCANS} {found.shape} is passed over: must be ({count},)")
        return None
    return found[source.frames].astype(np.int64)
