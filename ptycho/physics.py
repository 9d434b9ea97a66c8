"""The measurement, in pure TensorFlow: patches → exit wave → far field → diffraction amplitude.

    A_k = | F( P · O[r_k : r_k + N] ) |,   diffract = detect ∘ exit_waves,
                                           detect = centre ∘ amplitude ∘ far_field

``F`` is the unitary discrete Fourier transform, ``(F ψ)(q) = 1/N Σ ψ(x) exp(−2πi q·x/N)``, so
``Σ|Fψ|² = Σ|ψ|²``; diffraction patterns have their zero frequency at sample ``N//2``. Positions are
(row, col) in pixels; integer positions copy samples, others interpolate bilinearly. Every function works
on batches, eagerly, in a ``tf.function``, and under XLA; every one is linear in the object but for
``amplitude``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from ptycho.xla import hat_weights, resample, resample_adjoint

MODULUS_FLOOR = 1e-3  # ε₁, of the normalised amplitude
FEW_PHOTONS = 10.5  # in a pixel, half-way between counts; below, √n is less than √λ on average
COUNT_FLOOR = 0.05  # photons, or of those counted; a smaller expected count is taken as this as a divisor


def extract_patches(objects: tf.Tensor, positions: tf.Tensor, N: int, projective: bool = False) -> tf.Tensor:
    """Patches ``O_b[r : r + N]`` at integer or sub-pixel positions, zero outside the object.

    Args:
        objects: ``(B, H, W)`` complex or real.
        positions: ``(B, C, 2)`` float, (row, col) of each patch's top-left sample.
        N: side of a patch.
        projective: use TensorFlow's own projective kernel (float32, no XLA) in place of the matrix form.

    Returns:
        ``(B, C, N, N)`` in the dtype of ``objects``.
    """
    _same_batch("objects", objects, positions)
    if projective:
        return _project(objects[:, None], positions, (N, N))
    wy, wx = _window_weights(positions, N, objects.shape[-2:], objects.dtype.real_dtype)
    return resample(objects[:, None], wy, wx)


def place_patches(
    patches: tf.Tensor, positions: tf.Tensor, shape: tuple[int, int], projective: bool = False
) -> tf.Tensor:
    """Sum of patches placed at their positions: the adjoint of :func:`extract_patches`.

    Args:
        patches: ``(B, C, N, N)`` complex or real.
        positions: ``(B, C, 2)`` float, (row, col) of each patch's top-left sample.
        shape: ``(H, W)`` of the object.
        projective: as for :func:`extract_patches`.

    Returns:
        ``(B, H, W)`` in the dtype of ``patches``; what falls outside is dropped.
    """
    _same_batch("patches", patches, positions)
    if projective:
        return tf.reduce_sum(_project(patches, -positions, shape), axis=1)
    wy, wx = _window_weights(positions, patches.shape[-1], shape, patches.dtype.real_dtype)
    return tf.reduce_sum(resample_adjoint(patches, wy, wx), axis=1)


def illuminate(patches: tf.Tensor, probe: tf.Tensor) -> tf.Tensor:
    """``P · patch``; ``patches (…, n, n)``, ``probe (n, n)``, complex."""
    return probe * patches


def exit_waves(
    objects: tf.Tensor,
    positions: tf.Tensor,
    probe: tf.Tensor,
    support: int | None = None,
    projective: bool = False,
) -> tf.Tensor:
    """Exit waves ``ψ = P · O[r : r + N]``.

    Args:
        objects: ``(B, H, W)`` complex64.
        positions: ``(B, C, 2)`` float32, top-left samples of the patches of side N.
        probe: ``(N, N)`` complex64.
        support: even side of the central square outside which the probe is zero; nothing is computed there.
            None: N.
        projective: as for :func:`extract_patches`.

    Returns:
        ``(B, C, N, N)`` complex64.
    """
    N = probe.shape[-1]
    n = support or N
    patches = extract_patches(objects, positions + (N - n) / 2, n, projective)
    return pad_to(illuminate(patches, crop_to(probe, n)), N)


def back_project(
    waves: tf.Tensor,
    positions: tf.Tensor,
    probe: tf.Tensor,
    shape: tuple[int, int],
    support: int | None = None,
    projective: bool = False,
) -> tf.Tensor:
    """``Σ_k P̄ · ψ_k`` placed at the positions: the adjoint of :func:`exit_waves`, ``(B, H, W)``."""
    N = probe.shape[-1]
    n = support or N
    patches = illuminate(crop_to(waves, n), tf.math.conj(crop_to(probe, n)))
    return place_patches(patches, positions + (N - n) / 2, shape, projective)


def pad_to(images: tf.Tensor, side: int) -> tf.Tensor:
    """Centre ``(…, n, n)`` in zeros of side ``side``; the surplus of an odd difference goes behind."""
    before = (side - images.shape[-1]) // 2
    after = side - images.shape[-1] - before
    return tf.pad(images, [[0, 0]] * (images.shape.rank - 2) + [[before, after]] * 2)


def crop_to(images: tf.Tensor, side: int) -> tf.Tensor:
    """The central ``(…, side, side)`` of images: the adjoint of :func:`pad_to`."""
    start = (images.shape[-1] - side) // 2
    return images[..., start : start + side, start : start + side]


def far_field(exit_waves: tf.Tensor) -> tf.Tensor:
    """``Ψ = F ψ`` over the last two axes; complex, shape unchanged, zero frequency at sample 0.

    :func:`centre` brings the zero frequency to ``N//2``. It is left where the transform puts it because
    iterations go back and forth many times, and because an amplitude does not depend on where the exit
    wave's origin lies.
    """
    return tf.signal.fft2d(exit_waves) / _root_samples(exit_waves)


def near_field(far_fields: tf.Tensor) -> tf.Tensor:
    """``ψ = F⁻¹ Ψ``: the inverse, and the adjoint, of :func:`far_field`."""
    return tf.signal.ifft2d(far_fields) * _root_samples(far_fields)


def centre(far_fields: tf.Tensor) -> tf.Tensor:
    """Move the zero frequency from sample 0 to ``N//2``, as patterns are stored and shown."""
    return tf.signal.fftshift(far_fields, axes=(-2, -1))


def uncentre(patterns: tf.Tensor) -> tf.Tensor:
    """The inverse of :func:`centre`."""
    return tf.signal.ifftshift(patterns, axes=(-2, -1))


def scaled(waves: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    """Complex ``waves`` times a real ``factor``, without the cost of a complex product."""
    return tf.complex(tf.math.real(waves) * factor, tf.math.imag(waves) * factor)


def intensity(waves: tf.Tensor) -> tf.Tensor:
    """``|Ψ|²``, real."""
    return tf.square(tf.math.real(waves)) + tf.square(tf.math.imag(waves))


def amplitude(waves: tf.Tensor) -> tf.Tensor:
    """``|Ψ|``, real; its gradient at zero is zero."""
    return tf.abs(waves)


def modulus_change(waves: tf.Tensor, measured: tf.Tensor) -> tf.Tensor:
    """How exit waves change when their far field takes the measured amplitudes and keeps its phases.

        F⁻¹[x Ψ / √(|Ψ|² + ε₁²)] − ψ,   Ψ = F ψ

    Args:
        waves: ψ, ``(…, H, W)`` complex64.
        measured: x, normalised amplitudes ``(…, H, W)`` float32 with the zero frequency at sample 0.

    Returns:
        ``(…, H, W)`` complex64.
    """
    far_fields = far_field(waves)
    to_measured = measured * tf.math.rsqrt(intensity(far_fields) + MODULUS_FLOOR**2)
    return near_field(scaled(far_fields, to_measured)) - waves


def far_field_step(far_fields: tf.Tensor, measured: tf.Tensor, photon: float | None) -> tf.Tensor:
    """Step of far fields toward those that the measured patterns make most likely, with their phases kept.

        ΔΨ = δ Ψ / √(|Ψ|² + ε₁²),   a = |Ψ|,
        δ = (x² − a²) / (2 max(a, √0.05 max(f, x)))   up to ten photons in the pixel,
        δ = x − a                                     for more, and where amplitudes are not those of counts

    The first is Fisher scoring of the Poisson likelihood: with ``n`` photons counted and ``λ = (a/f)²``
    expected, the score in ``√λ`` is ``2(n − λ)/√λ`` and its information 4, however few they are. Its mean is
    zero at the true amplitude. That of ``√n − √λ`` is negative, and more than half of ``√λ`` below a third of
    a photon a pixel: taking the measured modulus darkens what is dim. With many photons the two agree, and
    ``x − a`` is safe far from the solution; there the bound by ``x`` keeps the first below 2.3 x.
    Source: Thibault & Guizar-Sicairos, New J. Phys. 14 (2012) 063004, for the likelihood.

    Args:
        far_fields: Ψ, ``(…, H, W)`` complex64.
        measured: ``x = f √n``, normalised amplitudes ``(…, H, W)`` float32, ordered as Ψ.
        photon: ``f``, normalised amplitude of one photon; None where ``x²`` are no counts.

    Returns:
        ``(…, H, W)`` complex64.
    """
    light = intensity(far_fields)
    expected = tf.sqrt(light)
    step = measured - expected
    if photon is not None:
        floored = tf.maximum(expected, COUNT_FLOOR**0.5 * tf.maximum(measured, photon))
        scored = (tf.square(measured) - light) / (2 * floored)
        step = tf.where(measured < photon * FEW_PHOTONS**0.5, scored, step)
    return scaled(far_fields, step * tf.math.rsqrt(light + MODULUS_FLOOR**2))


def detect(waves: tf.Tensor) -> tf.Tensor:
    """Diffraction amplitudes ``|F ψ|`` of exit waves, as they are measured.

    Args:
        waves: ``(…, H, W)`` complex64 or complex128.

    Returns:
        ``(…, H, W)`` in the real dtype of ``waves``, zero frequency at ``(H//2, W//2)``.
    """
    return centre(amplitude(far_field(waves)))


def diffract(
    objects: tf.Tensor,
    positions: tf.Tensor,
    probe: tf.Tensor,
    support: int | None = None,
    projective: bool = False,
) -> tf.Tensor:
    """Diffraction amplitudes of objects at positions.

    Args:
        objects: ``(B, H, W)`` complex64.
        positions: ``(B, C, 2)`` float32, top-left samples.
        probe: ``(N, N)`` complex64.
        support, projective: as for :func:`exit_waves`.

    Returns:
        ``(B, C, N, N)`` float32, ``|F(P · patch)|``, zero frequency at ``N//2``.
    """
    return detect(exit_waves(objects, positions, probe, support, projective))


def _same_batch(name: str, images: tf.Tensor, positions: tf.Tensor) -> None:
    """Refuse what would broadcast: one object for many sets of positions, or the reverse."""
    if images.shape[0] != positions.shape[0]:
        raise ValueError(
            f"{name} has the batch size {images.shape[0]} and positions {positions.shape[0]}; must be equal"
        )


def _root_samples(waves: tf.Tensor) -> tf.Tensor:
    """√(number of samples) of the last two axes, in the dtype of ``waves``."""
    rows, cols = waves.shape[-2:]
    return tf.constant((rows * cols) ** 0.5, waves.dtype)


def _window_weights(
    positions: tf.Tensor, N: int, shape: Sequence[int], dtype: tf.DType
) -> tuple[tf.Tensor, tf.Tensor]:
    """Row and column weights ``(B, C, N, H)``, ``(B, C, N, W)`` of the windows at ``positions``."""
    points = tf.cast(positions, dtype)[..., None] + tf.range(N, dtype=dtype)  # (B, C, 2, N)
    return hat_weights(points[..., 0, :], shape[0]), hat_weights(points[..., 1, :], shape[1])


def _project(images: tf.Tensor, starts: tf.Tensor, shape: tuple[int, int]) -> tf.Tensor:
    """Windows of ``images (B, C or 1, h, w)`` at ``starts (B, C, 2)`` by TensorFlow's float32 kernel."""
    if images.dtype.is_complex:
        return tf.complex(*(_project(part(images), starts, shape) for part in (tf.math.real, tf.math.imag)))
    batch, count = starts.shape[0], starts.shape[1]
    if batch is None:
        raise ValueError("projective translation needs a static batch size; got None")
    height, width = images.shape[-2:]
    images = tf.broadcast_to(images, (batch, count, height, width))
    row, col = tf.reshape(starts[..., 0], [-1]), tf.reshape(starts[..., 1], [-1])
    one, zero = tf.ones_like(row), tf.zeros_like(row)
    moved = tf.raw_ops.ImageProjectiveTransformV3(
        images=tf.reshape(images, (batch * count, height, width, 1)),
        transforms=tf.stack([one, zero, col, zero, one, row, zero, zero], axis=-1),
        output_shape=tf.constant(shape, tf.int32),
        fill_value=tf.constant(0.0),
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )
    return tf.reshape(moved, (batch, count, *shape))


def cut_windows(image: np.ndarray, starts: np.ndarray, side: int) -> np.ndarray:
    """Whole-pixel windows of one image, zero beyond its edge: the integer part of a sub-pixel position.

    Args:
        image: ``(H, W)``.
        starts: ``(K, 2)`` integers (row, col), at least 0 and at most H, W.
        side: side of a window.

    Returns:
        ``(K, side, side)`` in the dtype of ``image``.
    """
    return inner_windows(np.pad(image, ((0, side), (0, side))), starts, side)


def inner_windows(image: np.ndarray, starts: np.ndarray, side: int) -> np.ndarray:
    """:func:`cut_windows` of windows wholly inside the image, without a copy of it."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (side, side))
    return windows[starts[:, 0], starts[:, 1]]


def add_windows(windows: np.ndarray, starts: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Sum of windows placed at whole pixels: the adjoint of :func:`cut_windows`.

    Args:
        windows: ``(K, h, w)``.
        starts: ``(K, 2)`` integers (row, col), at least 0.
        shape: ``(H, W)`` of the result; what falls outside is dropped.
    """
    height, width = windows.shape[-2:]
    canvas = np.zeros((shape[0] + height, shape[1] + width), windows.dtype)
    add_windows_to(canvas, windows, starts)
    return canvas[: shape[0], : shape[1]]


def add_windows_to(canvas: np.ndarray, windows: np.ndarray, starts: np.ndarray) -> None:
    """Add ``windows (K, h, w)`` in place, each wholly inside ``canvas (H, W)`` at its whole-pixel start."""
    height, width = windows.shape[-2:]
    for window, (row, col) in zip(windows, starts, strict=True):
        canvas[row : row + height, col : col + width] += window
