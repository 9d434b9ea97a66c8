"""The refined parameters, as one real vector in which every number has about the same curvature.

    u = √H · value,   H_O = 4 Σ_j Σ_m |c_j P_m|² / f²,   H_P = 4 Σ_j |c_j O_j|² / f²,
    H_r = 4 Σ |P ∂O_j|² / f²,   H_c = 4 Σ |P O_j|² / f²,   H_β = 4 J / f²
    H_V = H_P,   H_w = 4 Σ |c_j V_k O_j|² / f²,   H_σ = 4 Σ (∂A/∂σ)² / f²

H is the diagonal of the Gauss-Newton matrix of half the deviance, f² the intensity of one photon; OPR weights
w have a mean power of one, though those that a fit begins with may be nearly zero. Positions move by Π Δr,
where Π takes off what their model leaves out; the mean flux stays as it is where object or probe are refined,
which can take it; a background is β², so that it stays positive. Modes by which a probe varies with weights
that are refined change orthogonally to its first mode: the flux takes what is along it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.scan.probe import ProbeSupport
from ptycho.scan.windows import add_windows_to, inner_windows

COMPLEX = ("object", "modes", "opr_modes", "opr_weights")


@dataclass(frozen=True, eq=False)
class Parameters:
    """The refined part of an estimate as a vector.

    Attributes:
        base: the estimate around which the scales were taken; what is not refined stays as it is there.
        scales: √H by the names of the refined parts.
        model: Π, ``(J, r)`` orthonormal columns, and whether moves lie in their span or beside it.
        support: where the probe may be other than zero; None: everywhere.
        mean_flux: the mean of the flux is refined, too.
        waves: ``(J, m)`` orthonormal columns, of which OPR weights consist; None: they are independent.
    """

    base: Estimate
    scales: dict[str, np.ndarray]
    columns: np.ndarray
    inside: bool
    support: ProbeSupport | None
    mean_flux: bool = False
    waves: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        estimate: Estimate,
        refine: Refine,
        photon: float,
        model: str = "independent",
        support: ProbeSupport | None = None,
        diagonal: float | np.ndarray = 0.0,
        weight_waves: int | None = None,
    ) -> Parameters:
        """Return the refined parameters of an estimate.

        Args:
            photon: f.
            model: of the moves, independent, affine, affine_and_independent or each.
            diagonal: curvature that a regulariser adds in all pixels, or in each ``(M, M)``.
            weight_waves: number of cosines over the scan, of which OPR weights consist; None: independent.
        """
        brightness, slopes, energies = _curvatures(estimate)
        varied, count = estimate.varies, np.array(len(estimate.positions), np.float32)
        parts: dict[str, tuple[bool, np.ndarray]] = {  # whether it is refined, and its curvature
            "object": (refine.object, object_illumination(estimate)),
            "modes": (refine.probe, brightness),
            "positions": (refine.positions, slopes[:, None]),
            "flux": (refine.flux, energies),
            "background": (refine.background, count),
            "opr_modes": (refine.probe and varied, brightness),
            "opr_weights": (refine.probe_variation and varied, weight_curvature(estimate)),
        }
        if refine.point_spread and estimate.has_point_spread:
            parts["point_spread"] = True, _spread_curvature(estimate)
        scales = {}
        for name, (is_refined, curvature) in parts.items():
            if is_refined:
                whole = floored(np.broadcast_to(curvature, getattr(estimate, name).shape)) + 1e-30
                added = diagonal if name == "object" else 0.0
                scales[name] = np.sqrt(4 * whole / photon**2 + added).astype(np.float32)
        columns, inside = _model(estimate.positions, model)
        waves = None if weight_waves is None else cosines(len(estimate.positions), weight_waves)
        return cls(estimate, scales, columns, inside, support, not (refine.object or refine.probe), waves)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the refined parts, in the order of the vector."""
        return tuple(self.scales)

    def start(self) -> np.ndarray:
        """Return the vector of the base, ``(n,)`` float32."""
        values = {
            "object": self.base.object,
            "modes": self.base.modes,
            "positions": np.zeros_like(self.base.positions),
            "flux": np.zeros_like(self.base.flux),
            "background": np.sqrt(np.maximum(self.base.background, 0)),
            "opr_modes": self.base.opr_modes,
            "opr_weights": self.base.opr_weights,
            "point_spread": self.base.point_spread,
        }
        return self._joined({name: scale * values[name] for name, scale in self.scales.items()})

    def estimate(self, u: np.ndarray) -> Estimate:
        """Return the estimate that a vector ``u (n,)`` float32 stands for."""
        changed = {name: part / self.scales[name] for name, part in self._parts(u).items()}
        for name, value in changed.items():
            if name in ("positions", "flux", "opr_modes"):
                base = getattr(self.base, name)
                change = value - base if name == "opr_modes" else value
                changed[name] = base + self._allowed(name, change)
            elif name == "background":
                changed[name] = np.square(value)
            else:
                changed[name] = self._allowed(name, value)
        if "positions" in changed:
            farthest = np.subtract(self.base.object.shape[-2:], self.base.modes.shape[-1])
            changed["positions"] = np.clip(changed["positions"], 0, farthest)
        return replace(self.base, **changed)

    def gradient(self, u: np.ndarray, gradients: dict[str, np.ndarray]) -> np.ndarray:
        """Return the gradient ``(n,)`` for the vector ``u (n,)``, from those for the values by name."""
        slopes = {name: self._allowed(name, gradients[name]) for name in self.scales}
        if "background" in slopes:
            root = self._parts(u)["background"] / self.scales["background"]
            slopes["background"] = 2 * root * slopes["background"]
        return self._joined({name: slopes[name] / scale for name, scale in self.scales.items()})

    def _allowed(self, name: str, change: np.ndarray) -> np.ndarray:
        """Return the orthogonal projection of changes of a part on those that its model allows."""
        if name == "positions":
            along = self.columns @ (self.columns.T @ change)
            return along if self.inside else change - along
        if name == "flux" and not self.mean_flux:
            return change - change.mean()
        if name == "modes" and self.support is not None:
            return self.support.project(change)
        if name == "opr_modes":
            return self._beside_the_first(change if self.support is None else self.support.project(change))
        if name == "opr_weights" and self.waves is not None:
            return self.waves @ (self.waves.T @ change)
        return change

    def _beside_the_first(self, changes: np.ndarray) -> np.ndarray:
        """Return the part of ``changes (K', N, N)`` that is orthogonal to P_0 if weights are refined, too."""
        first = self.base.modes[0]
        if "opr_weights" not in self.scales:
            return changes
        along = np.tensordot(changes, first.conj(), 2) / np.vdot(first, first).real
        return changes - along[:, None, None] * first

    def _joined(self, parts: dict[str, np.ndarray]) -> np.ndarray:
        """Real and imaginary parts beside each other, float32."""
        real = []
        for name in self.scales:
            kind = np.complex64 if name in COMPLEX else np.float32
            real.append(np.ascontiguousarray(parts[name], kind).view(np.float32).ravel())
        return np.concatenate(real)

    def _parts(self, u: np.ndarray) -> dict[str, np.ndarray]:
        parts, begin = {}, 0
        for name, scale in self.scales.items():
            end = begin + scale.size * (2 if name in COMPLEX else 1)
            part = u[begin:end].view(np.complex64 if name in COMPLEX else np.float32)
            parts[name], begin = part.reshape(scale.shape), end
        return parts


def object_illumination(estimate: Estimate) -> np.ndarray:
    """Return ``Σ_j Σ_m |c_j P_m|²`` on the object at the nearest whole positions, ``(M, M)`` float32."""
    corners = np.floor(estimate.positions + 0.5).astype(np.int64)
    intensity = np.sum(np.abs(estimate.modes) ** 2, axis=0)
    illumination = np.zeros(estimate.object.shape[-2:], np.float32)
    for part in _parts(len(corners)):
        flux = estimate.flux[part].astype(np.float32) ** 2
        add_windows_to(illumination, flux[:, None, None] * intensity, corners[part])
    return illumination


def probe_curvature(estimate: Estimate) -> np.ndarray:
    """Return ``Σ_j |c_j O_j|²`` on the probe, ``(N, N)`` float32."""
    return _curvatures(estimate)[0]


def _curvatures(estimate: Estimate) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``Σ|cO|²`` on the probe, ``Σ|P ∂O|²`` and ``Σ|P O|²`` of each pattern."""
    N, corners = estimate.modes.shape[-1], np.floor(estimate.positions + 0.5).astype(np.int64)
    intensity = np.sum(np.abs(estimate.modes) ** 2, axis=0)
    brightness = np.zeros((N, N), np.float32)
    image = estimate.projection
    square = np.abs(image) ** 2
    slope = sum(np.abs(np.gradient(image, axis=axis)) ** 2 for axis in (0, 1)) / 2
    slopes, energies = (np.zeros(len(corners), np.float32) for _ in range(2))
    for part in _parts(len(corners)):
        flux = estimate.flux[part].astype(np.float32) ** 2
        windows = inner_windows(square, corners[part], N)
        brightness += np.einsum("j,jyx->yx", flux, windows)
        energies[part] = np.einsum("yx,jyx->j", intensity, windows)
        slopes[part] = np.einsum("yx,jyx->j", intensity, inner_windows(slope, corners[part], N)) * flux
    return brightness, slopes, energies


def _spread_curvature(estimate: Estimate, patterns: int = 8, least: float = 0.3) -> np.ndarray:
    """``Σ (∂A/∂σ)²`` along either axis, ``(2,)``, from so many of the ``patterns``.

    σ is taken for ``least``, at least: much below, nothing depends on it.
    """
    count, N, step = len(estimate.positions), estimate.modes.shape[-1], 0.02
    some = np.linspace(0, count - 1, min(patterns, count)).round().astype(int)
    corners = np.floor(estimate.positions[some] + 0.5).astype(np.int64)
    windows = inner_windows(estimate.projection, corners, N) * estimate.flux[some, None, None]
    waves = np.fft.fft2(windows[:, None] * estimate.modes, norm="ortho")
    sharp = tf.constant(np.sum(np.abs(waves) ** 2, axis=1), tf.float32)
    sigma = np.maximum(np.abs(estimate.point_spread), least)
    around = [
        floored(physics.spread(sharp, tf.constant(sigma + move, tf.float32)).numpy()) + 1e-30
        for move in step * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    ]
    slopes = [(np.sqrt(around[k]) - np.sqrt(around[k + 1])) / (2 * step) for k in (0, 2)]
    return np.array([np.sum(slope**2) for slope in slopes]) * count / len(some)


def weight_curvature(estimate: Estimate) -> np.ndarray:
    """Return ``Σ|c_j V_k O_j|²`` of OPR weights, ``(J, K')`` float32."""
    N, corners = estimate.modes.shape[-1], np.floor(estimate.positions + 0.5).astype(np.int64)
    powers, square = np.abs(estimate.opr_modes) ** 2, np.abs(estimate.projection) ** 2
    curvature = np.zeros(estimate.opr_weights.shape, np.float32)
    for part in _parts(len(corners) if estimate.varies else 0):
        windows = inner_windows(square, corners[part], N) * estimate.flux[part, None, None] ** 2
        curvature[part] = np.einsum("jyx,kyx->jk", windows, powers, optimize=True)
    return curvature


def cosines(count: int, waves: int) -> np.ndarray:
    """Return ``√(2/J) cos(π m (j + ½)/J)``, m from 1 to ``waves``: orthonormal columns ``(count, waves)``."""
    time = (np.arange(count) + 0.5) / count
    columns = np.cos(np.pi * np.outer(time, np.arange(1, min(waves, count - 1) + 1)))
    return (np.sqrt(2 / count) * columns).astype(np.float32)


def _model(positions: np.ndarray, model: str) -> tuple[np.ndarray, bool]:
    """Orthonormal columns ``(J, r)`` of a model of moves, and whether moves lie in their span."""
    centred = positions - positions.mean(axis=0)
    constant = np.ones((len(positions), 1))
    if model == "each":
        return np.zeros((len(positions), 0)), False
    columns = {"affine": centred, "affine_and_independent": constant}.get(model)
    if columns is None:
        columns = np.concatenate([constant, centred], axis=1)
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, values > 1e-9 * max(values.max(), 1e-30)], model == "affine"


def illuminated_pixels(estimate: Estimate) -> int:
    """Return how many pixels of the object are :func:`illuminated`."""
    return int(np.count_nonzero(illuminated(object_illumination(estimate))))


def illuminated(illumination: np.ndarray, share: float = 0.1) -> np.ndarray:
    """Return where an illumination ``(M, M)`` is above a ``share`` of its maximum."""
    return illumination > share * illumination.max()


def floored(curvature: np.ndarray, share: float = 1e-3) -> np.ndarray:
    """Return a curvature ``(…)``, a ``share`` of its maximum at least; that holds back dim parts."""
    return np.maximum(curvature, share * curvature.max())


def _parts(count: int, size: int = 256) -> Iterator[slice]:
    """Yield slices of so many patterns."""
    return (slice(k, k + size) for k in range(0, count, size))
