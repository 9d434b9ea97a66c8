"""What is played when: frames and positions by their moments, with the faults that beamlines know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ptycho.config import ConfigError
from ptycho.live.arrivals import Description
from ptycho.readers.raw_scan import UNITS, PatternSource, RawScan

FAULTS = ("repeats", "gaps", "late", "disorder", "not_finite", "shape", "dtype", "garbage")
Kind = Literal["frame", "position", "not_finite", "shape", "dtype", "garbage"]
LATE_S = 3.0  # of a position that comes late
OUT_OF_STEP = 6  # positions among which their order changes


class Event(NamedTuple):
    """What is played at a moment (s): a frame or a position by its number, or what is wrong with one."""

    moment: float
    kind: Kind
    number: int


@dataclass(frozen=True, eq=False)
class Played:
    """A scan that is played.

    Attributes:
        frames: ``(J, H, W)``, still in their file.
        positions: ``(J, 2)`` (row, col) of the probe in ``unit``.
        description: what is said of the scan.
        roots: the frames are square roots of what was measured.
    """

    frames: PatternSource
    positions: np.ndarray
    unit: str
    description: Description
    roots: bool = False

    def frame(self, index: int) -> np.ndarray:
        """As a detector would write it, ``(H, W)``: photons, where amplitudes are stored."""
        data = self.frames.read(np.array([index]))[0]
        if self.description.domain == "counts" and data.dtype.kind == "f":
            data = np.rint(np.square(data) if self.roots else data).astype(np.uint32)
        return data


def play(raw: RawScan, probe: bool) -> Played:
    """A scan as it is played; ``probe``: what the file knows of it is sent.

    Raises:
        ConfigError: what its numbers are is not known.
    """
    if raw.domain is None:
        raise ConfigError("data.domain=null: cannot be detected; set counts, intensity or amplitude")
    factor = UNITS[raw.unit]
    positions = raw.positions if factor is None else raw.positions * factor
    unit = "px" if factor is None else "m"
    description = Description.of(
        raw,
        unit=unit,
        domain="intensity" if raw.domain == "intensity" else "counts",
        shape=raw.patterns.shape[1:],
        expected=len(positions),
        **({} if probe else {"probe": None, "probe_pixel_m": None}),
    )
    return Played(raw.patterns, positions, unit, description, raw.domain == "amplitude")


def schedule(
    count: int, rate: float, lag_s: float, faults: Sequence[str], share: float, seed: int
) -> list[Event]:
    """What is played, in the order of the moments.

    Args:
        count: how many frames.
        rate: frames in a second.
        lag_s: from a frame to its position.
        faults: some of :data:`FAULTS`.
        share: of the frames that have a fault, for each.
    """
    rng = np.random.default_rng(seed)
    moments = np.arange(count) / rate
    chosen = {fault: rng.random(count) < share for fault in FAULTS}  # each has a stream of its own
    there = ~chosen["gaps"] if "gaps" in faults else np.ones(count, bool)
    placed = moments + lag_s
    if "late" in faults:
        placed = placed + LATE_S * chosen["late"]
    if "disorder" in faults:
        placed = placed + rng.permutation(count) % OUT_OF_STEP / rate
    events = [Event(moments[k], "frame", k) for k in np.flatnonzero(there).tolist()]
    events += [Event(placed[k], "position", k) for k in range(count)]
    if "repeats" in faults:
        again = np.flatnonzero(chosen["repeats"] & there)
        events += [Event(moments[k] + 1 / rate, "frame", k) for k in again.tolist()]
    kinds: tuple[Kind, ...] = ("not_finite", "shape", "dtype", "garbage")
    for kind in kinds:
        if kind in faults:  # before the right one, so that it is not taken in its place
            events += [
                Event(moments[k] - 1e-6, kind, k) for k in np.flatnonzero(chosen[kind] & there).tolist()
            ]
    return sorted(events, key=lambda event: event.moment)


def bursts(events: Sequence[Event], seconds: float) -> Iterator[tuple[float, list[Event]]]:
    """The events together that come within so many seconds, with the moment of the last."""
    begin = 0
    while begin < len(events):
        until = events[begin].moment + seconds
        end = begin
        while end < len(events) and events[end].moment <= until:
            end += 1
        yield events[end - 1].moment, list(events[begin:end])
        begin = end
