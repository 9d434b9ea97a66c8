"""Datasets from files of several formats: one validation pass that names every problem, then access by rows.

To add a format: a module with a function ``(archive, probe) → Measurement`` and the keys it knows, and an
entry in :data:`FORMATS`. Never imports TensorFlow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.datasets.measurement import Measurement, list_keys
from ptycho.datasets.own import OWN, read_own
from ptycho.datasets.published import KEYS, read_published
from ptycho.files.npz import NpzError, NpzFile
from ptycho.scan.dataset import Dataset
from ptycho.scan.patterns import Patterns

__all__ = ["FORMATS", "Format", "Measurement", "inspect", "load_dataset"]


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
