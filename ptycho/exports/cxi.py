"""Write CXI 1.6 (CXIDB), for cdtools, PyNX, ptychodus and beamlines.

A probe at a larger row, lower on the sample, is reached by lifting the sample: ``y = +row``; likewise
``x = +col``. The negated translation, projected on the basis vectors, gives the probe's (row, col) again. The
object's middle is at translation zero. ``source_1/energy`` is of the photons, in joule.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.exports.exported_scan import ExportedScan
from ptycho.exports.hdf5_writing import write_tree
from ptycho.files.npz import Blocks
from ptycho.readers.cxi import BASIS, DETECTOR, ILLUMINATION, OBJECTS, PATTERNS, SOURCE, TRANSLATIONS
from ptycho.readers.values import ELECTRON

VERSION = 160
INVALID = 1  # bit of the mask
NEEDED = ("pixel_m", "energy_eV", "distance_m", "detector_pixel_m")
GEOMETRY = TRANSLATIONS[1]
SIGN = "of the sample: row of the probe = -translation . basis_vectors[0], column = -translation . [1]"


def write(path: Path, scan: ExportedScan) -> None:
    """Write a CXI file; ConfigError: patterns are missing, or a length or energy of the format is unknown."""
    pixel, energy, distance, pitch = (getattr(scan, key) for key in NEEDED)
    if missing := [key for key in NEEDED if getattr(scan, key) is None]:
        states = f"CXI states lengths in metres, and {', '.join(missing)} is not known"
        raise ConfigError(f"{path}: {states}; set it, or choose another format")
    (height, width), middle, image = pitch, scan.N // 2, OBJECTS[0]
    corner = [(middle + 0.5) * width, (middle + 0.5) * height, distance]
    lengths: dict[str, Any] = {
        f"{DETECTOR}/x_pixel_size": width,
        f"{DETECTOR}/y_pixel_size": height,
        f"{DETECTOR}/distance": distance,
        BASIS: [[0, -height, 0], [-width, 0, 0]],  # y is up, z along the beam
        f"{DETECTOR}/corner_position": corner,  # of the first pixel, the outer one
    }
    rows, cols = (scan.from_middle * np.array(pixel)).T
    contents: dict[str, Any] = {
        "cxi_version": VERSION,
        "entry_1/title": scan.name,
        "entry_1/comment": scan.comments,
        PATTERNS[1]: scan.stored,
        f"{PATTERNS[1]}@axes": "translation:y:x",
        f"{PATTERNS[1]}@domain": scan.domain,
        f"{PATTERNS[1]}@zero_frequency": "centre (N//2, N//2)",
        PATTERNS[0]: h5py.SoftLink(f"/{PATTERNS[1]}"),
    }
    lengths[GEOMETRY] = np.stack([cols, rows, np.zeros_like(rows)], axis=1)  # (x, y, z)
    contents |= with_unit("m", {key: np.array(value, float) for key, value in lengths.items()})
    contents |= with_unit("pixels", {f"{DETECTOR}/beam_center_{axis}": float(middle) for axis in "xy"})
    contents |= with_unit("J", {f"{SOURCE}/energy": energy * ELECTRON})
    contents |= with_unit("√photons", {ILLUMINATION: scan.probe.astype(np.complex64)})
    contents |= {
        f"{DETECTOR}/mask": _mask(scan),
        f"{ILLUMINATION}@pixel_size_m": pixel,
        f"{GEOMETRY}@sign": SIGN,
    }
    contents |= {key: h5py.SoftLink(f"/{GEOMETRY}") for key in TRANSLATIONS if key != GEOMETRY}
    if scan.object is not None:
        group = image.rpartition("/")[0]
        contents |= {
            image: scan.object.astype(np.complex64),
            f"{image}@pixel_size_m": pixel,
            f"{group}/data_space": "real",
            f"{group}/data_type": "transmission",
            f"{group}/image_center": np.zeros(3),
        }
    write_tree(path, contents | scan.truth_tree(image))


def _mask(scan: ExportedScan) -> np.ndarray | Blocks:
    """Return the bits of each pixel, ``(N, N)``, or those of each pattern, ``(J, N, N)``."""
    bad = ~scan.good_pixels
    if scan.measured is None:
        return bad * np.uint32(INVALID)
    masks = ((bad | ~measured) * np.uint32(INVALID) for measured in scan.measured)
    return Blocks(scan.shape, np.dtype(np.uint32), masks)


def with_unit(unit: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return ``values`` by key, each with its attribute ``units``."""
    return values | {f"{key}@units": unit for key in values}
