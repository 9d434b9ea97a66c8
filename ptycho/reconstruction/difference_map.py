"""The difference map: an initial object for scans in which a fit from a constant ends in a local minimum.

    ψ_j ← ψ_j + Π_F(2 Π_O ψ_j − ψ_j) − Π_O ψ_j
    Π_O:  O = Σ_j Σ_m conj(P_jm) ψ_jm / Σ_j Σ_m |P_jm|²,   ψ_jm → P_jm O
    Π_F:  far fields take the measured amplitudes, and keep their phases

ψ: exit waves of the patterns j and modes m; P: the probe at each position. It leaves local minima, and does
not converge if the patterns are noisy: a fit of the likelihood starts from its object. Sources: Elser, J.
Opt. Soc. Am. A 20 (2003) 40; Thibault et al., Science 321 (2008) 379.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.likelihood import UNMEASURED
from ptycho.reconstruction.object_windows import windows_of
from ptycho.reconstruction.scan_likelihood import ScanLikelihood, side_by_side


def difference_map(
    likelihood: ScanLikelihood,
    start: Estimate,
    iterations: int = 400,
    every: int = 25,
    least_decrease: float = 0.02,
    floor: float = 1e-3,
) -> Estimate:
    """Return ``start`` with the object of the difference map; for thin objects in far fields.

    The beam stays; of a probe that varies, the first modes count. It ends where the squared distance between
    the constraints does not fall by ``least_decrease`` in ``every`` iterations. ``floor``: share of the
    strongest illumination that holds each pixel at its present value.
    """
    illumination = _illumination(likelihood, start)
    held = np.float32(floor * illumination.max())
    image, waves, gaps = start.object, dict[int, Any](), list[float]()
    for k in range(iterations):
        image, gap = _iterate(likelihood, replace(start, object=image), waves, illumination, held)
        gaps.append(gap)
        if k >= 2 * every and gap > (1 - least_decrease) * gaps[k - every]:
            break
    return replace(start, object=image)


def _illumination(likelihood: ScanLikelihood, estimate: Estimate) -> np.ndarray:
    """``Σ_j Σ_m |P_jm|²`` on the object, of the probes at their positions, ``(M, M)`` float32."""
    corners, fractions = likelihood.places(estimate)
    windows = windows_of(np.zeros(estimate.object.shape, np.complex64), likelihood.data.N)
    for part in likelihood.slices:
        probe = physics.shifted_probe(estimate.modes[None], fractions[part])
        intensity = tf.reduce_sum(physics.intensity(probe), axis=1) * estimate.flux[part, None, None] ** 2
        windows.add(windows.part(tf.cast(intensity, tf.complex64), corners[part]))
    return windows.sum.real


def _iterate(
    likelihood: ScanLikelihood,
    estimate: Estimate,
    waves: dict[int, Any],
    illumination: np.ndarray,
    held: np.float32,
) -> tuple[np.ndarray, float]:
    """Return the object after an iteration, and the squared distance between the constraints.

    ``waves``: ψ by the first pattern of each chunk, empty before the first iteration; they are replaced.
    """
    corners, fractions = likelihood.places(estimate)
    step = difference_map_step(bool(fractions.any()), likelihood.compile_xla)
    beam = tf.constant(estimate.modes), tf.constant(estimate.background)
    photon = tf.constant(likelihood.photon, tf.float32)
    windows = windows_of(estimate.object, likelihood.data.N)

    def of_chunk(part: slice) -> tuple[float, Any]:
        places, offsets, flux = likelihood.filled(corners[part], fractions[part], estimate.flux[part])
        known = tf.constant(offsets), tf.constant(flux), *beam
        before, first = waves.get(part.start), tf.constant(part.start not in waves)
        before = tf.zeros((len(places), *estimate.modes.shape), tf.complex64) if before is None else before
        given = likelihood.measured(part), photon, likelihood.ramps(part)
        waves[part.start], back, gap = step(windows.cut(places), *known, *given, before, first)
        return float(gap), windows.part(back, corners[part])

    total = 0.0
    for gap, piece in side_by_side(of_chunk, likelihood.slices):
        windows.add(piece)
        total += gap
    return ((windows.sum + held * estimate.object) / (illumination + held)).astype(np.complex64), total


@lru_cache(8)
def difference_map_step(moved: bool, compile_xla: bool) -> Callable:
    """Return a compiled function of one iteration of a chunk; ``moved``: by parts of a pixel, too.

    ``(windows (B, N, N), fractions (B, 2), flux (B,), modes (K, N, N), background (N, N), amplitudes
    (B, N, N), photon, ramps (B, 2, N), waves (B, K, N, N), first) → (waves, Σ_m conj(P_m) ψ_m (B, N, N),
    squared distance between the constraints)``; if ``first``, the exit waves of the object take the place of
    ``waves``. ``ramps``: as for :func:`~ptycho.physics.shift_far_field`.
    """

    def step(
        windows: tf.Tensor,
        fractions: tf.Tensor,
        flux: tf.Tensor,
        modes: tf.Tensor,
        background: tf.Tensor,
        amplitudes: tf.Tensor,
        photon: tf.Tensor,
        ramps: tf.Tensor,
        waves: tf.Tensor,
        first: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        probe = physics.shifted_probe(modes[None], fractions) if moved else modes[None]
        probe = physics.scaled(probe, flux[:, None, None, None])
        ours = physics.illuminate(physics.shift_far_field(windows, ramps), probe)
        intensity = tf.square(photon * tf.maximum(amplitudes, 0.0)) - background
        wanted = tf.where(amplitudes > UNMEASURED, tf.sqrt(tf.maximum(intensity, 0.0)), -1.0)
        waves = tf.where(first, ours, waves)
        reflected = 2 * ours - waves
        change = physics.modulus_change(reflected, wanted, masked=True) + reflected - ours
        waves = waves + change
        distance = tf.reduce_sum(physics.intensity(change))
        back = tf.reduce_sum(tf.math.conj(probe) * waves, axis=1)
        return waves, physics.shift_far_field(back, tf.math.conj(ramps)), distance

    return tf.function(step, jit_compile=compile_xla, reduce_retracing=False, autograph=False)
