"""Stitched objects, corrected by the measured patterns."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.config import check
from ptycho.progress import Progress
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import probe_support
from ptycho.scan.windows import add_windows_to, inner_windows

log = logging.getLogger(__name__)

ILLUMINATION_FLOOR = 1e-2  # ε₂, of the strongest illumination; damps the correction of weakly lit pixels
CHUNK_PIXELS = 2**20  # of the patterns that are handled at once

Advance = Callable[[int], object]  # called with the number of patterns that were just used


class Update(NamedTuple):
    """A pass over the patterns: the object after it, and the misfit ``Σ(n − λ)² / Σ n`` before it.

    ``n`` photons were counted in a pixel where the object lets ``λ`` expect. Where amplitudes are not those
    of counts, the misfit has units and says nothing by itself.
    """

    object: np.ndarray
    misfit: float


def refine(objects: np.ndarray, data: Dataset, passes: int) -> np.ndarray:
    """Objects that explain the measured patterns better: at most ``passes`` simultaneous updates

        O ← O + Σ_k P̄_k F⁻¹ ΔΨ_k / (Σ_k |P_k|² + ε₂ max Σ_k |P_k|²),   Ψ_k = F (P_k O),

    over all patterns of an object, with the step ΔΨ of :func:`ptycho.physics.far_field_step`. With many
    photons, and but for ε₁ and ε₂, this is the illumination-weighted mean of patches that agree with their
    patterns: "probe" stitching once more, of patches that were corrected knowing what their neighbours saw.
    An object is done early when it explains its patterns as well as photon noise lets the true one do,
    ``Σ(n − λ)² ≤ Σ n`` (one pass more finds out); where amplitudes are not those of counts, it never is.
    Sources: Thibault et al., Ultramicroscopy 109 (2009), eq. 8, with the probe known; Morozov, Soviet Math.
    Dokl. 7 (1966) 414, for the end by the discrepancy.

    Args:
        objects: ``(I, M, M)`` complex64, in the units of the training data's objects.
        data: the patterns, in memory or in a file, their positions, and the probe.
        passes: number of updates at most, each of two transforms a pattern.

    Returns:
        ``(I, M, M)`` complex64; an object without patterns stays as it is.

    Raises:
        ConfigError: ``passes`` is less than one, or the objects are not those of the data.
    """
    check(passes >= 1, "passes", passes, "at least 1")
    shape = (data.n_images, data.object_size, data.object_size)
    check(objects.shape == shape, "shape of the objects", objects.shape, f"{shape}, as the data have it")
    refined, ended = objects.astype(np.complex64), {}
    with closing(Progress("refinement", passes * len(data.amplitudes))) as progress:
        for i in np.unique(data.image):
            updates = itertools.islice(refinements(refined[i], data, i, progress.advance), passes)
            for done, update in enumerate(updates):
                if data.counts and update.misfit <= 1:
                    ended[i] = done
                    break
                refined[i] = update.object
    for i, done in ended.items():
        log.info(
            "refinement: object %d is at the level of photon noise after %d of %d passes", i, done, passes
        )
    return refined


def refinements(
    start: np.ndarray, data: Dataset, i: int, advance: Advance = lambda patterns: None
) -> Iterator[Update]:
    """The updates of :func:`refine` of the i-th object ``(M, M)``, one pass after the other without end."""
    patterns = np.flatnonzero(data.image == i)
    floored = _illumination(data, patterns)
    photons = float(data.amplitudes.statistics.energies[patterns].sum(dtype=float))
    refined = start.astype(np.complex64)
    while True:
        numerator, squares = _gradient(refined, data, patterns, advance)
        refined = refined + numerator / floored
        yield Update(refined, squares / photons if photons else np.inf)


def _illumination(data: Dataset, patterns: np.ndarray) -> np.ndarray:
    """The denominator of the update of :func:`refine`, ``(M, M)`` float32."""
    n = _side(data)
    every = data.model_probe.reshape(1, -1, data.N, data.N)
    light = tf.constant(np.sum(np.abs(physics.crop_to(every, n)) ** 2, axis=1, keepdims=True))
    total = np.zeros((data.object_size + 1,) * 2, np.float32)
    for chunk in _chunks(patterns, data.N):
        corners, fractions = _windows(data, chunk, n)
        different, which = np.unique(fractions, axis=0, return_inverse=True)
        repeated = tf.repeat(light, len(different), axis=0)
        placed = physics.place_patches(repeated, tf.constant(different), (n + 1, n + 1)).numpy()
        add_windows_to(total, placed[which.ravel()], corners)
    return total[:-1, :-1] + ILLUMINATION_FLOOR * total.max()


def _gradient(
    image: np.ndarray, data: Dataset, patterns: np.ndarray, advance: Advance
) -> tuple[np.ndarray, float]:
    """Its numerator, ``(M, M)`` complex64, and ``Σ(n − λ)²`` of the object before it."""
    total, squares = np.zeros((data.object_size + 1,) * 2, np.complex64), 0.0
    for chunk in _chunks(patterns, data.N):
        placed = _placed(data, chunk)
        measured, far_fields = _compared(image, data, chunk, placed)
        modes, dark = physics.has_modes(placed.probe), data.model_background
        step = physics.far_field_step(far_fields, measured, data.photon_amplitude, modes, dark)
        waves, side = physics.near_field(step), (placed.n + 1,) * 2
        back = physics.back_project(waves, placed.positions, placed.probe, side, placed.n)
        add_windows_to(total, back.numpy(), placed.corners)
        surplus = (tf.square(measured) - physics.total_light(far_fields, modes, dark)) / data.normalisation**2
        surplus = tf.where(measured < 0, tf.zeros_like(surplus), surplus)
        squares += float(tf.reduce_sum(tf.square(surplus)))
        advance(len(chunk))
    return total[:-1, :-1], squares


def predictions(
    image: np.ndarray, data: Dataset, patterns: np.ndarray
) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Amplitudes ``f·A (K, N, N)`` as measured, and those that an object predicts, chunk by chunk.

    Both have the zero frequency at sample 0; the first is −1 where nothing was measured.
    """
    for chunk in _chunks(patterns, data.N):
        placed = _placed(data, chunk)
        measured, far_fields = _compared(image, data, chunk, placed)
        light = physics.total_light(far_fields, physics.has_modes(placed.probe), data.model_background)
        yield measured[:, 0], tf.sqrt(light)[:, 0]


class _Placed(NamedTuple):
    """Where some patches lie: at ``positions (K, 1, 2)`` in windows of side ``n + 1``, which lie at the whole
    pixels ``corners (K, 2)`` of the object; and the ``probe`` that lights them."""

    corners: np.ndarray
    positions: tf.Tensor
    probe: tf.Tensor
    n: int


def _placed(data: Dataset, patterns: np.ndarray) -> _Placed:
    n, probe = _side(data), tf.constant(data.model_probe)
    corners, fractions = _windows(data, patterns, n)
    positions = tf.constant(fractions - np.float32((data.N - n) / 2))  # of the whole patch in its window
    if data.exact:
        positions, probe = physics.split_positions(positions, probe)
    if data.flux is not None:
        axes = 2 + physics.has_modes(probe)  # behind those of the patterns
        flux = tf.constant(data.flux[patterns].reshape(-1, *[1] * (axes + 1)))
        probe = physics.scaled(tf.broadcast_to(probe, (len(patterns), 1, *probe.shape[-axes:])), flux)
    return _Placed(corners, positions, probe, n)


def _compared(
    image: np.ndarray, data: Dataset, patterns: np.ndarray, placed: _Placed
) -> tuple[tf.Tensor, tf.Tensor]:
    """Normalised amplitudes ``(K, 1, N, N)``, and predicted far fields, with modes ``(K, 1, M, N, N)``."""
    windows = tf.constant(inner_windows(np.pad(image, (0, 1)), placed.corners, placed.n + 1))
    waves = physics.exit_waves(windows, placed.positions, placed.probe, placed.n)
    return physics.uncentre(data.measured(patterns[:, None])), physics.far_field(waves)


def _side(data: Dataset) -> int:
    """Side of the central square that the probe lights; a probe that is moved lights all of it."""
    return data.N if data.exact else probe_support(data.probe)


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
