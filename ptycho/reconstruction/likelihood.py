"""How likely the measured patterns are under an object and a beam, and its gradient: the compiled part.

    λ_j = (Σ_m |F ψ_jm|² + b) / f²,   ψ_jm = c_j P_m(x − s_j) O[w_j + x],   r_j = w_j + s_j, w_j whole

in photons, f being the normalised amplitude of one (where photons are not known, of one *effective*
photon: such that the noise of an amplitude is ½, as it is for photons); of a near field F goes on to the
detector (:mod:`ptycho.physics.fresnel`). Up to a constant, −2 log p of a
pixel in which n were measured is its deviance:

    poisson    2 [λ − n + n log(n/λ)]                        photons are what they are
    gaussian   4 (√λ − √n)²                                  amplitudes with one variance
    robust     8 h² [√(1 + (√λ − √n)² / h²) − 1]             beyond h an error counts by its size

Sources: Thibault & Guizar-Sicairos, New J. Phys. 14 (2012) 063004; Godard et al., Opt. Express 20 (2012)
25914; the last is the pseudo-Huber function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.config.waves import FreeSpace, Fresnel
from ptycho.physics.deviance import deviance_of_counts
from ptycho.reconstruction.object_windows import has_gpu

UNMEASURED = -1e30  # in place of an amplitude
STEP_ARGUMENTS = (
    "windows",
    "fractions",
    "flux",
    "modes",
    "background",
    "opr_modes",
    "opr_weights",
    "amplitudes",
    "photon",
)
"""Arguments of a step, in their order."""


def deviance(
    rate: tf.Tensor,
    amplitude: tf.Tensor,
    noise: str,
    darkest: float = 0.02,
    smallest: float = 1e-4,
    h: float = 1.0,
) -> tf.Tensor:
    """Return the deviance of every pixel.

    Args:
        rate: λ, photons expected, ``(…)`` float32.
        amplitude: √n of the photons measured, the same shape; they need not be whole. Noise of an amplitude
            may make it negative.
        noise: ``poisson``, ``gaussian`` or ``robust``.
        darkest: photons expected everywhere, so that one in a dark pixel has a finite weight.
        smallest: the same of amplitudes, whose slope at zero must be finite.
        h: of ``robust``: twice the noise of an amplitude.
    """
    if noise == "poisson":
        return deviance_of_counts(rate + darkest, tf.square(amplitude) + darkest)
    residual = tf.sqrt(rate + smallest) - amplitude
    if noise == "robust":
        return 8 * h**2 * (tf.sqrt(1 + tf.square(residual / h)) - 1)
    return 4 * tf.square(residual)


@lru_cache(64)
def likelihood_step(
    noise: str,
    refined: tuple[str, ...],
    moved: bool,
    compile_xla: bool | None,
    fresnel: Fresnel | None = None,
    between: FreeSpace | None = None,
) -> Callable:
    """Return a compiled function of one chunk of patterns: the deviance of each, and its half differentiated.

    Args:
        noise: as for :func:`deviance`.
        refined: of ``windows``, ``fractions``, ``flux``, ``modes``, ``background`` those whose gradients
            are returned, or ``opr_modes`` and ``opr_weights``: the object at whole pixels ``(B, N, N)``
            complex64, or slices ``(B, L, N, N)``, what is left of the positions ``(B, 2)``, by which the
            probe is moved, c ``(B,)``, ``(K, N, N)`` complex64 or those of each pattern, ``(B, K, N, N)``,
            ``(N, N)``, and the modes ``(K', N, N)`` by which the first varies, K' of 0 too, with their
            weights ``(B, K')``, complex64.
        moved: positions have fractions of a pixel, or may get them.
        compile_xla: compile with XLA; None: do not compile at all, for a single use.
        fresnel: of a near field; None: a far field.
        between: from one slice to the next; None: a thin object.

    Returns:
        ``(windows, fractions, flux, modes, background, opr_modes, opr_weights, amplitudes, photon) →
        (deviance (B,), gradients by name)``; amplitudes ``√n (B, N, N)`` are ``UNMEASURED`` where nothing was
        measured, photon is f. The gradient of a complex value is ``∂/∂re + i ∂/∂im``.
    """

    def of_some(
        windows: tf.Tensor,
        fractions: tf.Tensor,
        flux: tf.Tensor,
        modes: tf.Tensor,
        background: tf.Tensor,
        opr_modes: tf.Tensor,
        opr_weights: tf.Tensor,
        amplitudes: tf.Tensor,
        photon: tf.Tensor,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """The same of a few patterns; modes are spectra if the probe is moved."""
        values = dict(windows=windows, fractions=fractions, flux=flux, modes=modes, background=background)
        values |= dict(opr_modes=opr_modes, opr_weights=opr_weights)
        wanted, shifts = {name: values[name] for name in refined}, fractions if moved else None
        measured = amplitudes > UNMEASURED
        known = tf.where(measured, amplitudes, tf.zeros_like(amplitudes))
        weight = tf.cast(measured, tf.float32)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(wanted)
            probe = physics.probe_of_each(modes, opr_modes, opr_weights)
            probe = physics.shifted_spectrum(probe, fractions) if moved else probe
            intensity = physics.expected_intensity(windows, probe, flux, background, fresnel, shifts, between)
            pixels = deviance(intensity / tf.square(photon), known, noise)
            deviances = tf.reduce_sum(weight * pixels, (1, 2))
            half = tf.reduce_sum(deviances) / 2
        zero = tf.UnconnectedGradients.ZERO  # of fractions where nothing is moved
        return deviances, tape.gradient(half, wanted, unconnected_gradients=zero)

    def step(*arguments: tf.Tensor) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        values = dict(zip(STEP_ARGUMENTS, arguments, strict=True))
        each = {"windows", "fractions", "flux", "opr_weights", "amplitudes"}
        if len(values["modes"].shape) == 4:
            each.add("modes")
        beam = {name: values[name] for name in ("modes", "opr_modes")}
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(beam)
            spectra = {name: tf.signal.fft2d(modes) if moved else modes for name, modes in beam.items()}
        count = values["amplitudes"].shape[0]
        size = count if compile_xla is None else at_once(count, beam["modes"].shape[-3:])
        deviances, gradients = some_by_some(of_some, values | spectra, each, refined, size)
        wanted = [name for name in beam if name in refined]
        if moved and wanted:
            targets, sources, slopes = ([of[name] for name in wanted] for of in (spectra, beam, gradients))
            gradients |= dict(zip(wanted, tape.gradient(targets, sources, slopes), strict=True))
        return deviances, gradients

    if compile_xla is None:
        return step
    return tf.function(step, jit_compile=compile_xla, reduce_retracing=False, autograph=False)


def at_once(count: int, modes: tuple[int, int, int], most: int = 2**16) -> int:
    """Return how many of ``count`` patterns are computed at once: a divisor of it.

    Args:
        count: patterns of a chunk.
        modes: K, N, N.
        most: complex numbers of their waves, so that a core's cache holds them. A GPU takes all patterns.
    """
    if has_gpu():
        return count
    fitting = [size for size in range(1, count + 1) if count % size == 0 and size * np.prod(modes) <= most]
    return max(fitting, default=1)


def some_by_some(
    function: Callable[..., tuple[tf.Tensor, dict[str, tf.Tensor]]],
    values: dict[str, tf.Tensor],
    each: set[str],
    refined: tuple[str, ...],
    size: int,
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Return ``function(**values)`` of B patterns, computed in a loop for ``size`` of them at a time.

    The waves of many patterns would leave the cache between two operations, and to fetch them again would
    take longer than the operations.

    Args:
        function: ``values → (deviance (B,), gradients by name)``; gradients of what patterns share are added.
        values: arguments by name.
        each: those whose first axis is that of the patterns.
        refined: whose gradients are returned.
        size: a divisor of B.
    """
    count = values["amplitudes"].shape[0] // size
    if count == 1:
        return function(**values)
    parts = {name: tf.reshape(values[name], (count, size, *values[name].shape[1:])) for name in each}
    own, shared = [name for name in refined if name in each], [name for name in refined if name not in each]

    def store(value: tf.Tensor) -> tf.TensorArray:
        return tf.TensorArray(value.dtype, count, element_shape=value.shape[1:])

    def body(
        k: tf.Tensor, deviances: tf.TensorArray, stores: list[tf.TensorArray], sums: list[tf.Tensor]
    ) -> tuple[tf.Tensor, tf.TensorArray, list[tf.TensorArray], list[tf.Tensor]]:
        some, slopes = function(**values | {name: part[k] for name, part in parts.items()})
        stores = [into.write(k, slopes[name]) for name, into in zip(own, stores, strict=True)]
        sums = [total + slopes[name] for name, total in zip(shared, sums, strict=True)]
        return k + 1, deviances.write(k, some), stores, sums

    start = (
        tf.constant(0),
        tf.TensorArray(tf.float32, count, element_shape=(size,)),
        [store(parts[name]) for name in own],
        [tf.zeros_like(values[name]) for name in shared],
    )
    _, deviances, stores, sums = tf.while_loop(lambda k, *_: k < count, body, start)
    gradients = {
        name: tf.reshape(into.stack(), values[name].shape) for name, into in zip(own, stores, strict=True)
    }
    return tf.reshape(deviances.stack(), (-1,)), gradients | dict(zip(shared, sums, strict=True))


@lru_cache(2)
def probes_step(compile_xla: bool) -> Callable:
    """Return a compiled function: the modes of each pattern of a chunk, ``(B, K, N, N)``, moved.

    ``(modes, opr_modes, opr_weights, fractions) → probes``, as for :func:`likelihood_step`.
    """

    def probes(modes: tf.Tensor, opr_modes: tf.Tensor, weights: tf.Tensor, fractions: tf.Tensor) -> tf.Tensor:
        spectra = tf.signal.fft2d(modes), tf.signal.fft2d(opr_modes)
        return physics.shifted_spectrum(physics.probe_of_each(*spectra, weights), fractions)

    return tf.function(probes, jit_compile=compile_xla, reduce_retracing=False, autograph=False)
