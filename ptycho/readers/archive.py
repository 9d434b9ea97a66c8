"""One interface to files of arrays: HDF5 and NPZ, whose arrays have names, and TIFF, which has patterns.

A key is a path, ``entry/data/x``, or that of an attribute, ``entry/data@Pixel_size``; ``@name`` is one of the
root. An NPZ has no attributes but arrays in their place: ``probe_pixel_m`` for ``probe@pixel_m``.

A fault is an :class:`FileError`. Where a scan is put together, :meth:`Archive.noted` collects the faults
of all values in :attr:`Archive.problems`, and :meth:`Archive.refuse` raises all of them as one line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.files.reading import FileError, describe_error, faults_of, open_file, shown
from ptycho.readers.patterns import Patterns
from ptycho.readers.raw_scan import ReadOptions

T = TypeVar("T")
STARTS = {  # what a file is, by its first bytes and not by its name
    "NPZ": (b"PK",),
    "TIFF": (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),  # classic and BigTIFF
    "NPY": (b"\x93NUMPY",),
    "MATLAB": (b"MATLAB 5",),
    "bzip2": (b"BZh",),
    "gzip": (b"\x1f\x8b",),
}
DAMAGE = (OSError, RuntimeError, KeyError, TypeError, ValueError)  # what damaged bytes lead to


class UnusableError(FileError):
    """Fault of a value that is skipped in a lenient archive, with a warning."""


class Entry(NamedTuple):
    """Declaration of a key; None: it holds no numbers that are known without reading.

    ``columns_first``: it is an array of MATLAB, whose last axes count images; ``grows``: its first axis may.
    """

    shape: tuple[int, ...] | None
    dtype: np.dtype[Any] | None
    columns_first: bool = False
    grows: bool = False


class Archive(ABC):
    """An open file, and the faults and notes about it; a context manager.

    At the end of the block the file is closed, unless patterns were taken from it, which then close it.

    Attributes:
        stated: values that the user specifies in place of the file's, see :class:`ReadOptions`.
        problems, warnings, notes: a line each.
        lenient: an optional value that cannot be used is skipped; otherwise it is a problem.
        strict: the user named every key, so that all of them must be usable.
    """

    kind: ClassVar[str]
    lenient: ClassVar[bool] = False
    longest: ClassVar[int] = 600  # letters of a line; names and texts in a file may have any length

    def __init__(self, path: str | Path, options: ReadOptions | None = None) -> None:
        self.path, self.strict = Path(path), False
        self.stated: Mapping[str, Any] = {} if options is None else options.stated
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self._lent = False

    @abstractmethod
    def patterns(self, *keys: str, any_order: bool = False) -> Patterns:
        """Return the patterns at some keys, one after the other.

        ``any_order``: in NPZ, they may be the last axis, or a raster.
        """

    def holds(self, *keys: str) -> bool:
        """Return whether something is at every one of some keys; no link to another file is followed."""
        return False

    def holds_any(self, *keys: str) -> bool:
        """Return whether something is at one of some keys."""
        return any(self.holds(key) for key in keys)

    def entry(self, key: str) -> Entry | None:
        """Return what the array at a key declares; None: there is none."""
        return None

    def children(self, key: str) -> list[str]:
        """Return the names in a group, sorted; none, if there is no such group."""
        return []

    def is_same(self, key: str, other: str) -> bool:
        """Return whether two keys are names of one array."""
        return key == other

    def names(self, most: int) -> list[str]:
        """Return keys of its arrays, ``most`` at most."""
        return []

    def text(self, key: str) -> str | None:
        """Return a short text; None: there is something else, or nothing."""
        return None

    def read(self, key: str, kinds: str = "fiu") -> np.ndarray | None:
        """Read numbers ``(…)`` at a key, of ``kinds`` (NumPy's), native byte order; or raise FileError."""
        return None

    def close(self) -> None:
        """Close it, and what it refers to."""
        self._lent = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None or not self._lent:
            self.close()
        if isinstance(error, DAMAGE) and not isinstance(error, ConfigError):
            known = isinstance(error, FileError)
            fault = shown(str(error), self.longest) if known else f"damaged ({describe_error(error)})"
            raise ConfigError(f"{self.path}: {fault}") from error

    def noted(self, read: Callable[[], T], needed: bool = False) -> T | None:
        """Return what ``read`` gives; None, and a problem or a warning, where there is a fault."""
        try:
            return read()
        except FileError as error:
            skipped = isinstance(error, UnusableError) and self.lenient and not (self.strict or needed)
            if not skipped:
                self.complain(str(error))
            elif (line := f"skipped: {error}") not in self.warnings:
                self.warnings.append(line)
            return None

    def complain(self, problem: str) -> None:
        """Note a problem."""
        problem = shown(problem, self.longest)
        if problem not in self.problems:
            self.problems.append(problem)

    def refuse(self, most: int = 5) -> None:
        """Raise :class:`ConfigError` with ``most`` of the problems, if there are any."""
        if self.problems:
            more = f"; and {len(self.problems) - most} more" if len(self.problems) > most else ""
            raise ConfigError(f"{self.path}: {'; '.join(self.problems[:most])}{more}")

    def absorb(self, other: Archive) -> None:
        """Take over what was noted in a second file."""
        prefix = "" if other.path == self.path else f"{other.path}: "
        for problem in other.problems:
            self.complain(f"{prefix}{problem}")
        self.warnings += [f"{prefix}{line}" for line in other.warnings]
        self.notes += [f"{prefix}{line}" for line in other.notes]

    def first(self, *keys: str) -> str | None:
        """Return the first of some keys at which an array is."""
        return next((key for key in keys if self.entry(key) is not None), None)

    def need(self, what: str, *keys: str) -> str:
        """Return the first of some keys at which an array is; FileError: there is none."""
        key = self.first(*keys)
        if key is None:
            raise FileError(f"lacks {what} ({' or '.join(keys)}); it has {self.listed()}")
        return key

    def require(self, *keys: str) -> None:
        """Raise FileError unless there is an array at every one of some keys."""
        lacking = [key for key in keys if self.entry(key) is None]
        if lacking:
            raise FileError(f"lacks {', '.join(lacking)}; it has {self.listed()}")

    def listed(self, declared: bool = False, most: int = 12) -> str:
        """Return ``most`` of its keys; with their shapes and dtypes, if these are to be ``declared``."""
        names = self.names(most + 1)
        more = ["…"] if len(names) > most else []
        named = [shown(name, 60) for name in names[:most]]
        for k, entry in enumerate(self.noted(partial(self.entry, name)) for name in names[:most] if declared):
            numbers = None if entry is None or entry.dtype is None else f"{entry.shape} {entry.dtype}"
            named[k] += f" {numbers or '(no numbers)'}"
        return ", ".join(named + more) or "no arrays"


def container_of(path: str | Path, key: str = "") -> tuple[str, bytes]:
    """Return what a file is, HDF5, empty, or one of ``STARTS`` (nothing: unknown), and its first bytes.

    ConfigError: it cannot be read; ``key`` is put before its name.
    """
    with faults_of(f"{key}{path}"), open_file(path) as file:
        start = file.read(8)
    kinds = (name for name, starts in STARTS.items() if start.startswith(starts))
    kind = "HDF5" if h5py.is_hdf5(path) else next(kinds, "")
    return kind if start else "empty", start
