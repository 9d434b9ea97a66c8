"""Reading single pixels at computed positions: the part the gather-based operators share."""

from __future__ import annotations

import tensorflow as tf


def read_pixels(images: tf.Tensor, which: tf.Tensor, rows: tf.Tensor, cols: tf.Tensor) -> tf.Tensor:
    """Return ``out[…] = images[which[…], rows[…], cols[…]]`` by one gather from the flattened images.

    Args:
        images: ``(B, H, W, C)``, any dtype.
        which, rows, cols: int32 indices, valid, of shapes that broadcast against each other. Indices
            outside are an error on the CPU and silently clamped under XLA: clip or mask them first.

    Returns:
        the broadcast shape of the indices, then ``C``.
    """
    sizes = [
        n if n is not None else s for n, s in zip(images.shape, tf.unstack(tf.shape(images)), strict=True)
    ]
    batch, height, width, channels = sizes
    static = images.shape[:3].num_elements()
    index = tf.int64 if static is not None and static >= 2**31 else tf.int32
    which, rows, cols = (tf.cast(i, index) for i in (which, rows, cols))
    position = (which * tf.cast(height, index) + rows) * tf.cast(width, index) + cols
    return tf.gather(tf.reshape(images, [batch * height * width, channels]), position)


def round_half_away(points: tf.Tensor) -> tf.Tensor:
    """Round ``points (…)`` of either sign to the nearest integer, halves away from zero.

    ``tf.round`` takes halves to the even neighbour, and ``floor(p + 0.5)`` is wrong for the largest number
    below one half, where the sum rounds up.
    """
    size = tf.abs(points)
    below = tf.floor(size)
    return tf.sign(points) * tf.where(size - below >= 0.5, below + 1, below)
