"""The product of ptychodus (AdvancedPhotonSource/ptychodus), HDF5 or NPZ: positions, probe and object.

=================================== ================================ =========================================
``probe_position_indexes``          (n,) integers                    number of the pattern
``probe_position_{x,y}_m``          (n,) metres                      column, row of the probe on the object
``probe``                           (h, w), (K, h, w), (C, K, h, w)  K incoherent modes, C coherent ones
``probe@pixel_{height,width}_m``    number
``object``                          (h, w), (L, h, w)                L layers
``object@center_{x,y}_m``           number                           place of its middle
``object@pixel_{height,width}_m``   number
``opr_weights``                     (n, C) or (C,)                   at the root, or an attribute of ``probe``
``@photon_energy_eV``               number                           attribute of the root, as the following;
                                                                     before version 1.7 ``@probe_energy_eV``
``@detector_object_distance_m``     metres
``@tomography_angle_deg``           degrees                          attribute or dataset, or missing
``@detector_pixel_{height,width}_m``  metres                         of our own products, not of the program's
``@detector_side_px``               number                           the same: what a pattern of the probe's
                                                                     pixel spans on the detector
``probe_position_x_m@units``        ``px``                           the same, where the pixel is not known
``opr_modes``                       (K', h, w)                       the same: of a probe that varies
``opr_mode_weights``                (n, K')                          the same
=================================== ================================ =========================================

The file ``<name>_para.hdf5`` of ptycho-vit and ptycho-fm has the same names without numbers of patterns,
energy and distance. Signs: the probe's, increasing with the object's column (x) and row (y).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptycho.readers.archive import Archive
from ptycho.readers.layout import Layout
from ptycho.readers.positions import Placement, read_columns, read_indexes
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.values import read_plain

X, Y, INDEXES = "probe_position_x_m", "probe_position_y_m", "probe_position_indexes"
RESULT = Layout(
    name="ptychodus",
    energy=("@photon_energy_eV", "photon_energy_eV", "@probe_energy_eV", "probe_energy_eV"),
    distance=("@detector_object_distance_m", "detector_object_distance_m"),
    pixel=("@detector_pixel_height_m", "@detector_pixel_width_m"),
    probe=("probe",),
    weights=("opr_weights", "probe@opr_weights"),
    probe_pixel=("probe@pixel_height_m", "probe@pixel_width_m"),
    object=("object",),
    object_pixel=("object@pixel_height_m", "object@pixel_width_m"),
    object_centre=("object@center_y_m", "object@center_x_m"),
)


def has_positions(file: Archive) -> bool:
    """Return whether a file is a product, or the second file of a pair."""
    return file.holds(X, Y)


def is_product(file: Archive) -> bool:
    """Return whether a file is a product by itself, and not the second file of a pair."""
    energies = [key for key in RESULT.energy if key.startswith("@")]
    return has_positions(file) and (file.kind == "NPZ" or file.holds_any(INDEXES, *energies))


def read_product(file: Archive, options: ReadOptions) -> Placement | None:
    """Read what is in a product; None if it has no usable positions, which is a problem of the file."""
    placement = read_columns(file, (Y, X), options, None) if file.require(Y, X) else None
    if placement is None:
        return None
    count, side = len(placement.positions), read_plain(file, "@detector_side_px")
    angle = read_plain(file, "@tomography_angle_deg", "tomography_angle_deg")
    if angle is not None:
        file.notes.append(f"tomography angle {angle:g} degrees")
    # where positions are in pixels, the pixel is the unit, and one "metre" wide
    table = replace(RESULT, probe_pixel=(), object_pixel=()) if placement.unit == "px" else RESULT
    values = {key: value for key, value in table.values(file, None).items() if value is not None}
    modes, weights = _read_variation(file, values.get("probe"), count)
    return replace(
        placement,
        numbers=read_indexes(file, INDEXES, count),
        values=values,
        side=None if side is None or side < 1 else round(side),
        opr_modes=modes,
        opr_weights=weights,
    )


def _read_variation(
    file: Archive, probe: np.ndarray | None, count: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return OPR modes ``(K', h, w)`` and their weights ``(count, K')``; None: the probe is constant."""
    modes, weights = (file.read(key, "c", False) for key in ("opr_modes", "opr_mode_weights"))
    if modes is None or weights is None or probe is None:
        return None, None
    fits = modes.shape[1:] == probe.shape[-2:] and weights.shape == (count, len(modes))
    if not fits or not np.isfinite(modes).all() or not np.isfinite(weights).all():
        file.complain(f"opr_modes {modes.shape} and opr_mode_weights {weights.shape} do not fit the probe")
        return None, None
    return modes, weights
