"""Where results of a run are kept, so that a stopped run need not compute them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np


class Cache(Protocol):
    """Arrays by name; what takes less than ``least_seconds`` is computed again rather than kept."""

    @property
    def least_seconds(self) -> float:
        """Time in seconds below which a result is computed again rather than kept."""

    def get(self, name: str) -> dict[str, np.ndarray] | None:
        """Return the arrays ``(…)`` kept under a name; None: there are none."""

    def put(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep ``arrays (…)`` under a name."""


class NoCache:
    """Cache that keeps nothing."""

    least_seconds = float("inf")

    def get(self, name: str) -> dict[str, np.ndarray] | None:
        return None

    def put(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        return None
