"""Oracles of the operators: TensorFlow's CPU kernels, and slow NumPy loops.

The loops follow the definitions, pixel by pixel, and share no code with ``ptycho.xla``. Sample points of
crops are computed in float32 in the order of TensorFlow's kernel, because they determine which pixels are
filled.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

Array = np.ndarray


def tensorflow_crop(
    image: Array, boxes: Array, which: Array, size: tuple[int, int], method: str, fill: complex
):
    """Return ``tf.image.crop_and_resize`` on the CPU; complex images by parts, dtypes it lacks as float32."""
    if np.iscomplexobj(image):
        parts = ((image.real, complex(fill).real), (image.imag, complex(fill).imag))
        real, imag = (tensorflow_crop(part, boxes, which, size, method, f) for part, f in parts)
        return real + 1j * imag
    with tf.device("CPU:0"):
        return tf.image.crop_and_resize(image, boxes, which, size, method, fill).numpy()


def tensorflow_warp(
    images: Array, transforms: Array, interpolation: str, fill_mode: str, fill: complex, size: tuple[int, int]
):
    """Return ``ImageProjectiveTransformV3`` on the CPU; complex images by parts."""
    if np.iscomplexobj(images):
        parts = ((images.real, complex(fill).real), (images.imag, complex(fill).imag))
        real, imag = (tensorflow_warp(p, transforms, interpolation, fill_mode, f, size) for p, f in parts)
        return real + 1j * imag
    with tf.device("CPU:0"):
        warped = tf.raw_ops.ImageProjectiveTransformV3(
            images=images,
            transforms=transforms,
            output_shape=size,
            fill_value=fill,
            interpolation=interpolation.upper(),
            fill_mode=fill_mode.upper(),
        )
    return warped.numpy()


def shift_transforms(shifts: Array) -> Array:
    """Return the ``(B, 8)`` float32 projective transforms of translations ``(B, 2)`` (row, col)."""
    rows, cols = np.asarray(shifts, np.float32).T
    one, zero = np.ones_like(rows), np.zeros_like(rows)
    return np.stack([one, zero, -cols, zero, one, -rows, zero, zero], axis=1)


def crop_points(low: np.float32, high: np.float32, size: int, count: int) -> Array:
    """Return the float32 sample points of one box along one axis, each operation rounded as in the kernel."""
    last = np.float32(size - 1)
    if count == 1:
        return np.array([np.float32(0.5) * (low + high) * last])
    step = ((high - low) * last) / np.float32(count - 1)
    return low * last + np.arange(count, dtype=np.float32) * step


def nearest_pixel(point: float) -> int:
    """Round to the nearest pixel, halves away from zero."""
    return int(np.floor(point + 0.5)) if point >= 0 else int(np.ceil(point - 0.5))


def axis_weights(point: float, size: int, method: str) -> dict[int, float]:
    """Return the weights, by pixel, of one sample at ``point`` in ``[0, size − 1]``."""
    point = float(point)
    if method == "nearest":
        return {nearest_pixel(point): 1.0}
    return {p: 1 - abs(point - p) for p in range(size) if abs(point - p) < 1}


def numpy_crop(
    image: Array, boxes: Array, which: Array, size: tuple[int, int], method: str, fill: complex
) -> Array:
    """Crop and resize in double precision, sample by sample."""
    out = np.full((len(boxes), *size, image.shape[3]), fill, np.result_type(image.dtype, np.float64))
    height, width = image.shape[1:3]
    for n, (y1, x1, y2, x2) in enumerate(np.asarray(boxes, np.float32)):
        rows, cols = crop_points(y1, y2, height, size[0]), crop_points(x1, x2, width, size[1])
        for i, j in np.ndindex(*size):
            if 0 <= rows[i] <= height - 1 and 0 <= cols[j] <= width - 1:
                out[n, i, j] = sum(
                    wy * wx * image[which[n], r, c].astype(out.dtype)
                    for r, wy in axis_weights(rows[i], height, method).items()
                    for c, wx in axis_weights(cols[j], width, method).items()
                )
    return out


def mapped(point: float, size: int, fill_mode: str) -> float:
    """Map a sample point outside the image into it, as TensorFlow's kernel does."""
    if fill_mode == "constant":
        return point
    if fill_mode in ("reflect", "wrap") and size == 1:
        return 0.0
    if fill_mode == "reflect" and point < 0:
        point += 2 * size * int(-point / (2 * size))
        point = point + 2 * size if point < -size else -point - 1
    elif fill_mode == "reflect" and point > size - 1:
        point -= 2 * size * int(point / (2 * size))
        point = 2 * size - point - 1 if point >= size else point
    elif fill_mode == "wrap" and point < 0:
        point += size * (int(-point / (size - 1)) + 1)
    elif fill_mode == "wrap" and point > size - 1:
        point -= size * int(point / (size - 1))
    return min(max(point, 0.0), size - 1.0)


def numpy_warp(
    images: Array, transforms: Array, interpolation: str, fill_mode: str, fill: complex, size: tuple[int, int]
) -> Array:
    """Projective warp in double precision, pixel by pixel; ``transforms (B, 8)``."""
    out = np.full((len(images), *size, images.shape[3]), fill, np.result_type(images.dtype, np.float64))
    height, width = images.shape[1:3]

    def pixel(image: Array, row: int, col: int) -> Array | complex:
        return image[row, col].astype(out.dtype) if 0 <= row < height and 0 <= col < width else fill

    for n, (a0, a1, a2, b0, b1, b2, c0, c1) in enumerate(np.asarray(transforms, np.float64)):
        for y, x in np.ndindex(*size):
            scale = c0 * x + c1 * y + 1
            if scale == 0:
                continue
            col = mapped((a0 * x + a1 * y + a2) / scale, width, fill_mode)
            row = mapped((b0 * x + b1 * y + b2) / scale, height, fill_mode)
            if interpolation == "nearest":
                out[n, y, x] = pixel(images[n], nearest_pixel(row), nearest_pixel(col))
                continue
            top, left = int(np.floor(row)), int(np.floor(col))
            down, across = row - top, col - left
            upper = (1 - across) * pixel(images[n], top, left) + across * pixel(images[n], top, left + 1)
            lower = (1 - across) * pixel(images[n], top + 1, left) + across * pixel(
                images[n], top + 1, left + 1
            )
            out[n, y, x] = (1 - down) * upper + down * lower
    return out
