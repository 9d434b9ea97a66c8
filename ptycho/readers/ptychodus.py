"""ptychodus (AdvancedPhotonSource/ptychodus), HDF5 or NPZ: its product, patterns, or training data.

A product without patterns needs ``data.patterns_file``, and patterns alone ``data.positions_file``; they are
paired by ``indexes`` and ``probe_position_indexes``. ``<name>_para.hdf5`` of ptycho-vit and ptycho-fm is a
product without these numbers, energy and distance. Signs: the probe's, increasing with the object's column
(x) and row (y). ``bad_pixels`` is **True where a pixel does not count**; ``raw_data`` holds amplitudes.
Our own products also state the detector's pitch, its side, OPR modes, and positions in ``px``.

HDF5 of fold_slice and PtychoShelves, and the pairs ``<name>_dp.hdf5``, ``<name>_para.hdf5`` of ptycho-vit.

``dp`` are intensities; ``ppX``, ``ppY`` column and row of the probe in metres, as ptychodus writes them.
fold_slice itself turns both signs; with intensities alone, that gives the object's twin and nothing else.
``diffraction/dp`` in eight bits is of holoptycho: amplitudes whose zero frequency is not stated.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config.waves import conjugate_pitch_m
from ptycho.files.reading import FileError
from ptycho.readers.archive import Archive
from ptycho.readers.layout import Layout, without_positions
from ptycho.readers.patterns import Patterns
from ptycho.readers.positions import Placement, read_columns
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.values import find_domain, read_array, read_object_in_pixels, read_plain, read_whole

VARIATION = ("opr_modes", "opr_mode_weights")
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


def read_product(file: Archive, options: ReadOptions) -> Placement:
    """Read what is in a product."""
    file.require(Y, X)
    placement = read_columns(file, (Y, X), options, None)
    count, side = len(placement.positions), read_plain(file, "@detector_side_px")
    angle = read_plain(file, "@tomography_angle_deg", "tomography_angle_deg")
    if angle is not None:
        file.notes.append(f"tomography angle {angle:g} degrees")
    # where positions are in pixels, the pixel is the unit, and one "metre" wide
    table = replace(RESULT, probe_pixel=(), object_pixel=()) if placement.unit == "px" else RESULT
    values = table.described(file)
    modes, weights = _read_variation(file, values.get("probe"), count)
    return replace(
        placement,
        numbers=read_whole(file, INDEXES, (count,), needed=True),
        values=values,
        side=None if side is None or side < 1 else round(side),
        opr_modes=modes,
        opr_weights=weights,
    )


def _read_variation(
    file: Archive, probe: np.ndarray | None, count: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return OPR modes ``(K', h, w)`` and their weights ``(count, K')``; None: the probe is constant."""
    modes, weights = (file.noted(partial(read_array, file, key, "c")) for key in VARIATION)
    if modes is None or weights is None or probe is None:
        return None, None
    if modes.shape[1:] != probe.shape[-2:] or weights.shape != (count, len(modes)):
        shapes = f"opr_modes {modes.shape} and opr_mode_weights {weights.shape}"
        raise FileError(f"{shapes} do not fit the probe")
    return modes, weights


RAW, SCANS = "raw_data/diffraction", "raw_data/scan_index"
PATTERNS, NUMBERS, BAD = "patterns", "indexes", "bad_pixels"
ROW, COL = "probe_position_y_px", "probe_position_x_px"


def _variant(file: Archive) -> Layout:
    def scans(file: Archive, source: Patterns, values: dict[str, Any]) -> dict[str, Any]:
        return {"scan_index": read_whole(file, SCANS, source.counts)}

    if file.holds(RAW):
        return replace(LAYOUT, patterns=(RAW,), domain="amplitude", numbers=None, more=scans)
    return TRAINING if file.holds(ROW) else LAYOUT


def _positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    return read_product(file, options) if has_positions(file) else without_positions(file, options, source)


def _pitch(file: Archive, source: Patterns, values: dict[str, Any]) -> dict[str, Any]:
    if "detector_pixel_m" in values:
        return {}
    file.notes.append("the detector's pitch is λz/(N·dx) of the object's pixel")
    energy, distance, pixel = (values.get(key) for key in ("energy_eV", "distance_m", "object_pixel_m"))
    return {"detector_pixel_m": conjugate_pitch_m(energy, distance, pixel, source.shape[1:])}


def _training_positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    """Positions, and the middle of the object in their pixels: the first sample's middle is the place 0."""
    placement = read_columns(file, (ROW, COL), options, source, unit="px")
    if placement.unit != "px":
        return placement
    from_first = (np.array(source.shape[1:]) - 1) / 2
    values = read_object_in_pixels(file, "object", "px", from_first + 0.5)
    return Placement(placement.positions - from_first, "px", values=values)


LAYOUT = Layout(
    name="ptychodus",
    pair=(RAW, PATTERNS),
    detect=lambda file: is_product(file) or (file.holds(PATTERNS) and file.holds_any(NUMBERS, BAD, ROW)),
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
    object_pixel=("object_pixel_height_m", "object_pixel_width_m"),
    positions=_training_positions,
    more=_pitch,
)


PP = ("ppY", "ppX")
DP = ("dp", "diffraction/dp")


def complete_pair(path: Path, options: ReadOptions) -> ReadOptions:
    """Name the other file of a pair, if nothing else is named and it is beside the first."""
    if options.positions_file or options.patterns_file:
        return options
    for ending, other, key in (("_dp", "_para", "positions_file"), ("_para", "_dp", "patterns_file")):
        beside = path.with_name(path.stem.removesuffix(ending) + other + path.suffix)
        if path.stem.endswith(ending) and beside.is_file():
            changes: dict[str, Any] = {key: str(beside)}
            return replace(options, **changes)
    return options


def read_columns_of_pp(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    """Read column and row of the probe on the object."""
    if not file.holds(*PP):
        raise FileError(f"lacks ppX and ppY; add data.positions_file=; it has {file.listed()}")
    return read_columns(file, PP, options, source)


def _domain_of_dp(file: Archive, source: Patterns) -> str | None:
    """Eight bits are holoptycho's amplitudes under its key, and may be so under the other."""
    if source.dtype != "uint8":
        return find_domain(file, source, "intensity" if source.key == "dp" else None)
    if source.key == "dp":
        file.warnings.append("dp is uint8: counts, or amplitudes as holoptycho writes them; add data.domain=")
        return None
    file.notes.append(f"patterns are amplitude: {source.key} in eight bits is of holoptycho")
    return "amplitude"


FOLDSLICE = Layout(
    name="foldslice",
    pair=DP,
    detect=lambda file: (
        file.holds_any(*DP) or file.holds(*PP) or (has_positions(file) and not is_product(file))
    ),
    patterns=DP,
    domain=_domain_of_dp,
    positions=read_columns_of_pp,
    more=lambda file, source, values: {"zero_frequency": "centre" if file.holds("dp") else None},
)
