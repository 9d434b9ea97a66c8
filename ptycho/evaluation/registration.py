"""A known object brought into the frame of a reconstruction, from wherever its array begins."""

from __future__ import annotations

import numpy as np
from scipy import fft
from scipy.ndimage import binary_erosion, distance_transform_edt
from skimage.registration import phase_cross_correlation
from skimage.transform import downscale_local_mean

from ptycho.scan.bands import bands

SIDE = 1024  # of the images that are correlated: larger ones are first binned, then cut
UPSAMPLING = 50  # of the correlation's peak; a fiftieth of a pixel
EDGE = 2  # pixels beside the truth's own edge that a shift by a fraction spoils
RIM = 4  # the same beside what is unknown of it
FADING = 3.0  # pixels, within which the unknown goes over into the mean


def in_frame(
    truth: np.ndarray, recon: np.ndarray, mask: np.ndarray, inside: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The truth where the reconstruction has it, and where it is known there.

    The shift is that of the largest correlation of the two, each without its mean; global phase and scale do
    not matter to it, a phase plane does: take it off first. Of images larger than :data:`SIDE` that of larger
    pixels comes first, then that of a part. The truth is moved by the fraction of a pixel on its Fourier
    transform, so that the reconstruction stays as it is.

    Args:
        truth: complex ``(H, W)`` of any size.
        recon, mask: complex ``(M, M)`` and bool, the covered pixels.
        inside: bool ``(H, W)``, where the truth is known; None: everywhere.

    Returns:
        complex ``(M, M)``, zero where it is not known, and bool ``(M, M)``.
    """
    inside = np.ones(truth.shape, bool) if inside is None else inside
    if not inside.all():
        truth = _faded(truth, inside)
    side = [max(a, b) for a, b in zip(truth.shape, recon.shape, strict=True)]
    images = np.where(mask, recon - recon[mask].mean(), 0), truth - truth.mean()
    factor = -(-max(side) // SIDE)
    shift = factor * _shift(*(_binned(_padded(image, side), factor) for image in images))
    placed, there = _moved(truth, inside, shift, side, recon.shape)
    there &= mask
    part = _most_of(there)
    weight = there[part] * np.outer(*(np.hanning(n + 2)[1:-1] for n in there[part].shape))
    again = [weight * (image[part] - image[part][there[part]].mean()) for image in (recon, placed)]
    placed, known = _moved(
        truth, inside, shift + _shift(*again), side, recon.shape
    )  # saw unlike edges before
    known &= mask
    placed[~known] = 0
    return placed, known


def _binned(image: np.ndarray, factor: int) -> np.ndarray:
    return image if factor == 1 else downscale_local_mean(image, (factor, factor))


def _most_of(there: np.ndarray) -> tuple[slice, slice]:
    """Of the squares of :data:`SIDE` pixels that make up ``there (M, M)``, the one that holds most of it."""
    rows, cols = (range(0, n, SIDE) for n in there.shape)
    squares = [np.s_[row : row + SIDE, col : col + SIDE] for row in rows for col in cols]
    return max(squares, key=lambda square: np.count_nonzero(there[square]))


def _faded(image: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Outside the nearest value, ever nearer to the mean: an edge would ring where it is moved in parts."""
    distance, nearest = distance_transform_edt(~inside, return_indices=True)
    mean = image[inside].mean()
    return mean + (image[tuple(nearest)] - mean) * np.exp(-np.square(distance / FADING))


def _shift(fixed: np.ndarray, moving: np.ndarray) -> np.ndarray:
    """(row, col) in pixels by which ``moving`` must go."""
    found = phase_cross_correlation(fixed, moving, upsample_factor=UPSAMPLING, normalization=None)
    return np.asarray(found[0], float)


def _moved(
    truth: np.ndarray, inside: np.ndarray, shift: np.ndarray, side: list[int], shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """The truth moved, on an array of ``shape``, and where it is known there."""
    known = np.zeros(side, bool)
    own = (slice(EDGE, truth.shape[0] - EDGE), slice(EDGE, truth.shape[1] - EDGE))
    known[own] = (inside if inside.all() else binary_erosion(inside, iterations=RIM))[own]
    whole, level = np.round(shift).astype(int), truth.mean()
    moved = _padded(truth - level, side)
    for axis, fraction in enumerate(shift - whole):
        _shift_lines(np.moveaxis(moved, axis, -1), fraction)
    places = np.ix_(*((np.arange(n) - k) % m for n, k, m in zip(shape, whole, side, strict=True)))
    return moved[places] + level, known[places]


def _shift_lines(image: np.ndarray, shift: float) -> None:
    """Move the rows of ``image (H, W)`` to the right by a part of a pixel, in place, as a periodic wave."""
    turn = np.exp(-2j * np.pi * np.fft.fftfreq(image.shape[1]) * shift)
    for rows in bands(image.shape):
        image[rows] = fft.ifft(fft.fft(image[rows].astype(complex)) * turn)


def _padded(image: np.ndarray, side: list[int]) -> np.ndarray:
    return np.pad(image, [(0, n - k) for n, k in zip(side, image.shape, strict=True)])
