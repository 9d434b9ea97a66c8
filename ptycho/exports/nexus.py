"""NeXus, application definition NXcxi_ptycho: the file of ``cxi.py`` with the names and attributes of NeXus.

================================== ==========================================================================
besides those of CXI, in entry_1
================================== ==========================================================================
``definition``                     ``NXcxi_ptycho``; ``@NX_class`` of every group; ``@target`` of what is
                                   linked
``instrument_1/source_1/energy``   **of the photons**, as CXI has it, in joule; that of the machine, which
                                   NeXus means, is not known here. ``beam_1/incident_beam_energy`` is the same
``…/beam_1/incident_energy_spread``  required; NaN: unknown
``…/detector_1/beam_center_{x,y}`` metres
``…/detector_1/pixel_mask``        a link to the mask of CXI: 0 is good
``sample_1/transformations/{x,y}`` ``(J,)`` metres, of the sample, as in ``translation``
``data``                           NXdata: patterns over ``x`` and ``y``, which viewers open
================================== ==========================================================================

Source: NeXus definitions, contributed_definitions/NXcxi_ptycho.nxdl.xml.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from ptycho.exports import cxi
from ptycho.exports.exported_scan import ExportedScan
from ptycho.exports.hdf5_writing import make_group, write_hdf5

DEFINITION = "NXcxi_ptycho"
CLASSES = {
    "": "NXentry",
    "instrument_1": "NXinstrument",
    "instrument_1/source_1": "NXsource",
    "instrument_1/beam_1": "NXbeam",
    "instrument_1/detector_1": "NXdetector",
    "instrument_1/detector_1/transformations": "NXtransformations",
    "sample_1": "NXsample",
    "sample_1/geometry_1": "NXcollection",
    "sample_1/transformations": "NXtransformations",
    "data_1": "NXcollection",
    "image_1": "NXcollection",
    "data": "NXdata",
}
LINKS = {
    "data_1/data": "instrument_1/detector_1/data",
    "data_1/translation": "instrument_1/detector_1/translation",
    "sample_1/geometry_1/translation": "instrument_1/detector_1/translation",
    "instrument_1/detector_1/data_1": "instrument_1/detector_1/data",
    "instrument_1/detector_1/pixel_mask": "instrument_1/detector_1/mask",
    "data/data": "instrument_1/detector_1/data",
    "data/x": "sample_1/transformations/x",
    "data/y": "sample_1/transformations/y",
}
AXES = {"x": [1.0, 0.0, 0.0], "y": [0.0, 1.0, 0.0]}


def write(path: Path, scan: ExportedScan) -> None:
    """Write a file of the application definition NXcxi_ptycho, which is also one of CXI 1.6.

    Raises:
        ConfigError: as of :func:`ptycho.exports.cxi.write`.
        WriteError: the file cannot be written.
    """
    cxi.check_complete(path, scan, "NXcxi_ptycho")
    write_hdf5(path, lambda file: _fill(file, scan))


def _fill(file: h5py.File, scan: ExportedScan) -> None:
    cxi.fill(file, scan)
    entry = file["entry_1"]
    del entry["instrument_1/detector_1/translation"]  # the definition has the array there, and links to it
    entry.move("sample_1/geometry_1/translation", "instrument_1/detector_1/translation")
    del entry["data_1/data"], entry["data_1/translation"]
    entry["definition"] = DEFINITION
    _beam(entry)
    _detector(entry["instrument_1/detector_1"], scan)
    _sample(entry["sample_1"], scan, entry["instrument_1/detector_1/translation"])
    make_group(entry, "data").attrs.update({"signal": "data", "axes": ["x", ".", "."]})
    for axis in AXES:
        entry[f"data/{axis}_indices"] = "0"
        entry["data"].attrs[f"{axis}_indices"] = 0
    for name, target in LINKS.items():
        entry[name] = h5py.SoftLink(f"/entry_1/{target}")
    for target in set(LINKS.values()):
        entry[target].attrs["target"] = f"/entry_1/{target}"
    for name, kind in CLASSES.items():
        if group := entry.get(name or "."):
            group.attrs["NX_class"] = kind
    entry.attrs["default"] = "data"
    file.attrs.update({"NX_class": "NXroot", "default": "entry_1"})


def _beam(entry: h5py.Group) -> None:
    source, beam = entry["instrument_1/source_1"], make_group(entry, "instrument_1/beam_1")
    source["name"], source["probe"], source["type"] = "unknown", "x-ray", "Synchrotron X-ray Source"
    source["energy"].attrs["note"] = "of the photons, as in CXI; not that of the machine"
    for name in ("energy", "incident_beam_energy"):
        beam[name] = source["energy"][()]
    beam["incident_energy_spread"] = np.nan
    for name in beam:
        beam[name].attrs["units"] = "J"


def _detector(group: h5py.Group, scan: ExportedScan) -> None:
    group.attrs.update({"axes": "[, data]", "signal": "data"})
    assert scan.detector_pixel_m is not None
    for axis, pitch in zip("yx", scan.detector_pixel_m, strict=True):
        del group[f"beam_center_{axis}"]
        group[f"beam_center_{axis}"] = scan.N // 2 * pitch
        group[f"beam_center_{axis}"].attrs["units"] = "m"
    group["data"].attrs["interpretation"] = "image"
    make_group(group, "transformations")["vector"] = [0.0, 0.0, 1.0]


def _sample(group: h5py.Group, scan: ExportedScan, translation: h5py.Dataset) -> None:
    translation.attrs.update({"axes": "translation:y:x", "interpretation": "image"})
    group["name"] = scan.name or "unknown"
    motors = make_group(group, "transformations")
    motors.attrs["vector"] = AXES["x"]
    for column, (axis, vector) in enumerate(AXES.items()):
        motors[axis] = translation[:, column]
        depends = "y" if axis == "x" else "."
        motors[axis].attrs.update(
            {"units": "m", "transformation_type": "translation", "vector": vector, "depends_on": depends}
        )
