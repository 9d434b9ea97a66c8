"""Untrusted HDF5 files as archives: open, walk, list and read them with checks.

Soft links are followed, 16 at most; external ones and sources of virtual datasets to the folder of the named
file, that of ``data.links_root``, or below one of them. External raw storage is refused: HDF5 would read
whatever file it names. Python objects are never unpickled. ``hdf5_checks.py`` looks for damage.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.files.npz import name_kinds
from ptycho.files.reading import FileError, damage_named, describe_error, open_file
from ptycho.readers.archive import DAMAGE, Archive, Entry
from ptycho.readers.hdf5_checks import Chunks, check_unpacking, examine
from ptycho.readers.hdf5_patterns import Hdf5Patterns, MatlabPatterns, is_of_matlab, open_patterns
from ptycho.readers.patterns import Patterns
from ptycho.readers.raw_scan import ReadOptions

SIGNATURE = b"\x89HDF\r\n\x1a\n"
OPENED, WRITING, CLOSED, UNKNOWN = "opened", "writing", "closed", "unknown"
OPEN_BY_WRITER, OPEN_BY_SWMR = 0x01, 0x04


def mark_of(path: Path) -> str:
    """Return whether a writer has a file open for itself, or for readers (SWMR), or has closed it.

    Unknown: a file of an old format. HDF5 File Format Specification 3.0, II.A: flags in byte 11 of a
    superblock of version 3.
    """
    with path.open("rb") as file:
        start = file.read(12)
    if len(start) < 12 or start[:8] != SIGNATURE or start[8] < 3:
        return UNKNOWN
    if start[11] & OPEN_BY_SWMR:
        return WRITING
    return OPENED if start[11] & OPEN_BY_WRITER else CLOSED


def open_growing(path: Path) -> h5py.File:
    """Open a file that is perhaps being written, without a lock that could stop its writer.

    Raises:
        OSError: a writer has it for itself, or it cannot be read. A file of an old format, which does not
            say so, is locked while it is open.
    """
    mark = mark_of(path)
    if mark == OPENED:
        raise OSError("its writer has not opened it for readers (SWMR)")
    locking = "best-effort" if mark == UNKNOWN else False
    return h5py.File(path, "r", swmr=mark == WRITING, locking=locking)


class Hdf5Archive(Archive):
    """An open HDF5 file, and those that it refers to.

    Attributes:
        root, links_root: the folders that links must not leave.
        chunks: those that were checked before HDF5 unpacks them.
    """

    kind = "HDF5"

    def __init__(self, path: str | Path, options: ReadOptions | None = None) -> None:
        super().__init__(path, options)
        self._open: dict[Path, h5py.File] = {}
        self._growing = options is not None and options.growing
        self.chunks = Chunks()
        try:
            self.root = self.path.resolve().parent
            given = None if options is None else options.links_root
            self.links_root = None if given is None else Path(given).resolve()
            self.file = self._open_file(self.path)
        except (OSError, ValueError, RuntimeError) as error:  # of the file; a zero byte; a loop of links
            raise ConfigError(f"{self.path}: {describe_error(error)}") from error

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open = {}

    def holds(self, *keys: str) -> bool:
        for key in keys:
            path, _, attribute = key.partition("@")
            try:
                node = self.walk(self.file, path or "/", follow=False)
            except FileError:
                return False
            if node is None or (attribute and attribute not in getattr(node, "attrs", ())):
                return False
        return True

    def names(self, most: int) -> list[str]:
        names: list[str] = []

        def visit(name: str | bytes, node: object) -> bool | None:
            if isinstance(node, h5py.Dataset):
                names.append(name if isinstance(name, str) else ascii(name))
            return True if len(names) >= most else None

        with contextlib.suppress(*DAMAGE):  # a damaged part ends the list
            self.file.visititems(visit)
        return names

    def children(self, key: str) -> list[str]:
        node = None
        with contextlib.suppress(FileError, *DAMAGE):
            node = self.walk(self.file, key)
        return sorted(node) if isinstance(node, h5py.Group) else []

    def dataset(self, key: str) -> h5py.Dataset | None:
        """Return the dataset at a path, of a type that NumPy has; None: there is none."""
        with damage_named(f"{key} cannot be read"):
            node = self.walk(self.file, key)
            if isinstance(node, h5py.Dataset) and _overlaps(node.dtype):
                raise FileError(f"{key} is damaged (the parts of its compound overlap)")
        return node if isinstance(node, h5py.Dataset) else None

    def entry(self, key: str) -> Entry | None:
        dataset = self.dataset(key)
        if dataset is None:
            return None
        with damage_named(f"{key} cannot be read"):
            grows = bool(dataset.maxshape) and dataset.maxshape[0] is None
            return Entry(dataset.shape, dataset.dtype, is_of_matlab(dataset), grows)

    def is_same(self, key: str, other: str) -> bool:
        return self.dataset(key) == self.dataset(other)

    def text(self, key: str) -> str | None:
        value = None
        with contextlib.suppress(FileError, *DAMAGE):
            value = self._value(key)
            if isinstance(value, h5py.Dataset) and value.size == 1 and value.dtype.kind in "OSU":
                check_unpacking(self, value)
                value = value[()]
        value = value.ravel()[0] if isinstance(value, np.ndarray) and value.size == 1 else value
        value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return value if isinstance(value, str) else None

    def read(self, key: str, kinds: str = "fiu") -> np.ndarray | None:
        with damage_named(f"{key} cannot be read"):
            value = self._value(key)
            if value is None:
                return None
            array = self._whole(value, key) if isinstance(value, h5py.Dataset) else np.asarray(value)
        array = _complex(array) if "c" in kinds else array
        if array.dtype.kind not in kinds:
            what = "text or references" if array.dtype.kind in "OSU" else str(array.dtype)
            what = f"a compound of {', '.join(array.dtype.names)}" if array.dtype.names else what
            raise FileError(f"{key} {array.shape} is {what}; must be {name_kinds(kinds)}")
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def _value(self, key: str) -> Any:
        path, is_attribute, name = key.partition("@")
        if not is_attribute:
            return self.dataset(key)
        node = self.walk(self.file, path or "/")
        return None if node is None else node.attrs.get(name)

    def patterns(self, *keys: str, any_order: bool = False) -> Patterns:
        source = open_patterns(self, *keys)
        self._lent = True
        if not isinstance(source, Hdf5Patterns) or not is_of_matlab(source.dataset):
            return source
        self.notes.append(f"{source.label} is one of MATLAB's: its axes are in reverse, which is undone")
        return MatlabPatterns(source)

    def _whole(self, dataset: h5py.Dataset, key: str, most_bytes: int = 2**31) -> np.ndarray:
        if dataset.shape is None:
            raise FileError(f"{key} is empty")
        size = dataset.size * dataset.dtype.itemsize
        if size > most_bytes:
            takes = f"takes {size} bytes; at most {most_bytes} are read at once"
            raise FileError(f"{key} {dataset.shape} {takes}")
        examine(self, dataset, key)
        try:
            check_unpacking(self, dataset)
        except FileError as error:
            raise FileError(f"{key} {error}") from error
        return np.asarray(dataset[()]).T if is_of_matlab(dataset) else np.asarray(dataset[()])

    def walk(self, group: h5py.Group, path: str, left: int = 16, follow: bool = True) -> Any:
        """Return the group or dataset at ``path`` from ``group``; None if nothing is.

        FileError: a link leads nowhere or away, or the file is damaged. ``left``: links that may lead to
        links. ``follow=False``: a link to another file is given itself.
        """
        if left == 0:
            raise FileError(f"{path}: too many links that lead to links")
        node = group.file if path.startswith("/") else group
        for name in [part for part in path.split("/") if part not in ("", ".")]:
            if isinstance(node, h5py.ExternalLink):
                return node
            if not isinstance(node, h5py.Group):
                return None
            node = self._child(node, name, left, follow)
        return node

    def _child(self, group: h5py.Group, name: str, left: int, follow: bool) -> Any:
        what = f"{group.name.rstrip('/')}/{name}".lstrip("/")
        with damage_named(f"{what} is damaged"):
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink):
                return self.walk(group, link.path, left - 1, follow)
            if not isinstance(link, h5py.ExternalLink):
                return link if link is None else group[name]
            if not follow:
                return link
            other = self.open_linked(Path(group.file.filename), link.filename, what)
            node = self.walk(other, link.path, left - 1)
            if node is None:
                raise FileError(f"{what} refers to {link.path} in {link.filename}, which is not there")
            return node

    def open_linked(self, holder: Path, name: str, what: str) -> h5py.File:
        """Open the file that ``what`` in the file ``holder`` refers to by ``name``, or raise FileError.

        HDF5 takes a name as it is, and the last part of one beside the file if nothing is there.
        """
        beside = holder.resolve().parent
        try:
            places = [beside / name, beside / Path(name).name]
            linked = next((path.resolve() for path in places if path.is_file()), None)
            roots = [root for root in (self.root, self.links_root) if root is not None]
            if linked is None:
                problem = f"which is not there; copy it to {beside}"
            elif any(linked.is_relative_to(root) for root in roots):
                return self._open_file(linked)
            else:
                away = f"which is {linked}, outside the folder {' and '.join(map(str, roots))}"
                problem = f"{away}; copy it there, or set data.links_root={linked.parent}"
        except (OSError, ValueError) as error:
            problem = f"and cannot read it: {describe_error(error)}"
        raise FileError(f"{what} refers to the file {name}, {problem}")

    def _open_file(self, path: Path) -> h5py.File:
        real = path.resolve()
        if real not in self._open:
            open_file(real).close()
            try:
                opened = open_growing(real) if self._growing else h5py.File(real, "r", locking="best-effort")
                self._open[real] = opened
            except DAMAGE as error:
                text = describe_error(error)
                cause = next(cause for words, cause in CAUSES.items() if re.search(words, text))
                raise FileError(f"{cause} ({text})") from error
        return self._open[real]


def _overlaps(dtype: np.dtype) -> bool:
    """Whether the parts of a compound share bytes: reading it would write beyond the memory for it."""
    parts = sorted((field[1], field[0].itemsize) for field in (dtype.fields or {}).values())
    ends = [offset + size for offset, size in parts]
    starts = [offset for offset, _ in parts[1:]] + [dtype.itemsize]
    return any(end > start for end, start in zip(ends, starts, strict=False))


CAUSES = {  # what a file seems to be that HDF5 does not open, by words of its message
    "truncated": "it is cut short; copy it again, or wait until it is written",
    r"\block(ed)? file|\bopen for writ|not opened it": (
        "it is open for writing; wait until that ends, or run h5clear -s on a copy"
    ),
    "signature": "not an HDF5 file",
    "": "HDF5 cannot open it: it is damaged, or begins like an HDF5 file and is none",
}


def _complex(array: np.ndarray) -> np.ndarray:
    """A compound of two real numbers (MATLAB: ``real``, ``imag``) as complex numbers."""
    names = array.dtype.names or ()
    if [name.lower()[:1] for name in names] != ["r", "i"]:
        return array
    if any(array.dtype[name].kind not in "fiu" or array.dtype[name].shape for name in names):
        return array
    return np.asarray(array[names[0]] + 1j * array[names[1]])
