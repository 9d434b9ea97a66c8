"""A run's own datasets, ``datasets/N*/gs*/<role>.npz``: written by :func:`to_arrays`, read back here."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptycho.datasets.measurement import (
    Measurement,
    list_keys,
    read_headers,
    read_into,
    read_statistics,
    refuse,
)
from ptycho.files.npz import Header, NpzFile
from ptycho.scan.dataset import Dataset
from ptycho.scan.dataset_checks import dark_frames, problems, shape_problems
from ptycho.scan.tiling import Tiling

NPZ_FORMAT = 1


def to_arrays(data: Dataset) -> dict[str, np.ndarray]:
    """A dataset as an NPZ holds it: its attributes, the strongest mode ``(N, N)``, ``tiling``, ``format``."""
    names = ("amplitudes", "positions", "image", "groups", "photon_scale", "object_size", "region_size")
    arrays = {key: np.asarray(getattr(data, key)) for key in names} | {"probe": data.probe[0]}
    if data.objects is not None:
        arrays["objects"] = data.objects
    if data.good is not None:
        arrays["good"] = data.good
    if data.exact:
        arrays["exact"] = np.asarray(True)
    return arrays | {"tiling": np.asarray(data.tiling), "format": np.asarray(NPZ_FORMAT)}


SCALARS = ("format", "photon_scale", "object_size", "region_size", "exact")
OWN: dict[str, tuple[str, Any]] = {  # NumPy's kinds that are accepted, and what they become
    "format": ("iu", int),
    "amplitudes": ("fiu", np.float32),
    "positions": ("fiu", np.float32),
    "image": ("iu", np.int32),
    "groups": ("iu", np.int32),
    "probe": ("cfiu", np.complex64),
    "photon_scale": ("fiu", float),
    "object_size": ("iu", int),
    "region_size": ("iu", int),
    "objects": ("cfiu", np.complex64),
    "tiling": ("iu", int),
    "good": ("b", bool),
    "exact": ("b", bool),
}
OPTIONAL = ("objects", "tiling", "good", "exact")  # the truth may be unknown; early runs stated no tiling


def read_own(archive: NpzFile, probe: np.ndarray | None) -> Measurement:
    """The format of :func:`to_arrays`; what is ``OPTIONAL`` may be left out."""
    found = [f"{key} is an unknown key" for key in archive.keys if key not in OWN]
    missing = [key for key in OWN if key not in archive.keys and key not in OPTIONAL]
    if missing:
        found.append(f"lacks {', '.join(missing)} (it has {list_keys(archive)})")
    headers = read_headers(archive, {key: kinds for key, (kinds, _) in OWN.items()}, found)
    values = _scalars(archive, headers, found)
    if values.pop("format", NPZ_FORMAT) != NPZ_FORMAT:
        found.append(f"format must be {NPZ_FORMAT}; the file comes from another version")
    shapes = {key: header.shape for key, header in headers.items() if key not in SCALARS}
    wrong = shape_problems(shapes, values.get("object_size", 0))
    found += wrong.values()
    for key in shapes.keys() - wrong.keys() - {"amplitudes"}:  # a wrong shape is not worth its memory
        read_into(values, archive, headers[key], key, OWN[key][1], found)
    tiling = values.pop("tiling", None)
    statistics = read_statistics(archive, headers.get("amplitudes"), found)
    found += _tiling_problems(tiling, values.get("object_size"))
    found += problems(values, None if wrong else shapes.get("amplitudes"), statistics)
    if not found and statistics is not None:
        found = dark_frames(values, statistics, counts=True)
    refuse(found)
    assert statistics is not None  # it is among the problems otherwise
    values["stated_tiling"] = None if tiling is None else Tiling(*tiling.tolist())
    return Measurement(archive.path, "amplitudes", values, statistics)


def _tiling_problems(tiling: np.ndarray | None, object_size: int | None) -> list[str]:
    if tiling is None or object_size is None:
        return []
    pitch, top, left, height, width = tiling.tolist()
    inside = min(top, left) >= 0 and max(top + height, left + width) <= object_size
    if pitch >= 1 and min(height, width) >= 1 and inside:
        return []
    return [
        f"tiling is {tiling.tolist()}; must be (pitch, top, left, height, width), a rectangle inside the "
        f"object of {object_size} × {object_size} pixels"
    ]


def _scalars(archive: NpzFile, headers: dict[str, Header], found: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key in SCALARS:
        if key in headers and headers[key].shape:
            found.append(f"{key} has shape {headers[key].shape}; must be one number")
        elif key in headers:
            read_into(values, archive, headers[key], key, None, found)
            values |= {key: OWN[key][1](values[key])} if key in values else {}
    return values
