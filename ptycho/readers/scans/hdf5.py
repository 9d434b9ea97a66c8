"""HDF5 files from anyone: opened, walked and listed without trusting them.

======================= =========================================================================
what a file may hold    what is done
======================= =========================================================================
soft links              followed, ``DEEP`` of them at most
external links          followed to files in the folder of the file that was named, or below it
external raw storage    refused: HDF5 would read whatever file it names, relative to where one stands
virtual datasets        their sources are looked for, see :mod:`~ptycho.readers.scans.hdf5_storage`
Python objects          never unpickled: only numbers and text are read
======================= =========================================================================

What is wrong is kept in :attr:`Hdf5File.problems`, until :meth:`Hdf5File.refuse` raises all of it as one
line. Filters beyond HDF5's own (bitshuffle, LZ4, Blosc, Zstandard: Eiger and Jungfrau detectors) come with
``hdf5plugin``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.files.text import shown

with contextlib.suppress(ImportError):
    import hdf5plugin  # noqa: F401 - registers its filters with HDF5

DEEP = 16  # links that lead to links
NAMED = 12  # datasets that an error lists
TOLD = 5  # problems that an error tells of
LONGEST = 600  # letters of a line; names and texts in a file may have any length
DAMAGE = (OSError, RuntimeError, KeyError, TypeError, ValueError)  # what h5py makes of damaged bytes


class Hdf5Error(ValueError):
    """What is wrong with a file, or a link to one, in words that do not name the file that was asked for."""


class Hdf5File:
    """An open HDF5 file, and all that was found to be wrong or worth telling.

    Attributes:
        path: as it was given.
        root: the folder that links must not leave.
        problems, warnings, notes: a line each.
        stated: values that the user puts in place of the file's, see :class:`ReadOptions`.

    Raises:
        ConfigError: it is missing, cut short, being written, or no HDF5.
    """

    def __init__(self, path: str | Path, stated: Mapping[str, float] | None = None) -> None:
        self.path = Path(path)
        self.stated: Mapping[str, float] = stated or {}
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self._open: dict[Path, h5py.File] = {}
        try:
            self.root = self.path.resolve().parent
            self.file = self._opened(self.path)
        except (OSError, ValueError, RuntimeError) as error:  # Hdf5Error; a zero byte; a loop of links
            raise ConfigError(f"{self.path}: {one_line(error)}") from error

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open = {}

    def complain(self, problem: str) -> None:
        problem = shown(problem, LONGEST)
        if problem not in self.problems:
            self.problems.append(problem)

    def refuse(self) -> None:
        """Raise :class:`ConfigError` with the problems, if there are any."""
        if self.problems:
            more = f"; and {len(self.problems) - TOLD} more" if len(self.problems) > TOLD else ""
            raise ConfigError(f"{self.path}: {'; '.join(self.problems[:TOLD])}{more}")

    def absorb(self, other: Hdf5File) -> None:
        """Take over what was found in a second file, and close it."""
        where = "" if other.path == self.path else f"{other.path}: "
        for problem in other.problems:
            self.complain(f"{where}{problem}")
        self.warnings += [f"{where}{line}" for line in other.warnings]
        self.notes += [f"{where}{line}" for line in other.notes]
        other.close()

    def node(self, key: str) -> h5py.Group | h5py.Dataset | None:
        """What is at a path; None if nothing is, or a link cannot be followed, which is a problem."""
        try:
            return self.walk(self.file, key)
        except Hdf5Error as error:
            self.complain(str(error))
            return None

    def dataset(self, key: str) -> h5py.Dataset | None:
        """The dataset at a path, of a type that NumPy has."""
        node = self.node(key)
        if not isinstance(node, h5py.Dataset):
            return None
        try:
            sound = not _overlaps(node.dtype)
        except DAMAGE as error:
            self.complain(f"{key} cannot be read ({one_line(error)})")
            return None
        if not sound:
            self.complain(f"{key} is damaged (the parts of its compound overlap)")
        return node if sound else None

    def first(self, *keys: str) -> str | None:
        """The first of some paths at which a dataset is."""
        return next((key for key in keys if self.dataset(key) is not None), None)

    def need(self, what: str, *keys: str) -> str | None:
        """The first of some paths at which a dataset is; that there is none is a problem."""
        before = len(self.problems)
        key = self.first(*keys)
        if key is None and len(self.problems) == before:
            self.complain(f"lacks {what} ({' or '.join(keys)}); it has {self.listed()}")
        return key

    def listed(self) -> str:
        """Some of the datasets that are in the file itself."""
        found: list[str] = []

        def visit(name: str | bytes, node: object) -> bool | None:
            if isinstance(node, h5py.Dataset):
                found.append(shown(name if isinstance(name, str) else ascii(name), 60))
            return True if len(found) > NAMED else None

        with contextlib.suppress(*DAMAGE):  # a damaged part ends the list
            self.file.visititems(visit)
        more = ", …" if len(found) > NAMED else ""
        return (", ".join(found[:NAMED]) + more) or "no datasets"

    def walk(self, group: h5py.Group, path: str, left: int = DEEP) -> h5py.Group | h5py.Dataset | None:
        """What is at ``path`` from ``group``; None if nothing is.

        Raises:
            Hdf5Error: a link leads nowhere or away, or the file is damaged.
        """
        if left == 0:
            raise Hdf5Error(f"{path}: more than {DEEP} links that lead to links")
        node = group.file if path.startswith("/") else group
        for name in [part for part in path.split("/") if part not in ("", ".")]:
            if not isinstance(node, h5py.Group):
                return None
            node = self._child(node, name, left)
        return node

    def linked(self, holder: Path, name: str, what: str) -> h5py.File:
        """The file that ``what`` in the file ``holder`` refers to by ``name``.

        HDF5 takes a name as it is, and the last part of one beside the file if nothing is there.

        Raises:
            Hdf5Error: it is not there, not HDF5, or outside :attr:`root`.
        """
        beside = holder.resolve().parent
        try:
            places = [beside / name, beside / Path(name).name]
            found = next((path.resolve() for path in places if path.is_file()), None)
            problem = f"which is not there; copy it to {beside}" if found is None else ""
            if found is not None and not found.is_relative_to(self.root):
                problem = f"which is {found}, outside the folder {self.root}; copy it there"
            if found is not None and not problem:
                return self._opened(found)
        except (Hdf5Error, OSError, ValueError) as error:
            problem = f"and cannot read it: {one_line(error)}"
        raise Hdf5Error(f"{what} refers to the file {name}, {problem}")

    def _child(self, group: h5py.Group, name: str, left: int) -> h5py.Group | h5py.Dataset | None:
        what = f"{group.name.rstrip('/')}/{name}".lstrip("/")
        try:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink):
                return self.walk(group, link.path, left - 1)
            if isinstance(link, h5py.ExternalLink):
                other = self.linked(Path(group.file.filename), link.filename, what)
                found = self.walk(other, link.path, left - 1)
                if found is None:
                    raise Hdf5Error(f"{what} refers to {link.path} in {link.filename}, which is not there")
                return found
            return None if link is None else group[name]
        except Hdf5Error:
            raise
        except DAMAGE as error:
            raise Hdf5Error(f"{what} is damaged ({one_line(error)})") from error

    def _opened(self, path: Path) -> h5py.File:
        real = path.resolve()
        if real not in self._open:
            if not real.is_file():  # a pipe or a device would never end
                raise Hdf5Error("no such file" if not real.exists() else "not a file")
            try:
                self._open[real] = h5py.File(real, "r", locking="best-effort")
            except DAMAGE as error:
                raise Hdf5Error(_why(real, error)) from error
        return self._open[real]


@contextlib.contextmanager
def opened(path: str | Path, stated: Mapping[str, float] | None = None) -> Iterator[Hdf5File]:
    """An open file, which stays open for its patterns unless the block raises; ``stated`` by the user.

    Raises:
        ConfigError: it cannot be opened, or is damaged where the block reads.
    """
    file = Hdf5File(path, stated)
    try:
        yield file
    except BaseException as error:
        file.close()
        if isinstance(error, DAMAGE) and not isinstance(error, ConfigError):
            raise ConfigError(f"{file.path}: damaged ({one_line(error)})") from error
        raise


def here(group: h5py.Group, path: str, left: int = DEEP) -> object | None:
    """What is at ``path`` of the file itself; an external link on the way, which is not followed; or None."""
    node = group.file if path.startswith("/") else group
    parts = [part for part in path.split("/") if part]
    try:
        for depth, name in enumerate(parts):
            link = node.get(name, getlink=True) if isinstance(node, h5py.Group) else None
            if isinstance(link, h5py.SoftLink):
                rest = "/".join([link.path, *parts[depth + 1 :]])
                return here(node, rest, left - 1) if left else None
            if link is None or isinstance(link, h5py.ExternalLink):
                return link
            node = node[name]
    except DAMAGE:
        return None
    return node


def has(file: h5py.Group, path: str) -> bool:
    """Whether something is at ``path``; an external link counts."""
    return here(file, path) is not None


def one_line(error: BaseException) -> str:
    """What an exception says; a ``KeyError`` would add quotes."""
    text = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
    return " ".join(text.split()) or type(error).__name__


def _overlaps(dtype: np.dtype) -> bool:
    """Whether the parts of a compound share bytes: reading it would write beyond the memory for it."""
    parts = sorted((field[1], field[0].itemsize) for field in (dtype.fields or {}).values())
    ends = [offset + size for offset, size in parts]
    starts = [offset for offset, _ in parts[1:]] + [dtype.itemsize]
    return any(end > start for end, start in zip(ends, starts, strict=False))


def _why(path: Path, error: Exception) -> str:
    """What a file that HDF5 does not open seems to be."""
    text = one_line(error)
    if path.stat().st_size == 0:
        return "it is empty"
    if "truncated" in text:
        return f"it is cut short; copy it again, or wait until it is written ({text})"
    if re.search(r"\block(ed)? file|\bopen for writ", text):
        return f"it is open for writing; wait until that ends, or run h5clear -s on a copy ({text})"
    if "signature" in text:
        with path.open("rb") as file:
            archive = file.read(2) == b"PK"
        return "not an HDF5 file" + (": it is a ZIP archive, as NPZ files are" if archive else "")
    return f"HDF5 cannot open it: it is damaged, or begins like an HDF5 file and is none ({text})"
