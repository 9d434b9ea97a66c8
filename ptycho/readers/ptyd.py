"""The prepared data of ptypy, ``.ptyd``.

=========================== =============== ==================================================================
``chunks/<i>/data``         (M, H, W)       intensities; a chunk may lie in a part file, an external link
``chunks/<i>/positions``    (M, 2) metres   **(y, x)** of the probe on the object
``chunks/<i>/weights``      (M, H, W)       nought where a pixel does not count; or empty
``meta/weight2d``           (H, W)          the same for all patterns
``meta/energy``             keV
``meta/distance``           metres
``meta/psize``              metres          of the detector; one number, or (y, x)
``meta/center``             pixels          (row, col) of the zero frequency; or ``fftshift``: (H//2, W//2),
                                            ``geometric``: between the middle pixels, ``fft``: sample 0
``meta/propagation``        text            ``farfield``
=========================== =============== ==================================================================

``info``, the parameters of the preparation, stands in for what ``meta`` lacks. Signs are those of the loader
that prepared the data. Source: ptypy, ``doc/rst/ptyd.rst`` and ``utils/array_utils.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ptycho.readers.archive import Archive, Patterns
from ptycho.readers.hdf5 import Hdf5Archive
from ptycho.readers.hdf5_storage import LOOKED_AT
from ptycho.readers.positions import Positions, make_scan, read_rows
from ptycho.readers.quantities import DISTANCE
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.values import (
    check_centre,
    find_domain,
    read_energy,
    read_good,
    read_number,
    read_pitch,
)

NAME = "ptyd"
CENTRES = {"fftshift": "centre", "fft": "corner"}


def detect(file: Archive) -> bool:
    return file.holds("chunks") and file.holds("meta")


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from such a file and its parts."""
    options.refuse_unused(path, NAME, "unit")
    with Hdf5Archive(path, options) as file:
        chunks = _chunks(file)
        source = file.patterns(*[f"{chunk}/data" for chunk in chunks])
        positions = _positions(file, options, chunks, source)
        said = file.text("meta/propagation") or file.text("info/propagation")
        if said not in (None, "farfield"):
            file.warnings.append(f"propagation={said}: only the far field is reconstructed here")
        return make_scan(file, NAME, options, source, positions, _values(file, chunks, source))


def _chunks(file: Archive) -> list[str]:
    """The chunks that hold patterns, by their numbers."""
    found = []
    for name in sorted(file.children("chunks"), key=lambda name: (len(name), name)):
        chunk = f"chunks/{name}"
        data = file.entry(f"{chunk}/data")
        if data is None and not file.problems:
            file.complain(f"{chunk} lacks data")
        elif data is not None and 0 not in (data.shape or (0,)):
            found.append(chunk)
    if not found and not file.problems:
        file.complain(f"chunks holds no patterns; it has {file.listed()}")
    return found


def _positions(
    file: Archive, options: ReadOptions, chunks: list[str], source: Patterns | None
) -> Positions | None:
    if source is None:
        return None
    found = []
    for chunk in chunks:
        data, key = file.entry(f"{chunk}/data"), f"{chunk}/positions"
        if data and data.shape and file.need("positions", key):
            found.append(read_rows(file, key, options, data.shape[:1]))
            if found[-1] is not None and len(found[-1][0]) != data.shape[0]:
                wanted = f"must be ({data.shape[0]}, 2), a line for each pattern"
                file.complain(f"{key} holds {len(found[-1][0])} positions; {wanted}")
    known = [entry for entry in found if entry is not None]
    if len(known) < len(chunks):
        return None
    unit = known[0][1]
    file.notes.append(f"positions: of {len(chunks)} chunks, row is y, col is x, the probe's, in {unit}")
    return np.concatenate([entry[0] for entry in known]), unit


def _values(file: Hdf5Archive, chunks: list[str], source: Patterns | None) -> dict[str, Any]:
    return {
        "domain": find_domain(file, source, "intensity"),
        "zero_frequency": _centre(file, source),
        "energy_eV": read_energy(file, "keV", _keys(file, "energy")),
        "distance_m": read_number(file, DISTANCE, "m", *_keys(file, "distance")),
        "detector_pixel_m": read_pitch(file, next(iter(_keys(file, "psize")), None)),
        "good": _good(file, chunks, source),
    }


def _keys(file: Archive, name: str) -> list[str]:
    """Where a number may be; what ptypy left open is there as the word None."""
    keys = [f"{group}/{name}" for group in ("meta", "info")]
    return [key for key in keys if file.holds(key) and file.text(key) is None]


def _centre(file: Archive, source: Patterns | None) -> str | tuple[float, float] | None:
    word = file.text("meta/center")
    if word in CENTRES or source is None:
        return CENTRES.get(str(word))
    if word == "geometric":
        return (source.shape[1] - 1) / 2, (source.shape[2] - 1) / 2
    found = file.read("meta/center") if word is None else None
    if found is None or found.size not in (1, 2):
        return None
    row, col = np.broadcast_to(found.astype(np.float64).ravel(), 2)
    return check_centre(file, source, float(row), float(col))


def _good(file: Hdf5Archive, chunks: list[str], source: Patterns | None) -> np.ndarray | None:
    """By the weights of all patterns; of each pattern's own, those of a few chunks' first patterns."""
    common = file.first("meta/weight2d", "common/weight2d", "info/weight2d")
    good = read_good(file, common, "good")
    if source is None or good is not None:
        return good
    some = chunks[:: max(1, len(chunks) // LOOKED_AT)]
    own = [file.dataset(f"{chunk}/weights") for chunk in some]
    shown = [w[0] if w.ndim == 3 else w[()] for w in own if w is not None and w.size and w.ndim in (2, 3)]
    if not shown:
        return None
    masks = np.array([mask != 0 for mask in shown])
    if (masks != masks[0]).any() or any(w is not None and w.ndim == 3 for w in own):
        file.notes.append(f"mask: weights of the first pattern of {', '.join(some)}")
    return np.asarray(masks.all(axis=0))
