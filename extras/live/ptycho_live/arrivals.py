"""What a source of a live scan delivers: frames, positions, and a description of the whole scan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from ptycho.readers.raw_scan import RawScan

Has = Callable[[int], bool]  # whether the frame of an index is kept already
BY_TIME = -1  # index of a position that is joined by its time alone
FRAME = np.dtype([("index", "<i8"), ("time", "<f8")])
POSITION = np.dtype([("index", "<i8"), ("time", "<f8"), ("row", "<f8"), ("col", "<f8")])
"""A position of the probe on the object, in the unit of the :class:`Description`: of the frame ``index``, or
at a ``time`` in s (NaN: not known)."""


def make_positions(index: Any, row: Any, col: Any, time: Any = np.nan) -> np.ndarray:
    """Return positions ``(n,)`` of dtype :data:`POSITION` from their columns; a single number is repeated."""
    columns = np.broadcast_arrays(*map(np.atleast_1d, (index, time, row, col)))
    positions = np.empty(len(columns[0]), POSITION)
    for name, column in zip(POSITION.names or (), columns, strict=True):
        positions[name] = column
    return positions


NO_POSITIONS = np.empty(0, POSITION)


class Frame(NamedTuple):
    """A detector frame ``(H, W)`` by its index, ``number``; ``time`` in seconds, NaN: not known."""

    number: int
    data: np.ndarray
    time: float = np.nan


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Frames, positions and faults that came since the last look.

    Attributes:
        frames, positions: in any order, also repeated; positions of dtype :data:`POSITION`.
        faults: kinds of faults, a short word each, and their numbers.
        ended: nothing more will come.
    """

    frames: tuple[Frame, ...] = ()
    positions: np.ndarray = field(default_factory=lambda: NO_POSITIONS)
    faults: Counter[str] = field(default_factory=Counter)
    ended: bool = False


@dataclass(frozen=True, eq=False)
class Description:
    """Statements of a source about the scan besides its frames and positions; None: not stated.

    The names are those of :class:`~ptycho.readers.raw_scan.RawScan`; positions are (row, col) of the probe.

    Attributes:
        shape, dtype: of a frame; None: those of the first.
        expected: how many frames the scan will have.
        ended: why nothing more will come, once that is known.
    """

    unit: str | None = None
    domain: str | None = None
    zero_frequency: str | tuple[float, float] | None = None
    energy_eV: float | None = None
    distance_m: float | None = None
    detector_pixel_m: tuple[float, float] | None = None
    probe: np.ndarray | None = None
    probe_pixel_m: tuple[float, float] | None = None
    good: np.ndarray | None = None
    dark: np.ndarray | None = None
    flat: np.ndarray | None = None
    shape: tuple[int, int] | None = None
    dtype: str | None = None
    expected: int | None = None
    ended: str | None = None

    @classmethod
    def of(cls, raw: RawScan, **more: Any) -> Description:
        """Return the description of a measured scan; ``more`` has further values, which take precedence."""
        names = [field.name for field in fields(cls) if field.name in RawScan.__dataclass_fields__]
        return cls(**{name: getattr(raw, name) for name in names} | more)


UNDESCRIBED = Description()


class Source(ABC):
    """Source of a live scan.

    Attributes:
        description: what is known of the scan.
        problem: why something cannot be read now; None: nothing is wrong.
    """

    description: Description = UNDESCRIBED
    problem: str | None = None

    @abstractmethod
    def poll(self) -> Arrivals:
        """Return the arrivals since the last call, within about a second; empty if there are none.

        Raises:
            ConfigError: the source can never be read.
        """

    def close(self) -> None:  # noqa: B027 - a file or a folder is not held open
        """Give back what is held open."""
