"""Our own values → :class:`ExportedScan`: a simulated dataset, or a measured scan with its object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ptycho.config import ConfigError
from ptycho.exports.exported_scan import ExportedScan, Pair
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.patterns import Patterns

if TYPE_CHECKING:
    from ptycho.preparation.prepare import ScanGeometry


@dataclass(frozen=True, eq=False)
class Intensities:
    """``A²`` of stored amplitudes, block by block; whole photons if ``dtype`` is one of integers."""

    amplitudes: Patterns
    dtype: np.dtype

    def __iter__(self) -> Iterator[np.ndarray]:
        for block in self.amplitudes.blocks():
            squares = np.square(block, dtype=np.float64)
            yield (np.rint(squares) if self.dtype.kind == "u" else squares).astype(self.dtype)


def intensities(amplitudes: Patterns, counts: bool) -> Intensities:
    """Return photons as the smallest unsigned integers that hold them, where they are whole; else float32."""
    brightest = 0.0
    for block in amplitudes.blocks():
        if not (counts and _whole(block)):
            return Intensities(amplitudes, np.dtype(np.float32))
        brightest = max(brightest, float(block.max(initial=0)) ** 2)
    return Intensities(amplitudes, np.dtype(np.uint16 if brightest < 2**16 - 1 else np.uint32))


def from_dataset(data: Dataset, image: int, object_: np.ndarray, with_patterns: bool = True) -> ExportedScan:
    """Return the patterns of one image, with an object ``(M, M)`` in its coordinates; units unknown.

    ``with_patterns=False``: without them, and without the pass over them that finds their dtype.

    Raises:
        ConfigError: there is no such image, or the object is not one of this dataset.
    """
    if not 0 <= image < data.n_images:
        raise ConfigError(f"image={image}: must be from 0 to {data.n_images - 1}")
    side = data.object_size
    if object_.shape != (side, side):
        raise ConfigError(f"the object has shape {object_.shape}; that of the scan is {(side, side)}")
    chosen = np.flatnonzero(data.image == image)
    every = len(chosen) == len(data.image)
    exported = ExportedScan(
        positions=data.positions[chosen].astype(np.float64),
        probe=(data.photon_scale * data.probe).astype(np.complex64),
        domain="counts" if data.counts else "intensity",
        object=object_,
        good=data.good,
    )
    if not with_patterns:
        return exported
    patterns = intensities(data.amplitudes if every else data.amplitudes.some(chosen), data.counts)
    return replace(exported, patterns=patterns, dtype=patterns.dtype)


def from_measured(
    scan: ScanGeometry,
    data: Dataset,
    object_: np.ndarray,
    beam: Beam | None = None,
    with_patterns: bool = True,
) -> ExportedScan:
    """Return a measured scan as it was prepared, with what was reconstructed from it.

    Args:
        object_: ``(M, M)`` complex.
        beam: that goes with the object, where it is not the dataset's.
    """
    raw, binned, exported = scan.raw, scan.detector.bin, from_dataset(data, 0, object_, with_patterns)
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
        f"of {binned} x {binned} detector pixels each.{_near_field_keys(scan)}",
    )


def product_of(
    scan: ScanGeometry,
    data: Dataset,
    objects: np.ndarray,
    pixel: Pair | None,
    name: str = "",
    beam: Beam | None = None,
) -> ExportedScan:
    """Return what a run keeps of a scan as ``product.h5``: positions, probe and object, without the patterns.

    Its positions are numbered as in the measured file, which can be read as its ``data.patterns_file``; so
    the detector's pixels are those of that file, neither turned nor binned.

    Args:
        scan: how the file was interpreted.
        data: all of its patterns, or those that the object was made from.
        objects: ``(M, M)``.
        pixel: (row, col) pitch of the object's pixels in metres, if it is known.
        name: of the product.
        beam: as for :func:`from_measured`.
    """
    exported, raw, frames = from_measured(scan, data, objects, beam, False), scan.raw, scan.frames
    return replace(
        exported,
        pixel_m=pixel,
        detector_pixel_m=raw.detector_pixel_m,
        detector_side=scan.N * scan.detector.bin,
        numbers=frames if raw.numbers is None else raw.numbers[frames],
        name=name,
        comments=" ".join([exported.comments, *_to_state(scan)]),
    )


def _near_field_keys(scan: ScanGeometry) -> str:
    """Return the keys that a reader of a near field has to set, as a sentence; empty for a far field."""
    if scan.near_field is None:
        return ""
    source = scan.near_field.source_distance_m
    cone = "" if source is None else f" data.source_distance_m={source:.9g}"
    return f" The patterns are a near field, read with data.physics=near_field{cone}."


def _to_state(scan: ScanGeometry) -> list[str]:
    """Return the keys of reoriented frames that a reader of the measured file has to set, as a sentence."""
    detector = scan.detector
    keys = [f"data.{key}=true" for key in ("transpose", "flip_rows", "flip_cols") if getattr(detector, key)]
    return [f"The measured frames are reoriented as by {' '.join(keys)}."] if keys else []


def _whole(amplitudes: np.ndarray, rounding: float = 1e-3) -> bool:
    """Return whether squares of ``amplitudes`` are counts, to ``rounding`` and single precision."""
    squares = np.square(amplitudes, dtype=np.float64)
    return bool(np.all(np.abs(squares - np.rint(squares)) <= rounding + 1e-6 * squares))
