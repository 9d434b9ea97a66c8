"""Virtual images of a raster scan, before anything is reconstructed: sums, and integrated deflection.

    bright field   Σ I(q) over |q| < R/2           R: radius of the bright disk of the mean pattern
    dark field     Σ I(q) over |q| > 1.1 R
    deflection     Σ q I(q) / Σ I(q) = c, against its mean over the scan
    iDPC           φ with ∇φ = 2π c:   φ̂(k) = k · ĉ(k) / (i |k|²)

Source: Lazić, Bosch & Lazar, Ultramicroscopy 160 (2016) 265.
"""

from __future__ import annotations

import numpy as np

from ptycho.preparation.marks import blocks_of
from ptycho.preparation.prepare import ScanGeometry
from ptycho.readers.patterns import spread
from ptycho.scan.probe import centred_axes, radius


def raster_of(positions: np.ndarray) -> tuple[int, int] | None:
    """Return rows and columns of positions ``(J, 2)`` that fill a raster; None: they do not."""
    steps = [np.unique(np.round(positions[:, axis], 3)) for axis in (0, 1)]
    shape = len(steps[0]), len(steps[1])
    even = all(len(step) > 2 and np.ptp(np.diff(step)) < 0.02 * np.diff(step).mean() for step in steps)
    return shape if even and shape[0] * shape[1] == len(positions) else None


def virtual_images(
    scan: ScanGeometry,
    inner: float = 0.5,
    outer: float = 1.1,
    disk: float = 0.3,
    most_pixels: int = 2**31,
    sampled: int = 256,
) -> dict[str, np.ndarray] | None:
    """Return images ``(rows, columns)`` by name; None: no raster, a near field, or too many frames.

    Args:
        inner, outer: radius of the bright field, and from which the dark field begins, over R.
        disk: of the brightest pixels of the mean of ``sampled`` frames: those above it are the disk.
        most_pixels: of all frames that are read for the images.
    """
    shape = raster_of(scan.positions)
    if shape is None or scan.near_field is not None or len(scan.frames) * scan.N**2 > most_pixels:
        return None
    row, column = centred_axes(scan.N)
    sums = [np.zeros(len(scan.frames)) for _ in range(4)]
    good = scan.detector.good_pixels
    mean = np.square(scan.patterns(spread(len(scan.frames), sampled))).mean(axis=0)
    disk_radius = np.sqrt(np.count_nonzero(mean > disk * np.percentile(mean, 99.5)) / np.pi)
    far = radius(scan.N)
    inside, outside = good & (far < inner * disk_radius), good & (far > outer * disk_radius)
    weights = np.stack([inside, outside, good, good * row, good * column], axis=-1).astype(np.float32)
    for part in blocks_of(scan.raw, len(scan.frames)):
        intensity = np.square(scan.patterns(part)).reshape(-1, scan.N**2)
        sums[0][part], sums[1][part], total, *sides = (intensity @ weights.reshape(-1, 5)).T
        sums[2][part], sums[3][part] = sides / np.maximum(total, 1e-30)
    order = np.lexsort((np.round(scan.positions[:, 1], 3), np.round(scan.positions[:, 0], 3)))
    bright, dark, rows, columns = (values[order].reshape(shape) for values in sums)
    pitch = [float(np.ptp(scan.positions[:, axis]) / (shape[axis] - 1)) for axis in (0, 1)]
    phase = integrated(rows / scan.N, columns / scan.N, pitch)
    return {"virtual bright field": bright, "virtual dark field": dark, "iDPC / rad": phase}


def integrated(rows: np.ndarray, columns: np.ndarray, pitch: list[float]) -> np.ndarray:
    """Return φ ``(A, B)`` in rad whose gradient is 2π times deflections ``(A, B)`` in cycles per pixel.

    The images are mirrored at their edges, so that they need not be periodic.
    """
    rows, columns = rows - rows.mean(), columns - columns.mean()
    whole = [
        np.block([[part, s * part[:, ::-1]], [t * part[::-1], s * t * part[::-1, ::-1]]])
        for part, s, t in ((rows, 1, -1), (columns, -1, 1))
    ]
    k_rows, k_columns = (np.fft.fftfreq(n, step) for n, step in zip(whole[0].shape, pitch, strict=True))
    k = k_rows[:, None], k_columns[None]
    square = k[0] ** 2 + k[1] ** 2
    square[0, 0] = 1
    sums = sum(frequency * np.fft.fft2(part) for frequency, part in zip(k, whole, strict=True))
    phase = np.fft.ifft2(-1j * sums / square).real[: rows.shape[0], : rows.shape[1]]
    return phase - phase.mean()
