"""A dataset as an NPZ file: its attributes by name, patterns as float32; nothing is pickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.npz import read_all
from ptycho.files.reading import FileError
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.groups import Tiling

FORMAT = 1
NUMBERS = {"format": "iu", "object_size": "iu", "region_size": "iu", "photon_scale": "fiu"}
ARRAYS: dict[str, tuple[str, Any]] = {  # kinds that are accepted, and what they become
    "probe": ("cfiu", np.complex64),
    "image": ("iu", np.int32),
    "positions": ("fiu", np.float32),
    "amplitudes": ("fiu", np.float32),
    "groups": ("iu", np.int32),
    "objects": ("cfiu", np.complex64),
    "tiling": ("iu", np.int64),
    "good": ("b", bool),
    "exact": ("b", bool),
}
OPTIONAL = ("objects", "tiling", "good", "exact")  # early runs had neither the tiling nor exact


def to_arrays(data: Dataset) -> dict[str, np.ndarray]:
    """Return a dataset as in its NPZ: attributes, the strongest mode ``(N, N)``, ``tiling``, ``format``."""
    stated = {"probe": data.probe[0], "format": FORMAT, "exact": data.exact or None}
    values = {key: stated.get(key, getattr(data, key, None)) for key in (*NUMBERS, *ARRAYS)}
    return {key: np.asarray(value) for key, value in values.items() if value is not None}


def load_dataset(path: str | Path) -> Dataset:
    """Read the dataset that :func:`to_arrays` has made.

    Raises:
        ConfigError: one line with every problem of the file.
    """
    kinds = NUMBERS | {key: kind for key, (kind, _) in ARRAYS.items()}
    optional = {key: kinds.pop(key) for key in OPTIONAL}
    try:
        stored = read_all(path, kinds, optional)
        values: dict[str, Any] = {key: _number(key, stored[key]) for key in NUMBERS}
        values |= {key: _cast(key, stored[key]) for key in ARRAYS if key in stored}
        if values.pop("format") != FORMAT:
            raise FileError(f"format must be {FORMAT}; the file comes from another version")
        tiling = values.pop("tiling", None)
        stated = None if tiling is None else _checked_tiling(tiling, values["object_size"])
        exact = bool(np.any(values.pop("exact", False)))
        beam = Beam(values.pop("probe"), values.pop("positions"))
        if np.any(values["amplitudes"] < 0):
            raise FileError("amplitudes holds negative numbers")
        return Dataset(beam=beam, stated_tiling=stated, exact=exact, **values)
    except (FileError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _number(key: str, array: np.ndarray) -> Any:
    if array.shape:
        raise FileError(f"{key} has shape {array.shape}; must be one number")
    return array.item()


def _cast(key: str, array: np.ndarray) -> np.ndarray:
    """Return an array ``(…)`` of its dtype; FileError: whole numbers that this cannot hold."""
    dtype = ARRAYS[key][1]
    with np.errstate(over="ignore", invalid="ignore"):  # what becomes infinite is found later
        cast: np.ndarray = array.astype(dtype)
    if cast.dtype.kind == "i" and not np.array_equal(cast, array):
        raise FileError(f"{key} {array.shape} holds numbers beyond {np.iinfo(dtype).max}")
    return cast


def _checked_tiling(tiling: np.ndarray, M: int) -> Tiling:
    if tiling.shape != (5,):
        raise FileError(f"tiling has shape {tiling.shape}; must be (5)")
    pitch, top, left, height, width = tiling.tolist()
    inside = min(top, left) >= 0 and max(top + height, left + width) <= M
    if pitch < 1 or min(height, width) < 1 or not inside:
        wanted = f"(pitch, top, left, height, width), a rectangle inside the object of {M} × {M} pixels"
        raise FileError(f"tiling is {tiling.tolist()}; must be {wanted}")
    return Tiling(*tiling.tolist())
