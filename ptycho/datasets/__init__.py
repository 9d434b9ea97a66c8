"""Datasets from files of several formats: one validation pass that names every problem, then access by rows.

To add a format: a :class:`~ptycho.datasets.measurement.Format`, a table of its arrays and a function that
makes the attributes of a dataset of them, and an entry in :data:`FORMATS`. Never imports TensorFlow.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.datasets.measurement import Format, Measurement, Member, Values, list_keys
from ptycho.datasets.published import PUBLISHED
from ptycho.files.npz import NpzError, NpzFile
from ptycho.scan.dataset import Dataset
from ptycho.scan.dataset_checks import SHAPES
from ptycho.scan.groups import Tiling
from ptycho.scan.patterns import Patterns

__all__ = ["FORMATS", "Format", "Measurement", "inspect", "load_dataset", "to_arrays"]

NPZ_FORMAT = 1
OWN = {  # the truth may be unknown; early runs stated no tiling
    "format": Member("iu", int, ""),
    "photon_scale": Member("fiu", float, ""),
    "object_size": Member("iu", int, ""),
    "region_size": Member("iu", int, ""),
    "exact": Member("b", bool, "", optional=True),
    "probe": Member("cfiu", np.complex64, SHAPES["probe"]),
    "image": Member("iu", np.int32, SHAPES["image"]),
    "positions": Member("fiu", np.float32, SHAPES["positions"]),
    "amplitudes": Member("fiu", np.float32, SHAPES["amplitudes"]),
    "groups": Member("iu", np.int32, SHAPES["groups"]),
    "objects": Member("cfiu", np.complex64, SHAPES["objects"], optional=True),
    "tiling": Member("iu", int, "5", optional=True),
    "good": Member("b", bool, SHAPES["good"], optional=True),
}


def to_arrays(data: Dataset) -> dict[str, np.ndarray]:
    """Return a dataset as in an NPZ: attributes, the strongest mode ``(N, N)``, ``tiling``, ``format``."""
    stated = {"probe": data.probe[0], "format": NPZ_FORMAT, "exact": data.exact or None}
    values = {key: stated.get(key, getattr(data, key, None)) for key in OWN}
    return {key: np.asarray(value) for key, value in values.items() if value is not None}


def _convert(arrays: dict[str, Any], shape: tuple[int, ...]) -> Values:
    """The attributes of a dataset that :func:`to_arrays` has written."""
    values = dict(arrays)
    if values.pop("format") != NPZ_FORMAT:
        raise NpzError(f"format must be {NPZ_FORMAT}; the file comes from another version")
    tiling, M = values.pop("tiling", None), values["object_size"]
    if tiling is not None:
        pitch, top, left, height, width = tiling.tolist()
        inside = min(top, left) >= 0 and max(top + height, left + width) <= M
        if pitch < 1 or min(height, width) < 1 or not inside:
            wanted = f"(pitch, top, left, height, width), a rectangle inside the object of {M} × {M} pixels"
            raise NpzError(f"tiling is {tiling.tolist()}; must be {wanted}")
    values["stated_tiling"] = None if tiling is None else Tiling(*tiling.tolist())
    return Values(values, shape)


def _unknown_keys(archive: NpzFile) -> list[str]:
    return [f"{key} is an unknown key" for key in archive.keys if key not in OWN]


FORMATS = {
    "own": Format(frozenset({"format", "amplitudes"}), OWN, "amplitudes", _convert, check=_unknown_keys),
    "published": PUBLISHED,
}


def inspect(path: str | Path, probe: np.ndarray | None = None) -> Measurement:
    """Read a dataset's NPZ once and check everything in it; its format is recognised by its keys.

    ``probe (N, N)`` is for a file that has none. ConfigError: one line with every problem.
    """
    try:
        with NpzFile(path) as archive:
            for form in FORMATS.values():
                if form.marks & set(archive.keys):
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
