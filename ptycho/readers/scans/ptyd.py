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

import h5py
import numpy as np

from ptycho.readers.scans.hdf5 import Hdf5File, has, opened
from ptycho.readers.scans.hdf5_patterns import Hdf5Patterns, domain_of, patterns
from ptycho.readers.scans.hdf5_scan import centre_of, good_of, only, scan, table
from ptycho.readers.scans.hdf5_storage import LOOKED_AT
from ptycho.readers.scans.hdf5_values import number, raw, text
from ptycho.readers.scans.ptylab import pixels_at
from ptycho.readers.scans.quantities import DISTANCE, ENERGY
from ptycho.readers.scans.raw_scan import RawScan, ReadOptions

NAME = "ptyd"
CENTRES = {"fftshift": "centre", "fft": "corner"}


def detect(file: h5py.File) -> bool:
    return has(file, "chunks") and has(file, "meta")


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from such a file and its parts.

    Raises:
        ConfigError: one line with what is missing or does not fit.
    """
    only(path, NAME, options, "unit")
    with opened(path, options.stated) as file:
        chunks = _chunks(file)
        source = patterns(file, *[f"{chunk}/data" for chunk in chunks])
        positions = _positions(file, options, chunks, source)
        said = text(file, "meta/propagation") or text(file, "info/propagation")
        if said not in (None, "farfield"):
            file.warnings.append(f"propagation={said}: only the far field is reconstructed here")
        return scan(file, NAME, source, positions, _values(file, chunks, source))


def _chunks(file: Hdf5File) -> list[str]:
    """The chunks that hold patterns, by their numbers."""
    group = file.node("chunks")
    names = sorted(group, key=lambda name: (len(name), name)) if isinstance(group, h5py.Group) else []
    found = []
    for name in names:
        chunk = f"chunks/{name}"
        data = file.dataset(f"{chunk}/data")
        if data is None and not file.problems:
            file.complain(f"{chunk} lacks data")
        elif data is not None and data.size:
            found.append(chunk)
    if not found and not file.problems:
        file.complain(f"chunks holds no patterns; it has {file.listed()}")
    return found


def _positions(
    file: Hdf5File, options: ReadOptions, chunks: list[str], source: Hdf5Patterns | None
) -> tuple[np.ndarray, str] | None:
    if source is None:
        return None
    found = []
    for chunk in chunks:
        data = file.dataset(f"{chunk}/data")
        count = 0 if data is None else data.shape[0]
        if file.need("positions", f"{chunk}/positions"):
            found.append(table(file, f"{chunk}/positions", options, count))
    known = [entry for entry in found if entry is not None]
    if len(known) < len(chunks):
        return None
    unit = known[0][1]
    file.notes.append(f"positions: of {len(chunks)} chunks, row is y, col is x, the probe's, in {unit}")
    return np.concatenate([entry[0] for entry in known]), unit


def _values(file: Hdf5File, chunks: list[str], source: Hdf5Patterns | None) -> dict[str, Any]:
    return {
        "domain": domain_of(file, source, "intensity"),
        "zero_frequency": _centre(file, source),
        "energy_eV": number(file, ENERGY, "keV", *_keys(file, "energy")),
        "distance_m": number(file, DISTANCE, "m", *_keys(file, "distance")),
        "detector_pixel_m": _pixel(file),
        "good": _good(file, chunks, source),
    }


def _keys(file: Hdf5File, name: str) -> list[str]:
    """Where a number may be; what ptypy left open is there as the word None."""
    keys = [f"{group}/{name}" for group in ("meta", "info")]
    return [key for key in keys if has(file.file, key) and text(file, key) is None]


def _pixel(file: Hdf5File) -> tuple[float, float] | None:
    keys = _keys(file, "psize")
    return pixels_at(file, keys[0]) if keys else None


def _centre(file: Hdf5File, source: Hdf5Patterns | None) -> str | tuple[float, float] | None:
    word = text(file, "meta/center")
    if word in CENTRES or source is None:
        return CENTRES.get(str(word))
    if word == "geometric":
        return (source.shape[1] - 1) / 2, (source.shape[2] - 1) / 2
    found = raw(file, "meta/center", "fiu") if word is None else None
    if found is None or found.size not in (1, 2):
        return None
    row, col = np.broadcast_to(found.astype(np.float64).ravel(), 2)
    return centre_of(file, (float(row), float(col)), source)


def _good(file: Hdf5File, chunks: list[str], source: Hdf5Patterns | None) -> np.ndarray | None:
    """By the weights of all patterns; of each pattern's own, those of a few chunks' first patterns."""
    if source is None:
        return None
    common = file.first("meta/weight2d", "common/weight2d", "info/weight2d")
    good = good_of(file, common, "good")
    some = chunks[:: max(1, len(chunks) // LOOKED_AT)]
    own = [file.dataset(f"{chunk}/weights") for chunk in some]
    shown = [w[0] if w.ndim == 3 else w[()] for w in own if w is not None and w.size and w.ndim in (2, 3)]
    if good is not None or not shown:
        return good
    masks = np.array([mask != 0 for mask in shown])
    if (masks != masks[0]).any() or any(w is not None and w.ndim == 3 for w in own):
        file.notes.append(f"mask: weights of the first pattern of {', '.join(some)}")
    return np.asarray(masks.all(axis=0))
