"""What every format is written from: a scan with its probe and, where it is known, its object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.exports.hdf5_writing import SameAs
from ptycho.files.npz_writing import Blocks
from ptycho.scan.error_map import ErrorMap
from ptycho.simulation.truth import GROUP, Truth

DOMAINS = ("counts", "intensity")
FLOAT32 = np.dtype(np.float32)
Pair = tuple[float, float]


@dataclass(frozen=True, eq=False)
class ExportedScan:
    """A scan that is ready to be written. Lengths in pixels are those of the object.

    Attributes:
        positions: ``(J, 2)`` float64, (row, col) of the first sample of each pattern's patch.
        probe: ``(K, N, N)`` complex, incoherent modes, zero-phase centre at ``N//2``. Patterns have the mean
            ``Σ_k |F(P_k·O)|²``, F unitary.
        opr_modes, opr_weights: V ``(K', N, N)`` and w ``(J, K')`` complex of a probe that varies, whose first
            mode in pattern j is ``P_0 + Σ_k w_jk V_k``; None: it does not.
        patterns: blocks ``(n, N, N)`` in the order of the positions, zero frequency at ``N//2``; each format
            goes through them once. None: positions without patterns.
        dtype: of the patterns.
        domain: ``counts`` (photons) or ``intensity`` (in units of its own).
        object: ``(M, M')`` complex, or None.
        errors: of the object, the first of theirs; None: unknown.
        slices: of the object, ``(L, M, M')`` complex, whose product it is; None: it is thin.
        slice_thickness_m: distance from one slice to the next.
        origin: (row, col) of the object's first sample, in the coordinates of ``positions``.
        good: ``(N, N)`` bool, pixels that were measured; None: all. The others hold zero.
        pixel_m: (row, col) pitch of the object's pixels; None: unknown, and lengths stay in pixels.
        energy_eV, distance_m: photon energy; from sample to detector.
        detector_pixel_m: (row, col) pitch of the patterns' pixels.
        detector_side: pixels of the measured detector that a pattern spans; None: as many as it has.
        numbers: ``(J,)`` integers, which pattern of the measured file each one is; None: unknown.
        name, comments: for the user who opens the file.
        truth: of a simulated scan that differs from its recorded values; readers skip it.

    Raises:
        ValueError: shapes that do not fit.
    """

    positions: np.ndarray
    probe: np.ndarray
    patterns: Iterable[np.ndarray] | None = None
    dtype: np.dtype = FLOAT32
    domain: str = "intensity"
    object: np.ndarray | None = None
    errors: ErrorMap | None = None
    slices: np.ndarray | None = None
    slice_thickness_m: float | None = None
    origin: Pair = (0.0, 0.0)
    good: np.ndarray | None = None
    pixel_m: Pair | None = None
    energy_eV: float | None = None
    distance_m: float | None = None
    detector_pixel_m: Pair | None = None
    detector_side: int | None = None
    numbers: np.ndarray | None = None
    name: str = ""
    comments: str = ""
    truth: Truth | None = None
    opr_modes: np.ndarray | None = None
    opr_weights: np.ndarray | None = None

    def __post_init__(self) -> None:
        count, N = len(self.positions), self.probe.shape[-1]
        shapes = {
            "positions": (self.positions, (count, 2)),
            "probe": (self.probe, (len(self.probe), N, N)),
            "good": (self.good, (N, N)),
            "numbers": (self.numbers, (count,)),
        }
        for key, (array, shape) in shapes.items():
            if array is not None and array.shape != shape:
                raise ValueError(f"{key} has shape {array.shape}; must be {shape}")
        if self.object is not None and self.object.ndim != 2:
            raise ValueError(f"object has shape {self.object.shape}; must be (rows, columns)")
        if self.domain not in DOMAINS:
            raise ValueError(f"domain={self.domain}: must be one of {', '.join(DOMAINS)}")

    @property
    def N(self) -> int:
        """Side of the patterns in pixels."""
        return self.probe.shape[-1]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the patterns, ``(J, N, N)``."""
        return len(self.positions), self.N, self.N

    @property
    def good_pixels(self) -> np.ndarray:
        """Mask ``(N, N)`` bool of the good pixels."""
        return np.ones((self.N, self.N), bool) if self.good is None else self.good

    @property
    def from_corner(self) -> np.ndarray:
        """The middles of the patches in pixels from the object's corner, ``(J, 2)``: ``r + N/2``."""
        return self.positions + self.N / 2 - np.array(self.origin)

    @property
    def from_middle(self) -> np.ndarray:
        """The same from the object's middle, the place ``(M/2, M'/2)`` in its array, if there is one."""
        middle = np.zeros(2) if self.object is None else np.array(self.object.shape) / 2
        return self.from_corner - middle

    @property
    def blanked(self) -> str:
        """Note on the pixels that were not measured, for a format without a mask; may be empty."""
        bad = int(np.count_nonzero(~self.good_pixels))
        return f"{bad} detector pixels were not measured and hold zero. " if bad else ""

    @property
    def stored(self) -> Blocks:
        """The patterns in ``dtype``, as many as there are positions, block by block ``(j, N, N)``.

        Raises:
            ConfigError: there are none.
            ValueError: on the way: a block of another shape, or another number of patterns.
        """
        if self.patterns is None:
            raise ConfigError(f"{self.name or 'scan'}: has no patterns to write")
        return Blocks(self.shape, self.dtype, self._blocks(self.patterns))

    @property
    def stored_amplitudes(self) -> Blocks:
        """Square roots of :attr:`stored`, ``(j, N, N)`` float32 by blocks."""
        blocks = (np.sqrt(block.astype(np.float64)).astype(FLOAT32) for block in self.stored.blocks)
        return Blocks(self.shape, FLOAT32, blocks)

    def _blocks(self, patterns: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        done = 0
        for block in patterns:
            done += len(block)
            if block.shape[1:] != self.shape[1:] or done > self.shape[0]:
                raise ValueError(f"a block of patterns has shape {block.shape}; must be of {self.shape}")
            yield block.astype(self.dtype, copy=False)
        if done != self.shape[0]:
            raise ValueError(f"{done} patterns came; must be {self.shape[0]}, one for each position")

    def truth_tree(self, image: str) -> dict[str, Any]:
        """Return what HDF5 holds of the truth of a simulated scan, if any; its object is at ``image``."""
        if self.truth is None:
            return {}
        contents: dict[str, Any] = {f"{GROUP}/{key}": array for key, array in self.truth.arrays().items()}
        return contents | ({} if self.object is None else {f"{GROUP}/object": SameAs(image)})
