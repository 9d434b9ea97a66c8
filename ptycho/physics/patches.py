"""Patches of an object at scan positions, and the adjoint: how they are moved is decided once, as one value.

Positions are (row, col) of a patch's top-left sample; integer positions copy samples, others interpolate
bilinearly, and outside the object all is zero. :data:`SEPARABLE` writes this as two matrix products and
compiles under XLA; :data:`PROJECTIVE` is TensorFlow's own kernel, which does not. :data:`WHOLE` copies, in
compiled steps alone and at whole positions inside the object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from ptycho.physics.waves import Waves, by_part
from ptycho.xla import add_windows, cut_windows, hat_weights, resample, resample_adjoint


class PatchMover(NamedTuple):
    """A way to move patches.

    Attributes:
        extract: ``(objects (B, H, W), positions (B, C, 2), N) → (B, C, N, N)``, patches ``O_b[r : r + N]``.
        place: ``(patches (B, C, N, N), positions (B, C, 2), (H, W)) → (B, H, W)``, its adjoint: the sum of
            the patches at their positions; what falls outside is dropped.
    """

    extract: Callable[[Waves, tf.Tensor, int], Waves]
    place: Callable[[Waves, tf.Tensor, tuple[int, int]], Waves]


def extract_patches(objects: Waves, positions: tf.Tensor, N: int) -> Waves:
    """Return ``PatchMover.extract`` by separable weights; ``(B, C, N, N)`` in the dtype of ``objects``."""
    _same_batch("objects", objects, positions)
    wy, wx = _window_weights(positions, N, objects.shape[-2:], objects.dtype.real_dtype)
    return by_part(lambda part: resample(part[:, None], wy, wx), objects)


def place_patches(patches: Waves, positions: tf.Tensor, shape: tuple[int, int]) -> Waves:
    """Return ``PatchMover.place`` by separable weights; ``(B, H, W)`` in the dtype of ``patches``."""
    _same_batch("patches", patches, positions)
    wy, wx = _window_weights(positions, patches.shape[-1], shape, patches.dtype.real_dtype)
    return by_part(lambda part: tf.reduce_sum(resample_adjoint(part, wy, wx), axis=1), patches)


def _extract_projective(objects: tf.Tensor, positions: tf.Tensor, N: int) -> tf.Tensor:
    _same_batch("objects", objects, positions)
    return _project(objects[:, None], positions, (N, N))


def _place_projective(patches: tf.Tensor, positions: tf.Tensor, shape: tuple[int, int]) -> tf.Tensor:
    _same_batch("patches", patches, positions)
    return tf.reduce_sum(_project(patches, -positions, shape), axis=1)


def _cut_patches(objects: tf.Tensor, positions: tf.Tensor, N: int) -> tf.Tensor:
    _same_batch("objects", objects, positions)
    return cut_windows(objects, _rounded(positions), N)


def _add_patches(patches: tf.Tensor, positions: tf.Tensor, shape: tuple[int, int]) -> tf.Tensor:
    _same_batch("patches", patches, positions)
    return add_windows(patches, _rounded(positions), shape)


def _rounded(positions: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.round(positions), tf.int32)


SEPARABLE = PatchMover(extract_patches, place_patches)
WHOLE = PatchMover(_cut_patches, _add_patches)
PROJECTIVE = PatchMover(_extract_projective, _place_projective)


def _same_batch(name: str, images: Waves, positions: tf.Tensor) -> None:
    """Refuse what would broadcast: one object for many sets of positions, or the reverse."""
    if images.shape[0] != positions.shape[0]:
        raise ValueError(
            f"{name} has the batch size {images.shape[0]} and positions {positions.shape[0]}; must be equal"
        )


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
