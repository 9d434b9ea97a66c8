"""NeXus, application definition NXcxi_ptycho: the file of ``cxi.py`` with the names and attributes of NeXus.

``source_1/energy`` is **of the photons**, in joule, as CXI has it; that of the machine, which NeXus means, is
not known here. ``beam_center_{x,y}`` are metres; ``incident_energy_spread`` is required: NaN. Source: NeXus
definitions, contributed_definitions/NXcxi_ptycho.nxdl.xml.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.exports import cxi
from ptycho.exports.exported_scan import ExportedScan
from ptycho.exports.hdf5_writing import write_tree
from ptycho.readers.cxi import DETECTOR, SOURCE, TRANSLATIONS

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


def write(path: Path, scan: ExportedScan) -> None:
    """Write a file of the application definition NXcxi_ptycho, which is also one of CXI 1.6."""
    cxi.check_complete(path, scan, DEFINITION)
    write_tree(path, tree(scan))


def tree(scan: ExportedScan) -> dict[str, Any]:
    """Return what is where in a NeXus file."""
    assert scan.detector_pixel_m is not None
    contents, moves = cxi.tree(scan, TRANSLATIONS[2]), TRANSLATIONS[2]  # the definition has the array there
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
    for name, value in energies.items():
        contents |= {f"{BEAM}/{name}": value, f"{BEAM}/{name}@units": "J"}
    for axis, pitch in zip("yx", scan.detector_pixel_m, strict=True):
        key = f"{DETECTOR}/beam_center_{axis}"
        contents |= {key: scan.N // 2 * pitch, f"{key}@units": "m"}
    for column, (axis, vector) in enumerate(AXES.items()):
        key, depends = f"{MOTORS}/{axis}", "y" if axis == "x" else "."
        contents |= {
            key: contents[moves][:, column],
            f"{key}@units": "m",
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
    return contents | {"@default": "entry_1", "entry_1@default": "data"}
