"""Stitched objects, corrected by the measured patterns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.data import Dataset

ILLUMINATION_FLOOR = 1e-2  # ε₂, of the strongest illumination; damps the correction of weakly lit pixels
CHUNK = 64  # patterns at once


def refine(objects: np.ndarray, data: Dataset, passes: int) -> np.ndarray:
    """Objects that explain the measured patterns better: ``passes`` simultaneous updates

        O ← O + Σ_k P̄_k (F⁻¹[x_k Ψ_k / √(|Ψ_k|² + ε₁²)] − ψ_k) / (Σ_k |P_k|² + ε₂ max Σ_k |P_k|²),
        ψ_k = P_k O,   Ψ_k = F ψ_k,

    over all patterns of an image. But for ε₁ and ε₂ this is the illumination-weighted mean of patches that
    agree with their patterns: "probe" stitching once more, of patches that were corrected knowing what their
    neighbours saw. Source: Thibault et al., Ultramicroscopy 109 (2009), eq. 8, with the probe known.

    Args:
        objects: ``(I, M, M)`` complex64, in the units of the training data's objects.
        data: the patterns, in memory or in a file, and the probe; patterns in no group are not used.
        passes: number of updates, each of two transforms a pattern.

    Returns:
        ``(I, M, M)`` complex64.
    """
    return next(itertools.islice(refinements(objects, data), passes - 1, None))


def refinements(objects: np.ndarray, data: Dataset) -> Iterator[np.ndarray]:
    """The objects of :func:`refine` after one pass, after two, and so on without end."""
    used = np.unique(data.groups)
    members = [used[data.image[used] == i] for i in range(len(objects))]
    floored = [_illumination(data, of_image) for of_image in members]
    refined = objects.astype(np.complex64)
    while True:
        for i, of_image in enumerate(members):
            refined[i] += _gradient(refined[i], data, of_image) / floored[i]
        yield refined.copy()


def _illumination(data: Dataset, patterns: np.ndarray) -> np.ndarray:
    """Its denominator, ``(M, M)`` float32."""
    light = np.abs(data.model_probe[None, None]) ** 2
    total = np.zeros((data.object_size,) * 2, np.float32)
    for chunk in _chunks(patterns):
        corners, fractions = _windows(data, chunk)
        repeated = tf.repeat(tf.constant(light), len(chunk), axis=0)
        placed = physics.place_patches(repeated, fractions, (data.N + 1,) * 2)
        total += physics.add_windows(placed.numpy(), corners, total.shape)
    return total + ILLUMINATION_FLOOR * total.max()


def _gradient(image: np.ndarray, data: Dataset, patterns: np.ndarray) -> np.ndarray:
    """The numerator of the update of :func:`refine`, ``(M, M)`` complex64."""
    probe = tf.constant(data.model_probe)
    total = np.zeros_like(image)
    for chunk in _chunks(patterns):
        corners, fractions = _windows(data, chunk)
        windows = tf.constant(physics.cut_windows(image, corners, data.N + 1))
        waves = physics.exit_waves(windows, fractions, probe)
        change = physics.modulus_change(waves, physics.uncentre(data.normalised(chunk[:, None])))
        placed = physics.back_project(change, fractions, probe, (data.N + 1,) * 2)
        total += physics.add_windows(placed.numpy(), corners, total.shape)
    return total


def _chunks(patterns: np.ndarray) -> list[np.ndarray]:
    return [patterns[k : k + CHUNK] for k in range(0, len(patterns), CHUNK)]


def _windows(data: Dataset, patterns: np.ndarray) -> tuple[np.ndarray, tf.Tensor]:
    """Whole-pixel corners ``(K, 2)`` of windows of side N + 1; the patches' places in them ``(K, 1, 2)``."""
    corners = np.floor(data.positions[patterns]).astype(np.int64)
    return corners, tf.constant((data.positions[patterns] - corners)[:, None], tf.float32)
