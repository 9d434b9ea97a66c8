"""Stitched objects, corrected by the measured patterns."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.config import check
from ptycho.data import Dataset
from ptycho.probe import probe_support
from ptycho.progress import Progress

log = logging.getLogger(__name__)

ILLUMINATION_FLOOR = 1e-2  # ε₂, of the strongest illumination; damps the correction of weakly lit pixels
CHUNK_PIXELS = 2**20  # of the patterns that are handled at once

Advance = Callable[[int], object]  # is told of every so many patterns that were used


def refine(objects: np.ndarray, data: Dataset, passes: int) -> np.ndarray:
    """Objects that explain the measured patterns better: at most ``passes`` simultaneous updates

        O ← O + Σ_k P̄_k F⁻¹ δΨ_k / (Σ_k |P_k|² + ε₂ max Σ_k |P_k|²),   Ψ_k = F (P_k O),

    over all patterns of an image, with the step δΨ of :func:`ptycho.physics.far_field_step`. With many
    photons, and but for ε₂, this is the illumination-weighted mean of patches that agree with their patterns:
    "probe" stitching once more, of patches that were corrected knowing what their neighbours saw. It ends
    early where the objects explain the patterns as well as photon noise lets the true ones do,
    ``Σ(n − λ)² ≤ Σ n`` over all pixels with ``n`` photons counted and ``λ`` expected: what is left is noise.
    Source: Thibault et al., Ultramicroscopy 109 (2009), eq. 8, with the probe known.

    Args:
        objects: ``(I, M, M)`` complex64, in the units of the training data's objects.
        data: the patterns, in memory or in a file, their positions, and the probe.
        passes: number of updates at most, each of two transforms a pattern.

    Returns:
        ``(I, M, M)`` complex64; an image without patterns stays as it is.

    Raises:
        ConfigError: ``passes`` is less than one, or the objects are not those of the data.
    """
    check(passes >= 1, "passes", passes, "at least 1")
    shape = (data.n_images, data.object_size, data.object_size)
    check(objects.shape == shape, "shape of the objects", objects.shape, f"{shape}, as the data have it")
    refined = objects.astype(np.complex64)
    with Progress("refinement", passes * len(data.amplitudes)) as progress:
        for done, update in enumerate(itertools.islice(refinements(refined, data, progress.advance), passes)):
            if update.misfit <= 1:
                log.info("refinement: at the level of photon noise after %d of %d passes", done, passes)
                break
            refined = update.objects
    return refined


class Update(NamedTuple):
    """A pass over the patterns: the ``objects`` after it, the ``misfit`` before it, ``Σ(n − λ)² / Σ n``."""

    objects: np.ndarray
    misfit: float


def refinements(
    objects: np.ndarray, data: Dataset, advance: Advance = lambda patterns: None
) -> Iterator[Update]:
    """The updates of :func:`refine`, one pass after the other without end."""
    members = {i: np.flatnonzero(data.image == i) for i in np.unique(data.image)}
    floored = {i: _illumination(data, patterns) for i, patterns in members.items()}
    refined = objects.astype(np.complex64)
    assert data.statistics is not None
    photons = data.statistics.mean_energy * len(data.amplitudes)
    while True:
        excess = 0.0
        for i, patterns in members.items():
            numerator, squares = _gradient(refined[i], data, patterns, advance)
            refined[i] += numerator / floored[i]
            excess += squares
        yield Update(refined.copy(), excess / photons)


def _illumination(data: Dataset, patterns: np.ndarray) -> np.ndarray:
    """The denominator of the update of :func:`refine`, ``(M, M)`` float32."""
    n = probe_support(data.probe)
    light = tf.constant(np.abs(physics.crop_to(data.model_probe[None, None], n)) ** 2)
    total = np.zeros((data.object_size + 1,) * 2, np.float32)
    for chunk in _chunks(patterns, data.N):
        corners, fractions = _windows(data, chunk, n)
        different, which = np.unique(fractions, axis=0, return_inverse=True)
        repeated = tf.repeat(light, len(different), axis=0)
        placed = physics.place_patches(repeated, tf.constant(different), (n + 1, n + 1)).numpy()
        physics.add_windows_to(total, placed[which.ravel()], corners)
    return total[:-1, :-1] + ILLUMINATION_FLOOR * total.max()


def _gradient(
    image: np.ndarray, data: Dataset, patterns: np.ndarray, advance: Advance
) -> tuple[np.ndarray, float]:
    """Its numerator, ``(M, M)`` complex64, and ``Σ(n − λ)²`` of the image before it."""
    n, f = probe_support(data.probe), data.normalisation
    probe, padded = tf.constant(data.model_probe), np.pad(image, (0, 1))
    total, squares = np.zeros_like(padded), 0.0
    for chunk in _chunks(patterns, data.N):
        corners, fractions = _windows(data, chunk, n)
        positions = tf.constant(fractions - np.float32((data.N - n) / 2))  # of the whole patch in its window
        windows = tf.constant(physics.inner_windows(padded, corners, n + 1))
        measured = physics.uncentre(data.normalised(chunk[:, None]))
        far_fields = physics.far_field(physics.exit_waves(windows, positions, probe, n))
        change = physics.near_field(physics.far_field_step(far_fields, measured, f))
        placed = physics.back_project(change, positions, probe, (n + 1, n + 1), n)
        physics.add_windows_to(total, placed.numpy(), corners)
        counts = (tf.square(measured) - physics.intensity(far_fields)) / f**2
        squares += float(tf.reduce_sum(tf.square(counts)))
        advance(len(chunk))
    return total[:-1, :-1], squares


def _chunks(patterns: np.ndarray, N: int) -> list[np.ndarray]:
    count = max(1, CHUNK_PIXELS // N**2)
    return [patterns[k : k + count] for k in range(0, len(patterns), count)]


def _windows(data: Dataset, patterns: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole-pixel corners ``(K, 2)`` of windows that hold the central ``n × n`` of the patches and one pixel
    more, and where in them those lie, ``(K, 1, 2)`` float32 from 0 to 1.

    A patch lies inside its object, so that a window reaches one pixel beyond it at most.
    """
    corners = np.floor(data.positions[patterns]).astype(np.int64)
    fractions = (data.positions[patterns] - corners)[:, None].astype(np.float32)
    return corners + (data.N - n) // 2, fractions
