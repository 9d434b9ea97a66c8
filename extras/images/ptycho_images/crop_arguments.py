"""Validation of the arguments of ``crop_and_resize``, with the error classes TensorFlow uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ptycho.xla.precision import IMAGE_DTYPES, INTEGER_DTYPES
from ptycho_images.channels import checked_size

METHODS = ("bilinear", "nearest", "cubic", "lanczos3")
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
    """Convert and check what is known before the computation; ``boxes (n, 4)``: see ``crop_and_resize``."""
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
    if path == "exact" and method not in ("bilinear", "nearest"):
        raise _invalid(f"path is 'exact' for method {method!r}; allowed: 'matrix' or 'auto'.")
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
