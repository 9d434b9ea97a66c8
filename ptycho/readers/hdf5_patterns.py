"""Diffraction patterns in HDF5 datasets, (J, H, W) or rasters (A, B, H, W): ``a·B + b`` is ``[a, b]``.

Opening reads four patterns at most, to distinguish counts from intensities. MATLAB 7.3 files have the axes of
every array in reverse: ``save -v7.3`` writes the attribute ``MATLAB_class``, ``h5write`` does not, or the
file begins with MATLAB's own block. Their patterns are (H, W, J) or (H, W, A, B), of which ``a + A·b`` is
``[:, :, a, b]``; or (J, H, W), where J is the number of positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.files.file_array import gather
from ptycho.readers.archive import DAMAGE, Archive, Patterns, describe_error
from ptycho.readers.hdf5_checks import check_unpacking, examine, spread

if TYPE_CHECKING:
    from ptycho.readers.hdf5 import Hdf5Archive

MATLAB = b"MATLAB 7.3 MAT-file"


class Hdf5Patterns(Patterns):
    """Patterns ``(J, H, W)`` in datasets, by their keys, of an open file, which :meth:`close` closes.

    ``inspected``: a few patterns that were written.
    """

    def __init__(
        self, file: Hdf5Archive, datasets: Mapping[str, h5py.Dataset], inspected: np.ndarray
    ) -> None:
        self._file, self._inspected, self._parts = file, inspected, list(datasets.items())
        self._stops = np.cumsum([math.prod(part.shape[:-2]) for part in datasets.values()])
        self.label, first = self._parts[0]
        self.key = self.label
        self.shape = (int(self._stops[-1]), *first.shape[-2:])
        self.dtype = first.dtype.newbyteorder("=")
        self.grid = first.shape[:2] if len(datasets) == 1 and first.ndim == 4 else None

    @property
    def dataset(self) -> h5py.Dataset:
        return self._parts[0][1]

    def read(self, index: slice | np.ndarray) -> np.ndarray:
        if isinstance(index, slice):
            first, stop, step = index.indices(self.shape[0])
            if step != 1:
                raise IndexError("patterns are read in steps of one")
            index = np.arange(first, max(first, stop))
        return gather(np.ravel(index), self.shape, self.dtype, self._fill, "pattern")

    def samples(self) -> Iterator[np.ndarray]:
        """Yield a few patterns that were written, one at a time, ``(1, H, W)`` each."""
        for frame in self._inspected:
            yield self.read(np.array([frame]))

    def close(self) -> None:
        self._file.close()

    def _fill(self, first: int, into: np.ndarray) -> None:
        done = 0
        while done < len(into):
            done += self._read(first + done, into[done:])

    def _read(self, frame: int, into: np.ndarray) -> int:
        """Fill ``into`` from ``frame`` on, as far as one reading goes; how many patterns that is."""
        number = int(np.searchsorted(self._stops, frame, side="right"))
        key, dataset = self._parts[number]
        local = frame - (int(self._stops[number - 1]) if number else 0)
        line = dataset.shape[-3]  # a reading stays within a line of a raster
        lead, first = ((), local) if dataset.ndim == 3 else ((local // line,), local % line)
        count = min(len(into), line - first)
        try:
            part = [slice(place, place + 1) for place in lead] + [slice(first, first + count)]
            check_unpacking(self._file, dataset, part)
            dataset.read_direct(into[:count], (*lead, part[-1]))
        except DAMAGE as error:  # or the file was closed
            if count > 1 and self._file.file:  # one at a time, to name the one that is damaged
                return self._read(frame, into[:1])
            where = f"{key}: patterns {local} to {local + count - 1} cannot be read"
            raise ConfigError(f"{self._file.path}: {where} ({describe_error(error)})") from error
        return count


def open_patterns(file: Hdf5Archive, *keys: str | None, cache: int = 2**27) -> Hdf5Patterns | None:
    """Open the patterns at some keys, one after the other; None, and a problem, if they are no patterns.

    ``cache``: bytes of unpacked chunks that are kept, of all datasets together.
    """
    if not keys or None in keys:
        return None
    before = len(file.problems)
    candidates = {key: _fitting(file, key) for key in keys if key is not None}
    datasets = {key: dataset for key, dataset in candidates.items() if dataset is not None}
    kinds = {(dataset.dtype, dataset.shape[-2:]) for dataset in datasets.values()}
    if len(kinds) > 1:
        file.complain(f"{', '.join(datasets)} differ in dtype or detector: {', '.join(map(str, kinds))}")
    looked, start = [], 0
    for key, dataset in datasets.items():
        looked.append(examine(file, dataset, key, inner=2) + start)
        start += math.prod(dataset.shape[:-2])
    if len(datasets) < len(keys) or len(file.problems) > before:
        return None
    some = np.concatenate(looked)
    datasets = {key: _cached(dataset, cache // len(datasets)) for key, dataset in datasets.items()}
    source = Hdf5Patterns(file, datasets, some[spread(len(some))])
    shapes = ", ".join(f"{key} {dataset.shape}" for key, dataset in list(datasets.items())[:3])
    more = f", … ({len(datasets)} datasets)" if len(datasets) > 3 else ""
    file.notes.append(f"patterns: {shapes}{more} of {source.dtype}")
    return source


def _fitting(file: Hdf5Archive, key: str, most: int = 2**30) -> h5py.Dataset | None:
    """Return the dataset at ``key`` if it can be patterns of ``most`` bytes; if not, why is a problem."""
    dataset = file.dataset(key) if file.require(key) else None
    if dataset is None:
        return None
    shape, problem = dataset.shape, ""
    if shape is None or len(shape) not in (3, 4):
        wanted = "must be (patterns, rows, columns) or a raster (A, B, rows, columns)"
        problem = f"{key} has shape {shape}; {wanted}"
    elif 0 in shape:
        problem = f"{key} {shape} holds no patterns"
    elif dataset.dtype.kind not in "fiu":
        problem = f"{key} {shape} is {dataset.dtype}; must be real numbers"
    elif math.prod(shape[-2:]) * dataset.dtype.itemsize > most:
        problem = f"{key} {shape} has patterns of more than {most} bytes"
    if problem:
        file.complain(problem)
    return None if problem else dataset


def _cached(dataset: h5py.Dataset, share: int) -> h5py.Dataset:
    """Return the dataset with a cache for the chunks over which a few neighbouring patterns are spread.

    Small chunks along the detector that are long along the scan, h5py's default, are otherwise unpacked for
    every pattern. HDF5 sets the cache only if the dataset is not open elsewhere.
    """
    if dataset.chunks is None:
        return dataset
    inner = [-(-size // step) for size, step in zip(dataset.shape[-2:], dataset.chunks[-2:], strict=True)]
    layer = math.prod(dataset.chunks) * math.prod(inner) * dataset.dtype.itemsize
    if layer <= 2**20:  # HDF5's own
        return dataset
    access = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
    access.set_chunk_cache(100 * math.prod(inner) + 1, min(layer, share), 1.0)
    holder, name = dataset.file, dataset.name
    dataset.id.close()
    return h5py.Dataset(h5py.h5d.open(holder.id, name.encode(), access))


def is_of_matlab(dataset: h5py.Dataset) -> bool:
    """Return whether MATLAB has stored a dataset, so that its axes are in reverse."""
    if "MATLAB_class" in dataset.attrs:
        return True
    if dataset.file.userblock_size < len(MATLAB):
        return False
    with open(dataset.file.filename, "rb") as file:
        return file.read(len(MATLAB)) == MATLAB


class MatlabPatterns(Patterns):
    """Patterns ``(H, W, J)`` or ``(H, W, A, B)`` of MATLAB; or ``(J, H, W)``, which the positions tell.

    Args:
        source: the dataset as HDF5 has it, ``(J, W, H)``, ``(B, A, W, H)``, or ``(W, H, J)``.
        last: which of them lies along the last axis of HDF5, MATLAB's first.
    """

    columns_first = True

    def __init__(self, source: Hdf5Patterns, last: bool = False) -> None:
        self._source, self._last = source, last
        self.label, self.key, self.dtype, self.grid = source.label, source.key, source.dtype, source.grid
        first, width, height = source.shape
        self.shape = (height, width, first) if last else (first, height, width)

    @property
    def counts(self) -> tuple[int, ...]:
        first, _, other = self._source.shape
        return (first, other) if self.grid is None else (first,)

    def order_for(self, count: int, file: Archive) -> Patterns:
        """Return patterns along MATLAB's last axis, unless only its first is as long as the positions."""
        first, other = self.counts[0], self.counts[-1]
        return MatlabPatterns(self._source, last=count == other != first)

    def read(self, index: slice | np.ndarray) -> np.ndarray:
        if not self._last:
            return self._source.read(index).swapaxes(-1, -2)
        wanted, place = np.unique(np.arange(self.shape[0])[index], return_inverse=True)
        try:
            return np.asarray(self._source.dataset[..., wanted]).T[place].astype(self.dtype, copy=False)
        except DAMAGE as error:
            raise ConfigError(f"{self.label}: cannot be read ({describe_error(error)})") from error

    def samples(self) -> Iterator[np.ndarray]:
        return self._source.samples()

    def close(self) -> None:
        self._source.close()
