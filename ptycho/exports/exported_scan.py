"""What every format is written from: a scan with its probe and, where it is known, its object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.exports.hdf5_writing import SameAs
from ptycho.files.npz import Blocks
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.patterns import Patterns
from ptycho.scan.reconstruction import ErrorMap, Reconstruction
from ptycho.simulation.truth import GROUP, Truth

if TYPE_CHECKING:
    from ptycho.preparation.prepare import ScanGeometry

FLOAT32: np.dtype = np.dtype(np.float32)
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
        domain: ``counts`` (photons) or ``intensity`` (in units of its own).
        object: ``(M, M')`` complex; ``errors``: the first of theirs is its.
        slices: of the object, ``(L, M, M')`` complex, whose product it is; None: it is thin.
        slice_thickness_m: distance from one slice to the next.
        origin: (row, col) of the object's first sample, in the coordinates of ``positions``.
        good: ``(N, N)`` bool, pixels that were measured; None: all. The others hold zero.
        measured: pixels that were measured in each pattern, bool, by blocks as ``patterns``; None: all of
            ``good``. The others hold guesses.
        pixel_m: (row, col) pitch of the object's pixels; None: unknown, and lengths stay in pixels.
        energy_eV, distance_m: photon energy; from sample to detector.
        detector_pixel_m: (row, col) pitch of the patterns' pixels.
        detector_side: pixels of the measured detector that a pattern spans; None: as many as it has.
        numbers: ``(J,)`` integers, which pattern of the measured file each one is; None: unknown.
        truth: of a simulated scan that differs from its recorded values; readers skip it.
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
    measured: Iterable[np.ndarray] | None = None
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

    @property
    def N(self) -> int:
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
        text = f"{bad} detector pixels were not measured and hold zero. " if bad else ""
        guessed = "Pixels that were not measured in single patterns hold guesses. "
        return text if self.measured is None else text + guessed

    @property
    def stored(self) -> Blocks:
        """The patterns in ``dtype``, as many as there are positions, block by block ``(j, N, N)``.

        ValueError, on the way: a block of another shape, or another number of patterns.
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


@dataclass(frozen=True, eq=False)
class Intensities:
    """Squares of amplitudes by blocks, each time anew."""

    amplitudes: Patterns
    dtype: np.dtype

    @property
    def measured(self) -> Iterator[np.ndarray]:
        """Where pixels were measured, ``(j, N, N)`` bool block by block."""
        return (block >= 0 for block in self.amplitudes.blocks())

    def __iter__(self) -> Iterator[np.ndarray]:
        for block in self.amplitudes.blocks():
            squares = np.square(block, dtype=np.float64)
            yield (np.rint(squares) if self.dtype.kind == "u" else squares).astype(self.dtype)


def intensities(amplitudes: Patterns, counts: bool) -> Intensities:
    """Return photons as the smallest unsigned integers that hold them, where they are whole; else float32."""
    brightest = 0.0
    for block in amplitudes.blocks():
        squares = np.square(block, dtype=np.float64)
        if not (counts and np.allclose(np.rint(squares), squares, rtol=1e-6, atol=1e-3)):
            return Intensities(amplitudes, np.dtype(np.float32))
        brightest = max(brightest, float(squares.max(initial=0)))
    return Intensities(amplitudes, np.dtype(np.uint16 if brightest < 2**16 - 1 else np.uint32))


def from_dataset(data: Dataset, object_: np.ndarray, with_patterns: bool = True) -> ExportedScan:
    """Return the patterns of a scan, with an object ``(M, M)`` in its coordinates; units unknown.

    ``with_patterns=False``: without them, and without the pass over them that finds their dtype. ConfigError:
    the object is not one of this dataset.
    """
    side = data.object_size
    if object_.shape != (side, side):
        raise ConfigError(f"the object has shape {object_.shape}; that of the scan is {(side, side)}")
    exported = ExportedScan(
        positions=data.positions.astype(np.float64),
        probe=(data.photon_scale * data.probe).astype(np.complex64),
        domain="counts" if data.counts else "intensity",
        object=object_,
        good=data.good,
    )
    if not with_patterns:
        return exported
    patterns = intensities(data.amplitudes, data.counts)
    measured = patterns.measured if data.amplitudes.statistics.lacking.any() else None
    return replace(exported, patterns=patterns, dtype=patterns.dtype, measured=measured)


def from_measured(
    scan: ScanGeometry,
    data: Dataset,
    object_: np.ndarray,
    beam: Beam | None = None,
    with_patterns: bool = True,
) -> ExportedScan:
    """Return a measured scan as it was prepared, with an object ``(M, M)`` that was reconstructed from it.

    ``beam``: that goes with the object, where it is not the dataset's.
    """
    raw, binned, exported = scan.raw, scan.detector.bin, from_dataset(data, object_, with_patterns)
    near_field = ""
    if scan.near_field is not None:
        source = scan.near_field.source_distance_m
        cone = "" if source is None else f" data.source_distance_m={source:.9g}"
        near_field = f" The patterns are a near field, read with data.physics=near_field{cone}."
    if beam is not None:
        parts = {key: getattr(beam, key) for key in ("probe", "opr_modes", "opr_weights")}
        exported = replace(exported, positions=beam.positions.astype(np.float64), **parts)
    return replace(
        exported,
        pixel_m=scan.pixel.metres,
        energy_eV=raw.energy_eV,
        distance_m=raw.distance_m,
        detector_pixel_m=scan.pitch_m,
        numbers=scan.frames,
        comments=f"Read from a file of the format {raw.format}; cut or padded to {scan.N} x {scan.N} pixels, "
        f"of {binned} x {binned} detector pixels each.{near_field}",
    )


def product_of(
    scan: ScanGeometry,
    data: Dataset,
    reconstruction: Reconstruction,
    name: str = "",
    slice_thickness_m: float | None = None,
) -> ExportedScan:
    """Return what a run keeps of a scan as ``product.h5``: positions, probe and object, without the patterns.

    Its positions are numbered as in the measured file, which can be read as its ``data.patterns_file``; so
    the detector's pixels are those of that file, neither turned nor binned.

    Args:
        data: all of its patterns, or those that were reconstructed.
        reconstruction: of one object, with its beam, error map and slices, if there are any.
        slice_thickness_m: distance from one slice to the next.
    """
    exported = from_measured(scan, data, reconstruction.object, reconstruction.beam, False)
    raw, frames = scan.raw, scan.frames
    turned = [name for name in ("transpose", "flip_rows", "flip_cols") if getattr(scan.detector, name)]
    keys = " ".join(f"data.{name}=true" for name in turned)
    return replace(
        exported,
        errors=reconstruction.errors,
        slices=reconstruction.slices,
        slice_thickness_m=slice_thickness_m,
        detector_pixel_m=raw.detector_pixel_m,
        detector_side=scan.N * scan.detector.bin,
        numbers=frames if raw.numbers is None else raw.numbers[frames],
        name=name,
        comments=exported.comments + (f" The measured frames are reoriented as by {keys}." if keys else ""),
    )
