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

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptycho.readers.archive import Archive
from ptycho.readers.positions import read_columns
from ptycho.readers.quantities import DISTANCE, OBJECT_PIXEL, PIXEL
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.values import (
    read_array,
    read_energy,
    read_number,
    read_object,
    read_pair,
    read_plain,
    read_probe,
)

X, Y, INDEXES = "probe_position_x_m", "probe_position_y_m", "probe_position_indexes"
ENERGIES = ("@photon_energy_eV", "photon_energy_eV", "@probe_energy_eV", "probe_energy_eV")
PITCH, SIDE = ("@detector_pixel_height_m", "@detector_pixel_width_m"), "@detector_side_px"
DISTANCES = ("@detector_object_distance_m", "detector_object_distance_m")
WEIGHTS = ("opr_weights", "probe@opr_weights")


@dataclass(frozen=True, eq=False)
class Product:
    """Positions ``(n, 2)``, (row, col), of the patterns with some ``numbers``, and what else a scan takes.

    Attributes:
        numbers: ``(n,)``; None: the patterns have the order of the positions.
        values: attributes of a :class:`~ptycho.readers.raw_scan.RawScan`.
        side: pixels of the detector that the pattern spans whose object pixel positions in ``px`` are counted
            in; None: all.
        opr_modes, opr_weights: ``(K', h, w)`` and ``(n, K')`` of a probe that varies; None: it does not.
    """

    positions: np.ndarray
    unit: str
    numbers: np.ndarray | None = None
    values: dict[str, Any] = field(default_factory=dict)
    side: int | None = None
    opr_modes: np.ndarray | None = None
    opr_weights: np.ndarray | None = None

    def positions_on(self, shape: tuple[int, ...]) -> np.ndarray:
        """The positions; those in pixels as of a detector ``(H, W)`` that is used as a whole."""
        if self.unit != "px" or self.side is None:
            return self.positions
        return self.positions * (np.array(shape) / self.side)


def has_positions(file: Archive) -> bool:
    """A product, or the second file of a pair."""
    return file.holds(X) and file.holds(Y)


def has_energy(file: Archive) -> bool:
    """Beside positions, the sign of a product."""
    return any(file.holds(key) for key in ENERGIES if key.startswith("@"))


def read_product(file: Archive, options: ReadOptions) -> Product | None:
    """What is in a product; None if it has no usable positions, which is a problem of the file."""
    found = read_columns(file, (Y, X), options, None) if file.require(Y, X) else None
    if found is None:
        return None
    side = read_plain(file, SIDE)
    numbers = read_indexes(file, INDEXES, len(found[0]))
    values, side = _values(file, found[1]), None if side is None or side < 1 else round(side)
    return Product(*found, numbers, values, side, *_read_variation(file, values.get("probe"), len(found[0])))


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


def read_indexes(file: Archive, key: str, count: int) -> np.ndarray | None:
    """``(count,)`` numbers of patterns, int64; None: there are none, or they are a problem."""
    found = read_array(file, key, needed=True)
    if found is None:
        return None
    whole = found.ravel().astype(np.int64)
    if len(whole) != count or not np.array_equal(whole, found.ravel()):
        file.complain(f"{key} has shape {found.shape} of {found.dtype}; must be ({count},) whole numbers")
        return None
    return whole


def _values(file: Archive, unit: str) -> dict[str, Any]:
    angle = read_plain(file, "@tomography_angle_deg", "tomography_angle_deg")
    if angle is not None:
        file.notes.append(f"tomography angle {angle:g} degrees")
    centre = read_plain(file, "object@center_y_m"), read_plain(file, "object@center_x_m")
    found: dict[str, Any] = {
        "energy_eV": read_energy(file, "eV", ENERGIES),
        "distance_m": read_number(file, DISTANCE, "m", *DISTANCES),
        "probe": read_probe(file, "probe", WEIGHTS),
        "object": read_object(file, "object"),
        "object_centre_m": None if None in centre else centre,
        "detector_pixel_m": read_pair(file, PIXEL, "m", *PITCH),
    }
    if unit != "px":  # else the pixel is the unit, and one "metre" wide
        for name in ("probe", "object"):
            keys = f"{name}@pixel_height_m", f"{name}@pixel_width_m"
            found[f"{name}_pixel_m"] = read_pair(file, OBJECT_PIXEL, "m", *keys)
    return {key: value for key, value in found.items() if value is not None}
