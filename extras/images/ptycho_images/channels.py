"""Images as real channels, and single pixels read at computed positions: what the operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from ptycho.xla.precision import compute_dtype


def sizes_of(images: tf.Tensor) -> list[int | tf.Tensor]:
    """Return the sizes of ``(B, H, W, C)``, numbers where they are known."""
    return [tf.shape(images)[axis] if size is None else size for axis, size in enumerate(images.shape)]


def checked_size(
    name: str, size: Sequence[int], error: Callable[[str], Exception] = ValueError
) -> tuple[int, int]:
    """Return (height, width), positive and known while tracing; else raise an ``error`` with its ``name``."""
    known = tf.nest.map_structure(lambda n: tf.get_static_value(n) if tf.is_tensor(n) else n, size)
    values = np.asarray(known)
    if values.dtype == object:
        raise error(f"{name} is not known while tracing; pass two Python integers.")
    if values.shape != (2,) or values.dtype.kind not in "iu" or (values <= 0).any():
        raise error(f"{name} is {values.tolist()}; allowed: two positive integers (height, width).")
    return int(values[0]), int(values[1])


def channels_as_real(images: tf.Tensor) -> tf.Tensor:
    """Turn ``(…, C)`` complex into ``(…, 2C)`` real, the imaginary parts last; anything else is unchanged."""
    if not images.dtype.is_complex:
        return images
    return tf.concat([tf.math.real(images), tf.math.imag(images)], axis=-1)


def channels_as_complex(images: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Invert :func:`channels_as_real`, ``(…, 2C)`` → ``(…, C)``; a real ``dtype`` is a cast."""
    if dtype.is_integer and images.dtype.is_floating:
        return _as_integer(images, dtype)
    if not dtype.is_complex:
        return tf.cast(images, dtype)
    return tf.complex(*tf.split(images, 2, axis=-1))


def _as_integer(images: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Floating images without their fraction; the end of the range for what lies beyond it.

    There a cast gives whatever the device does, and ``tf.saturate_cast`` is wrong for int64.
    """
    top = np.asarray(dtype.max, images.dtype.as_numpy_dtype)
    top = np.nextafter(top, 0) if int(top) > dtype.max else top  # 2³¹ − 1 is no float32
    return tf.cast(tf.clip_by_value(images, dtype.min, top), dtype)


def fill_as_real(fill_value: complex, channels: int | tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return the fill value for :func:`channels_as_real` images: a scalar, or ``(2C,)`` if complex."""
    real = compute_dtype(dtype)
    if not dtype.is_complex:
        return tf.cast(fill_value, real)
    value = tf.cast(fill_value, dtype)
    return tf.repeat(tf.stack([tf.math.real(value), tf.math.imag(value)]), channels)


def read_pixels(images: tf.Tensor, which: tf.Tensor, rows: tf.Tensor, cols: tf.Tensor) -> tf.Tensor:
    """Return ``out[…] = images[which[…], rows[…], cols[…]]`` by one gather from the flattened images.

    Args:
        images: ``(B, H, W, C)``, any dtype.
        which, rows, cols: int32 indices, valid, of shapes that broadcast against each other. Indices
            outside are an error on the CPU and silently clamped under XLA: clip or mask them first.

    Returns:
        the broadcast shape of the indices, then ``C``.
    """
    batch, height, width, channels = sizes_of(images)
    static = images.shape[:3].num_elements()
    index = tf.int64 if static is not None and static >= 2**31 else tf.int32
    which, rows, cols = (tf.cast(i, index) for i in (which, rows, cols))
    position = (which * tf.cast(height, index) + rows) * tf.cast(width, index) + cols
    return tf.gather(tf.reshape(images, [batch * height * width, channels]), position)
