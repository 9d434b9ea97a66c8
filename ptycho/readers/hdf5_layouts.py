"""The prepared data of ptypy, ``.ptyd``.

``chunks/<i>`` hold intensities, positions **(y, x)** of the probe and weights, zero where a pixel does not
count; a chunk may lie in a part file, an external link. ``meta/center`` is (row, col) of the zero frequency,
or ``fftshift``: (H//2, W//2), ``geometric``: between the middle pixels, ``fft``: sample 0. ``info``, the
parameters of the preparation, stands in for what ``meta`` lacks. Signs are those of the loader that prepared
the data. Source: ptypy, ``doc/rst/ptyd.rst`` and ``utils/array_utils.py``.

HDF5 of PtyLab (``preprocess`` scripts; PtyLab.py, PtyLab.m).

``encoder`` is **(y, x)** of the probe, increasing with the object's row and column; ``zo`` the distance,
``dxd`` the pitch. ``orientation``, 0 to 7, is how PtyLab turns its patterns: 4 transposes, then 2 flips rows
and 1 columns; a warning names the keys that do it. Files of Fourier ptychography have the same keys, with
lamps in place of positions: they are refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ptycho.files.opening import FileError
from ptycho.readers.archive import Archive
from ptycho.readers.layout import Layout
from ptycho.readers.patterns import Patterns
from ptycho.readers.positions import Placement, in_axes, read_rows
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.values import check_centre, read_plain

CENTRES = {"fftshift": "centre", "fft": "corner"}


def _chunks(file: Archive) -> list[str]:
    """The chunks that hold patterns, by their numbers."""
    chunks = []
    for name in sorted(file.children("chunks"), key=lambda name: (len(name), name)):
        file.require(f"chunks/{name}/data")
        data = file.entry(f"chunks/{name}/data")
        if data is not None and 0 not in (data.shape or (0,)):
            chunks.append(f"chunks/{name}")
    if not chunks:
        raise FileError(f"chunks holds no patterns; it has {file.listed()}")
    return chunks


def _positions(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    placements = []
    for chunk in _chunks(file):
        data, key = file.entry(f"{chunk}/data"), f"{chunk}/positions"
        count = data.shape[0] if data and data.shape else 0
        listed = read_rows(file, file.need("positions", key), options, (count,))
        if len(listed.positions) != count:
            wanted = f"must be ({count}, 2), a line for each pattern"
            raise FileError(f"{key} holds {len(listed.positions)} positions; {wanted}")
        placements.append(listed)
    unit, many = placements[0].unit, len(placements)
    file.notes.append(f"positions: of {many} chunks, row is y, col is x, the probe's, in {unit}")
    return Placement(np.concatenate([listed.positions for listed in placements]), unit)


def _numbers(file: Archive) -> Layout:
    """Where numbers are; what ptypy left open is there as the word None."""

    def keys(name: str) -> tuple[str, ...]:
        both = (f"{group}/{name}" for group in ("meta", "info"))
        return tuple(key for key in both if file.holds(key) and file.text(key) is None)

    return replace(PTYD, energy=keys("energy"), distance=keys("distance"), pixel=keys("psize")[:1])


def _more(file: Archive, source: Patterns, values: dict[str, Any]) -> dict[str, Any]:
    propagation = file.text("meta/propagation") or file.text("info/propagation")
    if propagation not in (None, "farfield"):
        file.warnings.append(f"propagation={propagation}: only the far field is reconstructed here")
    good = values["good"]
    return {"zero_frequency": _centre(file, source), "good": _own_weights(file) if good is None else good}


def _centre(file: Archive, source: Patterns) -> str | tuple[float, float] | None:
    word = file.text("meta/center")
    if word == "geometric":
        return (source.shape[1] - 1) / 2, (source.shape[2] - 1) / 2
    centre = file.read("meta/center") if word is None else None
    if centre is None or centre.size not in (1, 2):
        return CENTRES.get(str(word))
    row, col = np.broadcast_to(centre.astype(np.float64).ravel(), 2)
    return check_centre(file, source, float(row), float(col))


def _own_weights(file: Archive, most: int = 4) -> np.ndarray | None:
    """Return the weights of the first patterns of ``most`` chunks, where each pattern has its own."""
    chunks = _chunks(file)
    keys = [f"{chunk}/weights" for chunk in chunks[:: max(1, len(chunks) // most)]]
    there = [key for key in keys if (entry := file.entry(key)) and entry.shape and len(entry.shape) == 3]
    weights = [file.patterns(key).read(slice(0, 1))[0] for key in there]
    if not weights:
        return None
    file.notes.append(f"mask: weights of the first pattern of {', '.join(there)}")
    return np.logical_and.reduce([weight != 0 for weight in weights])


PTYD = Layout(
    name="ptyd",
    detect=lambda file: file.holds("chunks", "meta"),
    patterns=lambda file: file.patterns(*(f"{chunk}/data" for chunk in _chunks(file))),
    domain="intensity",
    energy_unit="keV",
    masks=dict.fromkeys(("meta/weight2d", "common/weight2d", "info/weight2d"), "good"),
    positions=_positions,
    variant=_numbers,
    more=_more,
    options=("unit",),
)


FOURIER = ("magnification", "NA", "Nled", "zled")
TURNS = {4: "data.transpose=true", 2: "data.flip_rows=true", 1: "data.flip_cols=true"}


def _encoder(file: Archive, options: ReadOptions, source: Patterns) -> Placement:
    placement = read_rows(file, file.need("positions", "encoder"), options, source.counts)
    return in_axes(file, "encoder", placement, options, ", the probe's")


def _ptylab_check(file: Archive, source: Patterns, values: dict[str, Any]) -> dict[str, Any]:
    lamps = [key for key in FOURIER if file.holds(key)]
    if "zled" in lamps or len(lamps) > 1:
        raise FileError(f"has {', '.join(lamps)}: Fourier ptychography, which is not read")
    code = int(read_plain(file, "orientation") or 0)
    if 0 < code < 8:
        keys = " ".join(key for bit, key in TURNS.items() if code & bit)
        file.warnings.append(f"orientation is {code}: PtyLab turns the patterns; add {keys}")
    return {}


PTYLAB = Layout(
    name="ptylab",
    detect=lambda file: file.holds("ptychogram", "encoder"),
    patterns=("ptychogram",),
    domain="intensity",
    zero_frequency="centre",
    wavelength=("wavelength",),
    distance=("zo",),
    pixel=("dxd",),
    positions=_encoder,
    more=_ptylab_check,
    options=("unit", "axes"),
)
