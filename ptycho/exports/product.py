"""Write a product of ptychodus (AdvancedPhotonSource/ptychodus) in HDF5, with the patterns if there are any.

Positions are those of the patch's middle, from the object's middle. ptychodus skips what is ours: standard
deviations of the object (``sigma_…``), ``slices``, OPR modes and weights (the first mode in pattern j is
``P_0 + Σ_k w_jk V_k``), ``raw_data`` of amplitudes, ``result`` (:meth:`ptycho.Result.load`), ``truth``.
``opr_weights`` and the tomography angle are stored at the root and as attributes: ptychodus writes the former
and reads the latter. If the pixel size is not known, lengths are in object pixels and a pixel is "one metre"
wide, because ptychodus divides by it; attributes say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.exports.exported_scan import ExportedScan
from ptycho.exports.hdf5_writing import SameAs, write_tree
from ptycho.readers.ptychodus import INDEXES

RESULT = "result"
SHARED = ("object", "slices", "probe", "opr_modes", "sigma_amplitude", "sigma_phase")  # with the product
IN_PIXELS = "The pixel size is unknown: all lengths are in object pixels, not in metres. "
SIGN = "of the probe on the object: x increases with the object's column, y with its row"
SIGMA_UNITS = {"sigma_amplitude": "of the amplitude of object", "sigma_phase": "rad"}
SIGMA_NOTE = (
    "One standard deviation of object over measurements that differ by their noise alone, under the probe "
    "and positions of this file; the bias of a prior is not in it; infinite where nothing is known."
)


def write(path: Path, scan: ExportedScan, result: Mapping[str, np.ndarray] | None = None) -> None:
    """Write a product; ConfigError: the scan has no object.

    ``result``: arrays ``(…)`` of the group of this name, by paths in it; those of the product are not copied.
    """
    if scan.object is None:
        raise ConfigError(f"{path}: a product holds an object, and there is none; choose another format")
    contents = _about(scan) | _positions(scan) | _images(scan) | _raw_data(scan)
    contents |= scan.truth_tree("object") | _image_for_viewers(scan)
    for key, array in (result or {}).items():
        own = key in SHARED and contents.get(key) is not None
        contents[f"{RESULT}/{key}"] = SameAs(key) if own else str(array) if array.dtype.kind == "U" else array
    write_tree(path, contents)


def _about(scan: ExportedScan) -> dict[str, Any]:
    photons = float(np.sum(np.abs(scan.probe) ** 2, dtype=float)) if scan.domain == "counts" else 0.0
    comments = (IN_PIXELS if scan.pixel_m is None else "") + scan.blanked + scan.comments
    height, width = scan.detector_pixel_m or (None, None)
    return {
        "@name": scan.name,
        "@comments": comments.strip(),
        "@detector_object_distance_m": scan.distance_m or 0.0,  # zero where unknown, as the program has it
        "@probe_energy_eV": scan.energy_eV or 0.0,
        "@probe_photon_count": photons,
        "@exposure_time_s": 0.0,
        "@mass_attenuation_m2_kg": 0.0,
        "@tomography_angle_deg": 0.0,
        "@detector_pixel_height_m": height,
        "@detector_pixel_width_m": width,
        "@detector_side_px": scan.detector_side,
        "tomography_angle_deg": 0.0,
        "loss_values": np.zeros(0),
        "loss_epochs": np.zeros(0),
    }


def _positions(scan: ExportedScan) -> dict[str, Any]:
    count = len(scan.positions)
    numbers = np.arange(count) if scan.numbers is None or scan.patterns is not None else scan.numbers
    contents: dict[str, Any] = {INDEXES: numbers.astype(np.int64)}
    lengths = scan.from_middle * np.array(scan.pixel_m or (1.0, 1.0))
    for axis, values in zip("yx", lengths.T, strict=True):
        key = f"probe_position_{axis}_m"
        contents |= {key: values, f"{key}@units": _unit(scan), f"{key}@sign": SIGN}
    return contents


def _images(scan: ExportedScan) -> dict[str, Any]:
    errors = {} if scan.errors is None else {key: sigma[0] for key, sigma in scan.errors.arrays().items()}
    images = {"probe": scan.probe, "opr_modes": scan.opr_modes, "object": scan.object, "slices": scan.slices}
    contents: dict[str, Any] = {
        key: image.astype(np.complex64) for key, image in images.items() if image is not None
    } | errors
    pixel = dict(zip(("pixel_height_m", "pixel_width_m"), scan.pixel_m or (1.0, 1.0), strict=True))
    for key in ("probe", "object", "slices", *errors):
        if key in contents:
            contents |= {f"{key}@{name}": size for name, size in pixel.items()}
    for key in errors:
        contents |= {f"{key}@units": SIGMA_UNITS[key], f"{key}@note": SIGMA_NOTE}
    weights = np.ones((len(scan.positions), 1), np.float32)
    contents |= {"opr_weights": weights, "probe@opr_weights": weights, "probe@units": "√photons"}
    contents |= {"object@center_x_m": 0.0, "object@center_y_m": 0.0, "object_layer_spacing_m": np.zeros(0)}
    if scan.slices is not None:
        contents["slices@spacing_m"] = scan.slice_thickness_m or 0.0
    if scan.opr_weights is not None:
        contents["opr_mode_weights"] = scan.opr_weights.astype(np.complex64)
    return contents


def _raw_data(scan: ExportedScan) -> dict[str, Any]:
    if scan.patterns is None:
        return {}
    data, (rows, cols) = "raw_data/diffraction", scan.from_corner.T
    return {
        data: scan.stored_amplitudes,
        f"{data}@domain": "amplitude",
        f"{data}@square": scan.domain,
        f"{data}@zero_frequency": "centre (N//2, N//2)",
        "raw_data/ycoords": rows,
        "raw_data/xcoords": cols,
        "raw_data/scan_index": np.zeros(len(scan.positions), np.int64),
    }


def _image_for_viewers(scan: ExportedScan) -> dict[str, Any]:
    """The phase as the default image by the rules of NeXus, which h5web, silx and DAWN open.

    Source: NeXus manual, "Find the plottable data" (NXroot → NXentry → NXdata by ``@default``, ``@signal``).
    """
    assert scan.object is not None
    contents: dict[str, Any] = {
        "entry/image/phase": np.angle(scan.object).astype(np.float32),
        "entry/image/phase@units": "rad",
        "entry/image/phase@long_name": "phase of the object (rad)",
        "entry/image/object": SameAs("object"),
    }
    for axis, side, pixel in zip("yx", scan.object.shape, scan.pixel_m or (1.0, 1.0), strict=True):
        key = f"entry/image/{axis}"
        contents |= {key: (np.arange(side) - (side - 1) / 2) * pixel, f"{key}@units": _unit(scan)}
    image = {"NX_class": "NXdata", "signal": "phase", "axes": ["y", "x"]}
    contents |= {f"entry/image@{name}": value for name, value in image.items()}
    return contents | {
        "entry@NX_class": "NXentry",
        "entry@default": "image",
        "@NX_class": "NXroot",
        "@default": "entry",
    }


def _unit(scan: ExportedScan) -> str:
    return "px" if scan.pixel_m is None else "m"
