"""What a source of a growing scan has to say: frames, positions, and what is known of the scan as a whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

BY_TIME = -1  # number of a position that is joined by its time alone


class Frame(NamedTuple):
    """A detector frame ``(H, W)`` in its own numbers, by its number; ``time`` in seconds, NaN: not known."""

    number: int
    data: np.ndarray
    time: float = np.nan


class Place(NamedTuple):
    """A position of the probe on the object, in the unit of the :class:`Description`.

    ``number``: of the frame that was taken there; :data:`BY_TIME`: of the frame at its ``time``.
    """

    number: int
    row: float
    col: float
    time: float = np.nan


@dataclass(frozen=True, eq=False)
class Arrivals:
    """What came since the last look.

    Attributes:
        frames, places: in any order; what came before may come again.
        faults: what was wrong, and how often; a short word each.
        ended: nothing more will come.
    """

    frames: tuple[Frame, ...] = ()
    places: tuple[Place, ...] = ()
    faults: Counter[str] = field(default_factory=Counter)
    ended: bool = False

    @property
    def empty(self) -> bool:
        return not (self.frames or self.places or self.faults)


NOTHING = Arrivals()


@dataclass(frozen=True, eq=False)
class Description:
    """What a source says of the scan besides its frames and positions; what it does not say is None.

    The names are those of :class:`~ptycho.readers.raw_scan.RawScan`; positions are (row, col) of the probe.

    Attributes:
        shape, dtype: of a frame; None: those of the first.
        expected: how many frames the scan will have.
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
    dtype: np.dtype | None = None
    expected: int | None = None


class Source(Protocol):
    """Where a growing scan comes from."""

    @property
    def description(self) -> Description | None:
        """What is known of the scan; None: nothing yet."""
        ...

    def poll(self) -> Arrivals:
        """What came since the last call; returns within a second or so, with nothing if nothing came.

        Raises:
            ConfigError: it can never be read.
        """
        ...

    def close(self) -> None: ...
