"""Images per second of crop-and-resize: ours on both paths, gathers, TensorFlow's kernel, SciPy.

    python benchmarks/crop_and_resize.py [--quick] [--repeats 9] [--out FOLDER]

Writes crop_and_resize.csv, .md, .png. float32, one channel, one box for each image. In the main table, crops
are about as large as the image. A second table varies the size of the crop; the rule of ``choose_path`` comes
from it. "With gradient": the value and its gradient with respect to the images. "With both gradients": also
with respect to the boxes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import scipy.ndimage

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tensorflow as tf

from benchmarks import timing
from benchmarks.oracles import crop_points
from benchmarks.timing import Variant
from ptycho_images import choose_path, crop_and_resize

RULE_CELLS = (  # image side, crop side
    *((512, 256), (512, 128), (512, 32), (256, 128), (256, 64), (256, 32), (256, 16)),
    *((128, 64), (128, 16), (64, 16)),
)


def random_boxes(rng: np.random.Generator, count: int, size: int, crop: int) -> np.ndarray:
    """Return boxes of ``crop / size`` of the image, ± 10 % of their side; some cross the border."""
    side = crop / size
    corner = rng.uniform(0, 1 - side, (count, 2)) if side < 1 else np.zeros((count, 2))
    edges = np.concatenate([corner, corner + side], axis=1)
    edges += rng.uniform(-0.1, 0.1, (count, 4)) * side
    return edges.astype(np.float32)


def variants(size: int) -> dict[str, Variant]:
    crop_size = (size, size)

    def by(path: str):
        return lambda image, boxes, which: crop_and_resize(image, boxes, which, crop_size, path=path)

    def gather(image: tf.Tensor, boxes: tf.Tensor, which: tf.Tensor) -> tf.Tensor:
        return gather_crop(image, boxes, which, crop_size)

    def kernel(image: tf.Tensor, boxes: tf.Tensor, which: tf.Tensor) -> tf.Tensor:
        return tf.image.crop_and_resize(image, boxes, which, crop_size)

    return {
        "matrix, XLA": Variant(by("matrix"), True),
        "exact, XLA": Variant(by("exact"), True),
        "gather, XLA": Variant(gather, True),
        "matrix": Variant(by("matrix"), False),
        "exact": Variant(by("exact"), False),
        "gather": Variant(gather, False),
        "TensorFlow kernel": Variant(kernel, False),
        "scipy": Variant(lambda *a: scipy_crop(*a, crop_size), None, ("forward",)),
    }


def gather_crop(
    image: tf.Tensor, boxes: tf.Tensor, which: tf.Tensor, crop_size: tuple[int, int]
) -> tf.Tensor:
    """Crop by the usual formulation: four gathers with static shapes, coordinates by the plain formula."""
    batch, height, width, channels = image.shape

    def axis(low: tf.Tensor, high: tf.Tensor, size: int, count: int) -> tuple[tf.Tensor, ...]:
        points = (
            low[:, None] * (size - 1)
            + tf.range(count, dtype=tf.float32) * ((high - low) * (size - 1) / (count - 1))[:, None]
        )
        inside = (points >= 0) & (points <= size - 1)
        points = tf.clip_by_value(points, 0, size - 1)
        below, above = tf.floor(points), tf.math.ceil(points)
        return tf.cast(below, tf.int32), tf.cast(above, tf.int32), points - below, inside

    top, bottom, down, in_rows = axis(boxes[:, 0], boxes[:, 2], height, crop_size[0])
    left, right, across, in_cols = axis(boxes[:, 1], boxes[:, 3], width, crop_size[1])
    pixels = tf.reshape(image, [batch * height * width, channels])

    def at(row: tf.Tensor, col: tf.Tensor) -> tf.Tensor:
        return tf.gather(pixels, (which[:, None, None] * height + row[:, :, None]) * width + col[:, None, :])

    down, across = down[:, :, None, None], across[:, None, :, None]
    upper = at(top, left) + (at(top, right) - at(top, left)) * across
    lower = at(bottom, left) + (at(bottom, right) - at(bottom, left)) * across
    inside = (in_rows[:, :, None] & in_cols[:, None, :])[..., None]
    return tf.where(inside, upper + (lower - upper) * down, 0)


def scipy_crop(
    image: np.ndarray, boxes: np.ndarray, which: np.ndarray, crop_size: tuple[int, int]
) -> np.ndarray:
    crops = []
    for (y1, x1, y2, x2), n in zip(boxes, which, strict=True):
        rows = crop_points(y1, y2, image.shape[1], crop_size[0])
        cols = crop_points(x1, x2, image.shape[2], crop_size[1])
        grid = np.meshgrid(rows, cols, indexing="ij")
        crops.append(scipy.ndimage.map_coordinates(image[n, ..., 0], grid, order=1, mode="constant"))
    return np.stack(crops)[..., None]


TARGETS = (
    ("matrix, XLA", "TensorFlow kernel", "forward", 1.5),
    ("matrix, XLA", "TensorFlow kernel", "with gradient", 3.0),
    ("matrix, XLA", "TensorFlow kernel", "with both gradients", 3.0),
    ("exact, XLA", "TensorFlow kernel", "forward", 1.5),
    ("exact, XLA", "TensorFlow kernel", "with gradient", 3.0),
)


def measure(size: int, crop: int, batch: int, repeats: int, rng: np.random.Generator) -> list[dict]:
    images = tf.constant(rng.normal(size=(batch, size, size, 1)), tf.float32)
    tensors = images, tf.constant(random_boxes(rng, batch, size, crop)), tf.range(batch)
    labels = {"size": size, "crop": crop, "batch": batch, "chosen": choose_path((size, size), (crop, crop))}
    rows = timing.measure_cell(variants(crop), tensors, repeats, **labels)
    print(f"size {size}, crop {crop}, batch {batch} done", flush=True)
    return rows


def main() -> None:
    args = timing.parser(__doc__.splitlines()[0], "crop_and_resize").parse_args()
    tf.get_logger().setLevel("ERROR")
    sizes, batches = ((32, 84), (64,)) if args.quick else (timing.SIZES, timing.BATCHES)
    measured, skipped = timing.cells(sizes, batches)
    rng, rows = np.random.default_rng(0), []
    for size, batch in measured:
        rows += measure(size, size, batch, args.repeats, rng)
    for size, crop in RULE_CELLS[-2:] if args.quick else RULE_CELLS:
        rows += measure(size, crop, 64, args.repeats, rng)
    notes = [f"Skipped, more than 2^25 pixels (size, batch): {skipped}."]
    for ours, theirs, name, least in TARGETS:
        times = timing.ratio(rows, ours, theirs, name, size=84, crop=84, batch=64)
        notes.append(f"- 84 × 84, batch 64, {name}: {ours} is {times:.2f} times {theirs} (target {least}).")
    timing.write(args.out, "crop_and_resize", rows, notes, ("size", "crop", "batch", "chosen", "measure"))
    timing.plot(
        args.out / "crop_and_resize.png", [r for r in rows if r["size"] == r["crop"]], 64, "crop and resize"
    )
    print((args.out / "crop_and_resize.md").read_text())


if __name__ == "__main__":
    main()
