"""A dataset as an NPZ file: its attributes by name, patterns as float32; nothing is pickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.npz import NpzError, NpzFile
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.groups import Tiling

FORMAT = 1
MEMBERS: dict[str, tuple[str, Any]] = {  # kinds that are accepted, and what they become
    "format": ("iu", int),
    "photon_scale": ("fiu", float),
    "object_size": ("iu", int),
    "region_size": ("iu", int),
    "probe": ("cfiu", np.complex64),
    "image": ("iu", np.int32),
    "positions": ("fiu", np.float32),
    "amplitudes": ("fiu", np.float32),
    "groups": ("iu", np.int32),
}
OPTIONAL: dict[str, tuple[str, Any]] = {  # early runs had neither the tiling nor exact
    "objects": ("cfiu", np.complex64),
    "tiling": ("iu", int),
    "good": ("b", bool),
    "exact": ("b", bool),
}


def to_arrays(data: Dataset) -> dict[str, np.ndarray]:
    """Return a dataset as in its NPZ: attributes, the strongest mode ``(N, N)``, ``tiling``, ``format``."""
    stated = {"probe": data.probe[0], "format": FORMAT, "exact": data.exact or None}
    values = {key: stated.get(key, getattr(data, key, None)) for key in MEMBERS | OPTIONAL}
    return {key: np.asarray(value) for key, value in values.items() if value is not None}


def load_dataset(path: str | Path) -> Dataset:
    """Read the dataset that :func:`to_arrays` has made.

    Raises:
        ConfigError: one line with every problem of the file.
    """
    try:
        with NpzFile(path) as archive:
            values = _read(archive)
        if values.pop("format") != FORMAT:
            raise NpzError(f"format must be {FORMAT}; the file comes from another version")
        tiling = values.pop("tiling", None)
        stated = None if tiling is None else _checked_tiling(tiling, values["object_size"])
        beam = Beam(values.pop("probe"), values.pop("positions"))
        return Dataset(beam=beam, stated_tiling=stated, **values)
    except (NpzError, ConfigError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _checked_tiling(tiling: np.ndarray, M: int) -> Tiling:
    if tiling.shape != (5,):
        raise NpzError(f"tiling has shape {tiling.shape}; must be (5)")
    pitch, top, left, height, width = tiling.tolist()
    inside = min(top, left) >= 0 and max(top + height, left + width) <= M
    if pitch < 1 or min(height, width) < 1 or not inside:
        wanted = f"(pitch, top, left, height, width), a rectangle inside the object of {M} × {M} pixels"
        raise NpzError(f"tiling is {tiling.tolist()}; must be {wanted}")
    return Tiling(*tiling.tolist())


def _read(archive: NpzFile) -> dict[str, Any]:
    problems = [f"{key} is there more than once" for key in archive.repeated]
    if missing := [key for key in MEMBERS if key not in archive.keys]:
        problems.append(f"lacks {', '.join(missing)}")
    values: dict[str, Any] = {}
    for key, (kinds, dtype) in (MEMBERS | OPTIONAL).items():
        try:
            if key in archive.keys and not problems:
                array: np.ndarray = archive.read(archive.header(key, kinds)).astype(dtype)
                values[key] = array if array.ndim else array.item()
        except NpzError as error:
            problems.append(str(error))
    if problems:
        raise NpzError("; ".join(problems))
    return values
