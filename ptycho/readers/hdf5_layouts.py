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

Masters of Dectris detectors (Eiger, Pilatus) with their data in files beside them.

``data_000001`` … (n, H, W) are counts, one after the other, often external links; ``beam_center`` of zero is
not set; in ``pixel_mask`` 0 is good. There are no positions: they come in ``data.positions_file``, or by
``data.keys.positions``. The largest number of the dtype (Pilatus: a negative one) marks gaps and broken
pixels, as in any format.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from ptycho.files.reading import FileError
from ptycho.readers.archive import Archive
from ptycho.readers.layout import Layout
from ptycho.readers.patterns import Incomplete, Patterns
from ptycho.readers.positions import KEYS, Placement, in_axes, read_mapped, read_rows
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
    return {"zero_frequency": _centre(file, source)}


def _centre(file: Archive, source: Patterns) -> str | tuple[float, float] | None:
    word = file.text("meta/center")
    if word == "geometric":
        return (source.shape[1] - 1) / 2, (source.shape[2] - 1) / 2
    centre = file.read("meta/center") if word is None else None
    if centre is None or centre.size not in (1, 2):
        return CENTRES.get(str(word))
    row, col = np.broadcast_to(centre.astype(np.float64).ravel(), 2)
    return check_centre(file, source, float(row), float(col))


def _patterns(file: Archive) -> Patterns:
    """Return the patterns of all chunks, with marks where a pattern's own weight is zero."""
    patterns, weights = ([f"{chunk}/{name}" for chunk in _chunks(file)] for name in ("data", "weights"))
    shapes = [[entry and entry.shape for entry in map(file.entry, keys)] for keys in (patterns, weights)]
    source = file.patterns(*patterns)
    if shapes[0] == shapes[1]:
        return Incomplete(source, file.patterns(*weights))
    if any(shape and len(shape) == 3 for shape in shapes[1]):
        raise FileError(f"weights have shapes {shapes[1]}; must be those of data, {shapes[0]}, or none")
    return source


PTYD = Layout(
    name="ptyd",
    detect=lambda file: file.holds("chunks", "meta"),
    patterns=_patterns,
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


GROUPS = ("entry/data", "entry")
BLOCK = re.compile(r"data_(\d{6})")
DETECTOR = "entry/instrument/detector"
SPECIFIC, BEAM = f"{DETECTOR}/detectorSpecific", "entry/instrument/beam"
BEAM_CENTRE = (f"{DETECTOR}/beam_center_y", f"{DETECTOR}/beam_center_x")


def _blocks(file: Archive) -> list[str]:
    """The keys ``data_000001`` … of the first group that has such, in their order."""
    listed = (
        [f"{group}/{name}" for name in file.children(group) if BLOCK.fullmatch(name)] for group in GROUPS
    )
    return next((keys for keys in listed if keys), [])


def _blocks_in_order(file: Archive) -> Patterns:
    keys = _blocks(file)
    if not keys:
        return file.patterns(file.need("patterns", "entry/data/data", "entry/data/data_000001"))
    numbers = [int(key[-6:]) for key in keys]
    gaps = sorted(set(range(numbers[0], numbers[-1])) - set(numbers))
    if gaps:
        raise FileError(
            f"has {keys[0]} to {keys[-1]}, but not {', '.join(f'data_{k:06d}' for k in gaps[:5])}"
        )
    return file.patterns(*keys)


def _eiger_check(file: Archive, source: Patterns, values: dict[str, Any]) -> dict[str, Any]:
    """Warn of another number of patterns than is announced; return counts at which the detector saturates."""
    images, triggers = read_plain(file, f"{SPECIFIC}/nimages"), read_plain(file, f"{SPECIFIC}/ntrigger")
    if images is not None and images * (triggers or 1) != source.shape[0]:
        file.warnings.append(
            f"the master announces {images * (triggers or 1):g} patterns, and there are {source.shape[0]}"
        )
    limit = read_plain(file, f"{SPECIFIC}/saturation_value", f"{SPECIFIC}/countrate_correction_count_cutoff")
    if limit is None or limit <= 0 or source.dtype.kind not in "iu":
        return {}
    file.notes.append(f"the detector saturates at {limit:g} counts")
    return {"saturation": limit}


def _centre_if_set(file: Archive) -> Layout:
    """Without a centre of zero, which was not set."""
    unset = [read_plain(file, key) for key in BEAM_CENTRE] == [0, 0]
    return replace(EIGER, centre=()) if unset else EIGER


EIGER = Layout(
    name="eiger",
    detect=lambda file: bool(_blocks(file)) or file.holds("entry/data/data", SPECIFIC),
    patterns=_blocks_in_order,
    centre=BEAM_CENTRE,
    energy=(f"{SPECIFIC}/photon_energy", f"{BEAM}/incident_energy"),
    wavelength=(f"{BEAM}/incident_wavelength", f"{DETECTOR}/incident_wavelength"),
    wavelength_unit="angstrom",
    distance=(f"{DETECTOR}/detector_distance", f"{DETECTOR}/distance"),
    pixel=(f"{DETECTOR}/y_pixel_size", f"{DETECTOR}/x_pixel_size"),
    masks={f"{SPECIFIC}/pixel_mask": "bad", f"{DETECTOR}/pixel_mask": "bad"},
    positions=read_mapped,
    variant=_centre_if_set,
    more=_eiger_check,
    options=("keys", "unit", "axes", "positions_file"),
    keys=KEYS,
)
