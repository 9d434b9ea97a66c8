"""Where fits are kept, so that a run that is stopped need not make them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ptycho.reconstruction.solver import Fit


class Shelf(Protocol):
    """Fits by their names; what takes less than ``least_seconds`` is made again rather than kept."""

    @property
    def least_seconds(self) -> float: ...

    def get(self, name: str) -> Fit | None: ...

    def put(self, name: str, fit: Fit) -> None: ...


class NoShelf:
    """Nothing is kept."""

    least_seconds = float("inf")

    def get(self, name: str) -> Fit | None:
        return None

    def put(self, name: str, fit: Fit) -> None:
        return None
