"""The measurement, in pure TensorFlow: object → patches → exit waves → far field → intensity → amplitude.

    λ_k = h ∗ Σ_m | F( c_k P_m · O[r_k : r_k + N] ) |² + b,   A_k = √λ_k

h is the detector's point spread, if it has one. In a near field F is replaced by ``F⁻¹ H F``
(:mod:`~ptycho.physics.fresnel`). A thick sample is L slices: ``ψ_0 = c P · O_0``,
``ψ_l = O_l · F⁻¹[H Fψ_{l−1}]``, and ``ψ_{L−1}`` leaves it.

``forward`` is the whole model, for simulation, networks and scores alike. A probe is ``(K, N, N)``, its K
modes, or one for each pattern, ``(B, C, K, N, N)``: their intensities add, and so does a background b that
does not depend on the position. Waves have the axis K of their probe.

``F`` is the unitary discrete Fourier transform, ``(F ψ)(q) = 1/N Σ ψ(x) exp(−2πi q·x/N)``, so
``Σ|Fψ|² = Σ|ψ|²``; diffraction patterns have their zero frequency at sample ``N//2``. Positions are
(row, col) in pixels; integer positions copy samples, others interpolate bilinearly. Every function works
on batches, eagerly, in a ``tf.function``, and under XLA; every one is linear in the object, except the
intensity and what follows it. The functions that a generator uses accept pairs of real tensors, too
(:mod:`~ptycho.physics.waves`).
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
import tensorflow as tf

from ptycho.config.waves import FreeSpace, Fresnel
from ptycho.physics.fresnel import fresnel_field, propagate, transfer_of
from ptycho.physics.patches import SEPARABLE, PatchMover
from ptycho.physics.waves import Pair, Waves, by_part, conj, fourier_matrix, imag, of_parts, real, transformed
from ptycho.xla.precision import materialised


def forward(
    objects: Waves,
    positions: tf.Tensor,
    probe: Waves,
    *,
    flux: tf.Tensor | None = None,
    background: tf.Tensor | None = None,
    point_spread: tf.Tensor | None = None,
    exact: bool = False,
    support: int | None = None,
    mover: PatchMover = SEPARABLE,
    fresnel: Fresnel | None = None,
    between: FreeSpace | None = None,
) -> tf.Tensor:
    """Return the intensity λ of objects at positions: what a detector counts on average.

    Args:
        objects: ``(B, H, W)`` complex64; slices of thick ones, ``(B, L, H, W)``.
        positions: ``(B, C, 2)`` float32, top-left samples.
        probe: ``(K, N, N)`` complex64, or one for each pattern, ``(B, C, K, N, N)``.
        flux: c, ``(B, C)`` float32, factor of the probe's amplitude; None: one.
        background: b, ``(N, N)`` float32, ordered as the result; None: none.
        point_spread: of the detector, as for :func:`spread`; None: none.
        exact: fractions of a pixel move the probe, exactly, rather than the object, by interpolation.
        support: even side of the central square outside which the probe is zero; nothing is computed there.
            None: N.
        mover: how patches are moved.
        fresnel: of a near field, whose waves are complex tensors; None: a far field.
        between: from one slice to the next, of complex tensors without a ``support``; None: objects are thin.

    Returns:
        ``(B, C, N, N)`` float32, the detector's middle at sample 0: of a far field the zero frequency.
    """
    moved = None
    if exact:
        whole, probe = split_positions(positions, probe)
        positions, moved = whole, positions - whole
    waves = illuminated_waves(objects, positions, probe, support, mover, between)
    far_fields = at_detector(waves, probe.shape[-1], fresnel, moved)
    return total_intensity(far_fields, background, flux, point_spread)


def expected_intensity(
    patches: Waves,
    probe: Waves,
    flux: tf.Tensor,
    background: tf.Tensor | None = None,
    fresnel: Fresnel | None = None,
    moved: tf.Tensor | None = None,
    transfer: tf.Tensor | None = None,
    point_spread: tf.Tensor | None = None,
) -> tf.Tensor:
    """Return :func:`forward` of patches that are cut, ``(…, N, N)`` float32.

    Args:
        patches: of objects, ``(…, N, N)`` complex64; of slices, ``(…, L, N, N)``.
        probe: ``(…, K, N, N)``, whose leading axes may broadcast.
        flux: c, ``(…)`` float32.
        background: b, ``(N, N)`` float32, zero frequency at sample 0; None: none.
        fresnel: of a near field; None: a far field.
        moved: s, ``(…, 2)``, by which the probe has been moved for positions between pixels; None: not.
        transfer: from one slice to the next, as for :func:`propagate`; None: the objects are thin.
        point_spread: of the detector, as for :func:`spread`; None: none.
    """
    slices = [patches] if transfer is None else tf.unstack(patches, axis=-3)
    waves = through_slices(slices, probe, transfer)
    far_fields = at_detector(waves, fresnel=fresnel, moved=moved)
    return total_intensity(far_fields, background, flux, point_spread)


def shift_far_field(patches: Any, ramps: Any) -> Any:
    """Return patches whose far field is shifted: times the phase ramps of its rows and of its columns.

    Args:
        patches: tensor or array ``(B, N, N)`` complex64; of slices ``(B, L, N, N)``, the last of which takes
            the ramps.
        ramps: ``exp(2πi d x/N)``, ``(B, 2, N)`` complex64; ``(B, 0, N)``: no shift.
    """
    if not ramps.shape[1]:
        return patches
    ramp = ramps[:, 0, :, None] * ramps[:, 1, None, :]
    if len(patches.shape) == 3:
        return patches * ramp
    return tf.concat([patches[:, :-1], patches[:, -1:] * ramp[:, None]], axis=1)


def illuminate(patches: Waves, probe: Waves) -> Waves:
    """Multiply ``patches (…, n, n)`` by ``probe (…, K, n, n)``: ``P_m · patch``, ``(…, K, n, n)``."""
    return probe * patches[..., None, :, :]


def through_slices(slices: list[Waves], probe: Waves, transfer: tf.Tensor | None) -> Waves:
    """Return ``ψ_{L−1}``, ``(…, K, n, n)``, of patches ``(…, n, n)`` of each slice under a probe."""
    waves = illuminate(slices[0], probe)
    for patches in slices[1:]:
        assert transfer is not None
        waves = illuminate(patches, propagate(waves, transfer))
    return waves


def over_modes(images: Waves) -> Waves:
    """Sum over the modes, ``(…, K, H, W)`` → ``(…, H, W)``, one after the other, which XLA fuses."""
    return by_part(lambda part: functools.reduce(operator.add, tf.unstack(part, axis=-3)), images)


def illuminated_waves(
    objects: Waves,
    positions: tf.Tensor,
    probe: Waves,
    support: int | None = None,
    mover: PatchMover = SEPARABLE,
    between: FreeSpace | None = None,
) -> Waves:
    """Return exit waves ``ψ_m = P_m · O[r : r + N]`` where they are not zero; arguments of :func:`forward`.

    Returns:
        ``(B, C, K, n, n)``, their central square of side n, which is ``support``, or N.
    """
    N = probe.shape[-1]
    n = support or N
    slices = [objects] if between is None else tf.unstack(objects, axis=1)
    patches = [mover.extract(one, positions + (N - n) / 2, n) for one in slices]
    transfer = None if between is None else transfer_of(between, n)
    return through_slices(patches, crop_to(probe, n), transfer)


def back_project(
    waves: Waves,
    positions: tf.Tensor,
    probe: Waves,
    shape: tuple[int, int],
    support: int | None = None,
    mover: PatchMover = SEPARABLE,
) -> Waves:
    """Return ``Σ_k Σ_m P̄_m · ψ_km (B, H, W)`` at the positions: the adjoint of :func:`illuminated_waves`."""
    N = probe.shape[-1]
    n = support or N
    patches = over_modes(crop_to(waves, n) * conj(crop_to(probe, n)))
    return mover.place(patches, positions + (N - n) / 2, shape)


def pad_to(images: Waves, side: int) -> Waves:
    """Pad ``(…, n, n)`` by zeros to the side ``side``; the surplus of an odd difference goes behind."""
    before = (side - images.shape[-1]) // 2
    after = side - images.shape[-1] - before
    padding = [[0, 0]] * (images.shape.rank - 2) + [[before, after]] * 2
    return by_part(lambda part: tf.pad(part, padding), images)


def crop_to(images: Waves, side: int) -> Waves:
    """Return the central ``(…, side, side)`` of images: the adjoint of :func:`pad_to`."""
    start = (images.shape[-1] - side) // 2
    return images[..., start : start + side, start : start + side]


def at_detector(
    exit_waves: Waves, side: int | None = None, fresnel: Fresnel | None = None, moved: tf.Tensor | None = None
) -> Waves:
    """Return the wave on the detector, ``(…, N, N)``, its middle at sample 0: far field or near field.

    Args:
        exit_waves: ``(…, K, n, n)``, the centre of zeros of side ``side``.
        side: N; None: n.
        fresnel: of a near field; None: a far field, of which only the phase depends on ``moved``.
        moved: s, ``(…, 2)``: the exit waves lie so many pixels off, see :func:`ptycho.physics.fresnel_field`.
    """
    if fresnel is None:
        return far_field(exit_waves, side)
    if side is not None and exit_waves.shape[-1] < side:
        exit_waves = pad_to(exit_waves, side)
    ramp = None if moved is None else shift_ramp(-moved, exit_waves)
    return fresnel_field(exit_waves, fresnel, ramp)


def far_field(exit_waves: Waves, side: int | None = None) -> Waves:
    """Return ``Ψ = F ψ`` over the last two axes; zero frequency at sample 0.

    :func:`centre` brings the zero frequency to ``N//2``. It is left where the transform puts it because
    iterations go back and forth many times, and because an amplitude does not depend on where the exit
    wave's origin lies.

    Args:
        exit_waves: ``(…, n, n)``, the centre of zeros of side ``side``, N.
        side: None: n.

    Returns:
        ``(…, N, N)``.
    """
    side = side or exit_waves.shape[-1]
    if isinstance(exit_waves, Pair):
        return transformed(exit_waves, fourier_matrix(side, exit_waves.shape[-1]))
    if exit_waves.shape[-1] < side:
        exit_waves = pad_to(exit_waves, side)
    return tf.signal.fft2d(exit_waves) / _root_samples(exit_waves)


def from_far_field(far_fields: Waves, side: int | None = None) -> Waves:
    """Return the adjoint of :func:`far_field`: the centre ``(…, side, side)`` of ``F⁻¹ Ψ (…, N, N)``."""
    N = far_fields.shape[-1]
    side = side or N
    if isinstance(far_fields, Pair):
        return transformed(far_fields, fourier_matrix(N, side).conj().T)
    waves = tf.signal.ifft2d(far_fields) * _root_samples(far_fields)
    return crop_to(waves, side) if side < N else waves


def centre(far_fields: tf.Tensor) -> tf.Tensor:
    """Move the zero frequency of ``(…, N, N)`` from sample 0 to ``N//2``, as patterns are stored."""
    return tf.roll(far_fields, [side // 2 for side in far_fields.shape[-2:]], (-2, -1))


def uncentre(patterns: tf.Tensor) -> tf.Tensor:
    """Return the inverse of :func:`centre`, ``(…, N, N)``."""
    return tf.roll(patterns, [-(side // 2) for side in patterns.shape[-2:]], (-2, -1))


def scaled(waves: Waves, factor: tf.Tensor) -> Waves:
    """Multiply complex ``waves (…)`` by a real ``factor``, without the cost of a complex product."""
    return of_parts(real(waves) * factor, imag(waves) * factor, waves)


def intensity(waves: Waves) -> tf.Tensor:
    """Return ``|Ψ|²`` of ``waves (…)``, real."""
    return tf.square(real(waves)) + tf.square(imag(waves))


def total_intensity(
    far_fields: Waves,
    background: tf.Tensor | None = None,
    flux: tf.Tensor | None = None,
    point_spread: tf.Tensor | None = None,
) -> tf.Tensor:
    """Return ``c² h ∗ Σ_m |Ψ_m|² + b``, ``(…, H, W)`` real, of far fields ``(…, K, H, W)``.

    ``background``: b, ``(H, W)``, ordered as the far fields. ``flux``: c, ``(…)``; None: one.
    ``point_spread``: of h, as for :func:`spread`; None: none.
    """
    total = over_modes(intensity(far_fields))
    if point_spread is not None:
        total = spread(total, point_spread)
    if flux is not None:
        total *= tf.square(flux)[..., None, None]
    return total if background is None else total + background


def spread(intensity: tf.Tensor, sigma: tf.Tensor) -> tf.Tensor:
    """Return intensities as a detector with a Gaussian point spread h measures them.

        (h ∗ λ)_q = Σ_n h_n λ_{q−n},   h_n ∝ exp(−n_row² / 2σ_row² − n_column² / 2σ_column²),   Σ_n h_n = 1

    The weights are samples of the Gaussian. A Gaussian transfer function that is cut off at the Nyquist
    frequency would have negative ones, which show beside sharp edges. The convolution is circular, because
    the transform of the wave is, too. Source: Thibault & Menzel, Nature 494 (2013) 68.

    Args:
        intensity: λ, ``(…, H, W)`` float32, not negative.
        sigma: σ, ``(2,)`` float32, along rows and columns in pixels; below .2 it has no effect.

    Returns:
        As ``intensity``; not negative.
    """
    factors = []
    for axis in (0, 1):
        side, variance = intensity.shape[axis - 2], tf.maximum(tf.square(sigma[axis]), 0.01)
        n = np.arange(1, side // 2 + 1)
        weights = 2 * tf.exp(-tf.constant(n**2 / 2, sigma.dtype) / variance)
        waves = tf.constant(np.cos(2 * np.pi * np.outer(np.fft.fftfreq(side), n)) - 1, sigma.dtype)
        factors.append(1 + tf.linalg.matvec(waves, weights) / (1 + tf.reduce_sum(weights)))
    factor = materialised(factors[0][:, None] * factors[1], sigma)
    spectrum = tf.signal.fft2d(tf.complex(intensity, tf.zeros_like(intensity)))
    return tf.maximum(tf.math.real(tf.signal.ifft2d(scaled(spectrum, factor))), 0)


def shifted_probe(probe: Waves, shifts: tf.Tensor) -> Waves:
    """Return the probe moved by fractions of a pixel: its far field times a phase ramp.

        P_s = F⁻¹[ F P · exp(−2πi q·s) ],   q = −1/2 … 1/2 cycles per pixel

    Exact where the probe is band-limited and zero at the window's edge; a positive shift moves it down and to
    the right. ``P_s(x)·O[⌊r⌋ + x]`` is the exit wave at r = ⌊r⌋ + s, with the object cut at whole pixels.

    Args:
        probe: ``(K, N, N)`` complex64.
        shifts: ``(…, 2)`` float32, (row, col) in pixels.

    Returns:
        ``(…, K, N, N)`` complex64.
    """
    if isinstance(probe, Pair):
        return from_far_field(far_field(probe) * shift_ramp(shifts, probe))
    return shifted_spectrum(tf.signal.fft2d(probe), shifts)


def shifted_spectrum(spectrum: tf.Tensor, shifts: tf.Tensor) -> tf.Tensor:
    """Return :func:`shifted_probe`, ``(…, K, N, N)`` complex64, of its spectrum."""
    return tf.signal.ifft2d(spectrum * shift_ramp(shifts, spectrum))


def probe_of_each(modes: tf.Tensor, opr_modes: tf.Tensor, opr_weights: tf.Tensor) -> tf.Tensor:
    """Return the modes of each of B patterns, ``(B, K, N, N)`` complex64.

    The first mode of pattern j is ``P_0 + Σ_k w_jk V_k``. As that is linear, the arguments may be spectra:
    then only the sum has to be transformed for each pattern.

    Args:
        modes: P, ``(K, N, N)`` complex64, or those of each pattern, ``(B, K, N, N)``.
        opr_modes: V, ``(K', N, N)`` complex64; for K' = 0 the result of shared modes is ``(1, K, N, N)``.
        opr_weights: w, ``(B, K')`` complex64.
    """
    probes = modes if len(modes.shape) == 4 else modes[None]
    if opr_modes.shape[0]:
        first = np.eye(1, modes.shape[-3], dtype=np.complex64)[0, :, None, None]
        probes += first * tf.reduce_sum(opr_weights[..., None, None] * opr_modes, 1)[:, None]
    return probes


def shift_ramp(shifts: tf.Tensor, probe: Waves) -> Waves:
    """Return ``exp(−2πi q·s)``, zero frequency at sample 0: ``(…, 1, N, N)``.

    The factors of rows and columns are stored: XLA would compute their sines for each pixel of each mode.
    """
    sides = [tf.constant(np.fft.fftfreq(side), shifts.dtype) for side in probe.shape[-2:]]
    angles = tf.concat([-2 * np.pi * shifts[..., axis, None] * sides[axis] for axis in (0, 1)], -1)
    cosines, sines = tf.unstack(materialised(tf.stack([tf.cos(angles), tf.sin(angles)]), shifts))
    phases, height = of_parts(cosines, sines, probe), probe.shape[-2]
    rows, cols = phases[..., :height], phases[..., height:]
    return (rows[..., :, None] * cols[..., None, :])[..., None, :, :]


def split_positions(positions: tf.Tensor, probe: Waves) -> tuple[tf.Tensor, Waves]:
    """Return the nearest whole positions ``(…, 2)``, and the probe moved by each rest, ``(…, K, N, N)``."""
    whole = tf.floor(positions + 0.5)
    return whole, shifted_probe(probe, positions - whole)


def modulus_change(waves: Waves, measured: tf.Tensor, masked: bool = False) -> Waves:
    """Return how exit waves change when their far field takes the measured amplitudes and keeps its phases.

        F⁻¹[x Ψ_m / √(Σ_m |Ψ_m|² + ε₁²)] − ψ_m,   Ψ = F ψ

    All modes are scaled alike, which is the smallest change that gives the measured sum; ε₁ = 0.001.

    Args:
        waves: ψ, ``(…, K, n, n)`` complex64: all, or the central square outside which they are zero, of
            which the change is given then.
        measured: x, normalised amplitudes ``(…, N, N)`` float32 with the zero frequency at sample 0.
        masked: a negative x was not measured; the far field stands there as it is.

    Returns:
        As ``waves``.
    """
    far_fields = far_field(waves, measured.shape[-1])
    to_measured = measured * tf.math.rsqrt(total_intensity(far_fields) + 1e-3**2)
    if masked:
        to_measured = tf.where(measured < 0, tf.ones((), to_measured.dtype), to_measured)
    return from_far_field(scaled(far_fields, to_measured[..., None, :, :]), waves.shape[-1]) - waves


def detect(intensity: tf.Tensor) -> tf.Tensor:
    """Return amplitudes ``√λ (…, H, W)`` of intensities, as stored: zero frequency in the middle."""
    return centre(root(intensity))


def root(intensity: tf.Tensor) -> tf.Tensor:
    """Return the root of ``intensity (…)``; its gradient at zero is zero. NaN stays NaN."""
    dark = intensity <= 0
    return tf.where(
        dark, tf.zeros_like(intensity), tf.sqrt(tf.where(dark, tf.ones_like(intensity), intensity))
    )


def _root_samples(waves: tf.Tensor) -> tf.Tensor:
    """√(number of samples) of the last two axes, in the dtype of ``waves``."""
    rows, cols = waves.shape[-2:]
    return tf.constant((rows * cols) ** 0.5, waves.dtype)
