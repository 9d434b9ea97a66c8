"""Diffraction patterns in HDF5 datasets, (J, H, W) or rasters (A, B, H, W): ``a·B + b`` is ``[a, b]``.

Opening reads four patterns at most, to distinguish counts from intensities. MATLAB 7.3 files have the axes of
every array in reverse: ``save -v7.3`` writes the attribute ``MATLAB_class``, ``h5write`` does not, or the
file begins with MATLAB's own block. Their patterns are (H, W, J) or (H, W, A, B), of which ``a + A·b`` is
``[:, :, a, b]``; or (J, H, W), where J is the number of positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.files.reading import FileError, damage_named, describe_error, faults_of
from ptycho.readers.archive import DAMAGE, Archive
from ptycho.readers.hdf5_checks import check_unpacking, examine
from ptycho.readers.patterns import Joined, Patterns, View, as_list, spread

if TYPE_CHECKING:
    from ptycho.readers.hdf5 import Hdf5Archive

MATLAB = b"MATLAB 7.3 MAT-file"


class Hdf5Patterns(Patterns):
    """Patterns ``(J, H, W)`` in a dataset of an open file, which :meth:`close` closes.

    ``inspected``: a few patterns that were written.
    """

    def __init__(self, file: Hdf5Archive, key: str, dataset: h5py.Dataset, inspected: np.ndarray) -> None:
        self.file, self.dataset, self._inspected = file, dataset, inspected
        self.label = self.key = key
        self.shape, self.grid = as_list(key, dataset.shape, dataset.dtype)
        self.dtype = dataset.dtype.newbyteorder("=")

    def samples(self) -> Iterator[np.ndarray]:
        """Yield a few patterns that were written, one at a time, ``(1, H, W)`` each."""
        return (self.read(np.array([frame])) for frame in self._inspected)

    def close(self) -> None:
        self.file.close()

    def fill(self, first: int, into: np.ndarray) -> None:
        most, line, outer = len(into), self.dataset.shape[-3], self.dataset.ndim - 2
        while len(into):
            row, start = divmod(first, line)
            count = min(most, len(into), line - start)  # a reading stays within a line of a raster
            try:
                part = slice(start, start + count)
                check_unpacking(self.file, self.dataset, [slice(row, row + 1), part][-outer:])
                self.dataset.read_direct(into[:count], (row, part)[-outer:])
            except DAMAGE as error:  # or the file was closed
                if count > 1:
                    most = 1  # to name the one that is damaged
                    continue
                problem = f"pattern {first} cannot be read ({describe_error(error)})"
                raise ConfigError(f"{self.file.path}: {self.key}: {problem}") from error
            first, into = first + count, into[count:]


def open_patterns(file: Hdf5Archive, *keys: str, cache: int = 2**27) -> Patterns:
    """Open the patterns at some keys, one after the other.

    ``cache``: bytes of unpacked chunks that are kept, of all datasets together.
    """
    file.require(*keys)
    datasets = {key: dataset for key in keys if (dataset := file.dataset(key)) is not None}
    for key, dataset in datasets.items():
        as_list(key, dataset.shape, dataset.dtype)
    kinds = {(dataset.dtype, dataset.shape[-2:]) for dataset in datasets.values()}
    if len(kinds) > 1:
        raise FileError(f"{', '.join(keys)} differ in dtype or detector: {', '.join(map(str, kinds))}")
    looked = [examine(file, dataset, key, inner=2) for key, dataset in datasets.items()]
    count = len(datasets)
    few = np.bincount(spread(count), minlength=count) * max(1, 4 // count)  # to inspect, of each dataset
    sources = [
        Hdf5Patterns(file, key, _cached(dataset, cache // count), some[:most])
        for (key, dataset), some, most in zip(datasets.items(), looked, few, strict=True)
    ]
    source = sources[0] if count == 1 else Joined(sources, sources[0].label, sources[0].key)
    shapes = ", ".join(f"{key} {dataset.shape}" for key, dataset in list(datasets.items())[:3])
    more = f", … ({count} datasets)" if count > 3 else ""
    file.notes.append(f"patterns: {shapes}{more} of {source.dtype}")
    return source


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


class MatlabPatterns(View):
    """Patterns ``(H, W, J)`` or ``(H, W, A, B)`` of MATLAB; or ``(J, H, W)``, which the positions tell.

    Args:
        source: the dataset as HDF5 has it, ``(J, W, H)``, ``(B, A, W, H)``, or ``(W, H, J)``.
        last: which of them lies along the last axis of HDF5, MATLAB's first.
    """

    columns_first = True

    def __init__(self, source: Hdf5Patterns, last: bool = False) -> None:
        first, width, height = source.shape
        super().__init__(source, (height, width, first) if last else (first, height, width))
        self.grid, self._stored, self._last = source.grid, source, last

    @property
    def counts(self) -> tuple[int, ...]:
        first, _, other = self.source.shape
        return (first, other) if self.grid is None else (first,)

    def order_for(self, count: int, file: Archive) -> Patterns:
        """Return patterns along MATLAB's last axis, unless only its first is as long as the positions."""
        first, other = self.counts[0], self.counts[-1]
        return MatlabPatterns(self._stored, last=count == other != first)

    def fill(self, first: int, into: np.ndarray) -> None:
        part = slice(first, first + len(into))
        if not self._last:
            into[:] = self.source.read(part).swapaxes(-1, -2)
            return
        dataset, file = self._stored.dataset, self._stored.file
        with faults_of(f"{file.path}: {self.key}"), damage_named("cannot be read"):
            box = [slice(0, dataset.shape[0]), slice(0, dataset.shape[1]), part]
            check_unpacking(file, dataset, box)
            into[:] = dataset[..., part].T
