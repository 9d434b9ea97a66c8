"""CXI 1.6 (CXIDB), for cdtools, PyNX, ptychodus and beamlines.

=================================== ====================== ==================================================
under ``entry_1``
=================================== ====================== ==================================================
``instrument_1/detector_1/data``    (J, N, N)              counts or intensities; ``data_1/data`` links to it
``…/{x,y}_pixel_size, distance``    metres
``…/basis_vectors``                 (2, 3) metres          step of a row, (0, −p, 0), and of a column,
                                                           (−p, 0, 0): y is up, z along the beam
``…/corner_position``               (3,) metres            outer corner of the first pixel
``…/beam_center_{x,y}``             pixels                 zero frequency, N//2
``…/mask``                          (N, N) uint32          0 good, 1 invalid
``instrument_1/source_1/energy``    joule
``…/illumination``                  (K, N, N) complex64    probe
``sample_1/geometry_1/translation`` (J, 3) metres          **of the sample**; ``data_1``, ``detector_1`` link
``image_1/data``                    (M, M) complex64       object; its middle at translation nought
``/truth``                                                 of a simulated scan with imperfections, see
                                                           :mod:`ptycho.simulation.truth`
=================================== ====================== ==================================================

A probe at a larger row, lower on the sample, is reached by lifting the sample: ``y = +row``; likewise
``x = +col``. Who projects the negated translation on the basis vectors has the probe's (row, col) again.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.exports.exported_scan import ExportedScan
from ptycho.exports.hdf5_writing import make_group, write_hdf5, write_patterns, write_truth
from ptycho.readers.quantities import ELECTRON

VERSION = 160
INVALID = 1  # bit of the mask
NEEDED = ("pixel_m", "energy_eV", "distance_m", "detector_pixel_m")
LINKS = {
    "data_1/data": "instrument_1/detector_1/data",
    "data_1/translation": "sample_1/geometry_1/translation",
    "instrument_1/detector_1/translation": "sample_1/geometry_1/translation",
}
SIGN = "of the sample: row of the probe = -translation . basis_vectors[0], column = -translation . [1]"


def write(path: Path, scan: ExportedScan) -> None:
    """Write a CXI file.

    Raises:
        ConfigError: patterns are missing, or something that the format states in metres or joule is unknown.
        WriteError: the file cannot be written.
    """
    check_complete(path, scan, "CXI")
    write_hdf5(path, lambda file: fill(file, scan))


def check_complete(path: Path, scan: ExportedScan, name: str) -> None:
    """Raise :class:`ConfigError` if a scan lacks a length or an energy that the format ``name`` states."""
    missing = [key for key in NEEDED if getattr(scan, key) is None]
    if missing:
        raise ConfigError(
            f"{path}: {name} states lengths in metres, and {', '.join(missing)} is not known; set it, or "
            "choose another format"
        )


def fill(file: h5py.File, scan: ExportedScan) -> None:
    """Write everything into an open file."""
    file["cxi_version"] = VERSION
    entry = make_group(file, "entry_1")
    entry["title"], entry["comment"] = scan.name, scan.comments
    _detector(make_group(entry, "instrument_1/detector_1"), scan)
    _source(make_group(entry, "instrument_1/source_1"), scan)
    _translation(make_group(entry, "sample_1/geometry_1"), scan)
    _image(entry, scan)
    for name, target in LINKS.items():
        make_group(entry, name.rpartition("/")[0])
        entry[name] = h5py.SoftLink(f"/entry_1/{target}")
    write_truth(file, scan.truth, entry.get("image_1/data"))


def _detector(group: h5py.Group, scan: ExportedScan) -> None:
    data = write_patterns(group, "data", scan.shape, scan.dtype, scan.blocks())
    data.attrs.update(
        {"axes": "translation:y:x", "domain": scan.domain, "zero_frequency": "centre (N//2, N//2)"}
    )
    assert scan.detector_pixel_m is not None and scan.distance_m is not None
    (height, width), middle = scan.detector_pixel_m, scan.N // 2
    lengths = {
        "x_pixel_size": width,
        "y_pixel_size": height,
        "distance": scan.distance_m,
        "basis_vectors": [[0, -height, 0], [-width, 0, 0]],
        "corner_position": [(middle + 0.5) * width, (middle + 0.5) * height, scan.distance_m],
    }
    for name, value in lengths.items():
        group[name] = np.array(value, float)
        group[name].attrs["units"] = "m"
    for name in ("beam_center_x", "beam_center_y"):
        group[name] = float(middle)
        group[name].attrs["units"] = "pixels"
    group["mask"] = np.where(scan.good_pixels, 0, INVALID).astype(np.uint32)


def _source(group: h5py.Group, scan: ExportedScan) -> None:
    assert scan.energy_eV is not None and scan.pixel_m is not None
    group["energy"] = scan.energy_eV * ELECTRON
    group["energy"].attrs["units"] = "J"
    group["illumination"] = scan.probe.astype(np.complex64)
    group["illumination"].attrs.update({"units": "√photons", "pixel_size_m": scan.pixel_m})


def _translation(group: h5py.Group, scan: ExportedScan) -> None:
    assert scan.pixel_m is not None
    rows, cols = (scan.from_middle * np.array(scan.pixel_m)).T
    group["translation"] = np.stack([cols, rows, np.zeros_like(rows)], axis=1)  # (x, y, z)
    group["translation"].attrs.update({"units": "m", "sign": SIGN})


def _image(entry: h5py.Group, scan: ExportedScan) -> None:
    if scan.object is None:
        return
    assert scan.pixel_m is not None
    make_group(entry, "image_1")
    entry["image_1/data"] = scan.object.astype(np.complex64)
    entry["image_1/data"].attrs["pixel_size_m"] = scan.pixel_m
    entry["image_1/data_space"], entry["image_1/data_type"] = "real", "transmission"
    entry["image_1/image_center"] = np.zeros(3)
