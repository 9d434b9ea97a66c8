"""Crop and resize: ``tf.image.crop_and_resize``, for XLA, with more dtypes and kernels.

Two ways to the same crop:

- ``exact`` gathers the four corners of every sample. Work and memory follow the size of the crops; the
  gradient to the image is a scatter. Eagerly it is bit-identical to TensorFlow's CPU kernel.
- ``matrix`` is ``out = Wy · image · Wxᵀ`` (:mod:`ptycho_images.crop_matrix`): forward as weighted sums of
  whole rows, then columns; the gradient to the image without a scatter, with work that follows image times
  crop. Images must be finite: a weight of zero times NaN is NaN. A NaN pixel reaches samples at whole
  coordinates next to it (its whole crop for ``cubic`` and ``lanczos3``), and a NaN upstream gradient may
  reach the whole gradient image.

Sample points are the same bits in both (:mod:`ptycho_images.boxes`), hence the same pixels are filled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from ptycho.xla.precision import compute_dtype
from ptycho.xla.taps import round_half_away
from ptycho_images.boxes import Samples, sample_axis
from ptycho_images.channels import channels_as_complex, channels_as_real, fill_as_real, read_pixels, sizes_of
from ptycho_images.crop_arguments import CropArguments, checked_arguments
from ptycho_images.crop_matrix import matrix_crop


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
        method: ``bilinear``, ``nearest`` (halves away from zero), ``cubic`` (Keys, a = −1/2) or ``lanczos3``.
        extrapolation_value: value of samples outside, a Python number (complex for complex images only).
        name: name of the scope.
        path: ``exact``, ``matrix`` or ``auto``, which is ``exact`` eagerly and :func:`choose_path` in a
            traced function. ``cubic`` and ``lanczos3`` exist as ``matrix`` only.

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


def choose_path(
    image_size: tuple[int, int], crop_size: tuple[int, int], method: str = "bilinear", ratio: float = 64
) -> str:
    """Return the cheaper path of a compiled crop with gradients, from an image ``H × W`` to a crop ``h × w``.

    ``matrix`` while ``H·W ≤ ratio·h·w`` (measured), and for the methods that have no other.
    """
    if method in ("cubic", "lanczos3"):
        return "matrix"
    (height, width), (h, w) = image_size, crop_size
    return "matrix" if height * width <= ratio * h * w else "exact"


def _resolve_path(arguments: CropArguments, path: str) -> str:
    if path != "auto":
        return path
    height, width = arguments.image.shape[1:3]
    if arguments.method in ("cubic", "lanczos3"):
        return "matrix"
    if tf.executing_eagerly() or height is None or width is None:
        return "exact"
    return choose_path((height, width), arguments.crop_size, arguments.method)


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
