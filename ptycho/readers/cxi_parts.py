"""What a CXI file says beside its patterns: positions, probe, object, energy. The table is in ``cxi.py``.

A file may have these alone, as the products that ptychodus writes in CXI: a second file for patterns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.positions import Positions, read_rows
from ptycho.readers.product import Product, read_indexes
from ptycho.readers.quantities import DISTANCE
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.values import read_array, read_energy, read_number, read_object, read_probe

DETECTOR, SOURCE = "entry_1/instrument_1/detector_1", "entry_1/instrument_1/source_1"
TRANSLATIONS = tuple(f"{g}/translation" for g in ("entry_1/data_1", "entry_1/sample_1/geometry_1", DETECTOR))
BASIS = f"{DETECTOR}/basis_vectors"
PROBES = (f"{SOURCE}/illumination", f"{SOURCE}/probe", f"{DETECTOR}/probe")
OBJECTS = ("entry_1/image_1/data", "entry_1/image_2/data")
INDEXES = "entry_1/ptychodus/probe_position_indexes"
UPRIGHT = np.array([[0.0, -1, 0], [-1, 0, 0]])  # directions of a row, a column; y is up, z along the beam


def has_translations(file: Archive) -> bool:
    return any(file.holds(key) for key in TRANSLATIONS)


def read_description(file: Archive) -> dict[str, Any]:
    """Attributes of a :class:`RawScan`: energy, distance, probe and object."""
    energy, length = (f"{SOURCE}/energy",), (f"{SOURCE}/wavelength",)
    return {
        "energy_eV": read_energy(file, "J", energy, length, probe=f"{SOURCE}/probe"),
        "distance_m": read_number(file, DISTANCE, "m", f"{DETECTOR}/distance"),
        **read_result(file),
    }


def read_result(file: Archive, probes: tuple[str, ...] = PROBES) -> dict[str, Any]:
    """Probe, at the first of some keys, and object of the file."""
    return {"probe": read_probe(file, file.first(*probes)), "object": _object(file)}


def read_parts(file: Archive, options: ReadOptions) -> Product | None:
    """Positions by the numbers of their patterns, and what is described; None if there are problems."""
    entry = file.entry(file.first(*TRANSLATIONS) or "")
    count = max(entry.shape or (0,), default=0) if entry else 0
    found = _translation(file, options, (count,), TRANSLATIONS, BASIS)
    if found is None:
        return None
    values = {key: value for key, value in read_description(file).items() if value is not None}
    return Product(*found, read_indexes(file, INDEXES, count), values)


def read_translation(
    file: Archive,
    options: ReadOptions,
    source: Patterns | None,
    keys: tuple[str, ...] = TRANSLATIONS,
    basis: str = BASIS,
) -> Positions | None:
    """Positions ``(J, 2)`` of the probe: ``−t·e``, t the sample's translation, e the detector's axes."""
    return None if source is None else _translation(file, options, source.counts, keys, basis)


def read_basis(file: Archive, key: str) -> np.ndarray | None:
    """``(2, 3)``, steps of a row and of a column, from ``(2, 3)``, ``(3, 2)``, or one of these a pattern."""
    found = read_array(file, key)
    if found is None or found.ndim < 2 or found.shape[-2:] not in ((2, 3), (3, 2)) or not found.size:
        return None
    first = found.reshape(-1, *found.shape[-2:])[0]
    vectors = first.T if first.shape == (3, 2) else first
    return vectors if np.linalg.norm(vectors, axis=1).all() else None


def _translation(
    file: Archive, options: ReadOptions, counts: tuple[int, ...], keys: tuple[str, ...], basis: str
) -> Positions | None:
    key = file.need("translations (data.positions_file= may have positions),", *keys)
    found = None if key is None else read_rows(file, key, options, counts, (3, 2))
    if found is None:
        return None
    sample, unit = found
    vectors = read_basis(file, basis)
    along = f"the axes of {basis}" if vectors is not None else "rows down (−y) and columns along −x"
    vectors = UPRIGHT if vectors is None else vectors
    axes = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    file.notes.append(f"positions: {key} is the sample's: negated, along {along}, in {unit}")
    return -sample @ axes[:, : sample.shape[1]].T, unit


def _object(file: Archive) -> np.ndarray | None:
    """The first image that is not the probe, if it is complex: real ones are of something else."""
    probe, first = file.first(*PROBES), file.entry(OBJECTS[0])
    key = OBJECTS[1] if probe and first and file.is_same(probe, OBJECTS[0]) else OBJECTS[0]
    entry = file.entry(key)
    is_complex = (
        entry is not None and entry.dtype is not None and (entry.dtype.kind == "c" or entry.dtype.names)
    )
    return read_object(file, key, "c") if is_complex else None
