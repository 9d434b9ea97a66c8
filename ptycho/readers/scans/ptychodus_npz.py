"""NPZ files of ptychodus (AdvancedPhotonSource/ptychodus): a product, and the patterns that belong to it.

================================= ============ ============================================================
in the product
``probe_position_indexes``        (J,)         number of the pattern
``probe_position_{x,y}_m``        (J,)         metres; the probe's place on the object
``probe``                         (C, K, h, w) K incoherent modes, C coherent ones; or (K, h, w), (h, w)
``opr_weights``                   (n, C)       of the coherent modes, which are summed with their mean
``probe_pixel_{height,width}_m``  ()           metres; the pitch of the detector follows from it
``object``                        (L, h, w)    L layers, whose product is taken; or (h, w)
``object_center_{x,y}_m``         ()           place of its middle ``(h/2, w/2)``
``object_pixel_{height,width}_m`` ()           metres
``photon_energy_eV``              ()           before version 1.7 ``probe_energy_eV``
``detector_object_distance_m``    ()
in the file of patterns
``patterns``                      (J, H, W)    intensities; zero frequency in the centre
``indexes``                       (J,)         number of each pattern; counted if missing
``bad_pixels``                    (H, W)       **True where a pixel does not count**
================================= ============ ============================================================

Signs: probe positions, increasing with the object's column (x) and row (y). Both may lie in one file;
otherwise the second is ``data.patterns_file`` or ``data.positions_file``, which may be a table as well.
Patterns and positions are paired by their numbers, and those that have no partner are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.npz import Archive, NpzError
from ptycho.readers.scans.domain import told_domain
from ptycho.readers.scans.hdf5 import opened as opened_hdf5
from ptycho.readers.scans.npz_arrays import Arrays, flattened, only, opened, places
from ptycho.readers.scans.npz_patterns import NpzPatterns, Selected
from ptycho.readers.scans.positions_table import read_table
from ptycho.readers.scans.product_hdf5 import read_product as read_hdf5
from ptycho.readers.scans.quantities import DISTANCE, ENERGY
from ptycho.readers.scans.raw_scan import PatternSource, RawScan, ReadOptions, detector_pitch_m

NAME = "ptychodus_npz"
ZIP, HDF5 = b"PK", b"\x89H"  # how the files begin
PRODUCT = ("probe_position_x_m", "probe_position_y_m")
ENERGY_KEYS = ("photon_energy_eV", "probe_energy_eV")


@dataclass(frozen=True, eq=False)
class Placed:
    """Positions ``(J, 2)`` by the numbers of their patterns, and what else a product says of the scan."""

    numbers: np.ndarray
    positions: np.ndarray
    unit: str
    values: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Measured:
    """Patterns by their numbers, and which detector pixels count."""

    numbers: np.ndarray
    patterns: PatternSource
    domain: str | None
    good: np.ndarray | None
    notes: tuple[str, ...]


def detect(archive: Archive) -> bool:
    keys = set(archive.keys)
    return set(PRODUCT) <= keys or ("patterns" in keys and bool(keys & {"indexes", "bad_pixels"}))


def read(path: str | Path, options: ReadOptions) -> RawScan:
    """A scan from a product and a file of patterns, of which ``path`` is one or both.

    Raises:
        ConfigError: one line with what is missing or does not fit, and in which file.
    """
    only(path, NAME, options, "unit", "axes", "positions_file", "patterns_file")
    with opened(path) as arrays:
        has_patterns, has_positions = "patterns" in arrays, PRODUCT[0] in arrays
    measured = read_patterns(_other(path, has_patterns, "patterns_file", options))
    positions_path = _other(path, has_positions, "positions_file", options)
    placed = placed_by(path, positions_path, options, measured.patterns.shape[1:])
    patterns, positions, numbers, warnings = paired(path, measured.numbers, measured.patterns, placed)
    values = {"detector_pixel_m": _pitch(placed.values, patterns.shape[1:])} | placed.values
    return RawScan(
        format=NAME,
        patterns=patterns,
        domain=measured.domain,
        zero_frequency="centre",
        positions=positions,
        unit=placed.unit,
        good=measured.good,
        numbers=numbers,
        notes=(*measured.notes, *placed.notes),
        warnings=(*placed.warnings, *warnings),
        **values,
    )


def read_patterns(path: str | Path) -> Measured:
    """What a file of patterns holds.

    Raises:
        ConfigError: it cannot be used.
    """
    with opened(path) as arrays:
        header = flattened(arrays.header("patterns"))
        patterns = NpzPatterns(path, header)
        count, *shape = patterns.shape
        numbers = np.arange(count)
        if "indexes" in arrays:
            numbers = _numbers(arrays, "indexes", count)
        bad = arrays.finite("bad_pixels", "bfiu") if "bad_pixels" in arrays else None
        if bad is not None and list(bad.shape) != shape:
            raise NpzError(f"bad_pixels has shape {bad.shape}; must be {tuple(shape)}, that of a pattern")
        domain, reason = told_domain(patterns.dtype, patterns.blocks())
        if domain is None:
            domain, reason = "intensity", "the format says so"
        return Measured(
            numbers,
            patterns,
            domain,
            None if bad is None else bad == 0,
            (f"{domain}: {reason}", *arrays.notes),
        )


def read_product(path: str | Path, options: ReadOptions) -> Placed:
    """What a product holds.

    Raises:
        ConfigError: it cannot be used.
    """
    with opened(path, stated=options.stated) as arrays:
        arrays.require(PRODUCT)
        col, row = (arrays.finite(key) for key in PRODUCT)
        positions = places(row, col, (PRODUCT[1], PRODUCT[0]))
        numbers = np.arange(len(positions))
        if "probe_position_indexes" in arrays:
            numbers = _numbers(arrays, "probe_position_indexes", len(positions))
        values = {
            "probe": _probe(arrays),
            "probe_pixel_m": arrays.pair("probe_pixel_height_m", "probe_pixel_width_m"),
            "object": arrays.object("object"),
            "object_pixel_m": arrays.pair("object_pixel_height_m", "object_pixel_width_m"),
            "object_centre_m": arrays.pair("object_center_y_m", "object_center_x_m", low=-math.inf),
            "energy_eV": arrays.quantity(ENERGY_KEYS[ENERGY_KEYS[0] not in arrays], ENERGY),
            "distance_m": arrays.quantity("detector_object_distance_m", DISTANCE),
        }
        if options.unit == "px":  # the pixel is the unit, and no length is known
            values |= {"probe_pixel_m": None, "object_pixel_m": None}
        return Placed(
            numbers, positions, options.unit or "m", values, tuple(arrays.notes), tuple(arrays.warnings)
        )


def _other(path: str | Path, here: bool, option: str, options: ReadOptions) -> str | Path:
    """Where the patterns or the positions are: in the file itself or in the one an option names."""
    other, what = getattr(options, option), option.removesuffix("_file")
    if here and other:
        raise ConfigError(f"{path}: data.{option}={other}: it has {what} of its own; leave that out")
    if not here and not other:
        raise ConfigError(f"{path}: has no {what}; add data.{option}=, the file that has them")
    return other or path


def placed_by(
    path: str | Path, positions_path: str | Path, options: ReadOptions, shape: tuple[int, ...]
) -> Placed:
    """Positions from a product, NPZ or HDF5, or from a table, of patterns of a ``shape``."""
    magic = magic_of(positions_path)
    if magic not in (ZIP, HDF5):
        table = read_table(positions_path, options.unit, options.axes)
        return Placed(np.arange(len(table.positions)), table.positions, table.unit, notes=table.notes)
    only(path, NAME, options, "unit", "positions_file", "patterns_file")
    if magic == ZIP:
        return read_product(positions_path, options)
    with opened_hdf5(positions_path, options.stated) as file:
        found = read_hdf5(file, options)
        file.refuse()
        file.close()
    assert found is not None  # else there are problems
    numbers = np.arange(len(found.positions)) if found.indexes is None else found.indexes
    positions = found.positions_on(shape)
    return Placed(numbers, positions, found.unit, found.values, tuple(file.notes), tuple(file.warnings))


def magic_of(path: str | Path) -> bytes:
    """How a file begins; one that cannot be read is left to the reader of tables."""
    try:
        if not Path(path).is_file():  # a pipe would never end
            return b""
        with Path(path).open("rb") as file:
            return file.read(2)
    except (OSError, ValueError):
        return b""


def _probe(arrays: Arrays) -> np.ndarray | None:
    """Modes ``(K, h, w)``; coherent modes are summed with their mean weights over the scan."""
    probe, weights = arrays.offered("probe", "cfiu"), arrays.offered("opr_weights")
    coherent = probe is not None and probe.ndim == 4 and len(probe) > 1
    if probe is None or weights is None or not coherent or weights.shape[-1:] != probe.shape[:1]:
        return arrays.probe("probe")
    mean = weights.reshape(-1, len(probe)).mean(axis=0)
    arrays.warnings.append(f"probe {probe.shape}: its coherent modes are summed with the mean of opr_weights")
    return np.tensordot(mean, probe, axes=1).astype(np.complex64)


def _pitch(values: dict[str, Any], shape: tuple[int, ...]) -> tuple[float, float] | None:
    """The detector's, which no file says, from the probe's pixel, if the probe has the patterns' size."""
    probe = values.get("probe")
    if probe is None or probe.shape[1:] != shape:
        return None
    return detector_pitch_m(
        values.get("probe_pixel_m"), values.get("energy_eV"), values.get("distance_m"), shape
    )


def _numbers(arrays: Arrays, key: str, count: int) -> np.ndarray:
    numbers = arrays.finite(key, "iu")
    if numbers.shape != (count,):
        raise NpzError(f"{key} has shape {numbers.shape}; must be ({count},)")
    return numbers


def paired(
    path: str | Path, mine: np.ndarray, patterns: PatternSource, placed: Placed
) -> tuple[PatternSource, np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """Patterns and positions of the same numbers, in the order of the patterns; the numbers; and warnings.

    Args:
        mine: ``(J,)`` of the patterns.
    """
    theirs = placed.numbers
    if len(np.unique(mine)) < len(mine) or len(np.unique(theirs)) < len(theirs):
        if len(mine) != len(theirs):
            counts = f"{len(mine)} patterns and {len(theirs)} positions"
            raise ConfigError(f"{path}: {counts} have numbers that repeat; give each a number of its own")
        warning = "numbers of patterns or positions repeat: they are paired in the order of the files"
        return patterns, placed.positions, None, (warning,)
    shared, of_mine, of_theirs = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    if not len(shared):
        ranges = f"{mine.min()} to {mine.max()}, those of the positions {theirs.min()} to {theirs.max()}"
        raise ConfigError(f"{path}: no pattern has a position: the numbers of the patterns are {ranges}")
    order = np.argsort(of_mine)
    rows, positions = of_mine[order], placed.positions[of_theirs[order]]
    numbers = shared[order]
    if len(rows) == len(mine) == len(theirs):
        return patterns, positions, numbers, ()
    left = f"{len(mine) - len(rows)} of {len(mine)} patterns and {len(theirs) - len(rows)} of {len(theirs)}"
    return Selected(patterns, rows), positions, numbers, (f"{left} positions are left out: no partner",)
