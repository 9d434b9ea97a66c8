"""An HDF5 file as an :class:`~ptycho.readers.archive.Archive`: its numbers, texts and patterns."""

from __future__ import annotations

import contextlib
from typing import Any

import h5py
import numpy as np

from ptycho.files.npz import name_kinds
from ptycho.readers.archive import DAMAGE, ArchiveError, Entry, Patterns, describe_error
from ptycho.readers.hdf5_file import Hdf5File
from ptycho.readers.hdf5_matlab import MatlabPatterns, is_of_matlab
from ptycho.readers.hdf5_patterns import open_patterns
from ptycho.readers.hdf5_storage import check_unpacking, examine

IN_MEMORY = 2**31  # bytes of one array


class Hdf5Archive(Hdf5File):
    """An open HDF5 file, and those that it refers to, with what they hold."""

    def entry(self, key: str) -> Entry | None:
        dataset = self.dataset(key)
        return None if dataset is None else Entry(dataset.shape, dataset.dtype)

    def is_same(self, key: str, other: str) -> bool:
        return self.dataset(key) == self.dataset(other)

    def text(self, key: str) -> str | None:
        path, _, attribute = key.partition("@")
        node, found = self.node(path or "/"), None
        with contextlib.suppress(*DAMAGE):
            if attribute:
                found = None if node is None else node.attrs.get(attribute)
            elif isinstance(node, h5py.Dataset) and node.size == 1 and node.dtype.kind in "OSU":
                check_unpacking(self, node)
                found = node[()]
        found = found.ravel()[0] if isinstance(found, np.ndarray) and found.size == 1 else found
        found = found.decode("utf-8", "replace") if isinstance(found, bytes) else found
        return found if isinstance(found, str) else None

    def load(self, key: str, kinds: str) -> np.ndarray | None:
        path, _, attribute = key.partition("@")
        try:
            if attribute:
                node = self.node(path or "/")
                found = np.asarray(node.attrs[attribute]) if node and attribute in node.attrs else None
            else:
                dataset = self.dataset(path)
                found = None if dataset is None else self._whole(dataset, path)
        except ArchiveError:
            raise
        except DAMAGE as error:
            raise ArchiveError(f"{key} cannot be read ({describe_error(error)})") from error
        if found is None:
            return None
        found = _complex(found) if "c" in kinds else found
        if found.dtype.kind not in kinds:
            raise ArchiveError(f"{key} {found.shape} is {_called(found.dtype)}; must be {name_kinds(kinds)}")
        return found.astype(found.dtype.newbyteorder("="), copy=False)

    def columns_first(self, key: str) -> bool:
        dataset = self.dataset(key)
        return dataset is not None and is_of_matlab(dataset)

    def patterns(self, *keys: str | None) -> Patterns | None:
        source = open_patterns(self, *keys)
        self._lent = self._lent or source is not None
        if source is None or not is_of_matlab(source.dataset):
            return source
        self.notes.append(f"{source.label} is one of MATLAB's: its axes are in reverse, which is undone")
        return MatlabPatterns(source)

    def _whole(self, dataset: h5py.Dataset, key: str) -> np.ndarray | None:
        if dataset.shape is None:
            raise ArchiveError(f"{key} is empty")
        size = dataset.size * dataset.dtype.itemsize
        if size > IN_MEMORY:
            raise ArchiveError(
                f"{key} {dataset.shape} takes {size} bytes; at most {IN_MEMORY} are read at once"
            )
        before = len(self.problems)
        examine(self, dataset, key)
        if len(self.problems) > before:
            return None
        try:
            check_unpacking(self, dataset)
        except ArchiveError as error:
            raise ArchiveError(f"{key} {error}") from error
        return np.asarray(dataset[()]).T if is_of_matlab(dataset) else np.asarray(dataset[()])


def _complex(found: np.ndarray) -> np.ndarray:
    """A compound of two real numbers (MATLAB: ``real``, ``imag``) as complex numbers."""
    names = found.dtype.names or ()
    if [name.lower()[:1] for name in names] != ["r", "i"]:
        return found
    if any(found.dtype[name].kind not in "fiu" or found.dtype[name].shape for name in names):
        return found
    return np.asarray(found[names[0]] + 1j * found[names[1]])


def _called(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "OSU":
        return "text or references"
    return f"a compound of {', '.join(dtype.names)}" if dtype.names else str(dtype)
