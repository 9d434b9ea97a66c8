"""A measured scan as a file has it, and the frames that are used.

Nothing is cropped, centred, masked or converted yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.files.file_array import FileArray
from ptycho.readers.patterns import Patterns

DOMAINS = ("counts", "intensity", "amplitude")
UNITS = {"m": 1.0, "mm": 1e-3, "um": 1e-6, "nm": 1e-9, "angstrom": 1e-10, "px": None}  # in metres

OPTIONS = {  # of ReadOptions, that some formats have no use for, with their keys in the configuration
    "keys": "data.keys",
    "unit": "data.unit",
    "axes": "data.position_axes",
    "columns": "data.position_columns",
    "positions_file": "data.positions_file",
    "patterns_file": "data.patterns_file",
}


class PatternSource(Protocol):
    """Diffraction patterns ``(J, H, W)`` that are read as they are needed, in the file's own numbers."""

    shape: tuple[int, int, int]
    dtype: np.dtype

    def read(self, index: slice | np.ndarray) -> np.ndarray:
        """Read patterns ``(K, H, W)`` by a slice of step one or integers."""
        ...

    def close(self) -> None:
        """Close the file; nothing can be read from then on."""


class Frames(Patterns):
    """Patterns ``(J, H, W)`` in memory, read as those of a file are; the raster that they are of, if any."""

    def __init__(self, array: np.ndarray | FileArray, grid: tuple[int, int] | None = None) -> None:
        J, rows, cols = array.shape
        self.array, self.shape, self.dtype, self.grid = array, (J, rows, cols), array.dtype, grid

    def fill(self, first: int, into: np.ndarray) -> None:
        into[:] = self.array[first : first + len(into)]


@dataclass(frozen=True, eq=False)
class RawScan:
    """Scan as a file describes it; values that the file lacks are None.

    Attributes:
        format: name of the format, a key of ``FORMATS``.
        patterns: ``(J, H, W)``; row, column of the detector as stored.
        domain: ``counts``, ``intensity`` (in units of its own) or ``amplitude``; None: cannot be determined.
        zero_frequency: ``centre`` (H//2, W//2), ``corner`` (sample 0), (row, col) in pixels, or None.
        positions: ``(J, 2)`` float64, (row, col) of the probe on the object, increasing with the index of
            the object's array, by the format's own convention; in ``unit``.
        unit: a key of ``UNITS``.
        energy_eV, distance_m: photon energy, of other waves that of photons of their wavelength; from sample
            to detector.
        detector_pixel_m: (row, col) pitch of the detector.
        probe: modes ``(K, h, w)`` complex, zero-phase centre at (h//2, w//2).
        probe_pixel_m: (row, col).
        object: ``(h, w)`` complex, with ``object_pixel_m`` (row, col) and ``object_centre_m`` (row, col): the
            position of its middle in the coordinates of ``positions``, in pixels where these are.
        good: ``(H, W)`` bool, True where a detector pixel counts.
        dark, flat: ``(H, W)``, to subtract from and to divide a pattern by.
        saturation: number of ``patterns`` from which on a pixel is saturated.
        scan_index: ``(J,)`` integers, which scan a pattern belongs to.
        numbers: ``(J,)`` integers, by which a product refers to the file's patterns; None: all are there,
            counted from zero.
        notes: what was found where and what was taken for granted, a line each, for the log.
        warnings: what looks wrong, a line each.
    """

    format: str
    patterns: PatternSource
    domain: str | None
    zero_frequency: str | tuple[float, float] | None
    positions: np.ndarray
    unit: str
    energy_eV: float | None = None
    distance_m: float | None = None
    detector_pixel_m: tuple[float, float] | None = None
    probe: np.ndarray | None = None
    probe_pixel_m: tuple[float, float] | None = None
    object: np.ndarray | None = None
    object_pixel_m: tuple[float, float] | None = None
    object_centre_m: tuple[float, float] | None = None
    good: np.ndarray | None = None
    dark: np.ndarray | None = None
    flat: np.ndarray | None = None
    saturation: float | None = None
    scan_index: np.ndarray | None = None
    numbers: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def stated_centre(self) -> tuple[int, int] | None:
        """Return (row, col) of the zero frequency in the frame, a corner put in the middle; None: unknown."""
        zero, (_, height, width) = self.zero_frequency, self.patterns.shape
        if isinstance(zero, tuple):
            return round(zero[0]), round(zero[1])
        return None if zero is None else (height // 2, width // 2)


@dataclass(frozen=True)
class Raster:
    """Positions that the user states instead of the file.

    Attributes:
        shape: rows and columns; None: those of the patterns' axes.
        step_m: from row to row, and from column to column; None: that of the file.
        path: ``raster``, each row from its first column on, or ``snake``, every second row backwards.
    """

    shape: tuple[int, int] | None
    step_m: tuple[float, float] | None
    path: str = "raster"
    source: str = "data.scan_step"

    @property
    def text(self) -> str:
        """Line for the log."""
        shape = "as its axes are" if self.shape is None else f"{self.shape[0]} × {self.shape[1]}"
        step = " × ".join(f"{size:.4g}" for size in dict.fromkeys(self.step_m or ()))
        return f"positions: a {self.path} {shape}, step {step} m, as {self.source} says"


@dataclass(frozen=True)
class ReadOptions:
    """Statements of a user about a file before it is read.

    Attributes:
        format: force one of the formats; None: recognised by the file's content.
        keys: where things are, for a file of no known layout (``DataKeys``).
        unit: of the positions.
        axes: ``rc`` or ``xy``: what the columns of ``positions`` are, for a key map or a table.
        columns: the two of a table with more, by name or number.
        positions_file: a table (CSV, TXT, NPY) or a second file with the positions, and perhaps a probe.
        patterns_file: a second file with the patterns, for a file that has only positions.
        links_root: a folder that links of HDF5 may lead to, beside that of the file.
        drop, stride, frames: which frames are used, as the section ``data`` has it.
        raster: positions in place of the file's.
        stated: those of ``energy_eV``, ``distance_m``, ``detector_pixel_m`` that go before the file's.
        growing: an HDF5 file may be open for writing (SWMR); what it holds now is read, up to the shortest of
            patterns, rows and columns of the positions.
    """

    format: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    unit: str | None = None
    axes: str | None = None
    columns: tuple[str, ...] = ()
    positions_file: str | None = None
    patterns_file: str | None = None
    links_root: str | None = None
    drop: tuple[int, ...] = ()
    stride: int = 1
    frames: int | None = None
    raster: Raster | None = None
    stated: Mapping[str, Any] = field(default_factory=dict)
    growing: bool = False

    def refuse_unused(self, path: str | Path, name: str, *used: str) -> None:
        """Raise ConfigError for what the format ``name`` has no use for, so that nothing is dropped in
        silence.

        ``used``: keys of ``OPTIONS``; axes and columns are of use for a second file with positions, too.
        """
        used = (*used, "axes", "columns") if self.positions_file and "positions_file" in used else used
        for key, said in OPTIONS.items():
            value = getattr(self, key)
            if value and key not in used:
                text = ", ".join(value) if key in ("keys", "columns") else value
                raise ConfigError(f"{path}: {said}={text}: the format {name} does not need it; remove it")


def checked_frames(config: DataConfig | ReadOptions, count: int) -> np.ndarray:
    """Return indices ``(J,)`` of the frames used: every ``stride``-th, at most ``frames``, none dropped."""
    wrong = [index for index in config.drop if not 0 <= index < count]
    if wrong:
        raise ConfigError(
            f"data.drop={wrong[0]}: must be from 0 to {count - 1}; the scan has {count} patterns"
        )
    used = np.zeros(count, bool)
    used[:: config.stride] = True
    used[list(config.drop)] = False
    return np.flatnonzero(used)[: config.frames]


def listed(indices: list[int], most: int = 100) -> tuple[str, str]:
    """Return ``most`` numbers of frames as ``data.drop`` takes them, and in words how many more there are."""
    more = f" and {len(indices) - most} more" if len(indices) > most else ""
    return ",".join(map(str, indices[:most])), more
