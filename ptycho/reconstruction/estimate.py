"""Object and beam that explain the patterns of a scan, and which parts of them are refined."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ptycho.scan.beam import Beam, vary_probe
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import orthogonal_modes


@dataclass(frozen=True, eq=False)
class Estimate:
    """Object and beam that explain the patterns of a scan, in the normalised units of its dataset.

    Attributes:
        object: ``(M, M)`` complex64; slices of a thick one, ``(L, M, M)``, L > 1.
        modes: ``s·f·P``, ``(K, N, N)`` complex64, the strongest first.
        positions: ``(J, 2)`` float64, top-left samples.
        flux: c, ``(J,)`` float32.
        background: b, ``(N, N)`` float32, normalised intensity, zero frequency at sample 0.
        opr_modes: V, ``(K', N, N)`` complex64, in the units of ``modes``, the first of which is
            ``P_0 + Σ_k w_jk V_k`` for pattern j; None is taken for K' = 0.
        opr_weights: w, ``(J, K')`` complex64; without ``opr_modes``, ``(J, 0)``.
        point_spread: σ of the detector's point spread along rows and columns, ``(2,)`` float32 in pixels of
            the patterns, of either sign; None is taken for zero.
    """

    object: np.ndarray
    modes: np.ndarray
    positions: np.ndarray
    flux: np.ndarray
    background: np.ndarray
    opr_modes: np.ndarray = None  # type: ignore[assignment]  # an array, once it is made
    opr_weights: np.ndarray = None  # type: ignore[assignment]
    point_spread: np.ndarray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.opr_modes is None or not len(self.opr_modes):
            object.__setattr__(self, "opr_modes", np.zeros((0, *self.modes.shape[1:]), np.complex64))
            object.__setattr__(self, "opr_weights", np.zeros((len(self.positions), 0), np.complex64))
        if self.point_spread is None:
            object.__setattr__(self, "point_spread", np.zeros(2, np.float32))

    @classmethod
    def of(
        cls, data: Dataset, object_: np.ndarray, modes: int | None = None, normalisation: float | None = None
    ) -> Estimate:
        """Return that of a dataset, with an object ``(M, M)``, or slices of one.

        ``modes``: so many; None: those that it has. ``normalisation``: f, in whose units it is; None: the
        dataset's own.
        """
        ratio = np.float32(1 if normalisation is None else normalisation / data.normalisation)
        known, background = ratio * data.model_probe, data.model_background
        wanted, sigma = len(known) if modes is None else modes, data.beam.point_spread
        constant = cls(
            object_.astype(np.complex64),
            more_modes(known, wanted)[:wanted],
            data.positions.astype(np.float64),
            data.beam.flux,
            ratio**2 * (np.zeros((data.N, data.N), np.float32) if background is None else background),
            point_spread=None if sigma is None else sigma.astype(np.float32),  # type: ignore[arg-type]
        )
        varied, weights = data.model_opr_modes, data.beam.opr_weights
        return constant if varied is None else constant.varied_by(ratio * varied, weights)

    @property
    def slices(self) -> int:
        """L, the number of slices of the object."""
        return len(self.object) if self.object.ndim == 3 else 1

    @property
    def projection(self) -> np.ndarray:
        """The object ``(M, M)``: of slices their product."""
        return self.object.prod(axis=0) if self.object.ndim == 3 else self.object

    @property
    def varies(self) -> bool:
        """Whether the probe differs between patterns."""
        return len(self.opr_modes) > 0

    @property
    def has_point_spread(self) -> bool:
        """Whether the detector has a point spread."""
        return bool(self.point_spread.any())

    def at(self, indices: np.ndarray) -> Estimate:
        """Return the same of some of the patterns, ``(n,)``."""
        own = {part: getattr(self, part)[indices] for part in ("positions", "flux", "opr_weights")}
        return replace(self, **own)

    def varied_by(self, opr_modes: np.ndarray, opr_weights: np.ndarray | None = None) -> Estimate:
        """Return the same with OPR modes ``(K', N, N)``, and weights ``(J, K')`` or (None) zero."""
        if opr_weights is None:
            opr_weights = np.zeros((len(self.positions), len(opr_modes)), np.complex64)
        return replace(self, opr_modes=opr_modes, opr_weights=opr_weights)

    def probes(self, part: slice) -> np.ndarray:
        """Return the modes of each of some patterns, ``(n, K, N, N)``."""
        return vary_probe(self.modes, self.opr_modes, self.opr_weights[part])

    def beam(self, scale: float, normalisation: float) -> Beam:
        """Return all but the object; ``scale``: s of a dataset, ``normalisation``: f of the units."""
        dark = np.fft.fftshift(self.background / normalisation**2).astype(np.float32)
        return Beam(
            (self.modes / (scale * normalisation)).astype(np.complex64),
            self.positions.astype(np.float32),
            self.flux.astype(np.float32),
            dark if dark.any() else None,
            (self.opr_modes / (scale * normalisation)).astype(np.complex64) if self.varies else None,
            self.opr_weights if self.varies else None,
            np.abs(self.point_spread) if self.has_point_spread else None,
        )


@dataclass(frozen=True)
class Refine:
    """Parts of an estimate that are refined; the rest is taken as known.

    ``probe``: the modes, with those by which it varies; ``probe_variation``: the weights of the latter.
    """

    probe: bool = True
    positions: bool = False
    flux: bool = False
    background: bool = False
    object: bool = True
    probe_variation: bool = False
    point_spread: bool = False


def more_modes(known: np.ndarray, count: int, power: float = 0.03) -> np.ndarray:
    """Return ``count`` modes ``(K, N, N)`` or more: known ones, and the strongest times x, y, xy, ….

    Each new one has a share ``power`` of the strongest one's power and is orthogonal to all others.
    """
    N, modes = known.shape[-1], list(known)
    axis = np.arange(N) - N / 2
    powers = [(p, total - p) for total in range(1, 8) for p in range(total + 1)]
    for row, col in powers[: max(count - len(known), 0)]:
        new = known[0] * (axis[:, None] ** row * axis[None, :] ** col)
        for mode in orthogonal_modes(np.stack(modes))[0]:
            new = new - mode * (np.vdot(mode, new) / max(np.vdot(mode, mode).real, 1e-30))
        scale = np.sqrt(power * np.sum(np.abs(known[0]) ** 2) / np.sum(np.abs(new) ** 2))
        modes.append(scale * new)
    return np.stack(modes).astype(np.complex64)
