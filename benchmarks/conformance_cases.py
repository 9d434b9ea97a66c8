"""Random cases on which the operators are compared with their oracles, one table for all operators.

There are few shapes, so that compilation is fast; contents are random. Each case has its kinds: whether it
touches or crosses a border, is flipped, has a size of one, or lies on the pixel grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import oracles
from ptycho_images import crop_and_resize, projective_warp, translate

FILL = -7.25
FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
CROP_DTYPES = ("uint8", "int32", *FLOATS)


@dataclass(frozen=True)
class Batch:
    """Cases of one shape: arrays of the operator, and the kinds of each case.

    Attributes:
        images: ``(B, H, W, C)``.
        arrays: other array arguments.
        settings: static arguments.
        rows, cols: sample points ``(cases, h, w)``.
        which: index of the image that each case reads.
        kinds: ``(cases,)`` bool by name.
    """

    images: tf.Tensor
    arrays: tuple[np.ndarray, ...]
    settings: dict[str, Any]
    rows: np.ndarray
    cols: np.ndarray
    which: np.ndarray
    kinds: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Operator:
    """Functions that make the cases of one operator, run them on each path, and return the oracle."""

    dtypes: tuple[str, ...]
    method: str
    batches: Callable[..., Iterator[Batch]]
    paths: dict[str, Callable[..., tf.Tensor]]
    oracle: Callable[[Batch], np.ndarray]


def random_images(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> tf.Tensor:
    """Return images of normal values of order one; integers within their range and ±1000."""
    if dtype in ("uint8", "int32"):
        return tf.cast(rng.integers(0 if dtype == "uint8" else -1000, 256, shape), dtype)
    values = rng.normal(size=shape)
    return tf.cast(values + 1j * rng.normal(size=shape) if dtype.startswith("complex") else values, dtype)


def fill_for(dtype: str) -> complex:
    return complex(FILL, 3.5) if dtype.startswith("complex") else FILL


def shares(cases: int, parts: int) -> list[int]:
    return [cases // parts + (i < cases % parts) for i in range(parts)]


# --- crop and resize ---------------------------------------------------------------------------------------

CROP_SHAPES = (
    # images (B, H, W, C), crop
    ((3, 12, 9, 1), (7, 5)),
    ((2, 7, 16, 2), (1, 1)),
    ((1, 1, 6, 1), (4, 3)),
    ((2, 9, 9, 3), (9, 9)),
    ((3, 5, 11, 1), (1, 6)),
    ((2, 16, 13, 2), (5, 8)),
)


def random_edges(rng: np.random.Generator, count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return box edges ``(count, 2)`` along an axis: 0 inside, 1 crossing, 2 touching, 3 grid-aligned."""
    kind = rng.integers(0, 4, count)
    inside, crossing = np.sort(rng.uniform(0, 1, (count, 2))), rng.uniform(-0.4, 1.4, (count, 2))
    touching = np.where(rng.random((count, 1)) < 0.5, [0.0, 1.0], np.sort(crossing).clip(0, 1).round(1))
    aligned = rng.integers(-1, size + 1, (count, 2)) / np.float32(max(size - 1, 1))
    return np.choose(kind[:, None], [inside, crossing, touching, aligned]).astype(np.float32), kind


def crop_batches(method: str) -> Callable[..., Iterator[Batch]]:
    def batches(
        rng: np.random.Generator, cases: int, dtype: str, shapes: Sequence[int] = range(6)
    ) -> Iterator[Batch]:
        for k, count in zip(shapes, shares(cases, len(shapes)), strict=True):
            shape, crop = CROP_SHAPES[k]
            (y, y_kind), (x, x_kind) = (random_edges(rng, count, size) for size in shape[1:3])
            for edges in (y, x):
                flip = rng.random(count) < 0.25
                edges[flip] = edges[flip, ::-1]
            boxes = np.stack([y[:, 0], x[:, 0], y[:, 1], x[:, 1]], axis=1)
            which = rng.integers(0, shape[0], count).astype(np.int32)
            rows = np.stack([oracles.crop_points(*e, shape[1], crop[0]) for e in y])[:, :, None]
            cols = np.stack([oracles.crop_points(*e, shape[2], crop[1]) for e in x])[:, None, :]
            crosses = [((e <= 0) | (e >= 1)).any(axis=1) for e in (y, x)]
            kinds = {
                "border": crosses[0] | crosses[1],
                "flipped": (y[:, 0] > y[:, 1]) | (x[:, 0] > x[:, 1]),
                "size 1": np.full(count, 1 in crop or 1 in shape[1:3]),
                "grid-aligned": (y_kind == 3) | (x_kind == 3),
            }
            settings = {"crop_size": crop, "method": method, "extrapolation_value": fill_for(dtype)}
            points = np.broadcast_arrays(rows, cols)
            images = random_images(rng, shape, dtype)
            yield Batch(images, (boxes, which), settings, *points, which, kinds)

    return batches


def crop_oracle(batch: Batch) -> np.ndarray:
    images, settings = tf.cast(batch.images, wide(batch.images.dtype)).numpy(), tuple(batch.settings.values())
    double = batch.images.dtype == tf.complex128
    reference = oracles.numpy_crop if double else oracles.tensorflow_crop
    return reference(images, *batch.arrays, *settings)


# --- projective warp and translation -----------------------------------------------------------------------

WARP_SHAPES = (
    # images (B is the number of cases), output
    ((12, 9, 1), (12, 9)),
    ((7, 16, 2), (9, 5)),
    ((1, 8, 1), (4, 6)),
    ((9, 1, 3), (5, 5)),
    ((5, 11, 1), (1, 6)),
    ((10, 13, 2), (10, 13)),
)
FILL_MODES = ("constant", "nearest", "reflect", "wrap", "constant", "reflect")


def random_transforms(rng: np.random.Generator, count: int, height: int, width: int) -> np.ndarray:
    """Return maps near the identity: a quarter mirrored, a quarter projective, a fifth on the grid."""
    t = np.tile([1.0, 0, 0, 0, 1, 0, 0, 0], (count, 1))
    t[:, [0, 1, 3, 4]] += rng.uniform(-0.3, 0.3, (count, 4))
    t[:, [2, 5]] = rng.uniform(-0.5, 0.5, (count, 2)) * (width, height)
    t[:, 6:] = rng.uniform(-0.02, 0.02, (count, 2)) * (rng.random((count, 1)) < 0.25)
    grid = rng.random(count) < 0.2
    t[grid] = np.round(t[grid])
    t[grid, 2] += rng.integers(0, 2, grid.sum()) / 2
    for axis, size in ((0, width), (3, height)):
        mirror = rng.random(count) < 0.25
        t[mirror, axis : axis + 2] *= -1
        t[mirror, axis + 2] = size - 1 - t[mirror, axis + 2]
    return t.astype(np.float32)


def source_points(t: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    y, x = (p[None] for p in np.indices(size, dtype=np.float32))
    a0, a1, a2, b0, b1, b2, c0, c1 = (column[:, None, None] for column in t.T)
    scale = c0 * x + c1 * y + np.float32(1)
    return (b0 * x + b1 * y + b2) / scale, (a0 * x + a1 * y + a2) / scale


def warp_kinds(
    rows: np.ndarray, cols: np.ndarray, shape: tuple[int, ...], t: np.ndarray
) -> dict[str, np.ndarray]:
    outside = (rows <= 0) | (rows >= shape[0] - 1) | (cols <= 0) | (cols >= shape[1] - 1)
    whole = (rows % 1 == 0).all(axis=(1, 2)) | (cols % 1 == 0).all(axis=(1, 2))
    return {
        "border": outside.any(axis=(1, 2)),
        "flipped": (t[:, 0] < 0) | (t[:, 4] < 0),
        "size 1": np.full(len(t), 1 in shape[:2] or 1 in rows.shape[1:]),
        "grid-aligned": whole,
    }


def warp_batches(interpolation: str) -> Callable[..., Iterator[Batch]]:
    def batches(
        rng: np.random.Generator, cases: int, dtype: str, shapes: Sequence[int] = range(6)
    ) -> Iterator[Batch]:
        for k, count in zip(shapes, shares(cases, len(shapes)), strict=True):
            (shape, size), fill_mode = WARP_SHAPES[k], FILL_MODES[k]
            t = random_transforms(rng, count, *shape[:2])
            rows, cols = source_points(t, size)
            settings = {
                "interpolation": interpolation,
                "fill_mode": fill_mode,
                "fill_value": fill_for(dtype),
                "output_shape": size,
            }
            images = random_images(rng, (count, *shape), dtype)
            yield Batch(
                images, (t,), settings, rows, cols, np.arange(count), warp_kinds(rows, cols, shape, t)
            )

    return batches


def warp_oracle(batch: Batch) -> np.ndarray:
    double = batch.images.dtype in (tf.float64, tf.complex128)
    images = batch.images.numpy() if batch.images.dtype != tf.bfloat16 else batch.images
    reference = oracles.numpy_warp if double else oracles.tensorflow_warp
    return reference(images, *batch.arrays, *batch.settings.values())


def translate_batches(
    rng: np.random.Generator, cases: int, dtype: str, shapes: Sequence[int] = range(6)
) -> Iterator[Batch]:
    for k, count in zip(shapes, shares(cases, len(shapes)), strict=True):
        shape, _ = WARP_SHAPES[k]
        shifts = (rng.uniform(-0.7, 0.7, (count, 2)) * shape[:2]).astype(np.float32)
        shifts[rng.random(count) < 0.2] //= 1
        t = oracles.shift_transforms(shifts)
        rows, cols = source_points(t, shape[:2])
        kinds = warp_kinds(rows, cols, shape, t)
        kinds.pop("flipped")  # a translation does not flip
        images = random_images(rng, (count, *shape), dtype)
        settings = {"fill_value": fill_for(dtype)}
        yield Batch(images, (shifts,), settings, rows, cols, np.arange(count), kinds)


def translate_oracle(batch: Batch) -> np.ndarray:
    t, size = oracles.shift_transforms(batch.arrays[0]), tuple(batch.images.shape[1:3])
    settings = {"interpolation": "bilinear", "fill_mode": "constant", **batch.settings, "size": size}
    return warp_oracle(Batch(batch.images, (t,), settings, batch.rows, batch.cols, batch.which))


def wide(dtype: tf.DType) -> tf.DType:
    """Return a NumPy dtype that holds ``dtype``."""
    return tf.float32 if dtype == tf.bfloat16 else dtype


def crop_paths() -> dict[str, Callable[..., tf.Tensor]]:
    return {p: lambda *a, path=p, **k: crop_and_resize(*a, **k, path=path) for p in ("exact", "matrix")}


OPERATORS: dict[str, Operator] = {
    "translate": Operator(
        FLOATS,
        "bilinear",
        translate_batches,
        {p: lambda *a, path=p, **k: translate(*a, **k, path=path) for p in ("taps", "matrix")},
        translate_oracle,
    ),
    **{
        f"projective_warp {i}": Operator(FLOATS, i, warp_batches(i), {"gather": projective_warp}, warp_oracle)
        for i in ("bilinear", "nearest")
    },
    **{
        f"crop_and_resize {m}": Operator(CROP_DTYPES, m, crop_batches(m), crop_paths(), crop_oracle)
        for m in ("bilinear", "nearest")
    },
}
