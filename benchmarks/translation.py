"""Images per second of sub-pixel translation: ours, the gather formulation, TensorFlow's kernel, SciPy.

    python benchmarks/translation.py [--quick] [--repeats 9] [--out FOLDER]

Writes translation.csv, translation.md, translation.png. float32, one channel; variants take turns; medians.
"With gradient": the value and its gradient with respect to the images, for some upstream gradient. "With both
gradients": also with respect to the shifts. "Gradient of Σy²", "of MAE": a loss and its gradient with respect
to the images, as in training; there TensorFlow's kernel is also compared with our projective warp.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import scipy.ndimage

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tensorflow as tf

from benchmarks import timing
from benchmarks.timing import Variant
from ptycho_images import Translation, projective_warp, translate


def gather_translate(images: tf.Tensor, shifts: tf.Tensor) -> tf.Tensor:
    """Translate by the usual formulation: four batched gathers with static shapes, weights per axis."""
    batch, height, width = images.shape
    rows = tf.range(height, dtype=tf.float32) - shifts[:, :1]
    cols = tf.range(width, dtype=tf.float32) - shifts[:, 1:]
    top, left = tf.floor(rows), tf.floor(cols)
    down, across = (rows - top)[:, :, None], (cols - left)[:, None, :]
    pixels = tf.reshape(images, [batch, height * width])

    def at(row: tf.Tensor, col: tf.Tensor) -> tf.Tensor:
        inside = ((row >= 0) & (row < height))[:, :, None] & ((col >= 0) & (col < width))[:, None, :]
        row = tf.cast(tf.clip_by_value(row, 0, height - 1), tf.int32)[:, :, None]
        col = tf.cast(tf.clip_by_value(col, 0, width - 1), tf.int32)[:, None, :]
        return tf.where(inside, tf.gather(pixels, row * width + col, batch_dims=1), 0)

    upper = (1 - across) * at(top, left) + across * at(top, left + 1)
    lower = (1 - across) * at(top + 1, left) + across * at(top + 1, left + 1)
    return (1 - down) * upper + down * lower


def transforms_of(shifts: tf.Tensor) -> tf.Tensor:
    one, zero = tf.ones_like(shifts[:, 0]), tf.zeros_like(shifts[:, 0])
    return tf.stack([one, zero, -shifts[:, 1], zero, one, -shifts[:, 0], zero, zero], axis=1)


def warp_translate(images: tf.Tensor, shifts: tf.Tensor) -> tf.Tensor:
    return projective_warp(images[..., None], transforms_of(shifts))[..., 0]


def layer_translate(images: tf.Tensor, shifts: tf.Tensor) -> tf.Tensor:
    return Translation()([images, shifts], training=True)


def kernel_translate(images: tf.Tensor, shifts: tf.Tensor) -> tf.Tensor:
    """Translate by TensorFlow's projective kernel, which only exists without XLA."""
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=images[..., None],
        transforms=transforms_of(shifts),
        output_shape=images.shape[1:],
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )[..., 0]


def scipy_translate(images: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    moved = [
        scipy.ndimage.shift(i, s, order=1, mode="grid-constant") for i, s in zip(images, shifts, strict=True)
    ]
    return np.stack(moved)


def by(path: str):
    return lambda images, shifts: translate(images, shifts, path=path)


VARIANTS = {
    "taps, XLA": Variant(by("taps"), True),
    "matrix, XLA": Variant(by("matrix"), True),
    "gather, XLA": Variant(gather_translate, True),
    "taps": Variant(by("taps"), False),
    "matrix": Variant(by("matrix"), False),
    "gather": Variant(gather_translate, False),
    "layer, XLA": Variant(layer_translate, True),
    "warp, XLA": Variant(warp_translate, True),
    "TensorFlow kernel": Variant(kernel_translate, False, ("forward", "with gradient")),
    "scipy": Variant(scipy_translate, None, ("forward",)),
}
TRAINED = {name: v for name, v in VARIANTS.items() if v.compiled or name == "TensorFlow kernel"}
TARGETS = (
    # ours, theirs, measure, at least
    ("taps, XLA", "gather, XLA", "forward", 1.5),
    ("taps, XLA", "gather, XLA", "with gradient", 3.0),
    ("taps, XLA", "TensorFlow kernel", "forward", 3.0),
    ("taps, XLA", "TensorFlow kernel", "with gradient", 3.0),
    ("matrix, XLA", "gather, XLA", "forward", 1.5),
    ("matrix, XLA", "gather, XLA", "with gradient", 3.0),
    ("matrix, XLA", "TensorFlow kernel", "forward", 3.0),
    ("matrix, XLA", "TensorFlow kernel", "with gradient", 3.0),
    *(
        (ours, "TensorFlow kernel", loss, 1.0)
        for ours in ("taps, XLA", "layer, XLA", "warp, XLA")
        for loss in timing.LOSSES
    ),
)


def agree(images: tf.Tensor, shifts: tf.Tensor) -> None:
    """Raise an error unless all variants compute the same function."""
    expected = kernel_translate(images, shifts).numpy()
    for name, variant in VARIANTS.items():
        result = np.asarray(
            variant.function(*(t.numpy() if variant.compiled is None else t for t in (images, shifts)))
        )
        if not np.allclose(result, expected, atol=1e-4):
            raise AssertionError(f"{name} computes another function")


def main() -> None:
    args = timing.parser(__doc__.splitlines()[0], "translation").parse_args()
    tf.get_logger().setLevel("ERROR")
    sizes, batches = ((32, 84), (64,)) if args.quick else (timing.SIZES, timing.BATCHES)
    measured, skipped = timing.cells(sizes, batches)
    rng, rows = np.random.default_rng(0), []
    for size, batch in measured:
        images = tf.constant(rng.normal(size=(batch, size, size)), tf.float32)
        shifts = tf.constant(rng.uniform(-5, 5, (batch, 2)), tf.float32)
        if rows == []:
            agree(images, shifts)
        cell = {"tensors": (images, shifts), "repeats": args.repeats, "size": size, "batch": batch}
        rows += timing.measure_cell(VARIANTS, **cell)
        rows += timing.measure_cell(TRAINED, measures=timing.LOSSES, **cell)
        print(f"size {size}, batch {batch} done", flush=True)
    notes = [f"Skipped, more than 2^25 pixels (size, batch): {skipped}."]
    for ours, theirs, measure, least in TARGETS:
        times = timing.ratio(rows, ours, theirs, measure, size=84, batch=64)
        notes.append(
            f"- 84 × 84, batch 64, {measure}: {ours} is {times:.2f} times {theirs} (target {least})."
        )
    timing.write(args.out, "translation", rows, notes, ("size", "batch", "measure"))
    timing.plot(args.out / "translation.png", rows, 64, "translation")
    print((args.out / "translation.md").read_text())


if __name__ == "__main__":
    main()
