"""Patterns of ptychodus, HDF5 or NPZ: the file beside a product, and the one that it trains networks with.

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

Without positions of its own, or a product's, a file of patterns needs ``data.positions_file``, a product.
Signs: the probe's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.places import join, open_archive, place_scan
from ptycho.readers.positions import Positions, make_scan, read_columns
from ptycho.readers.product import has_positions, read_indexes, read_product
from ptycho.readers.quantities import DISTANCE, OBJECT_PIXEL, PIXEL
from ptycho.readers.raw_scan import RawScan, ReadOptions, detector_pitch_m, middle_of
from ptycho.readers.values import (
    find_domain,
    read_energy,
    read_good,
    read_number,
    read_object,
    read_pair,
    read_probe,
)

NAME = "ptychodus_patterns"
PATTERNS, NUMBERS, BAD = "patterns", "indexes", "bad_pixels"
ROW, COL = "probe_position_y_px", "probe_position_x_px"
PITCH = ("patterns@detector_pixel_height_m", "patterns@detector_pixel_width_m")


def detect(file: Archive) -> bool:
    return file.holds(PATTERNS) and any(file.holds(key) for key in (NUMBERS, BAD, ROW))


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from training data, or from patterns and a product, which may be in one file."""
    with open_archive(path, options) as file:
        trains, places = file.holds(ROW), has_positions(file)
        if options.positions_file and (trains or places):
            file.complain(
                f"data.positions_file={options.positions_file}: it has positions of its own; leave that out"
            )
        options.refuse_unused(path, NAME, "unit", "positions_file")
        source = file.patterns(PATTERNS)
        values: dict[str, Any] = {
            "domain": find_domain(file, source, "intensity"),
            "zero_frequency": "centre",
            "good": read_good(file, BAD if file.holds(BAD) else None, "bad"),
            "detector_pixel_m": read_pair(file, PIXEL, "m", *PITCH),
        }
        if trains:
            return make_scan(
                file, NAME, options, source, _training_data(file, options, source, values), values
            )
        if not (places or options.positions_file):
            file.complain("has no positions; add data.positions_file=, the product that has them")
        file.refuse()
        numbers = read_indexes(file, NUMBERS, source.shape[0]) if source is not None else None
        if places:
            product = read_product(file, options)
            return make_scan(file, NAME, options, *join(file, source, product, values, numbers), values)
        return place_scan(file, NAME, options, source, values, lambda: None, numbers)


def _training_data(
    file: Archive, options: ReadOptions, source: Patterns | None, values: dict[str, Any]
) -> Positions | None:
    """Its positions; what else it has goes to ``values``."""
    positions = None if source is None else read_columns(file, (ROW, COL), options, source, unit="px")
    pixel = read_pair(file, OBJECT_PIXEL, "m", "object_pixel_height_m", "object_pixel_width_m")
    values |= {
        "probe": read_probe(file, "probe"),
        "probe_pixel_m": pixel,
        "object": read_object(file, "object"),
        "object_pixel_m": pixel,
        "energy_eV": read_energy(file, "eV", ("photon_energy_eV",)),
        "distance_m": read_number(file, DISTANCE, "m", "detector_object_distance_m"),
    }
    if values["detector_pixel_m"] is None and source is not None:
        known = pixel, values["energy_eV"], values["distance_m"]
        values["detector_pixel_m"] = detector_pitch_m(*known, source.shape[1:])
        file.notes.append("the detector's pitch is λz/(N·dx) of the object's pixel")
    if positions is not None and positions[1] == "px" and source is not None and values["object"] is not None:
        from_first = (np.array(source.shape[1:]) - 1) / 2  # the first sample's middle is the place 0
        positions = positions[0] - from_first, "px"
        values["object_centre_m"] = middle_of(values["object"], from_first + 0.5)
    return positions
