"""What a store holds, as a measured scan: at once, and as a file that any reader understands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig, KeyMap
from ptycho.exports.hdf5_writing import write_hdf5
from ptycho.live.arrivals import Description
from ptycho.live.joining import Joined
from ptycho.live.store import Store
from ptycho.readers.domain import tell_domain
from ptycho.readers.raw_scan import RawScan

NAME = "live"  # of the format, in findings
BLOCK = 2**25  # bytes of frames that are copied at once
SAMPLED = 16  # frames that tell what the numbers are
ARRAYS = ("probe", "good", "dark", "flat")


@dataclass(frozen=True, eq=False)
class StoredFrames:
    """Some frames of a store, by their rows: a :class:`~ptycho.readers.raw_scan.PatternSource`."""

    store: Store
    rows: np.ndarray

    @property
    def shape(self) -> tuple[int, int, int]:
        assert self.store.shape is not None
        return (len(self.rows), *self.store.shape)

    @property
    def dtype(self) -> np.dtype:
        assert self.store.dtype is not None
        return self.store.dtype

    def read(self, index: slice | np.ndarray) -> np.ndarray:
        return self.store.read(self.rows[index])

    def close(self) -> None:
        """The store is closed by who opened it."""


def raw_scan(store: Store, joined: Joined, told: Description, config: DataConfig) -> RawScan:
    """The joined patterns as a scan whose frames stay in the store.

    Raises:
        ConfigError: the unit of the positions is not known.
    """
    unit = config.unit or told.unit
    if unit is None:
        raise ConfigError("the source does not say the unit of the positions; set data.unit=")
    frames = StoredFrames(store, joined.rows)
    stated = config.stated_quantities()
    pitch = stated.get("detector_pixel_m")
    return RawScan(
        NAME,
        frames,
        domain=config.domain or told.domain or _domain(frames),
        zero_frequency=config.stated_zero_frequency() or told.zero_frequency,
        positions=joined.positions,
        unit=unit,
        energy_eV=stated.get("energy_eV", told.energy_eV),
        distance_m=stated.get("distance_m", told.distance_m),
        detector_pixel_m=told.detector_pixel_m if pitch is None else (pitch, pitch),
        probe=told.probe,
        probe_pixel_m=told.probe_pixel_m,
        good=told.good,
        dark=told.dark,
        flat=told.flat,
        numbers=joined.indices,
    )


def _domain(frames: StoredFrames) -> str | None:
    some = frames.read(np.unique(np.linspace(0, len(frames.rows) - 1, SAMPLED).astype(int)))
    return tell_domain(frames.dtype, [some]).name


def section_of(config: DataConfig) -> DataConfig:
    """The section ``data`` without what a source has settled: its axes and files, and where things are."""
    return replace(
        config, format=None, keys=KeyMap(), positions_file=None, patterns_file=None, position_axes=None
    )


def write_scan(path: Path, raw: RawScan, probe: np.ndarray | None, config: DataConfig) -> DataConfig:
    """Write a stored scan as HDF5; the section ``data`` that it is read with.

    Args:
        probe: modes ``(K, N, N)`` on the object's pixels, in place of the scan's; None: there is none.

    Raises:
        WriteError: the disk is full.
    """
    arrays = {name: value for name in ARRAYS if (value := getattr(raw, name)) is not None}
    arrays = arrays | ({} if probe is None else {"probe": probe})
    numbers = ("energy_eV", "distance_m", "detector_pixel_m")
    arrays |= {name: value for name in numbers if (value := getattr(raw, name)) is not None}
    write_hdf5(path, lambda file: _fill(file, raw, arrays))
    zero = raw.zero_frequency
    keys = KeyMap(patterns="patterns", positions="positions", **{name: name for name in arrays})
    return replace(
        section_of(config),
        file=(str(path),),
        keys=keys,
        unit=raw.unit,  # type: ignore[arg-type]  # checked when it was read
        domain=raw.domain,  # type: ignore[arg-type]
        zero_frequency=f"{zero[0]:g},{zero[1]:g}" if isinstance(zero, tuple) else zero,
    )


def _fill(out: h5py.File, raw: RawScan, arrays: dict[str, Any]) -> None:
    count, height, width = raw.patterns.shape
    patterns = out.create_dataset("patterns", raw.patterns.shape, raw.patterns.dtype)
    step = max(1, BLOCK // (height * width * raw.patterns.dtype.itemsize))
    for k in range(0, count, step):
        part = slice(k, min(k + step, count))
        patterns[part] = raw.patterns.read(part)
    out["positions"] = raw.positions
    out["positions"].attrs["units"] = raw.unit
    if raw.numbers is not None:
        out["numbers"] = raw.numbers
    for name, value in arrays.items():
        out[name] = np.asarray(value)
