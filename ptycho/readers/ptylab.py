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

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.hdf5 import Hdf5Archive
from ptycho.readers.positions import Positions, make_scan, read_rows
from ptycho.readers.quantities import DISTANCE
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.values import find_domain, read_energy, read_number, read_pitch, read_plain

NAME = "ptylab"
FOURIER = ("magnification", "NA", "Nled", "zled")
TURNS = {4: "data.transpose=true", 2: "data.flip_rows=true", 1: "data.flip_cols=true"}


def detect(file: Archive) -> bool:
    return file.holds("ptychogram") and file.holds("encoder")


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from such a file."""
    options.refuse_unused(path, NAME, "unit", "axes")
    with Hdf5Archive(path, options) as file:
        lamps = [key for key in FOURIER if file.holds(key)]
        if "zled" in lamps or len(lamps) > 1:
            file.complain(f"has {', '.join(lamps)}: Fourier ptychography, which is not read")
        source = file.patterns(file.need("patterns", "ptychogram"))
        positions = _positions(file, options, source)
        _warn_of_turns(file)
        values = {
            "domain": find_domain(file, source, "intensity"),
            "zero_frequency": "centre",
            "energy_eV": read_energy(file, "eV", (), ("wavelength",)),
            "distance_m": read_number(file, DISTANCE, "m", "zo"),
            "detector_pixel_m": read_pitch(file, "dxd"),
        }
        return make_scan(file, NAME, options, source, positions, values)


def _positions(file: Archive, options: ReadOptions, source: Patterns | None) -> Positions | None:
    key = file.need("positions", "encoder")
    found = None if key is None or source is None else read_rows(file, key, options, source.counts)
    if found is None:
        return None
    turned = options.axes == "xy"
    order = "col, row" if turned else "row, col"
    file.notes.append(f"positions: encoder is ({order}), the probe's, in {found[1]}")
    return (found[0][:, ::-1] if turned else found[0]), found[1]


def _warn_of_turns(file: Archive) -> None:
    """Patterns are given as they are stored; PtyLab would turn them."""
    code = int(read_plain(file, "orientation") or 0)
    if 0 < code < 8:
        keys = " ".join(key for bit, key in TURNS.items() if code & bit)
        file.warnings.append(f"orientation is {code}: PtyLab turns the patterns; add {keys}")
