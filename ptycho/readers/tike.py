"""NPZ files of tike (AdvancedPhotonSource/tike), as its examples and tests keep them.

=========== ============================== =============================================================
``data``    (J, H, W), or (1, J, H, W)     intensities; **zero frequency in the corner**, at sample 0
``scan``    (J, 2), or (1, J, 2)           **(row, col) of the probe's first sample**, in pixels of ``psi``
``probe``   (1, 1, K, H, W)                K modes; one more axis of length one may come before
``psi``     (h, w) or (1, h, w)            object
=========== ============================== =============================================================

Signs: probe positions, increasing with the object's row and column. A probe whose middle ``(H//2, W//2)`` is
on that of the object, ``(h/2, w/2)``, has the position ``(h/2 − H//2, w/2 − W//2)``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ptycho.readers.archive import Archive
from ptycho.readers.npz import NpzArchive
from ptycho.readers.places import place_scan
from ptycho.readers.raw_scan import RawScan, ReadOptions, middle_of
from ptycho.readers.values import find_domain, read_array, read_object, read_probe

NAME = "tike"


def detect(file: Archive) -> bool:
    return file.holds("data") and file.holds("scan")


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from such a file; other positions may be in a second one."""
    options.refuse_unused(path, NAME, "unit", "positions_file")
    with NpzArchive(path, options) as file:
        there = file.require("data", "scan")
        source = file.patterns("data") if there else None
        positions = _scan(file) if there else None
        object_ = None if options.positions_file else read_object(file, "psi")
        unit = options.unit or "px"
        centre = None
        if source is not None and object_ is not None and unit == "px":
            centre = middle_of(object_, np.array(source.shape[1:]) // 2)
        file.notes.append("positions are those of the probe's first sample")
        values = {
            "domain": find_domain(file, source, "intensity"),
            "zero_frequency": "corner",
            "probe": read_probe(file, "probe"),
            "object": object_,
            "object_centre_m": centre,
        }
        listed = None if positions is None else (positions, unit)
        return place_scan(file, NAME, options, source, values, lambda: listed)


def _scan(file: Archive) -> np.ndarray | None:
    """``scan`` as it is, ``(J, 2)`` float64."""
    scan = read_array(file, "scan", needed=True, finite=False)
    if scan is not None and scan.ndim == 3 and len(scan) == 1:
        scan = scan[0]
    if scan is not None and (scan.ndim != 2 or scan.shape[1] != 2):
        file.complain(f"scan has shape {scan.shape}; must be (J, 2), or (1, J, 2) of a file with one scan")
        return None
    return None if scan is None else scan.astype(np.float64)
