"""What the compile report tries: a table of names, each with the dtypes it takes and how to build it.

To report on more, add entries: ``CASES["name"] = CompileCase(dtypes, build)``, where ``build(dtype)`` gives a
function of tensors and example tensors for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ptycho.xla.crop import crop_and_resize
from ptycho.xla.precision import IMAGE_DTYPES
from ptycho.xla.resample import translate
from ptycho.xla.resize import resize
from ptycho.xla.warp import projective_warp

Built = tuple[Callable[..., tf.Tensor], tuple[tf.Tensor, ...]]


@dataclass(frozen=True)
class CompileCase:
    """Something that should compile.

    Attributes:
        dtypes: names of the dtypes it takes.
        build: dtype to a function and example inputs; it is differentiated by its floating and complex
            inputs.
    """

    dtypes: tuple[str, ...]
    build: Callable[[tf.DType], Built]


def example_images(dtype: tf.DType, shape: tuple[int, ...] = (16, 64, 64, 1)) -> tf.Tensor:
    """Normally distributed images ``(B, H, W, C)``, the same at every call."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return tf.cast(values if dtype.is_complex else values.real, dtype)


def _shifts() -> tf.Tensor:
    return tf.constant(np.random.default_rng(1).uniform(-4, 4, (16, 2)), tf.float32)


def _boxes() -> tf.Tensor:
    offsets = np.random.default_rng(2).uniform(-0.1, 0.1, (16, 4))
    return tf.constant(np.array([0.0, 0.0, 1.0, 1.0]) + offsets, tf.float32)


def _transforms() -> tf.Tensor:
    offsets = np.random.default_rng(3).uniform(-0.1, 0.1, (16, 8)) * [1, 1, 30, 1, 1, 30, 0.01, 0.01]
    return tf.constant(np.array([1.0, 0, 0, 0, 1, 0, 0, 0]) + offsets, tf.float32)


def _translation(path: str) -> Callable[[tf.DType], Built]:
    def build(dtype: tf.DType) -> Built:
        return lambda images, shifts: translate(images, shifts, path=path), (example_images(dtype), _shifts())

    return build


def _crop(method: str, path: str) -> Callable[[tf.DType], Built]:
    def build(dtype: tf.DType) -> Built:
        def crop(image: tf.Tensor, boxes: tf.Tensor) -> tf.Tensor:
            return crop_and_resize(image, boxes, tf.range(16), (64, 64), method, path=path)

        return crop, (example_images(dtype), _boxes())

    return build


def _warp(interpolation: str) -> Callable[[tf.DType], Built]:
    def build(dtype: tf.DType) -> Built:
        def warp(images: tf.Tensor, transforms: tf.Tensor) -> tf.Tensor:
            return projective_warp(images, transforms, interpolation, "reflect")

        return warp, (example_images(dtype), _transforms())

    return build


def _resize(method: str, size: tuple[int, int], antialias: bool) -> Callable[[tf.DType], Built]:
    def build(dtype: tf.DType) -> Built:
        return lambda images: resize(images, size, method, antialias=antialias), (example_images(dtype),)

    return build


_DTYPES = tuple(d.name for d in IMAGE_DTYPES)

CASES: dict[str, CompileCase] = {
    "translate (taps)": CompileCase(_DTYPES, _translation("taps")),
    "translate (matrix)": CompileCase(_DTYPES, _translation("matrix")),
    "crop_and_resize bilinear (exact)": CompileCase(_DTYPES, _crop("bilinear", "exact")),
    "crop_and_resize bilinear (matrix)": CompileCase(_DTYPES, _crop("bilinear", "matrix")),
    "crop_and_resize nearest (exact)": CompileCase(_DTYPES, _crop("nearest", "exact")),
    "crop_and_resize cubic": CompileCase(_DTYPES, _crop("cubic", "matrix")),
    "crop_and_resize lanczos3": CompileCase(_DTYPES, _crop("lanczos3", "matrix")),
    "projective_warp bilinear": CompileCase(_DTYPES, _warp("bilinear")),
    "projective_warp nearest": CompileCase(_DTYPES, _warp("nearest")),
    "resize nearest": CompileCase(_DTYPES, _resize("nearest", (128, 48), False)),
    "resize area": CompileCase(_DTYPES, _resize("area", (24, 48), False)),
    "resize bilinear": CompileCase(_DTYPES, _resize("bilinear", (128, 48), False)),
    "resize bicubic": CompileCase(_DTYPES, _resize("bicubic", (128, 48), False)),
    "resize lanczos3, antialiased": CompileCase(_DTYPES, _resize("lanczos3", (24, 48), True)),
}
