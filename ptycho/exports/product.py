"""The product of ptychodus (AdvancedPhotonSource/ptychodus) in HDF5; patterns beside it, if there are any.

=================================== ============== ==========================================================
``probe_position_indexes``          (J,)           which pattern of ``raw_data`` each position is of; without
                                                   patterns, which one of the measured file
``probe_position_{x,y}_m``          (J,) metres    column, row of the patch's middle, from the object's middle
``probe``, ``object``               (K, N, N);     ``pixel_{height,width}_m``; ``center_{x,y}_m`` of the
                                    (M, M)         object, which is nought
``sigma_{amplitude,phase}``         (M, M)         not of the program, which passes it over: the
                                                   object's standard deviations, phase in rad; infinite
                                                   where nothing is known (:mod:`ptycho.scan.error_map`)
``slices``                          (L, M, M)      not of the program, which passes it over: of a thick
                                                   object, whose product it is, along the beam;
                                                   ``@spacing_m`` from one to the next
``opr_weights``                     (J, 1)         all one, at the root and as an attribute of ``probe``: the
                                                   program writes the one and reads the other
``opr_modes``                       (K', N, N)     not of the program, which passes both over: of a probe
``opr_mode_weights``                (J, K')        that varies, V and w, complex: the first mode in pattern j
                                                   is ``P_0 + Σ_k w_jk V_k``
``tomography_angle_deg``            number         attribute and dataset of the root, for the same reason
``@probe_energy_eV``, …             numbers        nought where unknown, as the program has it
``@detector_pixel_{height,width}_m``  metres       not of the program, which passes it over: with energy and
                                                   distance the pixel of patterns beside the product
``@detector_side_px``               number         the same: detector pixels of the measured file that a
                                                   pattern spans, where that is beside the product
``raw_data/diffraction``            (J, N, N)      **amplitudes** √n, float32, zero frequency at N//2
``raw_data/{xcoords,ycoords}``      (J,) pixels    column, row of the patch's middle, from the object's corner
``entry/image``                                    NXdata that viewers open: ``phase`` (rad, float32) over
                                                   ``y``, ``x`` (metres or pixels), and ``object``
``result/…``                                       not of the program, which passes it over: what
                                                   :meth:`ptycho.Result.load` reads besides
``truth``                                          of a simulated scan with imperfections, see
                                                   :mod:`ptycho.simulation.truth`
=================================== ============== ==========================================================

Where the pixel size is unknown every length is in object pixels, one pixel "one metre" wide: the program
divides by it. Attributes say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.exports.exported_scan import ExportedScan
from ptycho.exports.hdf5_writing import make_group, write_hdf5, write_patterns, write_truth

RESULT = "result"
SHARED = (
    "object",
    "slices",
    "probe",
    "opr_modes",
    "sigma_amplitude",
    "sigma_phase",
)  # of a result and of a product
IN_PIXELS = "The pixel size is unknown: all lengths are in object pixels, not in metres. "
SIGN = "of the probe on the object: x increases with the object's column, y with its row"
SIGMA_UNITS = {"sigma_amplitude": "of the amplitude of object", "sigma_phase": "rad"}
SIGMA_NOTE = (
    "One standard deviation of object over measurements that differ by their noise alone, under the probe "
    "and positions of this file; the bias of a prior is not in it; infinite where nothing is known."
)


def write(path: Path, scan: ExportedScan, result: Mapping[str, np.ndarray] | None = None) -> None:
    """Write a product.

    ``result``: arrays of the group of this name, by paths in it; those of the product are not copied.

    Raises:
        ConfigError: the scan has no object.
        WriteError: the file cannot be written.
    """
    if scan.object is None:
        raise ConfigError(f"{path}: a product holds an object, and there is none; choose another format")
    write_hdf5(path, lambda file: _fill(file, scan, result or {}))


def _fill(file: h5py.File, scan: ExportedScan, result: Mapping[str, np.ndarray]) -> None:
    _metadata(file, scan)
    _positions(file, scan)
    _images(file, scan)
    for name in ("loss_values", "loss_epochs"):
        file.create_dataset(name, data=np.zeros(0))
    if scan.patterns is not None:
        _raw_data(make_group(file, "raw_data"), scan)
    write_truth(file, scan.truth, file["object"])
    _image_for_viewers(file, scan)
    _result(file, result)


def _result(file: h5py.File, result: Mapping[str, np.ndarray]) -> None:
    """Add arrays and texts in the group ``result``; object, probe and errors get a second name there."""
    for key, array in result.items():
        folder, _, name = f"{RESULT}/{key}".rpartition("/")
        value = str(array) if array.dtype.kind == "U" else array
        make_group(file, folder)[name] = file[key] if key in SHARED and key in file else value


def _image_for_viewers(file: h5py.File, scan: ExportedScan) -> None:
    """The phase as the default image by the rules of NeXus: h5web, silx and DAWN open it.

    Source: NeXus manual, "Find the plottable data" (NXroot → NXentry → NXdata by ``@default``, ``@signal``).
    """
    assert scan.object is not None
    image = make_group(file, "entry/image")
    image.create_dataset("phase", data=np.angle(scan.object).astype(np.float32), compression="gzip")
    image["phase"].attrs.update({"units": "rad", "long_name": "phase of the object (rad)"})
    image["object"] = file["object"]  # a second name of it
    for axis, side, pixel in zip("yx", scan.object.shape, scan.pixel_m or (1.0, 1.0), strict=True):
        image[axis] = (np.arange(side) - (side - 1) / 2) * pixel
        image[axis].attrs["units"] = _unit(scan)
    image.attrs.update({"NX_class": "NXdata", "signal": "phase", "axes": ["y", "x"]})
    file["entry"].attrs.update({"NX_class": "NXentry", "default": "image"})
    file.attrs.update({"NX_class": "NXroot", "default": "entry"})


def _metadata(file: h5py.File, scan: ExportedScan) -> None:
    photons = float(np.sum(np.abs(scan.probe) ** 2, dtype=float)) if scan.domain == "counts" else 0.0
    comments = (IN_PIXELS if scan.pixel_m is None else "") + scan.blanked + scan.comments
    file.attrs.update(
        {
            "name": scan.name,
            "comments": comments.strip(),
            "detector_object_distance_m": scan.distance_m or 0.0,
            "probe_energy_eV": scan.energy_eV or 0.0,
            "probe_photon_count": photons,
            "exposure_time_s": 0.0,
            "mass_attenuation_m2_kg": 0.0,
            "tomography_angle_deg": 0.0,
        }
    )
    file["tomography_angle_deg"] = 0.0
    if scan.detector_pixel_m is not None:
        height, width = scan.detector_pixel_m
        file.attrs.update({"detector_pixel_height_m": height, "detector_pixel_width_m": width})
    if scan.detector_side is not None:
        file.attrs["detector_side_px"] = scan.detector_side


def _positions(file: h5py.File, scan: ExportedScan) -> None:
    count = len(scan.positions)
    numbers = np.arange(count) if scan.numbers is None or scan.patterns is not None else scan.numbers
    file["probe_position_indexes"] = numbers.astype(np.int64)
    lengths = scan.from_middle * np.array(scan.pixel_m or (1.0, 1.0))
    for axis, values in zip("yx", lengths.T, strict=True):
        file[f"probe_position_{axis}_m"] = values
        file[f"probe_position_{axis}_m"].attrs.update({"units": _unit(scan), "sign": SIGN})


def _images(file: h5py.File, scan: ExportedScan) -> None:
    height, width = scan.pixel_m or (1.0, 1.0)
    pixel = {"pixel_height_m": height, "pixel_width_m": width}
    weights = np.ones((len(scan.positions), 1), np.float32)
    file["probe"] = scan.probe.astype(np.complex64)
    file["probe"].attrs.update(pixel | {"opr_weights": weights, "units": "√photons"})
    file["opr_weights"] = weights
    if scan.opr_modes is not None and scan.opr_weights is not None:
        file["opr_modes"] = scan.opr_modes.astype(np.complex64)
        file["opr_mode_weights"] = scan.opr_weights.astype(np.complex64)
    assert scan.object is not None
    file["object"] = scan.object.astype(np.complex64)
    file["object"].attrs.update(pixel | {"center_x_m": 0.0, "center_y_m": 0.0})
    file["object_layer_spacing_m"] = np.zeros(0)
    if scan.slices is not None:
        file.create_dataset("slices", data=scan.slices.astype(np.complex64))
        file["slices"].attrs.update(pixel | {"spacing_m": scan.slice_thickness_m or 0.0})
    if scan.errors is not None:
        for key, sigma in scan.errors.arrays().items():
            file[key] = sigma[0]
            file[key].attrs.update(pixel | {"units": SIGMA_UNITS[key], "note": SIGMA_NOTE})


def _raw_data(group: h5py.Group, scan: ExportedScan) -> None:
    data = write_patterns(group, "diffraction", scan.shape, np.dtype(np.float32), scan.amplitude_blocks())
    data.attrs.update({"domain": "amplitude", "square": scan.domain, "zero_frequency": "centre (N//2, N//2)"})
    group["ycoords"], group["xcoords"] = scan.from_corner.T
    group["scan_index"] = np.zeros(len(scan.positions), np.int64)


def _unit(scan: ExportedScan) -> str:
    return "px" if scan.pixel_m is None else "m"
