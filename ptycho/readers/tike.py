"""NPZ files of tike (AdvancedPhotonSource/tike), as its examples and tests keep them.

``data`` (J, H, W) are intensities with the **zero frequency in the corner**; ``scan`` (J, 2) is **(row, col)
of the probe's first sample** in pixels of ``psi``, increasing with the object's row and column.
A probe whose middle ``(H//2, W//2)`` is on that of the object, ``(h/2, w/2)``, has the position
``(h/2 − H//2, w/2 − W//2)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.layout import Layout
from ptycho.readers.positions import Placement
from ptycho.readers.raw_scan import ReadOptions, middle_of
from ptycho.readers.values import read_array, read_object


def _positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement | None:
    """Positions as they are, and the object, which they are places on."""
    scan = read_array(file, file.need("positions", "scan"), needed=True, finite=False)
    if scan is None:
        return None
    scan = scan[0] if scan.ndim == 3 and len(scan) == 1 else scan
    if scan.ndim != 2 or scan.shape[1] != 2:
        file.complain(f"scan has shape {scan.shape}; must be (J, 2), or (1, J, 2) of a file with one scan")
        return None
    file.notes.append("positions are those of the probe's first sample")
    object_ = read_object(file, file.first("psi"))
    unit = options.unit or "px"
    values: dict[str, Any] = {} if object_ is None else {"object": object_}
    if object_ is not None and unit == "px":
        values["object_centre_m"] = middle_of(object_, np.array(source.shape[1:]) // 2)
    return Placement(scan.astype(np.float64), unit, values=values)


LAYOUT = Layout(
    name="tike",
    detect=lambda file: file.holds("data", "scan"),
    patterns=("data",),
    domain="intensity",
    zero_frequency="corner",
    probe=("probe",),
    positions=_positions,
)
