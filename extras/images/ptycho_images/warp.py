"""Projective warp: ``ImageProjectiveTransformV3``, for XLA, in more dtypes and with all gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from ptycho.xla.precision import IMAGE_DTYPES, INTEGER_DTYPES, check_image_dtype, compute_dtype, materialised
from ptycho_images.channels import channels_as_complex, channels_as_real, fill_as_real, read_pixels, sizes_of
from ptycho_images.samples import round_half_away, rounded

INTERPOLATIONS = ("bilinear", "nearest")
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))


def projective_warp(
    images: tf.Tensor,
    transforms: tf.Tensor,
    interpolation: str = "bilinear",
    fill_mode: str = "constant",
    fill_value: complex = 0.0,
    output_shape: Sequence[int] | None = None,
) -> tf.Tensor:
    """Warp images by plane projective transforms, as ``ImageProjectiveTransformV3`` does, compiled or not.

    Output pixel (column x, row y) reads the input at column ``(a0·x + a1·y + a2)/k`` and row
    ``(b0·x + b1·y + b2)/k`` with ``k = c0·x + c1·y + c2``. A transform is a row ``[a0, a1, a2, b0, b1, b2,
    c0, c1]`` with ``c2 = 1``, or the matrix ``[[a0, a1, a2], [b0, b1, b2], [c0, c1, c2]]``.

    Args:
        images: ``(B, H, W, C)`` uint8, uint16, int8 to int64, float16, bfloat16, float32, float64, complex64
            or complex128; computed in float32 (float64 for double precision). Sizes may be unknown while
            tracing.
        transforms: ``(n, 8)`` or ``(n, 3, 3)`` real, n = 1 (one for all images) or B.
        interpolation: ``bilinear``, or ``nearest`` (halves away from zero).
        fill_mode: what lies outside the image: ``constant`` (every corner outside is ``fill_value``),
            ``nearest`` (the border pixel), ``reflect`` (abcd continues as dcba) or ``wrap`` (abcd continues
            as abcd, with the border pixel held over the seam, as in TensorFlow). Upper case is accepted.
        fill_value: value outside for ``constant``, and wherever a coordinate is infinite in any mode;
            complex for complex images only; for integer images without its fraction, and in their range.
        output_shape: ``(h, w)``, two integers or an integer tensor; that of the images by default.

    Returns:
        ``(B, h, w, C)`` in the dtype of ``images``, differentiable in floating and complex ``images`` (the
        exact adjoint, where TensorFlow applies the inverse transform) and, for ``bilinear``, in
        ``transforms``. Integer images come back bit for bit as TensorFlow's kernel gives them, compiled or
        not: ``nearest`` copies pixels, ``bilinear`` interpolates in float32 and drops the fraction (towards
        zero). Only what float32 rounds out of the dtype's range, where TensorFlow overflows, is saturated.

    Raises:
        ValueError: wrong rank, dtype, mode, fill value, output shape or number of transforms.
    """
    images, transforms = tf.convert_to_tensor(images), tf.convert_to_tensor(transforms)
    interpolation, fill_mode = interpolation.lower(), fill_mode.lower()
    _check(images, transforms, interpolation, fill_mode, fill_value)
    size = _checked_output_shape(images, output_shape)
    work, fill = _pixels_and_fill(images, fill_value, interpolation)

    rows, cols, finite = _source_points(_as_matrices(transforms, compute_dtype(images.dtype)), *size)
    rows, cols = (
        materialised(FILL_MODES[fill_mode](p, s), transforms)
        for p, s in zip((rows, cols), sizes_of(images)[1:3], strict=True)
    )
    if interpolation == "nearest":
        warped = _nearest(work, rows, cols, fill)
    else:
        warped = _bilinear(work, rows, cols, fill, _product if images.dtype.is_integer else tf.multiply)
    warped = materialised(tf.where(finite[..., None], warped, fill), transforms, work)
    warped = channels_as_complex(warped, images.dtype)
    shape = tf.stack([tf.shape(images)[0], *size, tf.shape(images)[3]])
    warped = tf.reshape(warped, shape)  # refuses a number of transforms that broadcast
    known = [None if tf.is_tensor(n) else n for n in size]
    return tf.ensure_shape(warped, [images.shape[0], *known, images.shape[3]])


def _pixels_and_fill(
    images: tf.Tensor, fill_value: complex, interpolation: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """Both real, in the dtype of the computation; ``nearest`` blends no integers, so they stay exact."""
    if images.dtype.is_integer:
        fill_value = int(fill_value.real)
        if interpolation == "nearest":
            return images, tf.constant(fill_value, images.dtype)
    fill = fill_as_real(fill_value, sizes_of(images)[3], images.dtype)
    return tf.cast(channels_as_real(images), compute_dtype(images.dtype)), fill


def _as_matrices(transforms: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """``(n, 9)`` coefficients in ``dtype``."""
    transforms = tf.cast(transforms, dtype)
    if transforms.shape.rank == 3:
        return tf.reshape(transforms, [-1, 9])
    return tf.concat([transforms, tf.ones_like(transforms[:, :1])], axis=1)


def _source_points(
    matrices: tf.Tensor, height: int | tf.Tensor, width: int | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Input rows and columns ``(n, h, w)`` of the output pixels, zero where not finite; where they are."""
    x, y = tf.range(width, dtype=matrices.dtype), tf.range(height, dtype=matrices.dtype)

    def affine(first: int) -> tf.Tensor:
        """``(n, h, w)``; each operation rounded by itself, in the order of TensorFlow's kernel."""
        along_x = rounded(matrices[:, first : first + 1] * x)[:, None, :]
        along_y = rounded(matrices[:, first + 1 : first + 2] * y)[:, :, None]
        return rounded(along_x + along_y) + matrices[:, first + 2, None, None]

    scale = affine(6)
    cols, rows = (affine(first) / tf.where(scale == 0, tf.ones_like(scale), scale) for first in (0, 3))
    finite = (scale != 0) & tf.math.is_finite(cols) & tf.math.is_finite(rows)
    return tf.where(finite, rows, 0), tf.where(finite, cols, 0), finite


def _constant(points: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """Points as they are, but no further out than where everything is fill, so that they fit an integer."""
    return tf.clip_by_value(points, -2, tf.cast(size + 1, points.dtype))


def _clamp(points: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(points, 0, tf.cast(size - 1, points.dtype))


def _reflect(points: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """``dcba|abcd|dcba``: period 2S, mirrored at −½ and S − ½, clamped between border centres and mirrors."""
    length = tf.cast(size, points.dtype)
    left = rounded(points + 2 * length * tf.floor(_divide(-points, 2 * length)))
    left = tf.where(left < -length, left + 2 * length, -left - 1)
    right = rounded(points - 2 * length * tf.floor(_divide(points, 2 * length)))
    right = tf.where(right >= length, rounded(2 * length - right) - 1, right)
    return _clamp(tf.where(points < 0, left, tf.where(points > length - 1, right, points)), size)


def _wrap(points: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """``abcd|abcd|abcd``: whole periods of S are added until the point lies inside, then it is clamped.

    The number of periods is ``⌊|p|/(S−1)⌋`` as in TensorFlow, hence the border pixel over the seam.
    """
    length = tf.cast(size, points.dtype)
    span = tf.maximum(length - 1, 1)
    left = points + length * (tf.floor(_divide(-points, span)) + 1)
    right = points - length * tf.floor(_divide(points, span))
    return _clamp(tf.where(points < 0, left, tf.where(points > length - 1, right, points)), size)


def _divide(points: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """A division that stays one: by a constant, compilers would multiply with its rounded inverse."""
    return points / tf.where(tf.math.is_finite(points), length, tf.ones_like(points))


FILL_MODES: dict[str, Callable[..., tf.Tensor]] = {
    "constant": _constant,
    "nearest": _clamp,
    "reflect": _reflect,
    "wrap": _wrap,
}


def _read_or_fill(work: tf.Tensor, rows: tf.Tensor, cols: tf.Tensor, fill: tf.Tensor) -> tf.Tensor:
    """``(B, h, w, C)`` pixels at whole rows and cols ``(n, h, w)``, ``fill`` outside."""
    _, height, width, _ = sizes_of(work)
    rows, cols = tf.cast(rows, tf.int32), tf.cast(cols, tf.int32)
    inside = (rows >= 0) & (rows < height) & (cols >= 0) & (cols < width)
    rows, cols = tf.where(inside, rows, 0), tf.where(inside, cols, 0)
    which = tf.range(tf.shape(work)[0])[:, None, None]
    return tf.where(inside[..., None], read_pixels(work, which, rows, cols), fill)


def _bilinear(
    work: tf.Tensor,
    rows: tf.Tensor,
    cols: tf.Tensor,
    fill: tf.Tensor,
    times: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """Rows of two pixels blended by ``times``, then columns, in the order of TensorFlow's kernel."""
    top, left = tf.floor(rows), tf.floor(cols)
    down, up = (rows - top)[..., None], (top + 1 - rows)[..., None]
    across, back = (cols - left)[..., None], (left + 1 - cols)[..., None]
    upper_left, upper_right, lower_left, lower_right = _corners(work, top, left, fill)
    upper = times(back, upper_left) + times(across, upper_right)
    lower = times(back, lower_left) + times(across, lower_right)
    return times(up, upper) + times(down, lower)


def _corners(work: tf.Tensor, top: tf.Tensor, left: tf.Tensor, fill: tf.Tensor) -> list[tf.Tensor]:
    """The pixels at ``top`` and ``top + 1``, ``left`` and ``left + 1``, each ``(B, h, w, C)``.

    A scatter costs by the update, not by the pixel: the gradient adds the four of a sample as one row, at
    the place of its upper left corner in an image with a border of one pixel, whose planes are then shifted.
    """
    _, height, width, _ = sizes_of(work)

    @tf.custom_gradient
    def read(work: tf.Tensor) -> tuple[list[tf.Tensor], Callable]:
        pixels = [_read_or_fill(work, top + i, left + j, fill) for i, j in CORNERS]

        def gradient(*upstream: tf.Tensor) -> tf.Tensor:
            updates = materialised(tf.stack(upstream, axis=3), top, work)  # (B, h, w, 4, C)
            row, col = tf.cast(top, tf.int32) + 1, tf.cast(left, tf.int32) + 1
            which = tf.range(tf.shape(work)[0])[:, None, None]
            place = (which * (height + 1) + row) * (width + 1) + col
            beside = (row < 0) | (row > height) | (col < 0) | (col > width)
            place = tf.where(beside, -1, place)  # is dropped
            count, channels = tf.shape(work)[0], tf.shape(work)[3]
            planes = tf.math.unsorted_segment_sum(
                tf.reshape(updates, [-1, 4 * channels]),
                tf.reshape(place, [-1]),
                count * (height + 1) * (width + 1),
            )
            planes = tf.reshape(planes, [count, height + 1, width + 1, 4, channels])
            shifted = [
                planes[:, 1 - i : height + 1 - i, 1 - j : width + 1 - j, 2 * i + j] for i, j in CORNERS
            ]
            return tf.add_n(shifted)

        return pixels, gradient

    return read(work)


def _product(weight: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Rounded before it is added: where a fraction is dropped, the last bit decides a whole number."""
    return rounded(weight * value)


def _nearest(work: tf.Tensor, rows: tf.Tensor, cols: tf.Tensor, fill: tf.Tensor) -> tf.Tensor:
    return _read_or_fill(work, round_half_away(rows), round_half_away(cols), fill)


def _check(
    images: tf.Tensor, transforms: tf.Tensor, interpolation: str, fill_mode: str, fill: complex
) -> None:
    check_image_dtype(images.dtype, "images", INTEGER_DTYPES + IMAGE_DTYPES)
    if images.shape.rank != 4 or 0 in images.shape[1:3]:
        raise ValueError(f"images has shape {images.shape}; allowed: (B, H, W, C) with positive H and W.")
    if interpolation not in INTERPOLATIONS:
        raise ValueError(f"interpolation is {interpolation!r}; allowed: {', '.join(INTERPOLATIONS)}.")
    if fill_mode not in FILL_MODES:
        raise ValueError(f"fill_mode is {fill_mode!r}; allowed: {', '.join(FILL_MODES)}.")
    if isinstance(fill, complex) and not images.dtype.is_complex:
        raise ValueError(f"fill_value is {fill} for {images.dtype.name} images; allowed: a real number.")
    if images.dtype.is_integer and not images.dtype.min - 1 < fill < images.dtype.max + 1:
        limits = f"{images.dtype.min} to {images.dtype.max}"
        raise ValueError(f"fill_value is {fill} for {images.dtype.name} images; allowed: {limits}.")
    if transforms.shape.rank not in (2, 3) or list(transforms.shape[1:]) not in ([8], [3, 3]):
        raise ValueError(f"transforms has shape {transforms.shape}; allowed: (n, 8) or (n, 3, 3).")
    if not transforms.dtype.is_floating:
        raise ValueError(f"transforms has dtype {transforms.dtype.name}; allowed: a real floating dtype.")
    count, batch = transforms.shape[0], images.shape[0]
    if None not in (count, batch) and count not in (1, batch):
        raise ValueError(f"transforms has {count} rows for {batch} images; allowed: 1 or one for each image.")


def _checked_output_shape(images: tf.Tensor, output_shape: Sequence[int] | None) -> list[int | tf.Tensor]:
    """Height and width of the output: Python integers where they are known, else scalar tensors."""
    if output_shape is None:
        return sizes_of(images)[1:3]
    allowed = "allowed: two positive integers (height, width)"
    try:
        size = tf.convert_to_tensor(output_shape)
    except (TypeError, ValueError) as error:
        raise ValueError(f"output_shape is {output_shape}; {allowed}.") from error
    known = tf.get_static_value(size)
    if size.shape != (2,) or not size.dtype.is_integer or (known is not None and (known <= 0).any()):
        raise ValueError(f"output_shape is {output_shape if known is None else known.tolist()}; {allowed}.")
    return tf.unstack(tf.cast(size, tf.int32)) if known is None else [int(n) for n in known]
