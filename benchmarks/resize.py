"""Images per second of resizing: ours compiled, TensorFlow's kernel eagerly and, if it compiles, with XLA.

    python benchmarks/resize.py [--quick] [--repeats 9] [--out FOLDER]

Writes resize.csv and resize.md. float32; variants take turns; medians. "With gradient": the value and its
gradient with respect to the images, for some upstream gradient. TensorFlow's kernels have it for all methods
but ``area``.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tensorflow as tf

from benchmarks import timing
from benchmarks.timing import Variant
from ptycho_images import resize
from ptycho_images.resize import METHODS

SIZES = ((64, 128), (256, 64), (84, 100), (512, 256))
BATCHES = (1, 16)
CHANNELS = (1, 3)


def kernel(method: str, antialias: bool, size: tuple[int, int]):
    return lambda images, _: tf.image.resize(images, size, method, antialias=antialias)


def ours(method: str, antialias: bool, size: tuple[int, int]):
    return lambda images, _: resize(images, size, method, antialias=antialias)


def variants(method: str, antialias: bool, samples: int) -> dict[str, Variant]:
    arguments = method, antialias, (samples, samples)
    measures = ("forward",) if method == "area" else ("forward", "with gradient")
    result = {
        "ours, XLA": Variant(ours(*arguments), True),
        "TensorFlow": Variant(kernel(*arguments), False, measures),
    }
    if (method, antialias) == ("bilinear", False):
        result["TensorFlow, XLA"] = Variant(kernel(*arguments), True)
    elif method == "nearest":
        result["TensorFlow, XLA"] = Variant(kernel(*arguments), True, ("forward",))
    return result


def ratios(rows: list[dict], measure: str, method: str, antialias: bool, theirs: str) -> list[float]:
    """Return how many times faster ours is, for each size, batch and number of channels."""
    mine = [r for r in rows if r["measure"] == measure and r["method"] == f"{method}{' aa' * antialias}"]
    rates = {(r["size"], r["batch"], r["channels"], r["variant"]): r["images_per_s"] for r in mine}
    cells = {key[:3] for key in rates}
    return [rates[*c, "ours, XLA"] / rates[*c, theirs] for c in cells if (*c, theirs) in rates]


def main() -> None:
    args = timing.parser(__doc__.splitlines()[0], "resize").parse_args()
    tf.get_logger().setLevel("ERROR")
    methods = [case for case in sorted(METHODS) if case[0] not in ("nearest", "area") or not case[1]]
    sizes, channels = (SIZES[:2], CHANNELS[:1]) if args.quick else (SIZES, CHANNELS)
    rng, rows, notes = np.random.default_rng(0), [], []
    for method, antialias in methods:
        name = f"{method}{' aa' * antialias}"
        for (pixels, samples), batch, depth in itertools.product(sizes, BATCHES, channels):
            images = tf.constant(rng.normal(size=(batch, pixels, pixels, depth)), tf.float32)
            labels = {"method": name, "size": f"{pixels} to {samples}", "batch": batch, "channels": depth}
            able = variants(method, antialias, samples)
            measures = ("forward", "with gradient")
            rows += timing.measure_cell(able, (images, tf.range(batch)), args.repeats, measures, **labels)
        before = len(notes)
        for measure, theirs in itertools.product(measures, ("TensorFlow", "TensorFlow, XLA")):
            if times := ratios(rows, measure, method, antialias, theirs):
                least, median = min(times), np.median(times)
                notes.append(f"- {name}, {measure}: {median:.2f} times {theirs} (least {least:.2f})")
        print(*notes[before:], sep="\n", flush=True)
    for measure in ("forward", "with gradient"):
        times = [t for case in methods for t in ratios(rows, measure, *case, "TensorFlow")]
        notes.append(f"- all, {measure}: {np.median(times):.2f} times TensorFlow (target 1)")
    timing.write(args.out, "resize", rows, notes, ("method", "size", "batch", "channels", "measure"))
    print((args.out / "resize.md").read_text())


if __name__ == "__main__":
    main()
