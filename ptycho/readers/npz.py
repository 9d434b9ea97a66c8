"""NPZ files from anyone, as archives; their members are checked by :mod:`ptycho.files.npz`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.npz import Header, NpzError, NpzFile
from ptycho.files.text import shown
from ptycho.readers.archive import LONGEST, NAMED, Archive, ArchiveError, Entry
from ptycho.readers.npz_patterns import NpzPatterns
from ptycho.readers.raw_scan import ReadOptions

TEXT = 1000  # bytes of the longest text that is read


class NpzArchive(Archive):
    """An open NPZ file. Old ones hold Python objects where a probe should be, which are passed over.

    Raises:
        ConfigError: it is missing, or no NPZ.
    """

    kind, lenient = "NPZ", True

    def __init__(self, path: str | Path, options: ReadOptions | None = None) -> None:
        super().__init__(path, options)
        try:
            self.file = NpzFile(path)
        except NpzError as error:
            raise ConfigError(f"{path}: {shown(str(error), LONGEST // 2)}") from error

    def close(self) -> None:
        self.file.close()

    def holds(self, key: str) -> bool:
        return _member(key) in self.file.keys

    def entry(self, key: str) -> Entry | None:
        if not self.holds(key):
            return None
        try:
            header = self.file.header(_member(key), "bcfiu")
            return Entry(header.shape, header.dtype)
        except NpzError:
            return Entry(None, None)

    def names(self, most: int = NAMED + 1) -> list[str]:
        return self.file.keys[:most]

    def text(self, key: str) -> str | None:
        try:
            header = self.header(key, "U") if self.holds(key) else None
        except ArchiveError:
            return None
        short = header is not None and header.shape == () and 0 < header.dtype.itemsize < TEXT
        return str(self.file.read(header)) if header and short else None

    def load(self, key: str, kinds: str) -> np.ndarray | None:
        if not self.holds(key):
            return None
        try:
            return self.file.read(self.header(key, kinds))
        except NpzError as error:
            raise ArchiveError(str(error)) from error

    def header(self, key: str, kinds: str) -> Header:
        """What the member at ``key`` declares.

        Raises:
            ArchiveError: it is there more than once, damaged, or of another kind.
        """
        try:
            if _member(key) in self.file.repeated:
                raise NpzError(f"{key} is there more than once")
            return self.file.header(_member(key), kinds)
        except NpzError as error:
            raise ArchiveError(str(error)) from error

    def patterns(self, *keys: str | None, either: bool = False, raster: bool = False) -> NpzPatterns | None:
        """The patterns at one key.

        Args:
            either: they may be the last axis, ``(H, W, J)``; the number of positions will tell.
            raster: ``(A, B, H, W)`` is a list of A·B patterns.
        """
        (key,) = keys
        if key is None or not self.require(key):
            return None
        try:
            header = self.header(key, "fiu")
            listed, grid = _listed(header, raster), header.shape[:2] if len(header.shape) == 4 else None
        except ArchiveError as error:
            self.complain(str(error))
            return None
        source = NpzPatterns(self.path, listed, either=either)
        source.grid = (grid[0], grid[1]) if grid and raster and grid[0] != 1 else None
        self.notes.append(f"patterns: {key} {header.shape} of {source.dtype}")
        return source


def _member(key: str) -> str:
    """The array that stands for an attribute."""
    return key.replace("@", "_").removeprefix("_") if "@" in key else key


def _listed(header: Header, raster: bool) -> Header:
    """A member of three axes: without further ones of length one, first or last, or a raster as one list."""
    shape = header.shape
    while len(shape) > 3 and shape[0] == 1:
        shape = shape[1:]
    while len(shape) > 3 and shape[-1] == 1:
        shape = shape[:-1]
    if raster and len(shape) == 4 and not header.fortran:
        shape = (shape[0] * shape[1], *shape[2:])
    if len(shape) != 3 or 0 in shape:
        raise ArchiveError(f"{header.key} has shape {header.shape}; must be (patterns, rows, columns)")
    return replace(header, shape=shape)
