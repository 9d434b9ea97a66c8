"""Scans of photographs by NumPy, without our simulator: objects, probes, positions, patterns, and errors.

Objects: photographs and textures of scikit-image (amplitude .6 to 1 from one, phases of 1.5 rad from
another); leaves, which are overlapping disks with sharp edges and absorption proportional to the phase; and
relief, elevation data of Matplotlib as a smooth thickness. Probes: a defocused zone plate, a defocused round
lens, an aberrated electron lens. A pattern is |F(P·O)|². Where positions are not whole pixels, the object is
shifted by a quintic spline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import skimage.data
from matplotlib.cbook import get_sample_data
from scipy.ndimage import shift, zoom

from ptycho.evaluation.alignment import in_frame
from ptycho.evaluation.metrics import align, relative_error
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.windows import cut_windows

MARGIN = 8
PHOTOGRAPHS = {
    "a": ("coffee", "chelsea"),
    "b": ("astronaut", "rocket"),
    "c": ("camera", "coins"),
    "d": ("moon", "brick"),
    "e": ("gravel", "coins"),
}
ILLUMINATED = 0.1  # scored are pixels above this fraction of the strongest illumination


def photograph(name: str, side: int) -> np.ndarray:
    image = np.asarray(getattr(skimage.data, name)(), float)
    return scaled(image.mean(axis=-1) if image.ndim == 3 else image, side)


def scaled(image: np.ndarray, side: int) -> np.ndarray:
    """Return the central square of an image on ``(side, side)`` pixels, with values from 0 to 1."""
    least = min(image.shape)
    top, left = ((n - least) // 2 for n in image.shape)
    square = zoom(image[top : top + least, left : left + least], (side + 0.5) / least, order=1)[:side, :side]
    return (square - square.min()) / np.ptp(square)


def leaves(side: int, finer: int = 1) -> np.ndarray:
    """Return the thickness of overlapping disks, 0 to 1, on pixels of 1/``finer`` of the usual length."""
    rng, (row, col) = np.random.default_rng(7), np.mgrid[:side, :side]
    image = np.zeros((side, side))
    for _ in range(300):
        at, radius = rng.uniform(0, side // finer, 2) * finer, rng.uniform(3, 25) * finer
        image[np.hypot(row - at[0], col - at[1]) < radius] = rng.uniform()
    return image


def object_of(name: str, side: int, finer: int = 1) -> np.ndarray:
    """Return the object ``(side, side)``; ``finer=n``: that of side/n, on pixels of 1/n of the length."""
    if name == "leaves":
        thickness = leaves(side, finer)
        return np.exp((-0.3 + 2j) * thickness)
    if name == "relief":
        heights = get_sample_data("jacksboro_fault_dem.npz")["elevation"].astype(float)
        return np.exp((-0.15 + 1.2j) * scaled(heights, side))
    amplitude, phase = (photograph(part, side) for part in PHOTOGRAPHS[name])
    return (0.6 + 0.4 * amplitude) * np.exp(1.5j * (phase - phase.mean()))


def probe_of(name: str, N: int) -> np.ndarray:
    """Return the probe ``(N, N)`` of a pupil, with its aberrations, on the far-field grid."""
    q = frequency(N)
    angle = np.arctan2(*np.ix_(*(np.fft.fftfreq(N),) * 2))
    defocus, stretch = (q / 0.15) ** 2, np.cos(2 * angle)
    open_, bends = {
        "lens": (q < 0.17, 3.2 * (q / 0.17) ** 2 * np.pi),
        "zone_plate": ((q < 0.2) & (q > 0.08), 4.0 * (q / 0.2) ** 2 * np.pi),
        "electron": (q < 0.15, np.pi * (2.5 * defocus - defocus**2 + 0.4 * defocus * stretch)),
    }[name]
    wave = np.fft.fftshift(np.fft.ifft2(open_ * np.exp(1j * bends)))
    return wave / np.abs(wave).max()


def frequency(N: int, pitch: float = 1.0) -> np.ndarray:
    """Return the spatial frequency ``(N, N)`` in cycles per unit of the ``pitch``, zero at the corner."""
    return np.hypot(*np.ix_(*(np.fft.fftfreq(N, pitch),) * 2))


def defocused(probe: np.ndarray, bend: float) -> np.ndarray:
    """Return the probe ``(N, N)`` with the phase ``bend·q²`` in its far field, q in cycles per pixel."""
    far = np.fft.fft2(np.fft.ifftshift(probe)) * np.exp(1j * bend * frequency(len(probe)) ** 2)
    return np.fft.fftshift(np.fft.ifft2(far))


def second_mode(probe: np.ndarray, share: float) -> np.ndarray:
    """Return the probe ``(N, N)`` times a slope along its columns, with a ``share`` of its power."""
    second = probe * np.linspace(-1, 1, len(probe))
    return np.sqrt(share) * second / np.linalg.norm(second) * np.linalg.norm(probe)


def raster(step: float, count: int, rng: np.random.Generator, jitter: float = 0.2) -> np.ndarray:
    """Return ``count²`` positions ``(J, 2)`` in whole pixels, with a jitter of up to a share of the step."""
    grid = step * np.stack(np.mgrid[:count, :count], -1).reshape(-1, 2).astype(float)
    moved = grid + rng.uniform(-step * jitter, step * jitter, grid.shape)
    return np.round(moved - moved.min(axis=0)) + MARGIN


def side_of(positions: np.ndarray, N: int) -> int:
    """Return the side of the object that a scan needs."""
    return N + int(positions.max()) + MARGIN + 1


def far_intensity(
    object_: np.ndarray, probe: np.ndarray, positions: np.ndarray, descan: np.ndarray | None = None
) -> np.ndarray:
    """Return ``|F(P·O)|²``, ``(J, N, N)``, zero frequency at N//2; shifted by a ``descan (2, 2)``."""
    patterns, N = [], len(probe)
    shifts = (
        np.zeros((len(positions), 2)) if descan is None else (positions - positions.mean(axis=0)) @ descan.T
    )
    axis = 2j * np.pi * np.arange(N) / N
    for (row, col), (down, right) in zip(positions, shifts, strict=True):
        whole = int(row), int(col)
        part = object_[max(whole[0] - 6, 0) : whole[0] + N + 7, max(whole[1] - 6, 0) : whole[1] + N + 7]
        move = [min(w, 6) for w in whole]
        rest = whole[0] - row, whole[1] - col
        if any(rest):
            part = shift(part, rest, order=5, mode="nearest")
        patch = part[move[0] : move[0] + N, move[1] : move[1] + N]
        patch = patch * np.exp(np.add.outer(down * axis, right * axis))
        wave = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(probe * patch), norm="ortho"))
        patterns.append(np.abs(wave) ** 2)
    return np.array(patterns)


def dataset(
    amplitudes: np.ndarray, probe: np.ndarray, positions: np.ndarray, scale: float = 1.0, **sizes: Any
) -> Dataset:
    """Return a scan of one object, each pattern of ``(J, N, N)`` a group; ``sizes``: as of its class."""
    return Dataset(
        amplitudes=amplitudes.astype(np.float32),
        beam=Beam(probe.astype(np.complex64), positions.astype(np.float32)),
        image=np.zeros(len(positions), np.int32),
        groups=np.arange(len(positions), dtype=np.int32)[:, None],
        photon_scale=float(scale),
        **sizes,
    )


def cut(image: np.ndarray, corner: np.ndarray, side: int) -> np.ndarray:
    """Return ``(side, side)`` pixels of an image from a ``corner`` (row, col) on, zero beyond its ends."""
    start = np.rint(corner).astype(int) + side
    return cut_windows(np.pad(image, side), start[None], side)[0]


def illuminated(positions: np.ndarray, probe: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return where the illumination of a scan exceeds ``ILLUMINATED`` of its maximum, bool ``shape``."""
    illumination, N = np.zeros(shape), len(probe)
    for row, col in positions.astype(int):
        illumination[row : row + N, col : col + N] += np.abs(probe) ** 2
    return illumination > ILLUMINATED * illumination.max()


def rms(positions: np.ndarray, true: np.ndarray, common: Callable[..., np.ndarray] = np.mean) -> float:
    """Return the rms distance of positions ``(J, 2)`` from the true ones, less their common shift, px."""
    off = positions - true
    return float(np.sqrt(np.sum((off - common(off, axis=0)) ** 2, axis=1).mean()))


def error_of(image: np.ndarray, truth: np.ndarray, positions: np.ndarray, probe: np.ndarray) -> float:
    """Return the relative complex error of an image in the frame of the truth, where it is illuminated.

    ``|A − T| / |T − mean T|`` after one complex scale, one phase plane and one sub-pixel shift.
    """
    mask = illuminated(positions, probe, truth.shape)
    flat = align(np.where(mask, image, 0), truth, mask).object
    placed, there = in_frame(truth, flat, mask)
    there &= mask
    return float(relative_error(align(np.where(there, image, 0), placed, there).object, placed))


def error_within(image: np.ndarray, truth: np.ndarray, mask: np.ndarray) -> float | None:
    """Return the same of an image ``(M, M)`` in a frame of its own, where its mask and the truth overlap."""
    known, there = in_frame(truth.astype(np.complex64), np.where(mask, image, 0), mask)
    return relative_error(align(np.where(there, image, 0), known, there).object, known)
