"""Several scans as one (key ``data.shared``): their frames one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptycho.config import ConfigError
from ptycho.readers.raw_scan import PatternSource, RawScan

EQUAL = ("format", "domain", "zero_frequency", "unit", "dark", "flat")
LENGTHS = ("energy_eV", "distance_m", "detector_pixel_m")
KEYS = {"unit": "data.unit", "domain": "data.domain", "zero_frequency": "data.zero_frequency"}


@dataclass(frozen=True, eq=False)
class JoinedPatterns:
    """Patterns ``(J, H, W)`` of several sources, one after the other."""

    sources: tuple[PatternSource, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        _, height, width = self.sources[0].shape
        return sum(source.shape[0] for source in self.sources), height, width

    @property
    def dtype(self) -> np.dtype:
        return np.result_type(*(source.dtype for source in self.sources))

    def read(self, index: slice | np.ndarray) -> np.ndarray:
        """Read some patterns, ``(K, H, W)``, by a slice of step one or integers ``(K,)``."""
        wanted = np.arange(self.shape[0])[index]
        patterns, begin = np.empty((len(wanted), *self.shape[1:]), self.dtype), 0
        for source in self.sources:
            mine = np.flatnonzero((wanted >= begin) & (wanted < begin + source.shape[0]))
            if len(mine):
                patterns[mine] = source.read(wanted[mine] - begin)
            begin += source.shape[0]
        return patterns

    def close(self) -> None:
        for source in self.sources:
            source.close()


def join_scans(scans: Sequence[RawScan], names: Sequence[str]) -> RawScan:
    """Return several scans as one: ``scan_index`` says which each pattern is of.

    The probe is that of the first scan that has one; a pixel is good where it is in all of them. The object
    of a file is left out: its place is known in the coordinates of that file alone. ConfigError: scans that
    differ in what must be equal.
    """
    first, counts = scans[0], [scan.patterns.shape[0] for scan in scans]
    for scan, name in zip(scans[1:], names[1:], strict=True):
        for what, value, other in _differences(first, scan):
            key = KEYS.get(what, f"data.{what}")
            remedy = f"set {key}" if what in (*KEYS, *LENGTHS) else "reconstruct them one by one"
            raise ConfigError(f"data.file: {what} is {value} in {names[0]} and {other} in {name}; {remedy}")
    good = [scan.good for scan in scans if scan.good is not None]
    probes = [scan for scan in scans if scan.probe is not None] or [first]
    return replace(
        first,
        patterns=JoinedPatterns(tuple(scan.patterns for scan in scans)),
        positions=np.concatenate([scan.positions for scan in scans]),
        probe=probes[0].probe,
        probe_pixel_m=probes[0].probe_pixel_m,
        object=None,
        object_pixel_m=None,
        object_centre_m=None,
        good=np.logical_and.reduce(good) if good else None,
        scan_index=np.repeat(np.arange(len(scans)), counts),
        numbers=None,
        notes=tuple(dict.fromkeys(note for scan in scans for note in scan.notes)),
        warnings=tuple(
            f"{name}: {text}" for scan, name in zip(scans, names, strict=True) for text in scan.warnings
        ),
    )


def _differences(first: RawScan, second: RawScan, same: float = 1e-4) -> list[tuple[str, object, object]]:
    """Return what must be equal and is not: its name, and both values; lengths to a relative ``same``."""
    differences = (
        []
        if first.patterns.shape[1:] == second.patterns.shape[1:]
        else [("the size of a frame", first.patterns.shape[1:], second.patterns.shape[1:])]
    )
    pairs = [(name, getattr(first, name), getattr(second, name)) for name in EQUAL]
    differences += [pair for pair in pairs if not np.array_equal(np.asarray(pair[1]), np.asarray(pair[2]))]
    for name in LENGTHS:
        lengths = getattr(first, name), getattr(second, name)
        if None in lengths or not np.allclose(*lengths, rtol=same, atol=0):
            differences += [(name, *lengths)] if lengths != (None, None) else []
    return [(name, _shown(value), _shown(other)) for name, value, other in differences]


def _shown(value: object) -> object:
    if isinstance(value, np.ndarray):
        return f"an array {value.shape}"
    return "unknown" if value is None else value
