"""What a CXI file says beside its patterns: positions, probe, object, energy. The table is in ``cxi.py``.

A file may have these alone, as the products that ptychodus writes in CXI: a second file for patterns.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from ptycho.readers.scans.hdf5 import Hdf5File, has
from ptycho.readers.scans.hdf5_scan import layer_of, modes_of, table
from ptycho.readers.scans.hdf5_values import array, energy_of, image, number, of_electrons
from ptycho.readers.scans.product_hdf5 import Product, indexes_of
from ptycho.readers.scans.quantities import DISTANCE, ENERGY, WAVELENGTH
from ptycho.readers.scans.raw_scan import ReadOptions

DETECTOR, SOURCE = "entry_1/instrument_1/detector_1", "entry_1/instrument_1/source_1"
TRANSLATIONS = tuple(f"{g}/translation" for g in ("entry_1/data_1", "entry_1/sample_1/geometry_1", DETECTOR))
BASIS = f"{DETECTOR}/basis_vectors"
PROBES = (f"{SOURCE}/illumination", f"{SOURCE}/probe", f"{DETECTOR}/probe")
OBJECTS = ("entry_1/image_1/data", "entry_1/image_2/data")
INDEXES = "entry_1/ptychodus/probe_position_indexes"
UPRIGHT = np.array([[0.0, -1, 0], [-1, 0, 0]])  # directions of a row, a column; y is up, z along the beam


def has_translations(file: h5py.File) -> bool:
    return any(has(file, key) for key in TRANSLATIONS)


def described(file: Hdf5File) -> dict[str, Any]:
    """Attributes of a :class:`RawScan`: energy, distance, probe and object."""
    energy, probe = number(file, ENERGY, "J", f"{SOURCE}/energy"), file.first(*PROBES)
    energy = of_electrons(file, energy, f"{SOURCE}/probe")
    return {
        "energy_eV": energy or energy_of(number(file, WAVELENGTH, "m", f"{SOURCE}/wavelength")),
        "distance_m": number(file, DISTANCE, "m", f"{DETECTOR}/distance"),
        "probe": modes_of(file, str(probe), image(file, probe)),
        "object": _object(file),
    }


def read_parts(file: Hdf5File, options: ReadOptions) -> Product | None:
    """Positions by the numbers of their patterns, and what is described; None if there are problems."""
    node = file.dataset(file.first(*TRANSLATIONS) or "")
    count = 0 if node is None else max(node.shape, default=0)
    found = translation(file, options, count, TRANSLATIONS, BASIS)
    if found is None:
        return None
    values = {key: value for key, value in described(file).items() if value is not None}
    return Product(*found, indexes_of(file, INDEXES, count), values)


def translation(
    file: Hdf5File, options: ReadOptions, count: int | None, keys: tuple[str, ...], basis: str
) -> tuple[np.ndarray, str] | None:
    """Positions ``(count, 2)`` of the probe: ``−t·e``, t the sample's translation, e the detector's axes."""
    key = file.need("translations (data.positions_file= may have positions),", *keys)
    found = None if key is None or count is None else table(file, key, options, count, (3, 2))
    if found is None or key is None:
        return None
    sample, unit = found
    vectors = basis_of(file, basis)
    along = f"the axes of {basis}" if vectors is not None else "rows down (−y) and columns along −x"
    vectors = UPRIGHT if vectors is None else vectors
    axes = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    file.notes.append(f"positions: {key} is the sample's: negated, along {along}, in {unit}")
    return -sample @ axes[:, : sample.shape[1]].T, unit


def basis_of(file: Hdf5File, key: str) -> np.ndarray | None:
    """``(2, 3)``, steps of a row and of a column, from ``(2, 3)``, ``(3, 2)``, or one of these a pattern."""
    found = array(file, key)
    if found is None or found.ndim < 2 or found.shape[-2:] not in ((2, 3), (3, 2)) or not found.size:
        return None
    first = found.reshape(-1, *found.shape[-2:])[0]
    vectors = first.T if first.shape == (3, 2) else first
    return vectors if np.linalg.norm(vectors, axis=1).all() else None


def _object(file: Hdf5File) -> np.ndarray | None:
    """The first image that is not the probe, if it is complex: real ones are of something else."""
    probe = file.first(*PROBES)
    shown = file.dataset(OBJECTS[0])
    key = OBJECTS[1] if probe and shown is not None and file.dataset(probe) == shown else OBJECTS[0]
    node = file.dataset(key)
    if node is None or not (node.dtype.kind == "c" or node.dtype.names):
        return None
    return layer_of(file, key, image(file, key, "c"))
