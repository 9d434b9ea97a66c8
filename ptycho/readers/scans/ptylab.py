"""HDF5 of PtyLab (``preprocess`` scripts; PtyLab.py, PtyLab.m).

=========================== =============== ==================================================================
``ptychogram``              (J, H, W)       counts, zero frequency in the centre
``encoder``                 (J, 2) metres   **(y, x)** of the probe on the object
``wavelength``              metres
``zo``                      metres          from object to detector
``dxd``                     metres          pitch of the detector; one number, or (y, x)
``emptyBeam``               (H, W)          the beam without a sample; not read
``orientation``             0 to 7          how PtyLab turns its patterns: 4 transposes, then 2 flips rows and
                                            1 columns. Not applied; a warning names the keys that do it
=========================== =============== ==================================================================

Signs: the probe's, increasing with the object's row and column. Files of Fourier ptychography have the same
keys, with lamps in place of positions: they are refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.readers.scans.hdf5 import Hdf5File, has, opened
from ptycho.readers.scans.hdf5_patterns import Hdf5Patterns, domain_of, patterns
from ptycho.readers.scans.hdf5_scan import only, scan, table
from ptycho.readers.scans.hdf5_values import energy_of, number, raw
from ptycho.readers.scans.quantities import DISTANCE, PIXEL, WAVELENGTH
from ptycho.readers.scans.raw_scan import RawScan, ReadOptions

NAME = "ptylab"
FOURIER = ("magnification", "NA", "Nled", "zled")
TURNS = {4: "data.transpose=true", 2: "data.flip_rows=true", 1: "data.flip_cols=true"}


def detect(file: h5py.File) -> bool:
    return has(file, "ptychogram") and has(file, "encoder")


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from such a file.

    Raises:
        ConfigError: one line with what is missing or does not fit.
    """
    only(path, NAME, options, "unit", "axes")
    with opened(path, options.stated) as file:
        lamps = [key for key in FOURIER if has(file.file, key)]
        if "zled" in lamps or len(lamps) > 1:
            file.complain(f"has {', '.join(lamps)}: Fourier ptychography, which is not read")
        source = patterns(file, file.need("patterns", "ptychogram"))
        key = file.need("positions", "encoder")
        positions = None if key is None or source is None else table(file, key, options, source.shape[0])
        if positions is not None and options.axes == "xy":
            positions = positions[0][:, ::-1], positions[1]
        if positions is not None:
            order = "col, row" if options.axes == "xy" else "row, col"
            file.notes.append(f"positions: encoder is ({order}), the probe's, in {positions[1]}")
        _warn_of_turns(file)
        return scan(file, NAME, source, positions, _values(file, source))


def _warn_of_turns(file: Hdf5File) -> None:
    """Patterns are given as they are stored; PtyLab would turn them."""
    found = raw(file, "orientation", "fiu")
    code = 0 if found is None or found.size != 1 else int(found.item())
    if 0 < code < 8:
        keys = " ".join(key for bit, key in TURNS.items() if code & bit)
        file.warnings.append(f"orientation is {code}: PtyLab turns the patterns; add {keys}")


def _values(file: Hdf5File, source: Hdf5Patterns | None) -> dict[str, Any]:
    return {
        "domain": domain_of(file, source, "intensity"),
        "zero_frequency": "centre",
        "energy_eV": energy_of(number(file, WAVELENGTH, "m", "wavelength")),
        "distance_m": number(file, DISTANCE, "m", "zo"),
        "detector_pixel_m": pixels_at(file, "dxd"),
    }


def pixels_at(file: Hdf5File, key: str) -> tuple[float, float] | None:
    """(row, col) of a key that holds one length, or both."""
    if (stated := file.stated.get("detector_pixel_m")) is not None:
        return stated, stated
    found = raw(file, key, "fiu")
    if found is not None and found.size > 2:
        file.complain(
            f"{key} has {found.size} values; must be one length, or (row, col); or set data.detector_pixel_m="
        )
        return None
    size = number(file, PIXEL, "m", key)
    if found is None or size is None:
        return None
    row, col = np.broadcast_to(found.astype(np.float64).ravel(), 2) * (size / float(np.median(found)))
    return float(row), float(col)
