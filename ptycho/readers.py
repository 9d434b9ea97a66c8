"""Datasets from NPZ files: one validation pass that names every problem, then access by rows.

:func:`inspect` reads a whole file once, by blocks, and keeps everything but the patterns, which
:meth:`Measurement.amplitudes` then gives by rows. Only keys that are needed are read. Nothing here imports
TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.checks import Statistics, dark_frames, problems, shape_problems
from ptycho.config import ConfigError
from ptycho.npz import Archive, Header, NpzError
from ptycho.rows import Rows

NPZ_FORMAT = 1
NAMED = 12  # keys of a file that an error lists


@dataclass(frozen=True, eq=False)
class Measurement:
    """A dataset in a file that has passed every check.

    Attributes:
        path, key: where its patterns are.
        values: the attributes of a :class:`ptycho.data.Dataset` but for the amplitudes.
        statistics: of the patterns.
        counts: amplitudes are square roots of photon counts, and ``photon_scale`` is known. Otherwise they
            are in units of the file's own, and so is the product of probe and object.
        own_probe: the file has a probe; if not, it is the one that was offered.
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
        """``(P, N, N)``."""
        N = len(self.values["probe"])
        return len(self.values["image"]), N, N

    def amplitudes(self, scratch: Path) -> Rows:
        """The patterns ``(P, N, N)`` float32 by rows.

        They stay where they are if the file holds them uncompressed and in this form; otherwise they are
        copied to a nameless temporary file in the folder ``scratch``.
        """
        with Archive(self.path) as archive:
            header = archive.header(self.key, "fiu")
            as_needed = header.shape == self.shape and header.dtype == np.float32 and not header.fortran
            if header.stored and as_needed:
                return Rows(self.path.open("rb"), self.shape, np.float32, archive.position(header))
            copy, done = Rows.temporary(scratch, self.shape, np.float32), 0
            for block in patterns(archive, header):
                copy[done : done + len(block)] = block
                done += len(block)
            return copy


Reader = Callable[[Archive, np.ndarray | None], Measurement]


def inspect(path: str | Path, probe: np.ndarray | None = None) -> Measurement:
    """Read a dataset's file once and check everything in it.

    Two formats are known: a run's own dataset (:func:`ptycho.data.to_arrays`), and the published program's
    grid-lines split (:mod:`ptycho.published`).

    Args:
        path: an NPZ file.
        probe: ``(N, N)``, for a file that has none.

    Raises:
        ConfigError: one line with every problem, each with its key and shape.
    """
    from ptycho.published import KEYS, read_published

    formats: tuple[tuple[set[str], Reader, Iterable[str]], ...]
    formats = (({"format", "amplitudes"}, read_own, OWN), ({"diffraction"}, read_published, KEYS))
    try:
        with Archive(path) as archive:
            for marks, reader, known in formats:
                if marks & set(archive.keys):
                    refuse([f"{name} is there more than once" for name in archive.repeated if name in known])
                    return reader(archive, probe)
            raise NpzError(
                "is no dataset: it has neither the keys of a run's own dataset (amplitudes, positions, …) "
                f"nor those of the published program (diffraction, coords_offsets); it has {_listed(archive)}"
            )
    except NpzError as error:
        raise ConfigError(f"{path}: {error}") from error


def _listed(archive: Archive) -> str:
    more = ", …" if len(archive.keys) > NAMED else ""
    return ", ".join(archive.keys[:NAMED]) + more or "none"


SCALARS = ("format", "photon_scale", "object_size", "region_size")
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
}


def read_own(archive: Archive, probe: np.ndarray | None) -> Measurement:
    """The format of :func:`ptycho.data.to_arrays`; ``objects``, the truth, may be left out."""
    found = [f"{key} is an unknown key" for key in archive.keys if key not in OWN]
    missing = [key for key in OWN if key not in archive.keys and key != "objects"]
    if missing:
        found.append(f"lacks {', '.join(missing)} (it has {_listed(archive)})")
    headers = headers_of(archive, {key: kinds for key, (kinds, _) in OWN.items()}, found)
    values = _scalars(archive, headers, found)
    if values.pop("format", NPZ_FORMAT) != NPZ_FORMAT:
        found.append(f"format must be {NPZ_FORMAT}; the file comes from another version")
    shapes = {key: header.shape for key, header in headers.items() if key not in SCALARS}
    wrong = shape_problems(shapes, values.get("object_size", 0))
    found += wrong.values()
    for key in shapes.keys() - wrong.keys() - {"amplitudes"}:  # a wrong shape is not worth its memory
        read_into(values, archive, headers[key], key, OWN[key][1], found)
    statistics = statistics_of(archive, headers.get("amplitudes"), found)
    found += problems(values, None if wrong else shapes.get("amplitudes"), statistics)
    if not found and statistics is not None:
        found = dark_frames(values, statistics, counts=True)
    refuse(found)
    assert statistics is not None  # it is among the problems otherwise
    return Measurement(archive.path, "amplitudes", values, statistics)


def _scalars(archive: Archive, headers: dict[str, Header], found: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key in SCALARS:
        if key in headers and headers[key].shape:
            found.append(f"{key} has shape {headers[key].shape}; must be one number")
        elif key in headers:
            read_into(
                values, archive, headers[key], key, np.float64 if key == "photon_scale" else None, found
            )
            values |= {key: OWN[key][1](values[key])} if key in values else {}
    return values


# ---- what readers share


def refuse(found: list[str]) -> None:
    if found:
        raise NpzError("; ".join(found))


def headers_of(archive: Archive, kinds: dict[str, str], found: list[str]) -> dict[str, Header]:
    """The headers of the keys that are there; what is wrong with one goes to ``found``."""
    headers = {}
    for key, kind in kinds.items():
        if key in archive.keys:
            try:
                headers[key] = archive.header(key, kind)
            except NpzError as error:
                found.append(str(error))
    return headers


def read_into(
    values: dict[str, Any], archive: Archive, header: Header, name: str, dtype: Any, found: list[str]
) -> None:
    """Put an array into ``values`` as ``dtype`` (None: as it is), or what is wrong with it into ``found``."""
    try:
        array = archive.read(header)
        values[name] = array if dtype is None else _cast(array, header, dtype)
    except NpzError as error:
        found.append(str(error))


def _cast(array: np.ndarray, header: Header, dtype: type) -> np.ndarray:
    if np.issubdtype(dtype, np.integer) and array.size:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            raise NpzError(f"{header.key} {header.shape} holds numbers beyond {limits.max}")
    with np.errstate(over="ignore", invalid="ignore"):  # what becomes infinite is found later
        return array.astype(dtype)


def statistics_of(archive: Archive, header: Header | None, found: list[str]) -> Statistics | None:
    """Statistics of the patterns, read by blocks; None, and what is wrong in ``found``, if they cannot be."""
    if header is None or len(header.shape) not in (3, 4) or 0 in header.shape:
        return None
    try:
        return Statistics.of(patterns(archive, header))
    except NpzError as error:
        found.append(str(error))
        return None


def patterns(archive: Archive, header: Header) -> Iterator[np.ndarray]:
    """Patterns ``(K, N, N)`` float32 block by block; ``(G, N, N, C)`` becomes ``(G·C, N, N)``."""
    for block in archive.rows(header):
        if block.ndim == 4:
            block = block.transpose(0, 3, 1, 2).reshape(-1, *block.shape[1:3])
        with np.errstate(over="ignore", invalid="ignore"):
            yield np.ascontiguousarray(block, np.float32)
