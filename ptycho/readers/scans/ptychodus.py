"""ptychodus: a product in HDF5 with its patterns in a second file, or with PtychoPINN's ``/raw_data`` in it.

=========================== =============== ==================================================================
the product                                 :mod:`~ptycho.readers.scans.product_hdf5`
``data.patterns_file``                      HDF5 or NPZ with patterns, of any of :data:`READERS`,
                                            :data:`NPZ_READERS`
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
from ptycho.readers.measurement import listed_keys
from ptycho.readers.scans import (
    cxi,
    eiger,
    foldslice,
    keymap_hdf5,
    nexus,
    pinn_npz,
    ptychodus_npz,
    ptychodus_patterns,
    tike_npz,
)
from ptycho.readers.scans.hdf5 import Hdf5File, has, opened
from ptycho.readers.scans.hdf5_patterns import Hdf5Patterns, domain_of, patterns
from ptycho.readers.scans.hdf5_scan import only, scan
from ptycho.readers.scans.hdf5_values import array
from ptycho.readers.scans.npz_arrays import opened as npz_opened
from ptycho.readers.scans.product_hdf5 import INDEXES, has_energy, has_positions
from ptycho.readers.scans.raw_scan import RawScan, ReadOptions
from ptycho.readers.scans.second_hdf5 import place

NAME = "ptychodus"
READERS = (ptychodus_patterns, foldslice, eiger, nexus, cxi, keymap_hdf5)
NPZ_READERS = (ptychodus_npz, pinn_npz, tike_npz)
PATTERNS, SCANS = "raw_data/diffraction", "raw_data/scan_index"


def detect(file: h5py.File) -> bool:
    return has_positions(file) and (has(file, INDEXES) or has_energy(file))


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from a product and its patterns.

    Raises:
        ConfigError: one line with what is missing or does not fit.
    """
    only(path, NAME, options, "unit", "patterns_file")
    if options.patterns_file:
        if ptychodus_npz.magic_of(options.patterns_file) == ptychodus_npz.ZIP:
            return _beside_npz(path, options, options.patterns_file)
        swapped = replace(options, patterns_file=None, positions_file=str(path))
        found = _reader(options.patterns_file).read(options.patterns_file, swapped)
        return replace(found, format=NAME)
    with opened(path, options.stated) as file:
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


def _beside_npz(path: str | Path, options: ReadOptions, patterns_path: str) -> RawScan:
    """A scan from a product and patterns in NPZ; the positions that these may have beside them go unread."""
    with npz_opened(patterns_path) as arrays:
        known = [reader for reader in NPZ_READERS if reader.detect(arrays.archive)]
        listed = listed_keys(arrays.archive)
    if not known:
        raise ConfigError(
            f"{patterns_path}: data.patterns_file: no patterns of a known layout; it has {listed}"
        )
    if known[0] is ptychodus_npz:
        swapped = replace(options, patterns_file=None, positions_file=str(path))
        return replace(ptychodus_npz.read(patterns_path, swapped), format=NAME)
    own: RawScan = known[0].read(patterns_path, ReadOptions(stated=options.stated))
    shape = own.patterns.shape
    placed = ptychodus_npz.placed_by(path, path, options, shape[1:])
    source, positions, numbers, warnings = ptychodus_npz.paired(
        path, np.arange(shape[0]), own.patterns, placed
    )
    values = {"object": None, "object_centre_m": None} | placed.values
    return replace(
        own,
        format=NAME,
        patterns=source,
        positions=positions,
        unit=placed.unit,
        numbers=numbers,
        scan_index=None if own.scan_index is None or numbers is None else own.scan_index[numbers],
        notes=(*own.notes, *placed.notes),
        warnings=(*own.warnings, *placed.warnings, *warnings),
        **values,
    )


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
