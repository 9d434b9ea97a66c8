"""HDF5 of ptychodus with patterns: the file beside a product, and the one that it trains networks with.

=================================== =============== ==========================================================
``patterns``                        (J, H, W)       counts or intensities; zero frequency in the centre
``patterns@detector_pixel_…_m``     metres          ``width`` and ``height``
``indexes``                         (J,)            number of each pattern, as a product refers to it
``bad_pixels``                      (H, W)          **True where a pixel does not count**
in training data alone
``probe_position_{x,y}_px``         (J,)            column, row of the probe's middle in pixels of the object
``probe``, ``object``               (K, h, w)       and ``(h, w)``
``object_pixel_{height,width}_m``   metres
``photon_energy_eV``,               numbers         the pitch of the detector follows from these and the pixel
``detector_object_distance_m``
=================================== =============== ==========================================================

Without positions of its own a file of patterns needs ``data.positions_file``, a product. Signs: the probe's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.readers.scans.hdf5 import Hdf5File, has, opened
from ptycho.readers.scans.hdf5_patterns import Hdf5Patterns, domain_of, patterns
from ptycho.readers.scans.hdf5_scan import columns, good_of, layer_of, modes_of, only, scan
from ptycho.readers.scans.hdf5_values import array, image, number, pair
from ptycho.readers.scans.quantities import DISTANCE, ENERGY, OBJECT_PIXEL, PIXEL
from ptycho.readers.scans.raw_scan import RawScan, ReadOptions, detector_pitch_m
from ptycho.readers.scans.second_hdf5 import place

NAME = "ptychodus_patterns"
PATTERNS, NUMBERS, BAD = "patterns", "indexes", "bad_pixels"
ROW, COL = "probe_position_y_px", "probe_position_x_px"
PITCH = ("patterns@detector_pixel_height_m", "patterns@detector_pixel_width_m")


def detect(file: h5py.File) -> bool:
    return has(file, PATTERNS) and any(has(file, key) for key in (NUMBERS, BAD, ROW))


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from training data, or from patterns and a product.

    Raises:
        ConfigError: one line with what is missing or does not fit.
    """
    with opened(path, options.stated) as file:
        own = has(file.file, ROW)
        only(path, NAME, options, "unit", *(() if own else ("axes", "positions_file")))
        source = patterns(file, PATTERNS)
        values: dict[str, Any] = {
            "domain": domain_of(file, source, "intensity"),
            "zero_frequency": "centre",
            "good": good_of(file, BAD if has(file.file, BAD) else None, "bad"),
            "detector_pixel_m": pair(file, PIXEL, "m", *PITCH),
        }
        if own:
            return _training_data(file, options, source, values)
        if not options.positions_file:
            file.complain("patterns without positions; add data.positions_file=, the product that has them")
            file.refuse()
        placed = place(file, options, source, values, _numbers(file, source))
        source, positions = placed if placed is not None else (source, None)
        return scan(file, NAME, source, positions, values)


def _numbers(file: Hdf5File, source: Hdf5Patterns | None) -> np.ndarray | None:
    """``(J,)`` numbers of the patterns; None: they are counted."""
    found = array(file, NUMBERS if has(file.file, NUMBERS) else None)
    if found is None or source is None:
        return None
    if found.shape != source.shape[:1] or not np.array_equal(found, np.rint(found)):
        file.complain(f"{NUMBERS} has shape {found.shape}; must be ({source.shape[0]},) whole numbers")
        return None
    return found.astype(np.int64)


def _training_data(
    file: Hdf5File, options: ReadOptions, source: Hdf5Patterns | None, values: dict[str, Any]
) -> RawScan:
    positions = None if source is None else columns(file, (ROW, COL), options, source, unit="px")
    pixel = pair(file, OBJECT_PIXEL, "m", "object_pixel_height_m", "object_pixel_width_m")
    values |= {
        "probe": modes_of(file, "probe", image(file, "probe")),
        "probe_pixel_m": pixel,
        "object": layer_of(file, "object", image(file, "object")),
        "object_pixel_m": pixel,
        "energy_eV": number(file, ENERGY, "eV", "photon_energy_eV"),
        "distance_m": number(file, DISTANCE, "m", "detector_object_distance_m"),
    }
    if values["detector_pixel_m"] is None and source is not None:
        known = pixel, values["energy_eV"], values["distance_m"]
        values["detector_pixel_m"] = detector_pitch_m(*known, source.shape[1:])
        file.notes.append("the detector's pitch is λz/(N·dx) of the object's pixel")
    if positions is not None and positions[1] == "px" and values["object"] is not None:
        middle = (np.array(values["object"].shape) - 1) / 2  # the first sample's middle is the place 0
        positions, values["object_centre_m"] = (positions[0] - middle, "px"), (0.0, 0.0)
    return scan(file, NAME, source, positions, values)
