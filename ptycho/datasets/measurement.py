"""A dataset in a file that has passed every check, and what its readers share.

A reader reads a whole file once, by blocks, and keeps everything but the patterns, which
:meth:`Measurement.amplitudes` then gives by rows. Only keys that are needed are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.file_array import FileArray
from ptycho.files.npz import Header, NpzError, NpzFile
from ptycho.files.text import shown
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.patterns import Patterns, Statistics
from ptycho.scan.plausibility import contradictions


@dataclass(frozen=True, eq=False)
class Measurement:
    """A dataset in a file that has passed every check.

    Attributes:
        path, key: where its patterns are.
        values: the attributes of a :class:`ptycho.scan.dataset.Dataset` but for the amplitudes.
        statistics: of the patterns.
        counts: amplitudes are square roots of photon counts, and ``photon_scale`` is known. Otherwise they
            are in units of the file's own, and so is the product of probe and object.
        own_probe: the probe is from the file; otherwise it is the one that the caller passed.
        truth: ``(top, left, height, width)`` of the part of the first object that is all that is known of
            the truth; None: all objects are, or none.
    """

    path: Path
    key: str
    values: dict[str, Any]
    statistics: Statistics
    counts: bool = True
    own_probe: bool = True
    truth: tuple[int, int, int, int] | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the patterns, ``(J, N, N)``."""
        N = len(self.values["probe"])
        return len(self.values["image"]), N, N

    def check_patterns(self) -> None:
        """Raise :class:`ConfigError` if the patterns cannot be the amplitudes that a network takes."""
        scale = self.values["photon_scale"] if self.counts else None
        if problems := contradictions(self.statistics, self.values["probe"], scale, self.key):
            raise ConfigError(f"data={self.path}: {'; '.join(problems)}")

    def fitted_photon_scale(self, transmission: float) -> float:
        """Return s for which the patterns imply a mean |O|², ``√(⟨Σ A²⟩ / (|O|² Σ|P|²))``."""
        power = np.sum(np.abs(self.values["probe"]) ** 2, dtype=float)
        return float(np.sqrt(self.statistics.mean_energy / (transmission * power)))

    def dataset(self, scratch: Path, **changes: Any) -> Dataset:
        """Return the dataset, with ``changes`` of its values; patterns stay in a file: :meth:`amplitudes`."""
        patterns = Patterns(self.amplitudes(scratch), self.statistics)
        values = self.values | changes
        beam = Beam(values.pop("probe"), values.pop("positions"))
        return Dataset(amplitudes=patterns, beam=beam, counts=self.counts, **values)

    def amplitudes(self, scratch: Path) -> FileArray:
        """Return the patterns ``(J, N, N)`` float32 by rows.

        They stay where they are if the file holds them uncompressed and in this form; otherwise they are
        copied to a nameless temporary file in the folder ``scratch``.
        """
        with NpzFile(self.path) as archive:
            header = archive.header(self.key, "fiu")
            as_needed = header.shape == self.shape and header.dtype == np.float32 and not header.fortran
            if header.stored and as_needed:
                return FileArray(self.path.open("rb"), self.shape, np.float32, archive.position(header))
            copy, done = FileArray.temporary(scratch, self.shape, np.float32), 0
            for block in _patterns(archive, header):
                copy[done : done + len(block)] = block
                done += len(block)
            return copy


class Members:
    """Arrays of an archive by key, and the ``problems`` of those that cannot be read.

    ``table``: NumPy's kinds that are accepted, and what they become, by key.
    """

    def __init__(
        self, archive: NpzFile, table: Mapping[str, tuple[str, Any]], problems: Iterable[str] = ()
    ) -> None:
        self.archive, self._table, self.problems = archive, table, list(problems)
        there = {key: kinds for key, (kinds, _) in table.items() if key in archive.keys}
        headers = {key: self._try(partial(archive.header, key, kinds)) for key, kinds in there.items()}
        self._headers: dict[str, Header] = {key: header for key, header in headers.items() if header}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays by their keys, from the headers alone."""
        return {key: header.shape for key, header in self._headers.items()}

    def read(self, key: str) -> Any:
        """Read the array ``(…)`` at a key; None: it is not there, or cannot be read."""
        header, dtype = self._headers.get(key), self._table[key][1]
        return None if header is None else self._try(lambda: _cast(self.archive.read(header), key, dtype))

    def statistics(self, key: str) -> Statistics | None:
        """Return statistics of patterns ``(J, N, N)`` or ``(G, N, N, C)``, read by blocks; None: no such."""
        header = self._headers.get(key)
        if header is None or len(header.shape) not in (3, 4) or 0 in header.shape:
            return None
        return self._try(lambda: Statistics.of(_patterns(self.archive, header)))

    def refuse(self) -> None:
        """Raise NpzError with all problems in one line, if there are any."""
        if self.problems:
            raise NpzError("; ".join(self.problems))

    def _try(self, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except NpzError as error:
            self.problems.append(str(error))
            return None


def list_keys(archive: NpzFile, most: int = 12) -> str:
    """Return the first ``most`` keys of an archive in one line, for an error; ``none`` without any."""
    more = ", …" if len(archive.keys) > most else ""
    return ", ".join(shown(key, 60) for key in archive.keys[:most]) + more or "none"


def _cast(array: np.ndarray, key: str, dtype: Any) -> np.ndarray:
    if np.issubdtype(dtype, np.integer) and array.size:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            raise NpzError(f"{key} {array.shape} holds numbers beyond {limits.max}")
    with np.errstate(over="ignore", invalid="ignore"):  # what becomes infinite is found later
        return array.astype(dtype)


def _patterns(archive: NpzFile, header: Header) -> Iterator[np.ndarray]:
    """Patterns ``(K, N, N)`` float32 block by block; ``(G, N, N, C)`` becomes ``(G·C, N, N)``."""
    for block in archive.rows(header):
        if block.ndim == 4:
            block = block.transpose(0, 3, 1, 2).reshape(-1, *block.shape[1:3])
        with np.errstate(over="ignore", invalid="ignore"):
            yield np.ascontiguousarray(block, np.float32)
