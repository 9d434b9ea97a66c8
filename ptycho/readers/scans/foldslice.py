"""HDF5 of fold_slice and PtychoShelves, and the pairs ``<name>_dp.hdf5``, ``<name>_para.hdf5`` of ptycho-vit.

=========================== =============== ================================================================
``dp``                      (J, H, W)       intensities; zero frequency in the centre
``ppX``, ``ppY``            (J,) or a grid  column, row of the probe on the object, metres; in the same file
                                            or in ``<name>_para.hdf5`` beside it
``diffraction/dp``          (J, H, W) uint8 holoptycho: amplitudes; the zero frequency is not told
in ``<name>_para.hdf5``                     or ``probe_position_x_m``, …, ``probe``, ``object``, see
                                            :mod:`~ptycho.readers.scans.product_hdf5`
=========================== =============== ================================================================

Signs: the probe's, as ptychodus writes them. fold_slice itself turns both signs; with intensities alone, that
gives the object's twin and nothing else. MATLAB reverses the order of axes: a file that it wrote holds the
detector transposed, its rows along x.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py

from ptycho.readers.scans.hdf5 import Hdf5File, has, opened
from ptycho.readers.scans.hdf5_patterns import Hdf5Patterns, domain_of, patterns
from ptycho.readers.scans.hdf5_scan import columns, only, scan
from ptycho.readers.scans.product_hdf5 import INDEXES, has_energy, has_positions
from ptycho.readers.scans.raw_scan import RawScan, ReadOptions
from ptycho.readers.scans.second_hdf5 import PP, place

NAME = "foldslice"
PATTERNS = ("dp", "diffraction/dp")


def detect(file: h5py.File) -> bool:
    """Patterns of that name, or positions of those names without patterns."""
    alone = all(has(file, key) for key in PP) or (has_positions(file) and not has(file, INDEXES))
    return any(has(file, key) for key in PATTERNS) or (alone and not has_energy(file))


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from one or two such files; either of two may be named.

    Raises:
        ConfigError: one line with what is missing or does not fit.
    """
    only(path, NAME, options, "unit", "axes", "positions_file", "patterns_file")
    with opened(path, options.stated) as file:
        if not any(has(file.file, key) for key in PATTERNS):
            beside = options.patterns_file or _beside(file.path, "_para", "_dp")
            if beside is None:
                file.complain(f"lacks dp; add data.patterns_file=; it has {file.listed()}")
                file.refuse()
            file.close()
            return read(str(beside), replace(options, patterns_file=None, positions_file=str(path)))
        if options.patterns_file:
            file.complain(f"data.patterns_file={options.patterns_file}: it has patterns itself; leave it out")
        return _read(file, options)


def _read(file: Hdf5File, options: ReadOptions) -> RawScan:
    key = file.first(*PATTERNS)
    source = patterns(file, key)
    values: dict[str, Any] = {
        "domain": _domain(file, key, source),
        "zero_frequency": "centre" if key == "dp" else None,
    }
    here = all(has(file.file, name) for name in PP)
    if options.positions_file is None and not here:
        para = _beside(file.path, "_dp", "_para")
        if para is None:
            file.complain(f"lacks ppX and ppY; add data.positions_file=; it has {file.listed()}")
        options = replace(options, positions_file=None if para is None else str(para))
    if options.positions_file is not None:
        placed = place(file, options, source, values)
        source, positions = placed if placed is not None else (source, None)
    else:
        positions = columns(file, PP, options, source) if here and source is not None else None
    return scan(file, NAME, source, positions, values)


def _domain(file: Hdf5File, key: str | None, source: Hdf5Patterns | None) -> str | None:
    """Eight bits are holoptycho's amplitudes under its key, and may be so under the other."""
    if source is None or str(source.dtype) != "uint8":
        return domain_of(file, source, "intensity" if key == "dp" else None)
    if key == "dp":
        file.warnings.append("dp is uint8: counts, or amplitudes as holoptycho writes them; add data.domain=")
        return None
    file.notes.append(f"patterns are amplitude: {key} in eight bits is of holoptycho")
    return "amplitude"


def _beside(path: Path, ending: str, other: str) -> Path | None:
    """``<name><other>.hdf5`` beside ``<name><ending>.hdf5``, if it is there."""
    if not path.stem.endswith(ending):
        return None
    found = path.with_name(path.stem.removesuffix(ending) + other + path.suffix)
    return found if found.is_file() else None
