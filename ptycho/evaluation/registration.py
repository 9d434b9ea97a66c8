"""Register a known object with a reconstruction, wherever its array begins."""

from __future__ import annotations

import numpy as np
from scipy import fft
from scipy.ndimage import binary_erosion, distance_transform_edt
from skimage.registration import phase_cross_correlation
from skimage.transform import downscale_local_mean

from ptycho.scan.bands import bands


def in_frame(
    truth: np.ndarray,
    recon: np.ndarray,
    mask: np.ndarray,
    inside: np.ndarray | None = None,
    largest: int = 1024,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the truth in the frame of the reconstruction, and where it is known there.

    The shift is that of the largest correlation of the two, each without its mean; global phase and scale do
    not matter to it, a phase plane does: take it off first. Of images with sides above ``largest``,
    binned ones are registered first, then a part. The truth is shifted by the fraction of a pixel on its
    Fourier transform, so that the reconstruction stays as it is.

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
    images = [np.where(mask, recon - recon[mask].mean(), 0), truth - truth.mean()]
    factor = -(-max(side) // largest)
    images = [_padded(image, side) for image in images]
    if factor > 1:
        images = [downscale_local_mean(image, (factor, factor)) for image in images]
    shift = factor * _shift(*images)
    placed, there = _moved(truth, inside, shift, side, recon.shape)
    there &= mask
    part = _most_of(there, largest)
    weight = there[part] * np.outer(*(np.hanning(n + 2)[1:-1] for n in there[part].shape))
    again = [weight * (image[part] - image[part][there[part]].mean()) for image in (recon, placed)]
    placed, known = _moved(truth, inside, shift + _shift(*again), side, recon.shape)
    known &= mask
    placed[~known] = 0
    return placed, known


def _most_of(there: np.ndarray, side: int) -> tuple[slice, slice]:
    """Return that square of a tiling by ``side`` pixels which holds most of ``there (M, M)``."""
    rows, cols = (range(0, n, side) for n in there.shape)
    squares = [np.s_[row : row + side, col : col + side] for row in rows for col in cols]
    return max(squares, key=lambda square: np.count_nonzero(there[square]))


def _faded(image: np.ndarray, inside: np.ndarray, pixels: float = 3.0) -> np.ndarray:
    """Continue an image outside, and fade to its mean within ``pixels``: an edge would ring when shifted."""
    distance, nearest = distance_transform_edt(~inside, return_indices=True)
    mean = image[inside].mean()
    return mean + (image[tuple(nearest)] - mean) * np.exp(-np.square(distance / pixels))


def _shift(fixed: np.ndarray, moving: np.ndarray) -> np.ndarray:
    """Return the shift (row, col) of ``moving``, to a fiftieth of a pixel."""
    shift, *_ = phase_cross_correlation(fixed, moving, upsample_factor=50, normalization=None)
    return np.asarray(shift, float)


def _moved(
    truth: np.ndarray,
    inside: np.ndarray,
    shift: np.ndarray,
    side: list[int],
    shape: tuple[int, ...],
    edge: int = 2,
    rim: int = 4,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the truth shifted, on an array of ``shape``, and where it is known there.

    A shift by a fraction spoils pixels beside its own ``edge``, and a ``rim`` beside unknown ones.
    """
    known = np.zeros(side, bool)
    own = (slice(edge, truth.shape[0] - edge), slice(edge, truth.shape[1] - edge))
    known[own] = (inside if inside.all() else binary_erosion(inside, iterations=rim))[own]
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
