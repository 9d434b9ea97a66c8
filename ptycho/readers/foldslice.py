"""HDF5 of fold_slice and PtychoShelves, and the pairs ``<name>_dp.hdf5``, ``<name>_para.hdf5`` of ptycho-vit.

``dp`` are intensities; ``ppX``, ``ppY`` column and row of the probe in metres, as ptychodus writes them.
fold_slice itself turns both signs; with intensities alone, that gives the object's twin and nothing else.
``diffraction/dp`` in eight bits is of holoptycho: amplitudes whose zero frequency is not stated.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.layout import Layout
from ptycho.readers.positions import Placement, read_columns
from ptycho.readers.ptychodus import has_positions, is_product
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.values import find_domain

PP = ("ppY", "ppX")
PATTERNS = ("dp", "diffraction/dp")


def complete(path: Path, options: ReadOptions) -> ReadOptions:
    """Name the other file of a pair, if nothing else is named and it is beside the first."""
    if options.positions_file or options.patterns_file:
        return options
    if beside := _beside(path, "_dp", "_para"):
        return replace(options, positions_file=str(beside))
    beside = _beside(path, "_para", "_dp")
    return replace(options, patterns_file=str(beside)) if beside else options


def _beside(path: Path, ending: str, other: str) -> Path | None:
    """``<name><other>.hdf5`` beside ``<name><ending>.hdf5``, if it is there."""
    candidate = path.with_name(path.stem.removesuffix(ending) + other + path.suffix)
    return candidate if path.stem.endswith(ending) and candidate.is_file() else None


def read_positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement | None:
    """Read column and row of the probe on the object."""
    if not file.holds(*PP):
        file.complain(f"lacks ppX and ppY; add data.positions_file=; it has {file.listed()}")
        return None
    return read_columns(file, PP, options, source)


def _domain(file: Archive, source: Patterns) -> str | None:
    """Eight bits are holoptycho's amplitudes under its key, and may be so under the other."""
    if source.dtype != "uint8":
        return find_domain(file, source, "intensity" if source.key == "dp" else None)
    if source.key == "dp":
        file.warnings.append("dp is uint8: counts, or amplitudes as holoptycho writes them; add data.domain=")
        return None
    file.notes.append(f"patterns are amplitude: {source.key} in eight bits is of holoptycho")
    return "amplitude"


LAYOUT = Layout(
    name="foldslice",
    detect=lambda file: (
        file.holds_any(*PATTERNS) or file.holds(*PP) or (has_positions(file) and not is_product(file))
    ),
    patterns=PATTERNS,
    domain=_domain,
    positions=read_positions,
    more=lambda file, source, values: {"zero_frequency": "centre" if file.holds("dp") else None},
)
