"""CXI 1.x (CXIDB), as cdtools, PyNX and the ALS use it for ptychography.

=============================== ======================= ======================================================
under ``entry_1``
=============================== ======================= ======================================================
``data_1/data``                 (J, H, W)               intensities, as on the detector; or in ``detector_1``
``…/translation``               (J, 3) metres           **the sample's** (x, y, z); in ``data_1``,
                                                        ``sample_1/geometry_1`` or ``detector_1``
``detector_1/distance``         metres                  ``detector_1``, ``source_1`` are in ``instrument_1``
``detector_1/{x,y}_pixel_size`` metres
``detector_1/basis_vectors``    (2, 3) metres           step of a row, and of a column, of the detector
``detector_1/mask``             (H, W) bits             0 and 0x1000 (has signal) are good
``detector_1/data_dark``        (n, H, W) or (H, W)
``source_1/energy``             joule                   or ``source_1/wavelength``, metres
``source_1/illumination``       (…, h, w)               probe; or ``source_1/probe``, ``detector_1/probe``
``image_1/data``                (h, w) complex          object
=============================== ======================= ======================================================

Signs: where the sample goes, the probe goes the other way over the object. With basis vectors, rows and
columns are along them; without, the row is −y and the column −x. A ``units`` attribute is believed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.readers.scans.hdf5 import Hdf5File, has, opened
from ptycho.readers.scans.hdf5_patterns import Hdf5Patterns, domain_of, patterns
from ptycho.readers.scans.hdf5_scan import centre_of, frame_of, good_of, layer_of, modes_of, only, scan, table
from ptycho.readers.scans.hdf5_values import (
    DISTANCE,
    ENERGY,
    PIXEL,
    WAVELENGTH,
    array,
    energy_of,
    image,
    number,
    pair,
    plain,
)
from ptycho.readers.scans.raw_scan import RawScan, ReadOptions
from ptycho.readers.scans.second_hdf5 import place

NAME = "cxi"
DETECTOR, SOURCE = "entry_1/instrument_1/detector_1", "entry_1/instrument_1/source_1"
PATTERNS = ("entry_1/data_1/data", f"{DETECTOR}/data")
TRANSLATIONS = tuple(f"{g}/translation" for g in ("entry_1/data_1", "entry_1/sample_1/geometry_1", DETECTOR))
PROBES = (f"{SOURCE}/illumination", f"{SOURCE}/probe", f"{DETECTOR}/probe")
OBJECT = "entry_1/image_1/data"


def detect(file: h5py.File) -> bool:
    return any(has(file, key) for key in PATTERNS)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from such a file; positions may be in a second one.

    Raises:
        ConfigError: one line with what is missing or does not fit.
    """
    only(path, NAME, options, "unit", "axes", "positions_file")
    with opened(path) as file:
        source = patterns(file, file.need("patterns", *PATTERNS))
        values = _values(file, source)
        if options.positions_file:
            placed = place(file, options, source, values)
            source, positions = placed if placed is not None else (source, None)
        else:
            positions = translation(file, options, source, TRANSLATIONS, f"{DETECTOR}/basis_vectors")
        return scan(file, NAME, source, positions, values)


def translation(
    file: Hdf5File, options: ReadOptions, source: Hdf5Patterns | None, keys: tuple[str, ...], basis: str
) -> tuple[np.ndarray, str] | None:
    """Positions ``(J, 2)`` of the probe: ``−t·e``, t the sample's translation, e the detector's axes."""
    key = file.need("translations (data.positions_file= may have positions),", *keys)
    found = None if key is None or source is None else table(file, key, options, source.shape[0], (3, 2))
    if found is None or key is None:
        return None
    sample, unit = found
    vectors = array(file, basis)
    vectors = None if vectors is None else vectors.reshape(-1, *vectors.shape[-2:])[0]
    if vectors is None or vectors.shape != (2, 3) or not np.linalg.norm(vectors, axis=1).all():
        file.notes.append(f"positions: {key} is the sample's (x, y): row is −y, col is −x, in {unit}")
        return -sample[:, 1::-1], unit
    axes = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    file.notes.append(f"positions: {key} is the sample's: negated, along the axes of {basis}, in {unit}")
    return -sample @ axes[:, : sample.shape[1]].T, unit


def _values(file: Hdf5File, source: Hdf5Patterns | None) -> dict[str, Any]:
    energy = number(file, ENERGY, "J", f"{SOURCE}/energy")
    probe = file.first(*PROBES)
    centre = plain(file, f"{DETECTOR}/beam_center_y"), plain(file, f"{DETECTOR}/beam_center_x")
    return {
        "domain": domain_of(file, source, "intensity"),
        "zero_frequency": centre_of(file, centre, source),
        "energy_eV": energy or energy_of(number(file, WAVELENGTH, "m", f"{SOURCE}/wavelength")),
        "distance_m": number(file, DISTANCE, "m", f"{DETECTOR}/distance"),
        "detector_pixel_m": pair(file, PIXEL, "m", f"{DETECTOR}/y_pixel_size", f"{DETECTOR}/x_pixel_size")
        or _steps(file),
        "probe": modes_of(file, str(probe), image(file, probe)),
        "object": _object(file),
        "good": good_of(file, f"{DETECTOR}/mask", "cxi"),
        "dark": frame_of(file, f"{DETECTOR}/data_dark"),
    }


def _steps(file: Hdf5File) -> tuple[float, float] | None:
    """(row, col) pitch of the detector from its basis vectors."""
    vectors = array(file, f"{DETECTOR}/basis_vectors")
    if vectors is None or vectors.shape[-2:] != (2, 3):
        return None
    row, col = np.linalg.norm(vectors.reshape(-1, 2, 3)[0], axis=1)
    return (float(row), float(col)) if row > 0 and col > 0 else None


def _object(file: Hdf5File) -> np.ndarray | None:
    """The image, if it is complex: real ones are of something else."""
    node = file.dataset(OBJECT)
    if node is None or not (node.dtype.kind == "c" or node.dtype.names):
        return None
    return layer_of(file, OBJECT, image(file, OBJECT, "c"))
