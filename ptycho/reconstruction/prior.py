"""What is known of objects before any pattern: a term that is added to −log p.

    smooth   λ Σ |∇O|²
    edges    λ Σ (√(|∇O|² + δ²) − δ)         smooth, too, but steps cost by their height, not by its square

∇O are the differences of neighbouring pixels along rows and columns. λ is in units of −log p of an object of
order one, so that more light leaves less to the prior. Another prior is one more line in :data:`PRIORS`, or a
:class:`Kind` of the user's own that the key ``solver.regulariser`` names.
Sources: Tikhonov; Charbonnier et al., IEEE Trans. Image Process. 6 (1997) 298.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.own_code import is_import_path, load

STEP = 0.05  # δ: differences below it are smoothed quadratically


@dataclass(frozen=True)
class Prior:
    """A prior of some strength λ.

    Attributes:
        kind: as of :func:`kind_of`, or ``none``.
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
        return 0.0 if self.kind == "none" else kind_of(self.kind).curvature * self.strength

    def __call__(self, image: np.ndarray) -> tuple[float, np.ndarray]:
        """The term, and its gradient ``∂/∂re + i ∂/∂im``; ``image (M, M)`` complex64."""
        if not self.active:
            return 0.0, np.zeros_like(image)
        value, gradient = kind_of(self.kind).term(image)
        return self.strength * value, (self.strength * gradient).astype(image.dtype)


NO_PRIOR = Prior()


Term = Callable[[np.ndarray], tuple[float, np.ndarray]]


def of_differences(function: Callable[[np.ndarray], tuple[float, np.ndarray | np.float32]]) -> Term:
    """The term of a function of ``|∇O|² (M, M)`` that gives its sum, and the weight of ∇O in the gradient."""

    def term(image: np.ndarray) -> tuple[float, np.ndarray]:
        rows, cols = _differences(image)
        value, weight = function(np.abs(rows) ** 2 + np.abs(cols) ** 2)
        return value, _adjoint(weight * rows, weight * cols)

    return term


def _smooth(square: np.ndarray) -> tuple[float, np.ndarray | np.float32]:
    return float(square.sum(dtype=float)), np.float32(2)


def _edges(square: np.ndarray) -> tuple[float, np.ndarray | np.float32]:
    root = np.sqrt(square + np.float32(STEP**2))
    return float(np.sum(root - np.float32(STEP), dtype=float)), 1 / root


class Kind(NamedTuple):
    """A prior of strength one.

    Attributes:
        term: of an object ``(M, M)`` complex64: its value, and its gradient ``∂/∂re + i ∂/∂im``.
        curvature: the largest, in a pixel.
        strengths: λ that are tried where none is asked for, the weakest first.
    """

    term: Term
    curvature: float
    strengths: tuple[float, ...]


PRIORS = {
    "quadratic": Kind(of_differences(_smooth), 8.0, (10.0, 30.0, 100.0, 300.0)),
    "edge_preserving": Kind(of_differences(_edges), 4 / STEP, (3.0, 10.0, 30.0, 100.0)),
}


def kind_of(name: str) -> Kind:
    """The entry of :data:`PRIORS`, or the user's own :class:`Kind` that an import path names."""
    return _own_kind(name) if is_import_path(name) else PRIORS[name]


@functools.cache
def _own_kind(name: str) -> Kind:
    """A user's own kind, whose gradient is compared with its values once, along a line.

    Raises:
        ConfigError: it is no :class:`Kind`, it fails, or the gradient is that of another function.
    """
    kind = load("solver.regulariser", name)
    if not isinstance(kind, Kind):
        wrong = f"is {type(kind).__name__}; must be a ptycho.reconstruction.prior.Kind"
        raise ConfigError(f"solver.regulariser={name}: {wrong}")
    rng, step = np.random.default_rng(0), 1e-3
    image, move = (rng.normal(size=(6, 9)) + 1j * rng.normal(size=(6, 9)) for _ in range(2))
    try:
        gradient = np.asarray(kind.term(image)[1])
        slope = (
            (float(kind.term(image + step * move)[0]) - float(kind.term(image - step * move)[0])) / step / 2
        )
    except Exception as error:  # whatever its code raises
        raise ConfigError(f"solver.regulariser={name}: fails ({type(error).__name__}: {error})") from error
    stated = np.vdot(gradient, move).real if gradient.shape == image.shape else np.nan
    scale = abs(slope) + np.linalg.norm(gradient) * np.linalg.norm(move)
    if not abs(stated - slope) <= 0.01 * scale:
        raise ConfigError(
            f"solver.regulariser={name}: its gradient has the slope {stated:.4g} where its value has "
            f"{slope:.4g}; "
            "it must be ∂/∂re + i ∂/∂im, of the object's shape"
        )
    return kind


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
