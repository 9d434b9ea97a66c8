"""Datasets from files of several formats: one validation pass that names every problem, then access by rows.

To add a format: a module with a function ``(archive, probe) → Measurement`` and the keys it knows, and an
entry in :data:`FORMATS`. Never imports TensorFlow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.datasets.measurement import Measurement, Members, list_keys
from ptycho.datasets.published import KEYS, read_published
from ptycho.files.npz import NpzError, NpzFile
from ptycho.scan.dataset import Dataset
from ptycho.scan.dataset_checks import dark_frames, problems, shape_problems
from ptycho.scan.groups import Tiling
from ptycho.scan.patterns import Patterns

NPZ_FORMAT = 1
SCALARS = {
    "format": ("iu", int),
    "photon_scale": ("fiu", float),
    "object_size": ("iu", int),
    "region_size": ("iu", int),
    "exact": ("b", bool),
}
OWN: dict[str, tuple[str, Any]] = SCALARS | {  # NumPy's kinds that are accepted, and what they become
    "amplitudes": ("fiu", np.float32),
    "positions": ("fiu", np.float32),
    "image": ("iu", np.int32),
    "groups": ("iu", np.int32),
    "probe": ("cfiu", np.complex64),
    "objects": ("cfiu", np.complex64),
    "tiling": ("iu", int),
    "good": ("b", bool),
}
OPTIONAL = ("objects", "tiling", "good", "exact")  # the truth may be unknown; early runs stated no tiling


def to_arrays(data: Dataset) -> dict[str, np.ndarray]:
    """Return a dataset as in an NPZ: attributes, the strongest mode ``(N, N)``, ``tiling``, ``format``."""
    stated = {"probe": data.probe[0], "format": NPZ_FORMAT, "exact": data.exact or None}
    values = {key: stated.get(key, getattr(data, key, None)) for key in OWN}
    return {key: np.asarray(value) for key, value in values.items() if value is not None}


def read_own(archive: NpzFile, probe: np.ndarray | None) -> Measurement:
    """Read a dataset in the format of :func:`to_arrays`; ``probe (N, N)`` is for a file without one."""
    faults = [f"{key} is an unknown key" for key in archive.keys if key not in OWN]
    missing = [key for key in OWN if key not in archive.keys and key not in OPTIONAL]
    faults += [f"lacks {', '.join(missing)} (it has {list_keys(archive)})"] if missing else []
    members, values = Members(archive, OWN, faults), dict[str, Any]()
    faults, shapes = members.problems, members.shapes
    faults += [f"{key} has shape {shapes[key]}; must be one number" for key in SCALARS if shapes.get(key)]
    for key in SCALARS:
        if shapes.get(key) == () and (scalar := members.read(key)) is not None:
            values[key] = scalar.item()
    if values.pop("format", NPZ_FORMAT) != NPZ_FORMAT:
        faults.append(f"format must be {NPZ_FORMAT}; the file comes from another version")
    arrays = {key: shape for key, shape in shapes.items() if key not in SCALARS}
    wrong = shape_problems(arrays, values.get("object_size", 0))
    faults += wrong.values()
    for key in arrays.keys() - wrong.keys() - {"amplitudes"}:  # a wrong shape is not worth its memory
        values[key] = members.read(key)
    tiling, statistics = values.pop("tiling", None), members.statistics("amplitudes")
    faults += _tiling_problems(tiling, values.get("object_size"))
    faults += problems(values, None if wrong else arrays.get("amplitudes"), statistics)
    if not faults and statistics is not None:
        faults += dark_frames(values, statistics, counts=True)
    members.refuse()
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


__all__ = ["FORMATS", "Format", "Measurement", "inspect", "load_dataset", "to_arrays"]


@dataclass(frozen=True)
class Format:
    """A file format: keys of which any marks it, all that its reader knows, and the reader."""

    marks: frozenset[str]
    known: Iterable[str]
    read: Callable[[NpzFile, np.ndarray | None], Measurement]


FORMATS = {
    "own": Format(marks=frozenset({"format", "amplitudes"}), known=OWN, read=read_own),
    "published": Format(marks=frozenset({"diffraction"}), known=KEYS, read=read_published),
}


def inspect(path: str | Path, probe: np.ndarray | None = None) -> Measurement:
    """Read a dataset's NPZ once and check everything in it; its format is recognised by its keys.

    ``probe (N, N)`` is for a file that has none. ConfigError: one line with every problem.
    """
    try:
        with NpzFile(path) as archive:
            for form in FORMATS.values():
                if form.marks & set(archive.keys):
                    if twice := [name for name in archive.repeated if name in form.known]:
                        raise NpzError("; ".join(f"{name} is there more than once" for name in twice))
                    return form.read(archive, probe)
            raise NpzError(
                "is no dataset: it has neither the keys of a run's own dataset (amplitudes, positions, …) "
                "nor those of the published program (diffraction, coords_offsets); "
                f"it has {list_keys(archive)}"
            )
    except NpzError as error:
        raise ConfigError(f"{path}: {error}") from error


def load_dataset(path: str | Path) -> Dataset:
    """Read a dataset of any format, patterns included; nothing is unpickled."""
    with tempfile.TemporaryDirectory() as scratch:
        data = inspect(path).dataset(Path(scratch))
        return replace(data, amplitudes=Patterns(data.amplitudes[:], data.amplitudes.statistics))
