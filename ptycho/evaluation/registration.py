"""A known object brought into the frame of a reconstruction, from wherever its array begins."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import binary_erosion, distance_transform_edt, fourier_shift
from skimage.registration import phase_cross_correlation

UPSAMPLING = 50  # of the correlation's peak; a fiftieth of a pixel
EDGE = 2  # pixels beside the truth's own edge that a shift by a fraction spoils
RIM = 4  # the same beside what is unknown of it
FADING = 3.0  # pixels, within which the unknown goes over into the mean


def in_frame(
    truth: np.ndarray, recon: np.ndarray, mask: np.ndarray, inside: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The truth where the reconstruction has it, and where it is known there.

    The shift is that of the largest correlation of the two, each without its mean; global phase and scale do
    not matter to it, a phase plane does: take it off first. The truth is moved by the fraction of a pixel on
    its Fourier transform, so that the reconstruction stays as it is.

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
    fixed = _padded(np.where(mask, recon - recon[mask].mean(), 0), side)
    shift = _shift(fixed, _padded(truth - truth.mean(), side))
    placed, there = _moved(truth, inside, shift, side, recon.shape)
    there &= mask
    window = there * np.outer(*(np.hanning(n + 2)[1:-1] for n in recon.shape))  # the first saw unlike edges
    parts = [window * (image - image[there].mean()) for image in (recon, placed)]
    placed, known = _moved(truth, inside, shift + _shift(*parts), side, recon.shape)
    known &= mask
    return np.where(known, placed, 0), known


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
    spectrum = np.fft.fft2(_padded(truth - level, side))
    finer = np.fft.ifft2(fourier_shift(spectrum, shift - whole)) + level
    placed, there = (np.roll(array, tuple(whole), axis=(0, 1)) for array in (finer, known))
    return placed[: shape[0], : shape[1]], there[: shape[0], : shape[1]]


def _padded(image: np.ndarray, side: list[int]) -> np.ndarray:
    return np.pad(image, [(0, n - k) for n, k in zip(side, image.shape, strict=True)])
