"""NPZ files of the published PtychoPINN program (hoidn/PtychoPINN), and of ptychodus' export for it.

=========================== ======================== =====================================================
``diff3d``                  (J, H, W)                patterns; zero frequency in the centre. The program's
                                                     specification says amplitudes (√counts), unprepared
                                                     files hold counts, ptychodus exports intensities
``diffraction``             (J, H, W), **(H, W, J)** the same in prepared and older files: amplitudes
``xcoords``, ``ycoords``    (J,)                     column and row of the probe's centre in pixels of the
                                                     object, from its corner
``xcoords_start``, …        (J,)                     where it was sent; used if the others are missing
``bad_pixels``              (H, W)                   **True where a pixel does not count**
``probeGuess``              (H, W), (K, H, W),       probe
                            (H, W, 1)
``objectGuess``             (h, w)                   object
``scan_index``              (J,)                     which scan a pattern belongs to
``scale_contract_version``, text                     ``ci_intensity_v2`` with ``count_intensity``, or
``measurement_domain``                               ``legacy_v1`` with ``normalized_amplitude``
``_metadata``               JSON                     not read; older files hold it as a Python object
=========================== ======================== =====================================================

Signs: probe positions, increasing with the object's column and row; the object's middle is at ``(h/2, w/2)``.
Positions that all lie within ``METRES`` of each other cannot be pixels: loaders exist that write metres under
these names.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.npz import NpzArchive
from ptycho.readers.places import place_scan
from ptycho.readers.positions import Positions, read_columns
from ptycho.readers.raw_scan import RawScan, ReadOptions, middle_of
from ptycho.readers.values import find_domain, read_array, read_good, read_object, read_probe

NAME = "ptychopinn"
PATTERNS = ("diff3d", "diffraction")
POSITIONS = (("ycoords", "xcoords"), ("ycoords_start", "xcoords_start"))
CONTRACTS = {
    ("ci_intensity_v2", "count_intensity"): "counts",
    ("legacy_v1", "normalized_amplitude"): "amplitude",
}
METRES = 0.05


def detect(file: Archive) -> bool:
    known = any(file.holds(key) for pair in POSITIONS for key in pair)
    return known and any(file.holds(key) for key in PATTERNS)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from such a file; other positions may be in a second one."""
    options.refuse_unused(path, NAME, "unit", "positions_file")
    with NpzArchive(path, options) as file:
        key = file.first(*PATTERNS) or PATTERNS[0]
        names = POSITIONS[0] if any(file.holds(name) for name in POSITIONS[0]) else POSITIONS[1]
        there = file.require(key, *names)
        positions = _positions(file, names, options) if there else None
        source: Patterns | None = file.patterns(key, either=True) if there else None
        if source is None or positions is None:
            file.refuse()
        assert source is not None and positions is not None  # else there were problems
        source, count = source.order_for(len(positions[0]), file), len(positions[0])
        object_ = None if options.positions_file else read_object(file, "objectGuess")
        placed = object_ if positions[1] == "px" else None
        values = {
            "domain": _domain(file, source, key),
            "zero_frequency": "centre",
            "good": _fitting(
                file, "bad_pixels", read_good(file, "bad_pixels", "bad", False), source.shape[1:]
            ),
            "probe": read_probe(file, "probeGuess"),
            "object": object_,
            "object_centre_m": None if placed is None else middle_of(placed),
            "scan_index": _scan_index(file, count),
        }
        return place_scan(file, NAME, options, source, values, lambda: positions)


def _positions(file: Archive, names: tuple[str, str], options: ReadOptions) -> Positions | None:
    """As the file has them, with the unit that their span tells."""
    if file.holds("_metadata"):
        file.notes.append("_metadata is not read")
    found = read_columns(file, names, options, None, "px")
    if found is None or options.unit or options.positions_file:
        return found
    span = float(np.max(np.nanmax(found[0], axis=0) - np.nanmin(found[0], axis=0)))
    if len(found[0]) > 1 and 0 < span < METRES:
        file.notes.append(
            f"{', '.join(names)} span {span:.3g}: taken as metres, not as pixels; set data.unit=px "
            "to change it"
        )
        return found[0], "m"
    file.notes.append(f"{', '.join(names)} span {span:.4g}: pixels of the object, as the format says")
    return found


def _domain(file: Archive, source: Patterns, key: str) -> str | None:
    """By the file's contract, by the numbers, by the name ``diffraction``; else None."""
    contract = file.text("scale_contract_version"), file.text("measurement_domain")
    if contract in CONTRACTS:
        file.notes.append(f"{CONTRACTS[contract]}: measurement_domain is {contract[1]}")
        return CONTRACTS[contract]
    if contract != (None, None):
        said = f"scale_contract_version={contract[0]}, measurement_domain={contract[1]}"
        file.warnings.append(f"{said}: no pair that is known; not heeded")
    domain = find_domain(file, source, key=key)
    if domain is None:
        file.notes[-1] += (
            f"; {key} is the amplitude by PtychoPINN's rules, the intensity in ptychodus' export"
        )
    return domain


def _fitting(file: Archive, key: str, found: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """What was found if it has the right shape; else None with a note."""
    if found is None or found.shape == shape:
        return found
    file.notes.append(f"{key} {found.shape} is ignored: must be {shape}")
    return None


def _scan_index(file: Archive, count: int) -> np.ndarray | None:
    """``scan_index`` as integers, or None with a note."""
    index = _fitting(file, "scan_index", read_array(file, "scan_index"), (count,))
    if index is None or np.array_equal(index, np.rint(index)):
        return None if index is None else index.astype(np.int64)
    file.notes.append("scan_index is ignored: must be whole numbers")
    return None
