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
from typing import Any

import numpy as np
import tifffile

from ptycho.config import ConfigError
from ptycho.files.file_array import FileArray
from ptycho.files.npz import expands_too_much
from ptycho.files.reading import describe_error
from ptycho.readers.archive import Archive
from ptycho.readers.layout import Layout
from ptycho.readers.patterns import Joined, Patterns

SUFFIXES = (".tif", ".tiff")
LAYOUT = Layout(name="tiff", detect=lambda file: True, patterns=lambda file: file.patterns())


class TiffArchive(Archive):
    """A TIFF file, or a folder of such: patterns alone, under no key."""

    kind = "TIFF"

    def patterns(self, *keys: str, any_order: bool = False) -> Patterns:
        return open_tiff(tiff_files(self.path) if self.path.is_dir() else [self.path])


def tiff_files(folder: Path) -> list[Path]:
    """Return the TIFF files of a folder, in the order of the numbers in their names.

    ConfigError: there are none, or it cannot be read.
    """
    try:
        paths = {path.name: path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES}
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be read ({describe_error(error)})") from error
    files = [paths[name] for name in tifffile.natural_sorted(paths) if not name.startswith(".")]
    if not files:
        raise ConfigError(f"{folder}: is a folder without TIFF files (.tif, .tiff); name a file")
    return files


def read_image(path: Path) -> np.ndarray:
    """Read the only image of a file, ``(H, W)``; ConfigError: it is damaged, or holds several."""
    with contextlib.closing(open_tiff([path])) as patterns:
        if patterns.shape[0] != 1:
            raise ConfigError(f"{path}: holds {patterns.shape[0]} images; must be one")
        return patterns.read(slice(0, 1))[0]


class TiffPatterns(Patterns):
    """Patterns ``(J, H, W)`` in a series of a TIFF file; ``start``: of bytes that follow one another."""

    label = "TIFF"

    def __init__(
        self, path: Path, number: int, shape: tuple[int, int, int], dtype: np.dtype, start: int | None
    ) -> None:
        self.path, self._number, self._stored, self._start = path, number, dtype, start
        self.shape, self.dtype = shape, dtype.newbyteorder("=")
        self._file: tifffile.TiffFile | None = None

    def fill(self, first: int, into: np.ndarray) -> None:
        with _damage_named(self.path):
            if self._start is not None:
                with self.path.open("rb") as file:
                    stored = FileArray(file, self.shape, self._stored, self._start)
                    into[:] = stored[first : first + len(into)]
                return
            self._file = self._file or tifffile.TiffFile(self.path)
            pages: Any = self._file.series[self._number].pages
            for k, pattern in enumerate(into):
                image = pages[first + k].asarray()
                if image.size != pattern.size:
                    raise ValueError("a page holds another number of pixels than the first")
                pattern[:] = image.reshape(pattern.shape)
            if first + len(into) == self.shape[0]:  # a folder may hold more files than can be open
                self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None


def open_tiff(paths: list[Path]) -> Patterns:
    """Return the patterns in TIFF files, of one shape and dtype."""
    series: list[TiffPatterns] = []
    for path in paths:
        with _damage_named(path), tifffile.TiffFile(path) as tiff:
            series += [_series(path, k, one, tiff.byteorder) for k, one in enumerate(tiff.series)]
            if not tiff.series:
                raise ConfigError(f"{path}: holds no image; it is cut short or damaged, copy it anew")
    first = series[0]
    for part in series:
        if (part.shape[1:], part.dtype) != (first.shape[1:], first.dtype):
            raise ConfigError(
                f"{part.path}: holds patterns {part.shape[1:]} of {part.dtype}, and {first.path} "
                f"{first.shape[1:]} of {first.dtype}; exclude those of another scan"
            )
    return Joined(series, "TIFF") if len(series) > 1 else first


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


def _series(path: Path, number: int, series: Any, order: Any) -> TiffPatterns:
    shape, dtype = tuple(map(int, series.shape)), np.dtype(series.dtype).newbyteorder(order)
    size = path.stat().st_size
    if "S" in series.axes or dtype.kind not in "fiu" or len(shape) < 2 or 0 in shape:
        raise ConfigError(
            f"{path}: holds {shape} of {dtype}, axes {series.axes}; must be grey images (H, W) or (J, H, W)"
        )
    needs, start = math.prod(shape) * dtype.itemsize, series.dataoffset
    declares = f"{path}: declares {shape} of {dtype}"
    if start is not None and start + needs > size:
        raise ConfigError(f"{declares}, and is cut short: {size} of {start + needs} bytes; copy it anew")
    if bomb := expands_too_much(size, needs):
        raise ConfigError(f"{declares}: {bomb}")
    return TiffPatterns(path, number, (math.prod(shape[:-2]), shape[-2], shape[-1]), dtype, start)
