"""Write CXI 1.6 (CXIDB), for cdtools, PyNX, ptychodus and beamlines; and NeXus, NXcxi_ptycho.

A probe at a larger row, lower on the sample, is reached by lifting the sample: ``y = +row``; likewise
``x = +col``. The negated translation, projected on the basis vectors, gives the probe's (row, col) again. The
object's middle is at translation zero.

The file of the application definition NXcxi_ptycho is that of CXI with the names and attributes of NeXus.
``source_1/energy`` is **of the photons**, in joule, as CXI has it; that of the machine, which NeXus means, is
not known here. ``beam_center_{x,y}`` are metres; ``incident_energy_spread`` is required: NaN. Source: NeXus
definitions, contributed_definitions/NXcxi_ptycho.nxdl.xml.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.exports.exported_scan import ExportedScan
from ptycho.exports.hdf5_writing import write_tree
from ptycho.readers.cxi import BASIS, DETECTOR, ILLUMINATION, OBJECTS, PATTERNS, SOURCE, TRANSLATIONS
from ptycho.readers.values import ELECTRON

VERSION = 160
INVALID = 1  # bit of the mask
NEEDED = ("pixel_m", "energy_eV", "distance_m", "detector_pixel_m")
GEOMETRY = TRANSLATIONS[1]
SIGN = "of the sample: row of the probe = -translation . basis_vectors[0], column = -translation . [1]"


def write(path: Path, scan: ExportedScan) -> None:
    """Write a CXI file; ConfigError: patterns are missing, or a length or energy of the format is unknown."""
    write_tree(path, tree(path, scan, "CXI"))


def with_unit(unit: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return ``values`` by key, each with its attribute ``units``."""
    return values | {f"{key}@units": unit for key in values}


def tree(path: Path, scan: ExportedScan, name: str, translations: str = GEOMETRY) -> dict[str, Any]:
    """Return what is where in a CXI file, with the array of the translations at one of their places.

    ConfigError: the scan lacks a length or an energy that the format ``name`` states.
    """
    pixel, energy, distance, pitch = (getattr(scan, key) for key in NEEDED)
    if missing := [key for key in NEEDED if getattr(scan, key) is None]:
        states = f"{name} states lengths in metres, and {', '.join(missing)} is not known"
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
    lengths[translations] = np.stack([cols, rows, np.zeros_like(rows)], axis=1)  # (x, y, z)
    contents |= with_unit("m", {key: np.array(value, float) for key, value in lengths.items()})
    contents |= with_unit("pixels", {f"{DETECTOR}/beam_center_{axis}": float(middle) for axis in "xy"})
    contents |= with_unit("J", {f"{SOURCE}/energy": energy * ELECTRON})
    contents |= with_unit("√photons", {ILLUMINATION: scan.probe.astype(np.complex64)})
    contents |= {
        f"{DETECTOR}/mask": np.where(scan.good_pixels, 0, INVALID).astype(np.uint32),
        f"{ILLUMINATION}@pixel_size_m": pixel,
        f"{translations}@sign": SIGN,
    }
    contents |= {key: h5py.SoftLink(f"/{translations}") for key in TRANSLATIONS if key != translations}
    if scan.object is not None:
        group = image.rpartition("/")[0]
        contents |= {
            image: scan.object.astype(np.complex64),
            f"{image}@pixel_size_m": pixel,
            f"{group}/data_space": "real",
            f"{group}/data_type": "transmission",
            f"{group}/image_center": np.zeros(3),
        }
    return contents | scan.truth_tree(image)


DEFINITION = "NXcxi_ptycho"
BEAM, MOTORS, DATA = "entry_1/instrument_1/beam_1", "entry_1/sample_1/transformations", "entry_1/data"
CLASSES = {
    "": "NXroot",
    "entry_1": "NXentry",
    "entry_1/instrument_1": "NXinstrument",
    SOURCE: "NXsource",
    BEAM: "NXbeam",
    DETECTOR: "NXdetector",
    f"{DETECTOR}/transformations": "NXtransformations",
    "entry_1/sample_1": "NXsample",
    "entry_1/sample_1/geometry_1": "NXcollection",
    MOTORS: "NXtransformations",
    "entry_1/data_1": "NXcollection",
    "entry_1/image_1": "NXcollection",
    DATA: "NXdata",
}
LINKS = {
    f"{DETECTOR}/data_1": f"{DETECTOR}/data",
    f"{DETECTOR}/pixel_mask": f"{DETECTOR}/mask",
    f"{DATA}/data": f"{DETECTOR}/data",
    f"{DATA}/x": f"{MOTORS}/x",
    f"{DATA}/y": f"{MOTORS}/y",
}
AXES = {"x": [1.0, 0.0, 0.0], "y": [0.0, 1.0, 0.0]}


def write_nexus(path: Path, scan: ExportedScan) -> None:
    """Write a file of the application definition NXcxi_ptycho, which is also one of CXI 1.6."""
    moves = TRANSLATIONS[2]  # the definition has the array there
    contents = tree(path, scan, DEFINITION, moves)
    assert scan.detector_pixel_m is not None
    energy = contents[f"{SOURCE}/energy"]
    contents |= {
        "entry_1/definition": DEFINITION,
        f"{SOURCE}/name": "unknown",
        f"{SOURCE}/probe": "x-ray",
        f"{SOURCE}/type": "Synchrotron X-ray Source",
        f"{SOURCE}/energy@note": "of the photons, as in CXI; not that of the machine",
        f"{DETECTOR}/transformations/vector": [0.0, 0.0, 1.0],
        f"{DETECTOR}@axes": "[, data]",
        f"{DETECTOR}@signal": "data",
        f"{DETECTOR}/data@interpretation": "image",
        f"{moves}@axes": "translation:y:x",
        f"{moves}@interpretation": "image",
        "entry_1/sample_1/name": scan.name or "unknown",
    }
    energies = {"energy": energy, "incident_beam_energy": energy, "incident_energy_spread": np.nan}
    contents |= with_unit("J", {f"{BEAM}/{name}": value for name, value in energies.items()})
    pitches = zip("yx", scan.detector_pixel_m, strict=True)
    centre = {f"{DETECTOR}/beam_center_{axis}": scan.N // 2 * pitch for axis, pitch in pitches}
    contents |= with_unit("m", centre)
    for column, (axis, vector) in enumerate(AXES.items()):
        key, depends = f"{MOTORS}/{axis}", "y" if axis == "x" else "."
        contents |= {
            **with_unit("m", {key: contents[moves][:, column]}),
            f"{key}@transformation_type": "translation",
            f"{key}@vector": vector,
            f"{key}@depends_on": depends,
        }
        contents |= {f"{DATA}/{axis}_indices": "0", f"{DATA}@{axis}_indices": 0}
    contents |= {f"{MOTORS}@vector": AXES["x"], f"{DATA}@signal": "data", f"{DATA}@axes": ["x", ".", "."]}
    contents |= {key: h5py.SoftLink(f"/{target}") for key, target in LINKS.items()}
    targets = [link.path for link in contents.values() if isinstance(link, h5py.SoftLink)]
    contents |= {f"{target.lstrip('/')}@target": target for target in targets}
    classes = {path: kind for path, kind in CLASSES.items() if any(key.startswith(path) for key in contents)}
    contents |= {f"{path}@NX_class": kind for path, kind in classes.items()}
    write_tree(path, contents | {"@default": "entry_1", "entry_1@default": "data"})
