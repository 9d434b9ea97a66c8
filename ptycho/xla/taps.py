"""Interpolation along one axis as a short weighted sum of whole rows or columns.

A row of an interpolation matrix W has few weights that are not zero: two for linear interpolation. Reading
just those pixels,

    out[…, i, …] = Σ_t weight_t[i] · image[…, index_t[i], …],

needs one index for a row or column, not for a pixel, which compilers turn into contiguous loads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf


def round_half_away(points: tf.Tensor) -> tf.Tensor:
    """Round ``points (…)`` of either sign to the nearest integer, halves away from zero.

    ``tf.round`` takes halves to the even neighbour, and ``floor(p + 0.5)`` is wrong for the largest number
    below one half, where the sum rounds up.
    """
    size = tf.abs(points)
    below = tf.floor(size)
    return tf.sign(points) * tf.where(size - below >= 0.5, below + 1, below)


class Tap(NamedTuple):
    """One of the pixels that each of ``k`` samples along an axis reads, for each of ``n`` images.

    Attributes:
        index: ``(n, k)`` int32, always valid: a pixel that does not exist is replaced and has weight zero.
        weight: ``(n, k)`` real.
    """

    index: tf.Tensor
    weight: tf.Tensor


def sum_of_taps(taps: Sequence[Tap], axis: int, read: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Return ``Σ_t weight_t · read(index_t)``; ``read`` gives ``(n, …)``, samples along ``axis`` 1 or 2."""
    expand = (slice(None), slice(None), None, None) if axis == 1 else (slice(None), None, slice(None), None)
    terms = [tap.weight[expand] * read(tap.index) for tap in taps]
    return sum(terms[1:], start=terms[0])


def apply_taps(images: tf.Tensor, taps: Sequence[Tap], axis: int) -> tf.Tensor:
    """Resample real ``images (n, H, W, C)`` along ``axis`` (1 rows, 2 columns)."""
    return sum_of_taps(taps, axis, lambda index: tf.gather(images, index, axis=axis, batch_dims=1))


def dense_weights(taps: Sequence[Tap], size: int | tf.Tensor) -> tf.Tensor:
    """Return the taps as matrices ``W (n, k, size)``."""
    pixels = tf.range(size)
    rows = [tf.where(tap.index[..., None] == pixels, tap.weight[..., None], 0) for tap in taps]
    return sum(rows[1:], start=rows[0])


def shift_taps(shifts: tf.Tensor, size: int | tf.Tensor) -> tuple[list[Tap], list[Tap]]:
    """Return linear interpolation at ``i − shift``, zero outside, and its derivative to the sample point.

    All samples of an image lie in the same place between their pixels, so the index is the sample's number
    plus one integer for each image. At whole points the derivative is the mean of both sides.

    Args:
        shifts: ``(n,)`` in pixels.
        size: number of pixels along the axis.
    """
    samples, last = tf.range(size, dtype=shifts.dtype), tf.cast(size - 1, shifts.dtype)
    first = tf.floor(-shifts)[:, None]
    below = samples + first
    fraction = (samples - shifts[:, None]) - below  # in [0, 1]
    known = tf.where(tf.math.is_nan(first), tf.zeros_like(first), first)
    offset = tf.cast(tf.clip_by_value(known, -last - 2, last + 2), tf.int32)

    def tap(step: int, weight: tf.Tensor) -> Tap:
        missing = (below + step < 0) | (below + step > last)
        index = tf.clip_by_value(tf.range(size) + offset + step, 0, size - 1)
        return Tap(index, tf.where(missing, tf.zeros_like(weight), weight))

    whole = 0.5 * tf.cast(fraction == 0, shifts.dtype)
    values = [tap(0, 1 - fraction), tap(1, fraction)]
    slopes = [tap(-1, -whole), tap(0, 2 * whole - 1), tap(1, 1 - whole)]
    return values, slopes


def linear_taps(points: tf.Tensor, size: int | tf.Tensor) -> list[Tap]:
    """Interpolate linearly at ``points (…)``; at whole ones both taps are one pixel, the derivative zero."""
    below, above = tf.floor(points), tf.math.ceil(points)
    fraction = points - below
    return [Tap(tf.cast(below, tf.int32), 1 - fraction), Tap(tf.cast(above, tf.int32), fraction)]


def nearest_taps(points: tf.Tensor, size: int | tf.Tensor) -> list[Tap]:
    """Return the pixel nearest to each of ``points (…)``, halves away from zero."""
    return [Tap(tf.cast(round_half_away(points), tf.int32), tf.ones_like(points))]


def kernel_taps(kernel: Callable[[tf.Tensor], tf.Tensor], support: int) -> Callable[..., list[Tap]]:
    """Return taps at points ``(…)`` of a kernel, normalised over pixels there are, as ``tf.image.resize``."""

    def taps(points: tf.Tensor, size: int | tf.Tensor) -> list[Tap]:
        last = tf.cast(size - 1, points.dtype)
        pixels = [tf.floor(points) + step for step in range(1 - support, support + 1)]
        weights = [tf.where((p >= 0) & (p <= last), kernel(points - p), tf.zeros_like(p)) for p in pixels]
        total = sum(weights[1:], start=weights[0])
        indices = [tf.cast(tf.clip_by_value(p, 0, last), tf.int32) for p in pixels]
        return [Tap(index, weight / total) for index, weight in zip(indices, weights, strict=True)]

    return taps


def keys_cubic(distance: tf.Tensor) -> tf.Tensor:
    """Return Keys' cubic convolution kernel with a = −1/2 (Keys 1981, eq. 15), support 2."""
    d = tf.abs(distance)
    near = 1 + d * d * (1.5 * d - 2.5)
    far = 2 + d * (-4 + d * (2.5 - 0.5 * d))
    return tf.where(d < 1, near, tf.where(d < 2, far, tf.zeros_like(d)))


def lanczos3(distance: tf.Tensor) -> tf.Tensor:
    """Return ``sinc(d)·sinc(d/3)`` of ``distance (…)`` where ``|d| < 3``, else zero (Turkowski 1990)."""
    return tf.where(tf.abs(distance) < 3, _sinc(distance) * _sinc(distance / 3), tf.zeros_like(distance))


def _sinc(x: tf.Tensor) -> tf.Tensor:
    """``sin(πx)/(πx)``, with value one and derivative zero at zero."""
    at_zero = x == 0
    phase = np.pi * tf.where(at_zero, tf.ones_like(x), x)
    return tf.where(at_zero, tf.ones_like(x), tf.sin(phase) / phase)


TAPS: dict[str, Callable[[tf.Tensor, int | tf.Tensor], list[Tap]]] = {
    "bilinear": linear_taps,
    "nearest": nearest_taps,
    "cubic": kernel_taps(keys_cubic, 2),
    "lanczos3": kernel_taps(lanczos3, 3),
}
"""Method to function: sample points ``(n, k)`` inside the image and its size to the taps."""
