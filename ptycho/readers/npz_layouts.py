"""NPZ files of the published PtychoPINN program (hoidn/PtychoPINN), and of ptychodus' export for it.

``diff3d`` (J, H, W) has the zero frequency in the centre. The program's specification says amplitudes
(√counts), unprepared files hold counts, ptychodus exports intensities; ``diffraction``, (J, H, W) or
**(H, W, J)** in older files, holds amplitudes. ``bad_pixels`` is **True where a pixel does not count**.
``xcoords``, ``ycoords`` are column and row of the probe's centre in pixels of the object, from its corner,
whose middle is at ``(h/2, w/2)``. Positions that all lie within 0.05 of each other cannot be pixels: loaders
exist that write metres under these names.

NPZ files of tike (AdvancedPhotonSource/tike), as its examples and tests keep them.

``data`` (J, H, W) are intensities with the **zero frequency in the corner**; ``scan`` (J, 2) is **(row, col)
of the probe's first sample** in pixels of ``psi``, increasing with the object's row and column.
A probe whose middle ``(H//2, W//2)`` is on that of the object, ``(h/2, w/2)``, has the position
``(h/2 − H//2, w/2 − W//2)``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ptycho.readers.archive import Archive
from ptycho.readers.layout import Layout
from ptycho.readers.patterns import Patterns
from ptycho.readers.positions import Placement, read_columns, read_rows
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.values import find_domain, read_good, read_object_in_pixels, read_whole

PATTERNS = ("diff3d", "diffraction")
POSITIONS = (("ycoords", "xcoords"), ("ycoords_start", "xcoords_start"))
CONTRACTS = {
    ("ci_intensity_v2", "count_intensity"): "counts",
    ("legacy_v1", "normalized_amplitude"): "amplitude",
}


def _positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    """Return positions with the unit that follows from their span, and the object."""
    names = POSITIONS[0] if file.holds_any(*POSITIONS[0]) else POSITIONS[1]
    file.require(*names)
    placement = read_columns(file, names, options, None, "px")
    unit = placement.unit if options.unit else _unit(file, names, placement.positions)
    return Placement(placement.positions, unit, values=read_object_in_pixels(file, "objectGuess", unit))


def _unit(file: Archive, names: tuple[str, str], positions: np.ndarray, metres: float = 0.05) -> str:
    span = float(np.max(np.nanmax(positions, axis=0) - np.nanmin(positions, axis=0)))
    if len(positions) > 1 and 0 < span < metres:
        why = "taken as metres, not as pixels; set data.unit=px to change it"
        file.notes.append(f"{', '.join(names)} span {span:.3g}: {why}")
        return "m"
    file.notes.append(f"{', '.join(names)} span {span:.4g}: pixels of the object, as the format says")
    return "px"


def _domain(file: Archive, source: Patterns) -> str | None:
    """By the file's contract, by the numbers, by the name ``diffraction``; else None."""
    contract = file.text("scale_contract_version"), file.text("measurement_domain")
    if contract in CONTRACTS:
        file.notes.append(f"{CONTRACTS[contract]}: measurement_domain is {contract[1]}")
        return CONTRACTS[contract]
    if contract != (None, None):
        pair = f"scale_contract_version={contract[0]}, measurement_domain={contract[1]}"
        file.warnings.append(f"{pair}: no pair that is known; not heeded")
    domain = find_domain(file, source)
    if domain is None:
        rules = "the amplitude by PtychoPINN's rules, the intensity in ptychodus' export"
        file.notes[-1] += f"; {source.key} is {rules}"
    return domain


def _more(file: Archive, source: Patterns, values: dict[str, Any]) -> dict[str, Any]:
    if file.holds("_metadata"):
        file.notes.append("_metadata is not read")
    good = file.noted(lambda: read_good(file, file.first("bad_pixels"), "bad", False))
    if good is not None and good.shape not in (source.shape[1:], source.shape[:2]):
        file.notes.append(f"bad_pixels {good.shape} is ignored: must be {source.shape[1:]}")
        good = None
    return {"good": good, "scan_index": read_whole(file, "scan_index", source.counts)}


PINN = Layout(
    name="ptychopinn",
    detect=lambda file: file.holds_any(*PATTERNS) and file.holds_any(*POSITIONS[0], *POSITIONS[1]),
    patterns=PATTERNS,
    any_order=True,
    domain=_domain,
    zero_frequency="centre",
    probe=("probeGuess",),
    positions=_positions,
    more=_more,
)


def _tike_positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    """Positions as they are, and the object, which they are places on."""
    placement = read_rows(file, file.need("positions", "scan"), options, source.counts, unit="px")
    file.notes.append("positions are those of the probe's first sample")
    first = np.array(source.shape[1:]) // 2
    return replace(placement, values=read_object_in_pixels(file, "psi", placement.unit, first))


TIKE = Layout(
    name="tike",
    detect=lambda file: file.holds("data", "scan"),
    patterns=("data",),
    domain="intensity",
    zero_frequency="corner",
    probe=("probe",),
    positions=_tike_positions,
)
