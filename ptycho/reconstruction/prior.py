"""Regularisers of the object: terms that are added to −log p.

    quadratic         λ Σ |∇O|²
    edge_preserving   λ Σ (√(|∇O|² + δ²) − δ)        smooth, but an edge costs its height, not its square
    second_order      λ Σ (√(|∇²O|² + δ²) − δ)       the same of slopes: a phase ramp costs nothing

∇O are the differences of neighbouring pixels along rows and columns, and ∇²O the second differences: along
rows, along columns, and √2 times the mixed one (the norm of the Hessian). λ is in units of −log p of an
object of order one, so that more photons leave less to the regulariser. Another one is one more line in
:data:`PRIORS`, or a :class:`Kind` of the user's own that the key ``solver.regulariser`` names.
Slices of a thick object are regularised one by one, and along the beam by ``λ_z Σ |O_(l+1) − O_l|²``.
Sources: Tikhonov; Charbonnier et al., IEEE Trans. Image Process. 6 (1997) 298; Lefkimmiatis et al., IEEE
Trans. Image Process. 21 (2012) 983, for norms of the Hessian.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.own_code import is_import_path, load


@dataclass(frozen=True)
class Prior:
    """A regulariser of some weight λ; of slices, also of their differences."""

    kind: str = "none"  # as of :func:`kind_of`, or ``none``
    strength: float = 0.0  # λ
    depth: float = 0.0  # λ_z of the differences of neighbouring slices

    @property
    def active(self) -> bool:
        """Whether it penalises anything."""
        return self._in_planes or self.depth > 0

    @property
    def _in_planes(self) -> bool:
        return self.kind != "none" and self.strength > 0

    def stiffness(self, image: np.ndarray, shape: tuple[int, int] | None = None) -> np.ndarray | None:
        """Return the curvature by spatial frequency, about ``c s(k)^p (M, M)``, or None if there is none.

        ``image`` is the present object: where it has edges, an edge-preserving regulariser is less stiff.
        ``shape``: of the FFT; None: that of the object.
        """
        if not self.active:
            return None
        shape = shape or image.shape[-2:]
        if image.ndim == 2:
            return self._stiffness(image, shape)
        neighbours = np.full((len(image), 1, 1), 2, np.float32)
        neighbours[[0, -1]] = 1  # an end has one
        along_depth = np.float32(2 * self.depth) * neighbours
        return np.stack([self._stiffness(plane, shape) for plane in image]) + along_depth

    def _stiffness(self, image: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        if not self._in_planes:
            return np.zeros(shape, np.float32)
        kind = kind_of(self.kind)
        if isinstance(kind.term, Differences):
            weight, order = float(np.mean(kind.term.weights(image))), kind.term.order
        else:
            weight, order = kind.curvature / 4, 1  # as a term of |∇O|², whose ∇ᵀ∇ has the diagonal 4
        rows, columns = (4 * np.sin(np.pi * np.fft.fftfreq(side)) ** 2 for side in shape)
        return (self.strength * weight * (rows[:, None] + columns) ** order).astype(np.float32)

    def curvature(self, image: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return R, a positive operator on waves of the object's shape: the term's Hessian, or more.

        The weights that differences have in the gradient at ``image (M, M)``, or slices, are held:
        ``R v = λ ∇ᵀ (w ∇v)``. Of slices, ``2 λ_z`` times the differences along the beam are added.
        """
        if image.ndim == 2:
            return self._curvature(image)
        planes = list(map(self._curvature, image))

        def apply(waves: np.ndarray) -> np.ndarray:
            total = np.stack([plane(one) for plane, one in zip(planes, waves, strict=True)])
            along = np.float32(2 * self.depth) * np.diff(waves, axis=0)
            total[1:] += along
            total[:-1] -= along
            return total

        return apply

    def _curvature(self, image: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        if not self._in_planes:
            return np.zeros_like
        kind = kind_of(self.kind)
        if isinstance(kind.term, Differences):
            return kind.term.weighted(self.strength * kind.term.weights(image))
        return Differences(_quadratic).weighted(np.float32(self.strength * kind.curvature / 4))

    def __call__(self, image: np.ndarray) -> tuple[float, np.ndarray]:
        """The term, and its gradient ``∂/∂re + i ∂/∂im``; ``image (M, M)`` complex64, or slices."""
        if not self.active:
            return 0.0, np.zeros_like(image)
        if image.ndim == 2:
            return self._in_plane(image)
        values, slopes = zip(*map(self._in_plane, image), strict=True)
        between, slope = np.diff(image, axis=0), np.stack(slopes)
        slope[1:] += 2 * self.depth * between
        slope[:-1] -= 2 * self.depth * between
        return sum(values) + self.depth * float(np.sum(np.abs(between) ** 2, dtype=float)), slope

    def _in_plane(self, image: np.ndarray) -> tuple[float, np.ndarray]:
        if not self._in_planes:
            return 0.0, np.zeros_like(image)
        value, gradient = kind_of(self.kind).term(image)
        return self.strength * value, (self.strength * gradient).astype(image.dtype)


NO_PRIOR = Prior()


@dataclass(frozen=True, eq=False)
class Anchor:
    """The penalty ``½ Σ w |O − Z|²`` on the distance to a known object."""

    target: np.ndarray  # Z, ``(M, M)`` complex64
    weight: np.ndarray  # w, ``(M, M)`` float32, its curvature in each pixel, the same at all frequencies
    active = True

    def __call__(self, image: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the penalty, and its gradient ``∂/∂re + i ∂/∂im``; ``image (M, M)`` complex64."""
        off = image - self.target
        slope = self.weight * off
        return float(np.vdot(off, slope).real) / 2, slope.astype(np.complex64)


Term = Callable[[np.ndarray], tuple[float, np.ndarray]]
OfSquares = Callable[[np.ndarray], tuple[float, np.ndarray | np.float32]]


@dataclass(frozen=True)
class Differences:
    """The term of a function of ``|∇O|²`` or ``|∇²O|²``."""

    # of the squares ``(M, M)``; gives its sum, and the weight of the differences in the gradient
    function: OfSquares
    order: int = 1  # of the differences

    def __call__(self, image: np.ndarray) -> tuple[float, np.ndarray]:
        """The term, and its gradient ``∂/∂re + i ∂/∂im``."""
        parts = self._of(image)
        value, weight = self.function(_square(parts))
        return value, self._adjoint_of(weight, parts)

    def weights(self, image: np.ndarray) -> np.ndarray | np.float32:
        """Return w, ``(M, M)`` or a number, by which the differences of ``image (M, M)`` are multiplied."""
        return self.function(_square(self._of(image)))[1]

    def weighted(self, weight: np.ndarray | np.float32) -> Callable[[np.ndarray], np.ndarray]:
        """Return the operator ``v → ∇ᵀ (w ∇v)`` of images ``(M, M)``."""
        return lambda image: self._adjoint_of(weight, self._of(image))

    def _adjoint_of(self, weight: np.ndarray | np.float32, parts: tuple[np.ndarray, ...]) -> np.ndarray:
        adjoint = _adjoint if self.order == 1 else _second_adjoint
        return adjoint(*(weight * part for part in parts))

    def _of(self, image: np.ndarray) -> tuple[np.ndarray, ...]:
        return _differences(image) if self.order == 1 else _second_differences(image)


def _square(parts: tuple[np.ndarray, ...]) -> np.ndarray:
    return sum((np.abs(part) ** 2 for part in parts[1:]), np.abs(parts[0]) ** 2)


def _quadratic(square: np.ndarray) -> tuple[float, np.ndarray | np.float32]:
    return float(square.sum(dtype=float)), np.float32(2)


def _charbonnier(square: np.ndarray, delta: float) -> tuple[float, np.ndarray | np.float32]:
    root = np.sqrt(square + np.float32(delta**2))
    return float(np.sum(root - np.float32(delta), dtype=float)), 1 / root


class Kind(NamedTuple):
    """A regulariser of weight one."""

    term: Term  # of an object ``(M, M)`` complex64: its value, and its gradient ``∂/∂re + i ∂/∂im``
    curvature: float  # the largest, in a pixel
    strengths: tuple[float, ...]  # λ that are tried if none is specified, the weakest first


def charbonnier(order: int, delta: float) -> Kind:
    """Return the regulariser of differences of an ``order``, quadratic below ``delta`` and linear above."""
    term = Differences(functools.partial(_charbonnier, delta=delta), order)
    return Kind(term, {1: 4, 2: 20}[order] / delta, (3.0, 10.0, 30.0, 100.0))


PRIORS = {
    "quadratic": Kind(Differences(_quadratic), 8.0, (10.0, 30.0, 100.0, 300.0)),
    "edge_preserving": charbonnier(1, 0.05),
    "second_order": charbonnier(2, 0.02),
}


def kind_of(name: str) -> Kind:
    """Return the entry of :data:`PRIORS`, or the user's own :class:`Kind` that an import path names."""
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
        ahead, behind = (float(kind.term(image + sign * step * move)[0]) for sign in (1, -1))
        slope = (ahead - behind) / step / 2
    except Exception as error:  # whatever its code raises
        raise ConfigError(f"solver.regulariser={name}: fails ({type(error).__name__}: {error})") from error
    stated = np.vdot(gradient, move).real if gradient.shape == image.shape else np.nan
    scale = abs(slope) + np.linalg.norm(gradient) * np.linalg.norm(move)
    if not abs(stated - slope) <= 0.01 * scale:
        raise ConfigError(
            f"solver.regulariser={name}: its gradient has the slope {stated:.4g} where its value has "
            f"{slope:.4g}; it must be ∂/∂re + i ∂/∂im, of the object's shape"
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
    adjoint = -rows - cols
    adjoint[1:] += rows[:-1]
    adjoint[:, 1:] += cols[:, :-1]
    return adjoint


def _second_differences(image: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``O[i+1, j] − 2 O[i, j] + O[i−1, j]``, the same along columns, and √2 times the mixed difference."""
    rows, cols, mixed = (np.zeros_like(image) for _ in range(3))
    down, right = np.diff(image, axis=0), np.diff(image, axis=1)
    np.subtract(down[1:], down[:-1], out=rows[1:-1])
    np.subtract(right[:, 1:], right[:, :-1], out=cols[:, 1:-1])
    np.subtract(down[:, 1:], down[:, :-1], out=mixed[:-1, :-1])
    mixed *= np.float32(np.sqrt(2))
    return rows, cols, mixed


def _second_adjoint(rows: np.ndarray, cols: np.ndarray, mixed: np.ndarray) -> np.ndarray:
    """The adjoint of :func:`_second_differences`."""
    adjoint = np.zeros_like(rows)
    for padded, axis in ((rows, 0), (cols, 1)):
        inner = np.moveaxis(padded, axis, 0)[1:-1]
        there = np.moveaxis(adjoint, axis, 0)
        there[2:] += inner
        there[1:-1] -= 2 * inner
        there[:-2] += inner
    corner = np.float32(np.sqrt(2)) * mixed[:-1, :-1]
    adjoint[1:, 1:] += corner
    adjoint[:-1, :-1] += corner
    adjoint[1:, :-1] -= corner
    adjoint[:-1, 1:] -= corner
    return adjoint
