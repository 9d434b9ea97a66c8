"""NPZ files of tike (AdvancedPhotonSource/tike), as its examples and tests keep them.

=========== ============================== =============================================================
``data``    (J, H, W), or (1, J, H, W)     intensities; **zero frequency in the corner**, at sample 0
``scan``    (J, 2), or (1, J, 2)           **(row, col) of the probe's first sample**, in pixels of ``psi``
``probe``   (1, 1, K, H, W)                K modes; one more axis of length one may come before
``psi``     (h, w) or (1, h, w)            object
=========== ============================== =============================================================

Signs: probe positions, increasing with the object's row and column. Where there is an object, positions are
given for the probe's centre from the object's middle, ``scan + (H//2, W//2) − (h/2, w/2)``; otherwise they
are ``scan``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ptycho.files.npz import Archive, Header, NpzError
from ptycho.readers.scans.domain import told_domain
from ptycho.readers.scans.npz_arrays import Arrays, flattened, only, opened, places, same_number
from ptycho.readers.scans.npz_patterns import NpzPatterns
from ptycho.readers.scans.raw_scan import RawScan, ReadOptions

NAME = "tike"


def detect(archive: Archive) -> bool:
    return {"data", "scan"} <= set(archive.keys)


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from such a file.

    Raises:
        ConfigError: one line with what is missing or does not fit.
    """
    only(path, NAME, options, "unit")
    with opened(path) as arrays:
        arrays.require(["data", "scan"])
        positions, header = _scan(arrays), _data(arrays)
        same_number(header, len(positions))
        patterns = NpzPatterns(path, header)
        object_ = arrays.object("psi")
        unit = options.unit or "px"
        if object_ is None or unit != "px":
            arrays.notes.append("positions are those of the probe's first sample")
        else:
            positions = positions + np.array(patterns.shape[1:]) // 2 - np.array(object_.shape) / 2
            arrays.notes.append("positions are given for the probe's centre, from the middle of psi")
        domain, reason = told_domain(patterns.dtype, patterns.blocks())
        if domain is None:
            domain, reason = "intensity", "the format says so"
        return RawScan(
            format=NAME,
            patterns=patterns,
            domain=domain,
            zero_frequency="corner",
            positions=positions,
            unit=unit,
            probe=arrays.probe("probe"),
            object=object_,
            object_centre_m=None if object_ is None or unit != "px" else (0.0, 0.0),
            notes=(f"{domain}: {reason}", *arrays.notes),
            warnings=tuple(arrays.warnings),
        )


def _scan(arrays: Arrays) -> np.ndarray:
    """``scan`` as it is, ``(J, 2)``."""
    scan = arrays.finite("scan")
    if scan.ndim == 3 and len(scan) == 1:
        scan = scan[0]
    if scan.ndim != 2 or scan.shape[1] != 2:
        raise NpzError(f"scan has shape {scan.shape}; must be (J, 2), or (1, J, 2) of a file with one scan")
    return places(scan[:, 0], scan[:, 1], ("scan[:, 0]", "scan[:, 1]"))


def _data(arrays: Arrays) -> Header:
    """The member ``data`` as ``(J, H, W)``."""
    header = arrays.header("data")
    if len(header.shape) == 4 and header.shape[0] != 1:
        raise NpzError(f"data {header.shape} holds {header.shape[0]} scans; write each to a file of its own")
    return flattened(header)
