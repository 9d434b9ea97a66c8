"""Images per second of translation, crops and resizing: ours, gathers, TensorFlow's kernels.

    python benchmarks/operators.py translate
    python benchmarks/operators.py crop_and_resize
    python benchmarks/operators.py resize --quick        two sizes, to see that it runs

Writes CSV and Markdown into outputs/benchmarks/operators. float32; variants take turns; medians. "With
gradient": the value and its gradient with respect to the images, for some upstream gradient. "With both
gradients": also with respect to shifts or boxes. "Gradient of Σy²", "of MAE": a loss and its gradient with
respect to the images, as in training. After the table come ratios to TensorFlow's kernels, and to gathers.

``translate``, ``crop_and_resize``: one channel. Crops are about as large as the image; further rows vary the
size of the crop, from which the rule of ``choose_path`` comes. ``resize``: all methods.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import parser
from benchmarks.tables import write
from benchmarks.timing import LOSSES, MEASURES, Variant, images_per_second
from ptycho_images import Translation, choose_path, crop_and_resize, projective_warp, resize, translate
from ptycho_images.resize import METHODS

SIZES, BATCHES, MOST_PIXELS = (32, 64, 84, 128, 256, 512), (16, 64, 256, 1024), 2**25
RULE_CELLS = (  # image side, crop side
    *((512, 256), (512, 128), (512, 32), (256, 128), (256, 64), (256, 32), (256, 16)),
    *((128, 64), (128, 16), (64, 16)),
)
RESIZED = ((64, 128), (256, 64), (84, 100), (512, 256))  # side of images and results
KERNEL, GATHER = "TensorFlow kernel", "gather, XLA"
Row = dict[str, Any]


def sizes_and_batches(quick: bool) -> list[tuple[int, int]]:
    """Return pairs (size, batch) without too many pixels."""
    pairs = itertools.product((32, 84), (64,)) if quick else itertools.product(SIZES, BATCHES)
    return [(size, batch) for size, batch in pairs if batch * size**2 <= MOST_PIXELS]


# ---- translation


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


def translate_by(path: str) -> Callable[..., tf.Tensor]:
    return lambda images, shifts: translate(images, shifts, path=path)


TRANSLATIONS = {
    "taps, XLA": Variant(translate_by("taps"), True),
    "matrix, XLA": Variant(translate_by("matrix"), True),
    GATHER: Variant(gather_translate, True),
    "taps": Variant(translate_by("taps"), False, tuple(MEASURES)),
    "matrix": Variant(translate_by("matrix"), False, tuple(MEASURES)),
    "gather": Variant(gather_translate, False, tuple(MEASURES)),
    "layer, XLA": Variant(layer_translate, True),
    "warp, XLA": Variant(warp_translate, True),
    KERNEL: Variant(kernel_translate, False, ("forward", "with gradient", *LOSSES)),
}


def translations(quick: bool, repeats: int, rng: np.random.Generator) -> Iterator[Row]:
    for size, batch in sizes_and_batches(quick):
        images = tf.constant(rng.normal(size=(batch, size, size)), tf.float32)
        shifts = tf.constant(rng.uniform(-5, 5, (batch, 2)), tf.float32)
        labels = {"size": size, "batch": batch}
        yield from images_per_second(TRANSLATIONS, (images, shifts), repeats, (*MEASURES, *LOSSES), **labels)


# ---- crops


def gather_crop(
    image: tf.Tensor, boxes: tf.Tensor, which: tf.Tensor, crop_size: tuple[int, int]
) -> tf.Tensor:
    """Crop by the usual formulation: four gathers with static shapes, coordinates by the plain formula."""
    batch, height, width, channels = image.shape

    def axis(low: tf.Tensor, high: tf.Tensor, size: int, count: int) -> tuple[tf.Tensor, ...]:
        step = ((high - low) * (size - 1) / (count - 1))[:, None]
        points = low[:, None] * (size - 1) + tf.range(count, dtype=tf.float32) * step
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


def crop_variants(size: int) -> dict[str, Variant]:
    def of(crop: Callable[..., Any], **settings: str) -> Callable[..., Any]:
        return lambda image, boxes, which: crop(image, boxes, which, (size, size), **settings)

    ours = {path: of(crop_and_resize, path=path) for path in ("matrix", "exact")}
    ours |= {"gather": of(gather_crop)}
    variants = {f"{name}, XLA": Variant(crop, True) for name, crop in ours.items()}
    variants |= {name: Variant(crop, False) for name, crop in ours.items()}
    return variants | {KERNEL: Variant(of(tf.image.crop_and_resize), False)}


def crops(quick: bool, repeats: int, rng: np.random.Generator) -> Iterator[Row]:
    """Yield rows of boxes of ``crop / size`` of the image, ± 10 % of their side; some cross the border."""
    cells = [(size, size, batch) for size, batch in sizes_and_batches(quick)]
    cells += [(size, crop, 64) for size, crop in (RULE_CELLS[-2:] if quick else RULE_CELLS)]
    for size, crop, batch in cells:
        images, share = tf.constant(rng.normal(size=(batch, size, size, 1)), tf.float32), crop / size
        corner = rng.uniform(0, 1 - share, (batch, 2))
        edges = np.concatenate([corner, corner + share], axis=1) + rng.uniform(-0.1, 0.1, (batch, 4)) * share
        tensors = images, tf.constant(edges, tf.float32), tf.range(batch)
        chosen = choose_path((size, size), (crop, crop))
        labels = {"size": size, "crop": crop, "batch": batch, "chosen": chosen}
        yield from images_per_second(crop_variants(crop), tensors, repeats, **labels)


# ---- resizing


def resize_variants(method: str, antialias: bool, samples: int) -> dict[str, Variant]:
    def of(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
        return lambda images, _: function(images, (samples, samples), method, antialias=antialias)

    both = ("forward", "with gradient")
    variants = {
        "ours, XLA": Variant(of(resize), True),
        KERNEL: Variant(of(tf.image.resize), False, both[:1] if method == "area" else both),
    }
    if (method, antialias) == ("bilinear", False) or method == "nearest":
        measures = both if method == "bilinear" else both[:1]
        variants["TensorFlow, XLA"] = Variant(of(tf.image.resize), True, measures)
    return variants


def resizings(quick: bool, repeats: int, rng: np.random.Generator) -> Iterator[Row]:
    methods = [case for case in sorted(METHODS) if case[0] not in ("nearest", "area") or not case[1]]
    cells = itertools.product(methods, RESIZED[:2] if quick else RESIZED, (1, 16), (1,) if quick else (1, 3))
    for (method, antialias), (pixels, samples), batch, depth in cells:
        images = tf.constant(rng.normal(size=(batch, pixels, pixels, depth)), tf.float32)
        labels = {"method": f"{method}{' aa' * antialias}", "size": f"{pixels} to {samples}"}
        variants, labels = (
            resize_variants(method, antialias, samples),
            labels | {"batch": batch, "channels": depth},
        )
        rows = images_per_second(
            variants, (images, tf.range(batch)), repeats, ("forward", "with gradient"), **labels
        )
        yield from ({**row, "TensorFlow, XLA": row.get("TensorFlow, XLA", "–")} for row in rows)


def ratios(rows: Sequence[Row], by: Sequence[str]) -> Iterator[str]:
    """Yield lines: how many times faster ours is, the median over the rows that agree in ``by``."""
    others = (GATHER, KERNEL, "TensorFlow, XLA")
    ours = [name for name in rows[0] if name.endswith(", XLA") and name not in others]
    for key in dict.fromkeys(tuple(row[name] for name in by) for row in rows):
        these = [row for row in rows if tuple(row[name] for name in by) == key]
        for mine, theirs in itertools.product(ours, others):
            pairs = [(row[mine], row.get(theirs, "–")) for row in these]
            times = [float(one) / float(other) for one, other in pairs if "–" not in (one, other)]
            if times:
                faster = f"{np.median(times):.2f} times {theirs} (least {min(times):.2f})"
                yield f"- {', '.join(key)}: {mine} is {faster}"


OPERATORS = {
    "translate": (translations, ("measure",)),
    "crop_and_resize": (crops, ("measure",)),
    "resize": (resizings, ("method", "measure")),
}


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("operator", choices=OPERATORS)
    options_of.add_argument("--quick", action="store_true", help="two sizes, one batch, to see that it runs")
    options_of.add_argument("--repeats", type=int, default=9, help="of which the median is taken (9)")
    options = options_of.parse_args()
    tf.get_logger().setLevel("ERROR")
    measure, by = OPERATORS[options.operator]
    rows = []
    for row in measure(options.quick, options.repeats, np.random.default_rng(0)):
        rows.append(row)
        print(" | ".join(map(str, row.values())), flush=True)
    same_size = [row for row in rows if row.get("crop", row["size"]) == row["size"]]
    notes = "\n".join(ratios(same_size, by))
    write(Path("outputs/benchmarks/operators") / options.operator, rows, "Images per second.", notes)


if __name__ == "__main__":
    main()
