"""Crop and resize: ``tf.image.crop_and_resize``, for XLA, with more dtypes.

Two ways to the same crop:

- ``exact`` gathers the four corners of every sample. Work and memory follow the size of the crops; the
  gradient to the image is a scatter. Eagerly it is bit-identical to TensorFlow's CPU kernel.
- ``matrix`` is ``out = Wy · image · Wxᵀ`` (:mod:`ptycho_images.crop_matrix`): forward as weighted sums of
  whole rows, then columns; the gradient to the image without a scatter, with work that follows image times
  crop. Images must be finite: a weight of zero times NaN is NaN. A NaN pixel reaches samples at whole
  coordinates next to it, and a NaN upstream gradient may reach the whole gradient image.

Sample points are the same bits in both (:mod:`ptycho_images.samples`), hence the same pixels are filled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ptycho.xla.precision import IMAGE_DTYPES, INTEGER_DTYPES, compute_dtype
from ptycho_images.channels import (
    channels_as_complex,
    channels_as_real,
    checked_size,
    fill_as_real,
    read_pixels,
    sizes_of,
)
from ptycho_images.crop_matrix import matrix_crop
from ptycho_images.samples import Samples, round_half_away, sample_axis


def crop_and_resize(
    image: tf.Tensor,
    boxes: tf.Tensor,
    box_indices: tf.Tensor,
    crop_size: Sequence[int],
    method: str = "bilinear",
    extrapolation_value: complex = 0.0,
    name: str | None = None,
    *,
    path: str = "auto",
) -> tf.Tensor:
    """Crop boxes from images and resize them, as ``tf.image.crop_and_resize`` does, compiled or not.

    Sample k of n along an axis of S pixels lies at ``lo·(S−1) + k·(hi−lo)·(S−1)/(n−1)``, or at the middle of
    the box for n = 1. A sample outside ``[0, S−1]`` is ``extrapolation_value``; there is no blending. A box
    with ``y1 > y2`` or ``x1 > x2`` is flipped.

    Args:
        image: ``(B, H, W, C)``, integer, real (float64 is computed in float32, as in the original) or
            complex.
        boxes: ``(n, 4)`` float32 rows ``(y1, x1, y2, x2)``; 0 and 1 are the centres of the first and last
            pixel.
        box_indices: ``(n,)`` int32, the image each box is cut from.
        crop_size: ``(h, w)``, positive, known when the function is traced.
        method: ``bilinear`` or ``nearest`` (halves away from zero).
        extrapolation_value: value of samples outside, a Python number (complex for complex images only).
        name: name of the scope.
        path: ``exact``, ``matrix`` or ``auto``, which is ``exact`` eagerly and :func:`choose_path` in a
            traced function.

    Returns:
        ``(n, h, w, C)`` float32 for a real image, else the complex dtype of the image. Differentiable in
        ``image`` (floating) and ``boxes``; for ``nearest`` the gradient to the boxes is the bilinear one,
        as in TensorFlow. Compiled values agree with the CPU kernel within 4 units in the last place of the
        largest corner. In a traced function, where values cannot be checked, a box index outside gives
        NaN and a box that is not finite gives ``extrapolation_value``.

    Raises:
        tf.errors.InvalidArgumentError: eagerly, for shapes, dtypes, methods, crop sizes and non-finite boxes
            that are not allowed (``ValueError`` in a traced function, as in TensorFlow).
        tf.errors.OutOfRangeError: a box index outside ``[0, B)``, where its value is known.
    """
    with tf.name_scope(name or "crop_and_resize"):
        arguments = checked_arguments(image, boxes, box_indices, crop_size, method, extrapolation_value, path)
        chosen = _resolve_path(arguments, path)
        work = tf.cast(channels_as_real(arguments.image), compute_dtype(arguments.result_dtype))
        crops = _crop(work, arguments, chosen)
        return channels_as_complex(crops, arguments.result_dtype)


def choose_path(image_size: tuple[int, int], crop_size: tuple[int, int], ratio: float = 64) -> str:
    """Return the cheaper path of a compiled crop with gradients, from an image ``H × W`` to a crop ``h × w``.

    ``matrix`` while ``H·W ≤ ratio·h·w`` (measured).
    """
    (height, width), (h, w) = image_size, crop_size
    return "matrix" if height * width <= ratio * h * w else "exact"


def _resolve_path(arguments: CropArguments, path: str) -> str:
    if path != "auto":
        return path
    height, width = arguments.image.shape[1:3]
    if tf.executing_eagerly() or height is None or width is None:
        return "exact"
    return choose_path((height, width), arguments.crop_size)


def _crop(work: tf.Tensor, arguments: CropArguments, path: str) -> tf.Tensor:
    """All crops of real ``work (B, H, W, C)``, filled; nearest with the gradient TensorFlow gives it."""
    paths = {"exact": _exact, "matrix": matrix_crop}

    def crop(work: tf.Tensor, boxes: tf.Tensor, method: str) -> tf.Tensor:
        _, height, width, _ = sizes_of(work)
        y = sample_axis(boxes[:, 0], boxes[:, 2], height, arguments.crop_size[0])
        x = sample_axis(boxes[:, 1], boxes[:, 3], width, arguments.crop_size[1])
        valid = (arguments.box_indices >= 0) & (arguments.box_indices < tf.shape(work)[0])
        which = tf.where(valid, arguments.box_indices, 0)
        crops = paths[path](work, which, y, x, method)
        return _filled(crops, y, x, valid, arguments)

    if arguments.method == "nearest" and path == "exact":
        return _nearest_with_bilinear_box_gradient(crop, work, arguments.boxes)
    return crop(work, arguments.boxes, arguments.method)


def _nearest_with_bilinear_box_gradient(
    crop: Callable[..., tf.Tensor], work: tf.Tensor, boxes: tf.Tensor
) -> tf.Tensor:
    @tf.custom_gradient
    def nearest(work: tf.Tensor, boxes: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.GradientTape() as image_tape:
                image_tape.watch(work)
                by_image = crop(work, boxes, "nearest")
            with tf.GradientTape() as box_tape:
                box_tape.watch(boxes)
                by_box = crop(work, boxes, "bilinear")
            return image_tape.gradient(by_image, work, upstream), box_tape.gradient(by_box, boxes, upstream)

        return crop(work, boxes, "nearest"), gradient

    return nearest(work, boxes)


def _exact(work: tf.Tensor, which: tf.Tensor, y: Samples, x: Samples, method: str) -> tf.Tensor:
    """Gather: ``(n, h, w, C)`` in the arithmetic order of TensorFlow's kernel."""
    if work.shape[0] == 0:
        shape = tf.stack(
            [tf.shape(which)[0], tf.shape(y.points)[1], tf.shape(x.points)[1], tf.shape(work)[3]]
        )
        return tf.zeros(shape, work.dtype)

    def at(rows: tf.Tensor, cols: tf.Tensor) -> tf.Tensor:
        rows, cols = tf.cast(rows, tf.int32)[:, :, None], tf.cast(cols, tf.int32)[:, None, :]
        return read_pixels(work, which[:, None, None], rows, cols)

    if method == "nearest":
        return at(round_half_away(y.points), round_half_away(x.points))
    top, left = tf.floor(y.points), tf.floor(x.points)
    bottom, right = tf.math.ceil(y.points), tf.math.ceil(x.points)
    down = tf.cast(y.points - top, work.dtype)[:, :, None, None]
    across = tf.cast(x.points - left, work.dtype)[:, None, :, None]
    upper_left, lower_left = at(top, left), at(bottom, left)
    upper = upper_left + (at(top, right) - upper_left) * across
    lower = lower_left + (at(bottom, right) - lower_left) * across
    return upper + (lower - upper) * down


def _filled(
    crops: tf.Tensor, y: Samples, x: Samples, valid: tf.Tensor, arguments: CropArguments
) -> tf.Tensor:
    channels = sizes_of(arguments.image)[3]
    fill = fill_as_real(arguments.extrapolation_value, channels, arguments.result_dtype)
    inside = (y.inside[:, :, None] & x.inside[:, None, :])[..., None]
    return tf.where(
        valid[:, None, None, None], tf.where(inside, crops, fill), tf.constant(float("nan"), crops.dtype)
    )


METHODS = ("bilinear", "nearest")
PATHS = ("auto", "exact", "matrix")
DTYPES = INTEGER_DTYPES + IMAGE_DTYPES


class CropArguments(NamedTuple):
    """The checked arguments: tensors of known rank and dtype, plain numbers otherwise."""

    image: tf.Tensor
    boxes: tf.Tensor
    box_indices: tf.Tensor
    crop_size: tuple[int, int]
    method: str
    extrapolation_value: complex

    @property
    def result_dtype(self) -> tf.DType:
        """Dtype of the crops: that of a complex image; float32 for a real one, as in TensorFlow."""
        return self.image.dtype if self.image.dtype.is_complex else tf.float32


def checked_arguments(
    image: tf.Tensor,
    boxes: tf.Tensor,
    box_indices: tf.Tensor,
    crop_size: Sequence[int],
    method: str,
    extrapolation_value: complex,
    path: str,
) -> CropArguments:
    """Convert and check what is known before the computation, with the errors that TensorFlow raises.

    ``boxes (n, 4)``: see :func:`crop_and_resize`.
    """
    image = tf.convert_to_tensor(image)
    boxes = _as_tensor(boxes, tf.float32, "boxes")
    box_indices = _as_tensor(box_indices, tf.int32, "box_indices")
    _check_choices(image, method, extrapolation_value, path)
    _check_shapes(image, boxes, box_indices)
    size = checked_size("crop_size", crop_size, _invalid)
    _check_values(image, boxes, box_indices)
    return CropArguments(image, boxes, box_indices, size, method, extrapolation_value)


def _invalid(message: str) -> Exception:
    """TensorFlow's class for a wrong argument: its own error eagerly, ``ValueError`` while tracing."""
    return (
        tf.errors.InvalidArgumentError(None, None, message) if tf.executing_eagerly() else ValueError(message)
    )


def _as_tensor(value: tf.Tensor, dtype: tf.DType, name: str) -> tf.Tensor:
    """``value`` in ``dtype``; a tensor of another one is a ``ValueError``, eagerly too, as in TensorFlow."""
    if tf.is_tensor(value) and value.dtype != dtype:
        raise ValueError(f"{name} has dtype {value.dtype.name}; allowed: {dtype.name}. Cast it first.")
    return tf.convert_to_tensor(value, dtype)


def _check_choices(image: tf.Tensor, method: str, extrapolation_value: complex, path: str) -> None:
    if image.dtype not in DTYPES:
        raise _invalid(f"image has dtype {image.dtype.name}; allowed: {', '.join(d.name for d in DTYPES)}.")
    if method not in METHODS:
        raise _invalid(f"method is {method!r}; allowed: {', '.join(METHODS)}.")
    if path not in PATHS:
        raise _invalid(f"path is {path!r}; allowed: {', '.join(PATHS)}.")
    if isinstance(extrapolation_value, complex) and not image.dtype.is_complex:
        raise _invalid(
            f"extrapolation_value is {extrapolation_value} for a {image.dtype.name} image; "
            "allowed: a real number."
        )


def _check_shapes(image: tf.Tensor, boxes: tf.Tensor, box_indices: tf.Tensor) -> None:
    if image.shape.rank != 4:
        raise _invalid(f"image has shape {image.shape}; allowed: (B, H, W, C).")
    if 0 in image.shape[1:3]:
        raise _invalid(f"image has shape {image.shape}; height and width must be positive.")
    if boxes.shape.rank != 2 or boxes.shape[1] not in (4, None):
        raise _invalid(f"boxes has shape {boxes.shape}; allowed: (n, 4), rows (y1, x1, y2, x2).")
    if box_indices.shape.rank != 1 or not box_indices.shape.is_compatible_with(boxes.shape[:1]):
        raise _invalid(
            f"box_indices has shape {box_indices.shape} for {boxes.shape[0]} boxes; "
            "allowed: (n,), one for each box."
        )


def _check_values(image: tf.Tensor, boxes: tf.Tensor, box_indices: tf.Tensor) -> None:
    """Check what is in the tensors, where that is known: eagerly, and for constants while tracing."""
    values, count = tf.get_static_value(box_indices), image.shape[0]
    if values is not None and count is not None and ((values < 0) | (values >= count)).any():
        wrong = values[(values < 0) | (values >= count)][0]
        raise tf.errors.OutOfRangeError(
            None, None, f"box_indices contains {wrong}; allowed: 0 to {count - 1}, the images there are."
        )
    edges = tf.get_static_value(boxes)
    if edges is not None and not np.isfinite(edges).all():
        row = int(np.argwhere(~np.isfinite(edges))[0, 0])
        raise _invalid(f"boxes row {row} is {edges[row].tolist()}; every coordinate must be finite.")
