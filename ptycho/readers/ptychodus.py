"""ptychodus, HDF5 or NPZ: a product, patterns beside it or with it, or what it trains networks with.

=================================== =============== ==========================================================
the product                                         :mod:`~ptycho.readers.product`
``patterns``                        (J, H, W)       counts or intensities; zero frequency in the centre
``patterns@detector_pixel_…_m``     metres          ``width`` and ``height``
``indexes``                         (J,)            number of each pattern, as a product refers to it
``bad_pixels``                      (H, W)          **True where a pixel does not count**
``raw_data/diffraction``            (J, H, W)       of PtychoPINN, in a product: amplitudes
``raw_data/scan_index``             (J,)            which scan a pattern belongs to
in training data alone
``probe_position_{x,y}_px``         (J,)            column, row of the probe's middle in pixels of the object
``probe``, ``object``               (K, h, w)       and ``(h, w)``
``object_pixel_{height,width}_m``   metres
``photon_energy_eV``,               numbers         the pitch of the detector follows from these and the pixel
``detector_object_distance_m``
=================================== =============== ==========================================================

A product without patterns needs ``data.patterns_file``, and a file of patterns alone ``data.positions_file``;
they are paired by ``probe_position_indexes``. Signs: the probe's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.layout import Layout, without_positions
from ptycho.readers.positions import Placement, read_columns
from ptycho.readers.product import has_positions, is_product, read_product
from ptycho.readers.raw_scan import ReadOptions, detector_pitch_m, middle_of
from ptycho.readers.values import read_scan_index

RAW, SCANS = "raw_data/diffraction", "raw_data/scan_index"
PATTERNS, NUMBERS, BAD = "patterns", "indexes", "bad_pixels"
ROW, COL = "probe_position_y_px", "probe_position_x_px"


def _detect(file: Archive) -> bool:
    return is_product(file) or (file.holds(PATTERNS) and file.holds_any(NUMBERS, BAD, ROW))


def _variant(file: Archive) -> Layout:
    """Which of the files it is."""
    if file.holds(RAW):
        return replace(LAYOUT, patterns=(RAW,), domain="amplitude", numbers=None, more=_scans)
    return TRAINING if file.holds(ROW) else LAYOUT


def _positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement | None:
    return read_product(file, options) if has_positions(file) else without_positions(file, options, source)


def _scans(file: Archive, source: Patterns | None, values: dict[str, Any]) -> dict[str, Any]:
    return {} if source is None else {"scan_index": read_scan_index(file, SCANS, source.counts)}


def _pitch(file: Archive, source: Patterns | None, values: dict[str, Any]) -> dict[str, Any]:
    if values["detector_pixel_m"] is not None or source is None:
        return {}
    file.notes.append("the detector's pitch is λz/(N·dx) of the object's pixel")
    known = values["object_pixel_m"], values["energy_eV"], values["distance_m"]
    return {"detector_pixel_m": detector_pitch_m(*known, source.shape[1:])}


def _training_positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement | None:
    """Positions, and the middle of the object in their pixels: the first sample's middle is the place 0."""
    placement = read_columns(file, (ROW, COL), options, source, unit="px")
    entry = file.entry("object")
    if placement is None or placement.unit != "px" or entry is None or entry.shape is None:
        return placement
    from_first = (np.array(source.shape[1:]) - 1) / 2
    middle = middle_of(np.empty(entry.shape[-2:]), from_first + 0.5)
    return Placement(placement.positions - from_first, "px", values={"object_centre_m": middle})


LAYOUT = Layout(
    name="ptychodus",
    detect=_detect,
    patterns=(PATTERNS,),
    domain="intensity",
    zero_frequency="centre",
    pixel=("patterns@detector_pixel_height_m", "patterns@detector_pixel_width_m"),
    masks={BAD: "bad"},
    positions=_positions,
    numbers=NUMBERS,
    variant=_variant,
)
TRAINING = replace(
    LAYOUT,
    energy=("photon_energy_eV",),
    distance=("detector_object_distance_m",),
    probe=("probe",),
    probe_pixel=("object_pixel_height_m", "object_pixel_width_m"),
    object=("object",),
    object_pixel=("object_pixel_height_m", "object_pixel_width_m"),
    positions=_training_positions,
    more=_pitch,
)
