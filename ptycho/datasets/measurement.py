"""A dataset in a file that has passed every check, and how a file is read by the table of its format.

A file is read once as a whole, the patterns by blocks; everything but these is kept, and
:meth:`Measurement.amplitudes` gives them by rows. Only keys that are needed are read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.file_array import FileArray
from ptycho.files.npz import Header, NpzError, NpzFile
from ptycho.files.text import shown
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.dataset_checks import dark_frames, problems, wrong_shapes
from ptycho.scan.patterns import Patterns, Statistics
from ptycho.scan.plausibility import contradictions

Placed = tuple[int, int, int, int]  # top, left, height, width


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
    truth: Placed | None = None

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


class Member(NamedTuple):
    """An array of a format: NumPy's kinds that are accepted, what it becomes, its shape in letters."""

    kinds: str
    dtype: Any
    shape: str
    optional: bool = False


class Values(NamedTuple):
    """Attributes of a dataset but for the amplitudes, the shape of these, and :attr:`Measurement.truth`."""

    attributes: dict[str, Any]
    amplitudes: tuple[int, ...] | None = None
    truth: Placed | None = None


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes:
        marks: keys of which any marks it.
        members: all that is read, by key.
        patterns: key of the patterns.
        convert: gives the values, from arrays that have the right shapes, by key, and the patterns' shape.
        counts: as of a :class:`Measurement`.
        names: what attributes of a dataset are called in the file, where that differs.
        probe_elsewhere: the probe of the caller stands in for one that the file lacks.
        check: gives further faults of an archive's keys.
    """

    marks: frozenset[str]
    members: Mapping[str, Member]
    patterns: str
    convert: Callable[[dict[str, Any], tuple[int, ...]], Values]
    counts: bool = True
    names: Mapping[str, str] = field(default_factory=dict)
    probe_elsewhere: bool = False
    check: Callable[[NpzFile], list[str]] = lambda archive: []

    def read(self, archive: NpzFile, probe: np.ndarray | None) -> Measurement:
        """Read an archive of this format; ``probe (N, N)`` is for one without.

        NpzError: one line with every problem.
        """
        name = self.names.get("probe", "probe")
        own_probe = name in archive.keys or not self.probe_elsewhere or probe is None
        arrays: dict[str, Any] = {} if own_probe else {name: probe}
        faults = self._key_faults(archive, arrays)
        headers: dict[str, Header] = {}
        for key, member in self.members.items():
            with _noted(faults):
                if key in archive.keys:
                    headers[key] = archive.header(key, member.kinds)
        shapes = {key: array.shape for key, array in (headers | arrays).items()}
        wrong = wrong_shapes(shapes, {key: member.shape for key, member in self.members.items()})
        faults += wrong.values()
        statistics = None
        for key in (key for key in headers if key not in wrong):  # that is not worth its memory
            with _noted(faults):
                if key == self.patterns:
                    statistics = Statistics.of(_patterns(archive, headers[key]))
                else:
                    arrays[key] = _cast(archive.read(headers[key]), key, self.members[key].dtype)
        ours = {words.partition(",")[0]: name for name, words in self.names.items()}
        values = Values({ours.get(key, key): array for key, array in arrays.items()})
        if not faults:
            with _noted(faults):
                values = self.convert(arrays, shapes[self.patterns])
        more = problems(values.attributes, values.amplitudes, statistics)
        if not faults + more and statistics is not None:
            more = dark_frames(values.attributes, statistics, self.counts)
        if faults + more or statistics is None:
            raise NpzError("; ".join(faults + [self._in_its_words(text) for text in more]))
        key, counts = self.patterns, self.counts
        return Measurement(archive.path, key, values.attributes, statistics, counts, own_probe, values.truth)

    def _key_faults(self, archive: NpzFile, given: Mapping[str, Any]) -> list[str]:
        faults = self.check(archive)
        faults += [f"{key} is there more than once" for key in archive.repeated if key in self.members]
        there = {*archive.keys, *given}
        missing = [key for key, member in self.members.items() if not (member.optional or key in there)]
        return faults + ([f"lacks {', '.join(missing)} (it has {list_keys(archive)})"] if missing else [])

    def _in_its_words(self, problem: str) -> str:
        """A problem of a dataset with the key of the file."""
        ours = next((name for name in self.names if problem.startswith(name)), "")
        return self.names.get(ours, "") + problem.removeprefix(ours)


def list_keys(archive: NpzFile, most: int = 12) -> str:
    """Return the first ``most`` keys of an archive in one line, for an error; ``none`` without any."""
    more = ", …" if len(archive.keys) > most else ""
    return ", ".join(shown(key, 60) for key in archive.keys[:most]) + more or "none"


@contextlib.contextmanager
def _noted(faults: list[str]) -> Iterator[None]:
    """Add what is wrong with an array to the ``faults``, so that all of them are named."""
    try:
        yield
    except NpzError as error:
        faults.append(str(error))


def _cast(array: np.ndarray, key: str, dtype: Any) -> Any:
    """Return an array ``(…)`` of another dtype; one of no axes as a number of Python."""
    if np.issubdtype(dtype, np.integer) and array.size:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            raise NpzError(f"{key} {array.shape} holds numbers beyond {limits.max}")
    with np.errstate(over="ignore", invalid="ignore"):  # what becomes infinite is found later
        return array.astype(dtype) if array.ndim else array.astype(dtype).item()


def _patterns(archive: NpzFile, header: Header) -> Iterator[np.ndarray]:
    """Patterns ``(K, N, N)`` float32 block by block; ``(G, N, N, C)`` becomes ``(G·C, N, N)``."""
    for block in archive.rows(header):
        if block.ndim == 4:
            block = block.transpose(0, 3, 1, 2).reshape(-1, *block.shape[1:3])
        with np.errstate(over="ignore", invalid="ignore"):
            yield np.ascontiguousarray(block, np.float32)
