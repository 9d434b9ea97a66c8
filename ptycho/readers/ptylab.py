"""HDF5 of PtyLab (``preprocess`` scripts; PtyLab.py, PtyLab.m).

``encoder`` is **(y, x)** of the probe, increasing with the object's row and column; ``zo`` the distance,
``dxd`` the pitch. ``orientation``, 0 to 7, is how PtyLab turns its patterns: 4 transposes, then 2 flips rows
and 1 columns; a warning names the keys that do it. Files of Fourier ptychography have the same keys, with
lamps in place of positions: they are refused.
"""

from __future__ import annotations

from typing import Any

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.layout import Layout
from ptycho.readers.positions import Placement, in_axes, read_rows
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.values import read_plain

FOURIER = ("magnification", "NA", "Nled", "zled")
TURNS = {4: "data.transpose=true", 2: "data.flip_rows=true", 1: "data.flip_cols=true"}


def _positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement | None:
    placement = read_rows(file, file.need("positions", "encoder"), options, source.counts)
    return None if placement is None else in_axes(file, "encoder", placement, options, ", the probe's")


def _check(file: Archive, source: Patterns | None, values: dict[str, Any]) -> dict[str, Any]:
    lamps = [key for key in FOURIER if file.holds(key)]
    if "zled" in lamps or len(lamps) > 1:
        file.complain(f"has {', '.join(lamps)}: Fourier ptychography, which is not read")
    code = int(read_plain(file, "orientation") or 0)
    if 0 < code < 8:
        keys = " ".join(key for bit, key in TURNS.items() if code & bit)
        file.warnings.append(f"orientation is {code}: PtyLab turns the patterns; add {keys}")
    return {}


LAYOUT = Layout(
    name="ptylab",
    detect=lambda file: file.holds("ptychogram", "encoder"),
    patterns=("ptychogram",),
    domain="intensity",
    zero_frequency="centre",
    wavelength=("wavelength",),
    distance=("zo",),
    pixel=("dxd",),
    positions=_positions,
    more=_check,
    options=("unit", "axes"),
)
