"""The product of ptychodus (AdvancedPhotonSource/ptychodus) in HDF5: positions, probe and object.

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
=================================== ================================ =========================================

The file ``<name>_para.hdf5`` of ptycho-vit and ptycho-fm has the same names without numbers of patterns,
energy and distance. Signs: the probe's, increasing with the object's column (x) and row (y).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np

from ptycho.readers.scans.hdf5 import Hdf5File, has
from ptycho.readers.scans.hdf5_scan import layer_of, lengths, modes_of
from ptycho.readers.scans.hdf5_values import array, image, number, pair, plain
from ptycho.readers.scans.quantities import DISTANCE, ENERGY, OBJECT_PIXEL, PIXEL
from ptycho.readers.scans.raw_scan import ReadOptions

X, Y, INDEXES = "probe_position_x_m", "probe_position_y_m", "probe_position_indexes"
ENERGY_KEYS = ("@photon_energy_eV", "photon_energy_eV", "@probe_energy_eV", "probe_energy_eV")
PITCH, SIDE = ("@detector_pixel_height_m", "@detector_pixel_width_m"), "@detector_side_px"
DISTANCE_KEYS = ("@detector_object_distance_m", "detector_object_distance_m")


@dataclass(frozen=True, eq=False)
class Product:
    """Positions ``(n, 2)``, (row, col), of the patterns ``indexes``, and what else a scan takes.

    Attributes:
        side: pixels of the detector that the pattern spans whose object pixel positions in ``px`` are counted
            in; None: all.
    """

    positions: np.ndarray
    unit: str
    indexes: np.ndarray | None = None
    values: dict[str, Any] = field(default_factory=dict)
    side: int | None = None

    def positions_on(self, shape: tuple[int, ...]) -> np.ndarray:
        """The positions; those in pixels as of a detector ``(H, W)`` that is used as a whole."""
        if self.unit != "px" or self.side is None:
            return self.positions
        return self.positions * (np.array(shape) / self.side)


def has_positions(file: h5py.File) -> bool:
    """A product, or the second file of a pair."""
    return has(file, X) and has(file, Y)


def has_energy(file: h5py.File) -> bool:
    """Beside positions, the sign of a product."""
    return any(key.removeprefix("@") in file.attrs for key in ENERGY_KEYS)


def read_product(file: Hdf5File, options: ReadOptions) -> Product | None:
    """What is in a product; None if it has no usable positions, which is a problem of the file."""
    x, y = lengths(file, X, options, "m"), lengths(file, Y, options, "m")
    for key, found in ((X, x), (Y, y)):
        if found is None and not file.problems:
            file.need("positions", key)
    if x is None or y is None:
        return None
    if x[0].size != y[0].size:
        file.complain(f"{X} has {x[0].size} and {Y} {y[0].size} positions")
        return None
    positions = np.stack([y[0].ravel(), x[0].ravel()], axis=1)
    file.notes.append(f"positions: row is {Y}, col is {X}, the probe's, in {x[1]}")
    return Product(
        positions, x[1], indexes_of(file, INDEXES, len(positions)), _values(file, x[1]), _side(file)
    )


def indexes_of(file: Hdf5File, key: str, count: int) -> np.ndarray | None:
    """``(count,)`` numbers of patterns; None: there are none, or they are a problem."""
    found = array(file, key)
    if found is None:
        return None
    whole = found.ravel().astype(np.int64)
    if len(whole) != count or not np.array_equal(whole, found.ravel()):
        file.complain(f"{key} has shape {found.shape}; must be ({count},) integers, one for each position")
        return None
    return whole


def _side(file: Hdf5File) -> int | None:
    side = plain(file, SIDE)
    return None if side is None or side < 1 else round(side)


def _values(file: Hdf5File, unit: str) -> dict[str, Any]:
    angle = plain(file, "@tomography_angle_deg", "tomography_angle_deg")
    if angle is not None:
        file.notes.append(f"tomography angle {angle:g} degrees")
    centre = plain(file, "object@center_y_m"), plain(file, "object@center_x_m")
    found: dict[str, Any] = {
        "energy_eV": number(file, ENERGY, "eV", *ENERGY_KEYS),
        "distance_m": number(file, DISTANCE, "m", *DISTANCE_KEYS),
        "probe": _probe(file),
        "object": layer_of(file, "object", image(file, "object")),
        "object_centre_m": None if None in centre else centre,
        "detector_pixel_m": pair(file, PIXEL, "m", *PITCH),
    }
    if unit != "px":  # else the pixel is the unit, and one "metre" wide
        for name in ("probe", "object"):
            keys = f"{name}@pixel_height_m", f"{name}@pixel_width_m"
            found[f"{name}_pixel_m"] = pair(file, OBJECT_PIXEL, "m", *keys)
    return {key: value for key, value in found.items() if value is not None}


def _probe(file: Hdf5File) -> np.ndarray | None:
    """Modes ``(K, h, w)``; coherent modes are summed with their mean weights over the scan."""
    probe = image(file, "probe")
    if probe is None or probe.ndim != 4 or len(probe) == 1:
        return modes_of(file, "probe", probe)
    key = next((key for key in ("opr_weights", "probe@opr_weights") if array(file, key) is not None), None)
    weights = None if key is None else array(file, key)
    if weights is None or weights.shape[-1:] != probe.shape[:1]:
        return modes_of(file, "probe", probe)
    mean = weights.reshape(-1, len(probe)).mean(axis=0)
    file.warnings.append(f"probe {probe.shape}: its coherent modes are summed with the mean of {key}")
    return np.tensordot(mean, probe, axes=1).astype(np.complex64)
