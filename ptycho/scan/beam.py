"""The beam of a scan: everything besides the object that explains its patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class Beam:
    """The illumination of the object, and its positions.

        λ_j = h ∗ Σ_m | F( c_j P_jm · O[r_j : r_j + N] ) |² + b,   P_j0 = P_0 + Σ_k w_jk V_k

    and P_jm = P_m for the other modes.

    Attributes:
        probe: P, modes ``(K, N, N)`` complex64, the strongest first; one ``(N, N)`` is taken, too.
        positions: r, ``(J, 2)``, (row, col) of each patch's first sample in object pixels.
        flux: c, ``(J,)`` float32, factor of the probe's amplitude in each pattern; None is taken for one.
        background: b, ``(N, N)`` float32, intensity that does not depend on the position, zero frequency at
            ``N//2``; None: none.
        opr_modes: V, ``(K', N, N)`` complex64, by which the first mode varies over the scan (orthogonal probe
            relaxation: Odstrčil et al., Opt. Express 24 (2016) 8360); None: it does not.
        opr_weights: w, ``(J, K')`` complex64; None: there are no ``opr_modes``.
        point_spread: σ of the detector's Gaussian point spread h along rows and columns, ``(2,)`` float32 in
            pixels of the patterns; None: there is none.
    """

    probe: np.ndarray
    positions: np.ndarray
    flux: np.ndarray = None  # type: ignore[assignment]  # ones, once it is made
    background: np.ndarray | None = None
    opr_modes: np.ndarray | None = None
    opr_weights: np.ndarray | None = None
    point_spread: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.probe.ndim == 2:
            object.__setattr__(self, "probe", self.probe[None])
        if self.flux is None:
            object.__setattr__(self, "flux", np.ones(len(self.positions), np.float32))

    def __repr__(self) -> str:
        K, others = len(self.probe), "" if self.background is None else ", a background"
        others += "" if self.opr_modes is None else f", OPR modes: {len(self.opr_modes)}"
        others += "" if self.point_spread is None else ", a point spread"
        shape = f"{self.N} × {self.N}"
        return f"Beam({K} mode{'s'[: K > 1]} of {shape}, {len(self.positions)} positions{others})"

    @property
    def N(self) -> int:
        """Side of the patterns."""
        return self.probe.shape[-1]

    @property
    def power(self) -> float:
        """``Σ_m Σ |P_m|²``."""
        return float(np.sum(np.abs(self.probe) ** 2, dtype=float))

    @property
    def variation(self) -> float:
        """``√(⟨‖Σ_k w_jk V_k‖²⟩_j / Σ_m ‖P_m‖²)``: rms of what varies, over the norm of the probe."""
        if self.opr_modes is None or self.opr_weights is None:
            return 0.0
        flat = self.opr_modes.reshape(len(self.opr_modes), -1).astype(complex)
        weights = self.opr_weights.astype(complex)
        power = np.einsum("jk,jl,kl->", weights.conj(), weights, flat.conj() @ flat.T).real
        return float(np.sqrt(max(power, 0.0) / len(weights) / self.power))

    @property
    def steady(self) -> bool:
        """Whether the flux of all patterns is one."""
        return bool(np.all(self.flux == 1))

    @property
    def between_pixels(self) -> bool:
        """Whether some position is not a whole number."""
        return bool(np.any(self.positions != np.round(self.positions)))

    def at(self, indices: np.ndarray) -> Beam:
        """Return the beam of the patterns ``indices (n,)``, in this order."""
        weights = None if self.opr_weights is None else self.opr_weights[indices]
        return replace(self, positions=self.positions[indices], flux=self.flux[indices], opr_weights=weights)

    def with_probe(self, probe: np.ndarray) -> Beam:
        """Return the same beam with another probe ``(N, N)`` or ``(K, N, N)``."""
        return replace(self, probe=np.asarray(probe, np.complex64))

    def scaled_to(self, power: float) -> Beam:
        """Return the same beam with a probe of another power ``Σ_m Σ |P_m|²``."""
        scale = np.sqrt(power / self.power)
        varied = None if self.opr_modes is None else (scale * self.opr_modes).astype(np.complex64)
        return replace(self.with_probe(scale * self.probe), opr_modes=varied)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of files: probe, positions, flux ``(J,)``; what else there is."""
        arrays = {"probe": self.probe, "positions": self.positions, "flux": self.flux}
        optional = ("background", "opr_modes", "opr_weights", "point_spread")
        others = {key: getattr(self, key) for key in optional}
        return arrays | {key: array for key, array in others.items() if array is not None}


def join_parts(parts: Sequence[tuple[np.ndarray, Beam]]) -> Beam:
    """Join beams of patterns whose indices ``(n,)`` are ``parts``' first; the rest is the first part's."""
    order = np.argsort(np.concatenate([indices for indices, _ in parts]), kind="stable")
    weights = [beam.opr_weights for _, beam in parts if beam.opr_weights is not None]
    return replace(
        parts[0][1],
        positions=np.concatenate([beam.positions for _, beam in parts])[order],
        flux=np.concatenate([beam.flux for _, beam in parts])[order],
        opr_weights=np.concatenate(weights)[order] if weights else None,
    )


def vary_probe(modes: np.ndarray, opr_modes: np.ndarray, opr_weights: np.ndarray) -> np.ndarray:
    """Return the modes of each pattern, ``(n, K, N, N)``: the first is ``P_0 + Σ_k w_jk V_k``.

    Args:
        modes: P, ``(K, N, N)``; opr_modes: V, ``(K', N, N)``; opr_weights: w, ``(n, K')``.
    """
    probes = np.repeat(modes[None], len(opr_weights), axis=0)
    probes[:, 0] += np.tensordot(opr_weights, opr_modes, 1)
    return probes
