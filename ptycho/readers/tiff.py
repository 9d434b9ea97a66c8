"""Patterns in TIFF files: a folder of them, in the order of the numbers in their names, or one stack.

Positions are in ``data.positions_file``: the probe's, increasing with the index of the object's array. Where
zero frequency lies is not in the file. Data that are not compressed are read in place.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tifffile

from ptycho.config import ConfigError
from ptycho.files.file_array import FileArray
from ptycho.files.npz import expands_too_much
from ptycho.readers.archive import Archive, Patterns, describe_error
from ptycho.readers.layout import Layout
from ptycho.readers.places import place_scan
from ptycho.readers.raw_scan import RawScan, ReadOptions

SUFFIXES = (".tif", ".tiff")
LAYOUT = Layout(name="tiff", detect=lambda file: True)


class TiffArchive(Archive):
    """A TIFF file, or a folder of such: patterns alone, under no key."""

    kind = "TIFF"

    def patterns(self, *keys: str | None, any_order: bool = False) -> Patterns:
        return TiffPatterns(tiff_files(self.path) if self.path.is_dir() else [self.path])


def is_tiff(path: Path) -> bool:
    """Return whether a path is a folder of TIFF files, or a file that begins as one (classic or BigTIFF)."""
    if path.is_dir():
        return bool(tiff_files(path))
    with path.open("rb") as file:
        return file.read(4) in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def tiff_files(folder: Path) -> list[Path]:
    """Return the TIFF files of a folder, in the order of the numbers in their names."""
    paths = {path.name: path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES}
    return [paths[name] for name in tifffile.natural_sorted(paths) if not name.startswith(".")]


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """Read a scan from a folder of TIFFs or a stack, and a table, or another file with positions."""
    options.refuse_unused(path, LAYOUT.name, *LAYOUT.options)
    if options.positions_file is None:
        raise ConfigError(
            f"{path}: TIFF files have no positions; add data.positions_file=, a table (CSV, TXT, NPY)"
        )
    with TiffArchive(path, options) as file:
        source = file.patterns()
        return place_scan(file, LAYOUT, options, source, LAYOUT.values(file, source))


def read_image(path: Path) -> np.ndarray:
    """Read the only image of a file, ``(H, W)``; ConfigError: it is damaged, or holds several."""
    with contextlib.closing(TiffPatterns([path])) as patterns:
        if patterns.shape[0] != 1:
            raise ConfigError(f"{path}: holds {patterns.shape[0]} images; must be one")
        return patterns.read(slice(0, 1))[0]


class Series(NamedTuple):
    """Patterns of one shape in a file; ``start``: of their bytes, if these follow one another."""

    path: Path
    number: int
    shape: tuple[int, int, int]
    dtype: np.dtype
    start: int | None


class TiffPatterns(Patterns):
    """Patterns ``(J, H, W)`` in TIFF ``files``, of one shape and dtype."""

    label = "TIFF"

    def __init__(self, files: list[Path]) -> None:
        self._series = [series for path in files for series in _all_series(path)]
        first = self._series[0]
        for series in self._series:
            if (series.shape[1:], series.dtype) != (first.shape[1:], first.dtype):
                raise ConfigError(
                    f"{series.path}: holds patterns {series.shape[1:]} of {series.dtype}, and {first.path} "
                    f"{first.shape[1:]} of {first.dtype}; exclude those of another scan"
                )
        self._ends = np.cumsum([series.shape[0] for series in self._series])
        self.shape = (int(self._ends[-1]), *first.shape[1:])
        self.dtype = first.dtype.newbyteorder("=")
        self._open: tuple[Path, tifffile.TiffFile] | None = None

    def read(self, index: slice | np.ndarray) -> np.ndarray:
        wanted = np.arange(self.shape[0])[index]
        patterns = np.empty((len(wanted), *self.shape[1:]), self.dtype)
        parts = np.searchsorted(self._ends, wanted, side="right")
        for k in np.unique(parts):
            mine, series = np.flatnonzero(parts == k), self._series[k]
            with _damage_named(series.path):
                patterns[mine] = self._pages(series, wanted[mine] - (self._ends[k] - series.shape[0]))
        return patterns

    def samples(self) -> Iterator[np.ndarray]:
        for k in range(self.shape[0]):
            yield self.read(slice(k, k + 1))

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _pages(self, series: Series, pages: np.ndarray) -> np.ndarray:
        if series.start is not None:
            with series.path.open("rb") as file:
                return FileArray(file, series.shape, series.dtype, series.start)[pages]
        if self._open is None or self._open[0] != series.path:
            self.close()
            self._open = series.path, tifffile.TiffFile(series.path)
        stored: Any = self._open[1].series[series.number].pages
        if any(math.prod(stored[int(page)].shape) != math.prod(series.shape[1:]) for page in pages):
            raise ValueError("a page holds another number of pixels than the first")
        return np.stack([stored[int(page)].asarray().reshape(series.shape[1:]) for page in pages])


@contextlib.contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Raise whatever a damaged file leads to as one line, which tifffile does not log, too."""
    logger = logging.getLogger("tifffile")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        text = describe_error(error)
        remedy = "pip install imagecodecs" if "imagecodecs" in text else "copy it anew"
        raise ConfigError(f"{path}: cannot be read ({text}); {remedy}") from error
    finally:
        logger.setLevel(level)


def _all_series(path: Path) -> list[Series]:
    with _damage_named(path), tifffile.TiffFile(path) as tiff:
        size = path.stat().st_size
        all_series = [_series(path, k, series, tiff.byteorder, size) for k, series in enumerate(tiff.series)]
    if not all_series:
        raise ConfigError(f"{path}: holds no image; it is cut short or damaged, copy it anew")
    return all_series


def _series(path: Path, number: int, series: Any, order: Any, size: int) -> Series:
    shape, dtype = tuple(map(int, series.shape)), np.dtype(series.dtype).newbyteorder(order)
    if "S" in series.axes or dtype.kind not in "fiu" or len(shape) < 2 or 0 in shape:
        raise ConfigError(
            f"{path}: holds {shape} of {dtype}, axes {series.axes}; must be grey images (H, W) or (J, H, W)"
        )
    needs, start = math.prod(shape) * dtype.itemsize, series.dataoffset
    if start is not None and start + needs > size:
        raise ConfigError(
            f"{path}: declares {shape} of {dtype}, and is cut short: {size} of {start + needs} bytes; "
            "copy it anew"
        )
    if bomb := expands_too_much(size, needs):
        raise ConfigError(f"{path}: declares {shape} of {dtype}: {bomb}")
    return Series(path, number, (math.prod(shape[:-2]), shape[-2], shape[-1]), dtype, start)
