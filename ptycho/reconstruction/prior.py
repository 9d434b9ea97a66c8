"""What is known of objects before any pattern: a term that is added to −log p.

    smooth   λ Σ |∇O|²
    edges    λ Σ (√(|∇O|² + δ²) − δ)         smooth, too, but steps cost by their height, not by its square

∇O are the differences of neighbouring pixels along rows and columns. λ is in units of −log p of an object of
order one, so that more light leaves less to the prior. Another prior is one more line in :data:`PRIORS`.
Sources: Tikhonov; Charbonnier et al., IEEE Trans. Image Process. 6 (1997) 298.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

STEP = 0.05  # δ: differences below it are smoothed quadratically


@dataclass(frozen=True)
class Prior:
    """A prior of some strength λ.

    Attributes:
        kind: a key of :data:`PRIORS`, or ``none``.
        strength: λ.
    """

    kind: str = "none"
    strength: float = 0.0

    @property
    def active(self) -> bool:
        return self.kind != "none" and self.strength > 0

    @property
    def curvature(self) -> float:
        """Of the term in one pixel, where it is largest."""
        return 0.0 if self.kind == "none" else PRIORS[self.kind].curvature * self.strength

    def __call__(self, image: np.ndarray) -> tuple[float, np.ndarray]:
        """The term, and its gradient ``∂/∂re + i ∂/∂im``; ``image (M, M)`` complex64."""
        if not self.active:
            return 0.0, np.zeros_like(image)
        rows, cols = _differences(image)
        value, weight = PRIORS[self.kind].function(np.abs(rows) ** 2 + np.abs(cols) ** 2)
        gradient = _adjoint(weight * rows, weight * cols)
        return self.strength * value, (self.strength * gradient).astype(image.dtype)


NO_PRIOR = Prior()


def _smooth(square: np.ndarray) -> tuple[float, np.ndarray | np.float32]:
    return float(square.sum(dtype=float)), np.float32(2)


def _edges(square: np.ndarray) -> tuple[float, np.ndarray | np.float32]:
    root = np.sqrt(square + np.float32(STEP**2))
    return float(np.sum(root - np.float32(STEP), dtype=float)), 1 / root


class Kind(NamedTuple):
    """A prior of strength one.

    Attributes:
        function: of ``|∇O|² (M, M)``: its sum, and the weight of ∇O in the gradient.
        curvature: the largest, in a pixel.
        strengths: λ that are tried where none is asked for, the weakest first.
    """

    function: Callable[[np.ndarray], tuple[float, np.ndarray | np.float32]]
    curvature: float
    strengths: tuple[float, ...]


PRIORS = {
    "quadratic": Kind(_smooth, 8.0, (10.0, 30.0, 100.0, 300.0)),
    "edge_preserving": Kind(_edges, 4 / STEP, (3.0, 10.0, 30.0, 100.0)),
}


def _differences(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``O[i+1, j] − O[i, j]`` and ``O[i, j+1] − O[i, j]``, zero behind the edge."""
    rows, cols = np.zeros_like(image), np.zeros_like(image)
    rows[:-1] = np.diff(image, axis=0)
    cols[:, :-1] = np.diff(image, axis=1)
    return rows, cols


def _adjoint(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    """The adjoint of :func:`_differences`."""
    found = -rows - cols
    found[1:] += rows[:-1]
    found[:, 1:] += cols[:, :-1]
    return found
