"""What a store holds, as a measured scan: while it grows, and as a file that any reader understands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig, KeyMap
from ptycho.readers.raw_scan import RawScan
from ptycho.readers.values import tell_domain
from ptycho_live.arrivals import OF_SCAN, Description
from ptycho_live.scan_file import LATER
from ptycho_live.store import Store

FORMAT = "live"  # in findings


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
        """Do nothing: the store is closed by the code that opened it."""


def raw_scan(store: Store, config: DataConfig, samples: int = 16) -> RawScan:
    """Return the frames that have a position as a scan; they stay in the store.

    Args:
        samples: how many frames determine the meaning of their numbers, if it is not specified.

    Raises:
        ConfigError: the unit of the positions is not known.
    """
    description, table = store.description or Description(), store.table
    fields: dict[str, Any] = {
        name: value for name in OF_SCAN if (value := getattr(description, name)) is not None
    }
    stated: dict[str, Any] = config.stated_quantities() | {"unit": config.unit, "domain": config.domain}
    stated["zero_frequency"] = config.stated_zero_frequency()
    fields |= {name: value for name, value in stated.items() if value is not None}
    if "unit" not in fields:
        raise ConfigError("the source does not say the unit of the positions; set data.unit=")
    if "detector_pixel_m" in stated:
        fields["detector_pixel_m"] = (stated["detector_pixel_m"],) * 2
    frames, numbers = StoredFrames(store, table.rows), table.frames["index"][table.rows]
    if "domain" not in fields:
        some = np.unique(np.linspace(0, len(numbers) - 1, samples).astype(int))
        fields["domain"] = tell_domain(frames.dtype, [frames.read(some)]).name
    known = {"zero_frequency": None} | fields
    return RawScan(FORMAT, frames, positions=table.positions(table.rows), numbers=numbers, **known)


def complete_scan(
    store: Store, raw: RawScan, positions: np.ndarray, probe: np.ndarray | None, config: DataConfig
) -> DataConfig:
    """Make the file of a store a scan like any other; return the section ``data`` that it is read with.

    Args:
        raw: the scan that the store holds.
        positions: ``(J, 2)`` of its patterns, in its unit.
        probe: modes ``(K, N, N)`` on the object's pixels; None: there is none.
        config: the section ``data`` of the live run, without what its source has settled.
    """
    table = store.table
    placed = np.full((len(table.frames), 2), np.nan)
    placed[table.rows] = positions
    known = {name: getattr(raw, name) for name in LATER} | {"positions": placed, "probe": probe}
    known = {name: value for name, value in known.items() if value is not None}
    store.complete(known, raw.unit)
    named = known.keys() - config.stated_quantities().keys()  # these take precedence over the file's values
    zero, lacking = raw.zero_frequency, np.setdiff1d(np.arange(len(placed)), table.rows).tolist()
    return replace(
        config,
        file=(str(store.path),),
        keys=KeyMap(patterns="patterns", **{name: name for name in named}),
        drop=tuple(sorted({*config.drop, *lacking})),
        unit=raw.unit,  # type: ignore[arg-type]  # checked when it was read
        domain=raw.domain,  # type: ignore[arg-type]
        zero_frequency=f"{zero[0]:g},{zero[1]:g}" if isinstance(zero, tuple) else zero,
    )
