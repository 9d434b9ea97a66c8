"""How likely the measured patterns are under an object and a beam, and its gradient: the compiled part.

    λ_j = (h ∗ Σ_m |F ψ_jm|² + b) / f²,   ψ_jm = c_j P_m(x − s_j) O[w_j + x],   r_j = w_j + s_j, w_j whole

(where patterns are shifted by d_j on the detector, O[w_j + x] has a factor exp(2πi d_j·x/N))
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
from scipy.special import gammaln, xlogy

from ptycho import physics
from ptycho.config.waves import Fresnel
from ptycho.physics.deviance import deviance_of_counts

Tensors = dict[str, tf.Tensor]
UNMEASURED = -np.inf  # in place of an amplitude
STEP_ARGUMENTS = (
    "windows",
    "fractions",
    "flux",
    "modes",
    "background",
    "opr_modes",
    "opr_weights",
    "point_spread",
    "amplitudes",
    "photon",
    "ramps",
    "transfer",
    "batches",
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


def noise_deviance(rate: np.ndarray, most: float = 30.0) -> np.ndarray:
    """Return the mean ``poisson`` deviance ``(…)`` that photon noise leaves of rates λ ``(…)``.

    ``Σ_n exp(−λ) λⁿ/n! · deviance(λ, √n)``; above ``most`` photons its limit ``1 + 1/(6λ)``.
    """
    low, n = np.broadcast_arrays(np.minimum(rate, most)[..., None], np.arange(3 * most))
    pixels = deviance(tf.constant(low, tf.float32), tf.constant(np.sqrt(n), tf.float32), "poisson").numpy()
    mean = np.sum(np.exp(xlogy(n, low) - low - gammaln(n + 1)) * pixels, axis=-1)
    return np.where(rate > most, 1 + 1 / (6 * np.maximum(rate, most)), mean)


@lru_cache(64)
def likelihood_step(
    noise: str,
    refined: tuple[str, ...],
    moved: bool,
    compile_xla: bool | None,
    fresnel: Fresnel | None = None,
    batch: int | None = None,
) -> Callable:
    """Return a compiled function of one chunk of patterns: the deviance of each, and its half differentiated.

    Args:
        noise: as for :func:`deviance`.
        refined: of ``windows``, ``fractions``, ``flux``, ``modes``, ``background``, ``opr_modes``,
            ``opr_weights`` and ``point_spread`` those whose gradients are returned: the object at whole
            pixels ``(B, N, N)`` complex64, or slices ``(B, L, N, N)``, what is left of the positions
            ``(B, 2)``, by which the probe is moved, c ``(B,)``, ``(K, N, N)`` complex64 or those of each
            pattern, ``(B, K, N, N)``, ``(N, N)``, the modes ``(K', N, N)`` by which the first varies, K' of 0
            too, with their weights ``(B, K')``, complex64, and σ of the detector's point spread h, ``(2,)``,
            or ``(0,)``: there is none.
        moved: positions have fractions of a pixel, or may get them.
        compile_xla: compile with XLA; None: do not compile at all, for a single use.
        fresnel: of a near field; None: a far field.
        batch: patterns that are computed at once, a divisor of B; None: all. See :func:`in_batches`.

    Returns:
        ``(windows, fractions, flux, modes, background, opr_modes, opr_weights, point_spread, amplitudes,
        photon, ramps, transfer, batches) → (deviance (B,), gradients by name)``; amplitudes ``√n (B, N, N)``
        are ``UNMEASURED`` where nothing was measured, photon is f, and ``ramps (B, 2, N)`` shift the far
        fields (``(B, 0, N)``: they are not). ``transfer (N, N)`` propagates from one slice to the next
        (``(0, 0)``: the object is thin). ``batches``: how many batches are computed, from the first on;
        deviances and gradients of the other patterns are zero. The gradient of a complex value is
        ``∂/∂re + i ∂/∂im``.
    """

    def evaluate(values: Tensors) -> tuple[tf.Tensor, Tensors]:
        """The same of some patterns, arguments by name; modes are spectra if the probe is moved."""
        wanted, shifts = {name: values[name] for name in refined}, values["fractions"] if moved else None
        amplitudes = values["amplitudes"]
        measured = amplitudes > UNMEASURED
        known = tf.where(measured, amplitudes, tf.zeros_like(amplitudes))
        weight = tf.cast(measured, tf.float32)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(wanted)
            probe = physics.probe_of_each(values["modes"], values["opr_modes"], values["opr_weights"])
            probe = probe if shifts is None else physics.shifted_spectrum(probe, shifts)
            windows = physics.shift_far_field(values["windows"], values["ramps"])
            transfer, sigma = (
                values[name] if values[name].shape[0] else None for name in ("transfer", "point_spread")
            )
            intensity = physics.expected_intensity(
                windows, probe, values["flux"], values["background"], fresnel, shifts, transfer, sigma
            )
            pixels = deviance(intensity / tf.square(values["photon"]), known, noise)
            deviances = tf.reduce_sum(weight * pixels, (1, 2))
            half = tf.reduce_sum(deviances) / 2
        zero = tf.UnconnectedGradients.ZERO  # of fractions where nothing is moved
        return deviances, tape.gradient(half, wanted, unconnected_gradients=zero)

    def step(*arguments: tf.Tensor) -> tuple[tf.Tensor, Tensors]:
        values = dict(zip(STEP_ARGUMENTS, arguments, strict=True))
        beam = {name: values[name] for name in ("modes", "opr_modes")}
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(beam)
            spectra = {name: tf.signal.fft2d(modes) if moved else modes for name, modes in beam.items()}
        deviances, gradients = in_batches(evaluate, values | spectra, refined, batch)
        wanted = [name for name in beam if name in refined]
        if moved and wanted:
            targets, sources, slopes = ([of[name] for name in wanted] for of in (spectra, beam, gradients))
            gradients |= dict(zip(wanted, tape.gradient(targets, sources, slopes), strict=True))
        return deviances, gradients

    if compile_xla is None:
        return step
    return tf.function(step, jit_compile=compile_xla, reduce_retracing=False, autograph=False)


def batch_size(count: int, pixels: int, most: int = 2**16) -> int:
    """Return how many of ``count`` patterns a core computes at once: a divisor of it.

    Args:
        count: patterns of a chunk.
        pixels: complex numbers of the waves of a pattern, K N².
        most: complex numbers of all these waves, so that a core's cache holds them.
    """
    return max((n for n in range(1, count + 1) if count % n == 0 and n * pixels <= most), default=1)


def in_batches(
    function: Callable[[Tensors], tuple[tf.Tensor, Tensors]],
    values: Tensors,
    refined: tuple[str, ...],
    batch: int | None,
) -> tuple[tf.Tensor, Tensors]:
    """Return ``function(values)``, computed in a loop over batches of the patterns.

    The waves of many patterns would leave the cache between two operations, and to fetch them again would
    take longer than the operations.

    Args:
        function: ``values → (deviance (B,), gradients by name)``; gradients of what patterns share are added.
        values: arguments by name; ``batches`` have no effect where all patterns are one batch.
        refined: whose gradients are returned.
        batch: number of patterns in a batch, a divisor of B; None: B.
    """
    count = 1 if batch is None else values["amplitudes"].shape[0] // batch
    if count == 1:
        return function(values)
    # what has an axis of the patterns
    each = {"windows", "fractions", "flux", "opr_weights", "amplitudes", "ramps"}
    if len(values["modes"].shape) == 4:
        each.add("modes")
    parts = {name: tf.reshape(values[name], (count, batch, *values[name].shape[1:])) for name in each}
    own, shared = [name for name in refined if name in each], [name for name in refined if name not in each]

    def body(
        k: tf.Tensor, deviances: tf.TensorArray, stores: list[tf.TensorArray], sums: list[tf.Tensor]
    ) -> tuple[tf.Tensor, tf.TensorArray, list[tf.TensorArray], list[tf.Tensor]]:
        some, slopes = function(values | {name: part[k] for name, part in parts.items()})
        stores = [store.write(k, slopes[name]) for name, store in zip(own, stores, strict=True)]
        sums = [total + slopes[name] for name, total in zip(shared, sums, strict=True)]
        return k + 1, deviances.write(k, some), stores, sums

    start = (
        tf.constant(0),
        tf.TensorArray(tf.float32, count, element_shape=(batch,)),
        [tf.TensorArray(parts[name].dtype, count, element_shape=parts[name].shape[1:]) for name in own],
        [tf.zeros_like(values[name]) for name in shared],
    )
    _, deviances, stores, sums = tf.while_loop(lambda k, *_: k < values["batches"], body, start)
    slopes = [tf.reshape(store.stack(), values[name].shape) for name, store in zip(own, stores, strict=True)]
    return tf.reshape(deviances.stack(), (-1,)), dict(zip(own + shared, slopes + sums, strict=True))


@lru_cache(2)
def probes_step(compile_xla: bool) -> Callable:
    """Return a compiled function: the modes of each pattern of a chunk, ``(B, K, N, N)``, moved.

    ``(modes, opr_modes, opr_weights, fractions) → probes``, as for :func:`likelihood_step`.
    """

    def probes(modes: tf.Tensor, opr_modes: tf.Tensor, weights: tf.Tensor, fractions: tf.Tensor) -> tf.Tensor:
        spectra = tf.signal.fft2d(modes), tf.signal.fft2d(opr_modes)
        return physics.shifted_spectrum(physics.probe_of_each(*spectra, weights), fractions)

    return tf.function(probes, jit_compile=compile_xla, reduce_retracing=False, autograph=False)
