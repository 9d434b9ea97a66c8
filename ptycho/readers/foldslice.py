"""HDF5 of fold_slice and PtychoShelves, and the pairs ``<name>_dp.hdf5``, ``<name>_para.hdf5`` of ptycho-vit.

=========================== =============== ================================================================
``dp``                      (J, H, W)       intensities; zero frequency in the centre
``ppX``, ``ppY``            (J,) or a grid  column, row of the probe on the object, metres; in the same file
                                            or in ``<name>_para.hdf5`` beside it
``diffraction/dp``          (J, H, W) uint8 holoptycho: amplitudes; the zero frequency is not stated
in ``<name>_para.hdf5``                     or ``probe_position_x_m``, …, ``probe``, ``object``, see
                                            :mod:`~ptycho.readers.product`
=========================== =============== ================================================================

Signs: the probe's, as ptychodus writes them. fold_slice itself turns both signs; with intensities alone, that
gives the object's twin and nothing else. MATLAB reverses the order of axes: a file of its ``save -v7.3`` is
turned over as it is read, one of its ``h5write`` cannot be determined and holds the detector transposed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.hdf5 import Hdf5Archive
from ptycho.readers.places import PP, place_scan
from ptycho.readers.positions import Positions, read_columns
from ptycho.readers.product import INDEXES, has_energy, has_positions
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.values import find_domain

NAME = "foldslice"
PATTERNS = ("dp", "diffraction/dp")


def detect(file: Archive) -> bool:
    """Patterns of that name, or positions of those names without patterns."""
    alone = all(file.holds(key) for key in PP) or (has_positions(file) and not file.holds(INDEXES))
    return any(file.holds(key) for key in PATTERNS) or (alone and not has_energy(file))


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from one or two such files; either of two may be named."""
    options.refuse_unused(path, NAME, "unit", "positions_file", "patterns_file")
    with Hdf5Archive(path, options) as file:
        if any(file.holds(key) for key in PATTERNS):
            return _read(file, options)
        beside = options.patterns_file or _beside(file.path, "_para", "_dp")
        if beside is None:
            file.complain(f"lacks dp; add data.patterns_file=; it has {file.listed()}")
            file.refuse()
    return read(str(beside), replace(options, patterns_file=None, positions_file=str(path)))


def _read(file: Archive, options: ReadOptions) -> RawScan:
    if options.patterns_file:
        file.complain(f"data.patterns_file={options.patterns_file}: it has patterns itself; remove it")
    key, para = file.first(*PATTERNS), _beside(file.path, "_dp", "_para")
    source = file.patterns(key)
    values: dict[str, Any] = {
        "domain": _domain(file, key, source),
        "zero_frequency": "centre" if key == "dp" else None,
    }
    own = all(file.holds(name) for name in PP)
    if para is not None and not own and options.positions_file is None:
        options = replace(options, positions_file=str(para))
    return place_scan(file, NAME, options, source, values, lambda: _positions(file, options, source, own))


def _positions(file: Archive, options: ReadOptions, source: Patterns | None, own: bool) -> Positions | None:
    if not own:
        file.complain(f"lacks ppX and ppY; add data.positions_file=; it has {file.listed()}")
    return read_columns(file, PP, options, source) if own and source is not None else None


def _domain(file: Archive, key: str | None, source: Patterns | None) -> str | None:
    """Eight bits are holoptycho's amplitudes under its key, and may be so under the other."""
    if source is None or str(source.dtype) != "uint8":
        return find_domain(file, source, "intensity" if key == "dp" else None)
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
