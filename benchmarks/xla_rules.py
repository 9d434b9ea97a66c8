"""Measure every rule of docs/xla.md, one line each.

    python benchmarks/xla_rules.py [--repeats 9]

Times are medians of alternated calls; the machine is named in the last line.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks import parser
from benchmarks.operators import TRANSLATIONS, gather_crop, translate_by
from benchmarks.tables import machine, markdown
from benchmarks.timing import Variant, alternated
from ptycho.xla import resample
from ptycho.xla.resample import Tap, apply_taps
from ptycho_images import crop_and_resize
from ptycho_images.layers import standard_normal
from ptycho_images.samples import dense_weights

RNG = np.random.default_rng(0)


def compiled(function: Callable) -> Callable:
    return tf.function(function, jit_compile=True, autograph=False)


def plain(function: Callable) -> Callable:
    return tf.function(function, autograph=False)


def normal(*shape: int) -> tf.Tensor:
    return tf.constant(RNG.normal(size=shape), tf.float32)


def outcome(function: Callable, *arguments: tf.Tensor) -> str:
    """Return ``runs``, or the class and the main part of the error."""
    try:
        tf.nest.map_structure(lambda t: t.numpy(), function(*arguments))
        return "runs"
    except Exception as error:
        text = " ".join(str(error).split())
        at = max(
            0,
            min((text.find(w) for w in ("No registered", "XLA", "dynamic", "dtype") if w in text), default=0),
        )
        return f"{type(error).__name__}: {text[at : at + 110]}".replace("|", "/")


def milliseconds(variants: dict[str, Variant], measure: str, tensors: tuple, repeats: int) -> str:
    times = alternated({n: v.timed(measure, tensors) for n, v in variants.items()}, repeats)
    return ", ".join(f"{name} {t * 1e3:.1f} ms" for name, t in times.items())


def missing_kernels(repeats: int) -> dict[str, str]:
    image, box, which = normal(1, 8, 8, 1), tf.constant([[0.0, 0, 1, 1]]), tf.constant([0])

    def nearest_gradient(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.image.resize(x, (16, 16), "nearest")
        return tape.gradient(y, x, y)

    def masked_fft(x: tf.Tensor) -> tf.Tensor:
        kept = tf.boolean_mask(x, x[:, 0, 0] > 0)
        return tf.signal.fft2d(tf.cast(kept, tf.complex64))

    return {
        "tf.image.crop_and_resize": outcome(
            compiled(lambda *a: tf.image.crop_and_resize(*a, (4, 4))), image, box, which
        ),
        "ptycho_images.crop_and_resize": outcome(
            compiled(lambda *a: crop_and_resize(*a, (4, 4))), image, box, which
        ),
        "bicubic tf.image.resize": outcome(compiled(lambda x: tf.image.resize(x, (4, 4), "bicubic")), image),
        "gradient of nearest tf.image.resize": outcome(compiled(nearest_gradient), image),
        "boolean_mask, then fft2d": outcome(compiled(masked_fft), normal(4, 8, 8)),
        "tf.random.stateless_poisson": outcome(
            compiled(lambda r: tf.random.stateless_poisson([4], (1, 2), r)), tf.ones(4)
        ),
    }


def strict_dtypes(repeats: int) -> dict[str, str]:
    product = compiled(lambda x, y: x * y)
    return {"float32 · float64": outcome(product, tf.ones(2), tf.ones(2, tf.float64))}


def static_shapes(repeats: int) -> dict[str, str]:
    tile, times = compiled(lambda x, n: tf.tile(x, [n])), []
    for count in (1, 2, 2, 3):
        start = time.perf_counter()
        tile(tf.ones(100), tf.constant(count)).numpy()
        times.append((time.perf_counter() - start) * 1e3)
    return {"tile by 1, 2, 2, 3 (a count that is data)": ", ".join(f"{t:.0f}" for t in times) + " ms"}


def pooling_gradient(repeats: int) -> dict[str, str]:
    def pool(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.max_pool2d(x, 2, 2, "VALID")

    def strided(x: tf.Tensor) -> tf.Tensor:
        quarters = [x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)]
        return tf.maximum(tf.maximum(*quarters[:2]), tf.maximum(*quarters[2:]))

    variants = {
        "max_pool, XLA": Variant(pool, True),
        "max_pool": Variant(pool, False),
        "maxima of strided slices, XLA": Variant(strided, True),
    }
    return {
        "2 × 2 on (16, 64, 64, 64)": milliseconds(
            variants, "with gradient", (normal(16, 64, 64, 64),), repeats
        )
    }


def narrow_convolutions(repeats: int) -> dict[str, str]:
    def three_layers(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        for _ in range(3):
            x = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME"))
        return x

    variants = {"XLA": Variant(three_layers, True), "without": Variant(three_layers, False)}
    return {
        f"three 3 × 3 convolutions, 8 × {side} × {side}, {width} channels": milliseconds(
            variants,
            "with both gradients",
            (normal(8, side, side, width), normal(3, 3, width, width)),
            repeats,
        )
        for side, width in ((64, 16), (32, 32))
    }


def separable_resampling(repeats: int) -> dict[str, str]:
    tensors = normal(64, 84, 84), tf.constant(RNG.uniform(-5, 5, (64, 2)), tf.float32)
    chosen = {n: v for n, v in TRANSLATIONS.items() if "XLA" in n}
    return {
        f"translation of 64 × 84 × 84, {measure}": milliseconds(chosen, measure, tensors, repeats)
        for measure in ("forward", "with gradient")
    }


def lanczos_taps(points: tf.Tensor, size: int) -> list[Tap]:
    """Return the six taps ``sinc(d)·sinc(d/3)`` of points ``(n, k)``, normalised over pixels there are."""
    pixels = [tf.floor(points) + step for step in range(-2, 4)]

    def sinc(x: tf.Tensor) -> tf.Tensor:
        return tf.math.divide_no_nan(tf.sin(np.pi * x), np.pi * x) + tf.cast(x == 0, x.dtype)

    known = [tf.cast((p >= 0) & (p < size), p.dtype) for p in pixels]
    weights = [k * sinc(points - p) * sinc((points - p) / 3) for k, p in zip(known, pixels, strict=True)]
    indices = [tf.cast(tf.clip_by_value(p, 0, size - 1), tf.int32) for p in pixels]
    return [Tap(index, weight / sum(weights)) for index, weight in zip(indices, weights, strict=True)]


def repeated_fusion(repeats: int) -> dict[str, str]:
    images, points = normal(16, 64, 64, 1), tf.constant(RNG.uniform(0, 63, (16, 64)), tf.float32)

    def by_taps(images: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
        taps = lanczos_taps(points, 64)
        return apply_taps(apply_taps(images, taps, 1), taps, 2)

    def by_products(images: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
        weights = dense_weights(lanczos_taps(points, 64), 64)
        return resample(images[..., 0], weights, weights)[..., None]

    results = {}
    for name, function in (("six taps an axis", by_taps), ("dense products", by_products)):
        start = time.perf_counter()
        step = compiled(function)
        step(images, points).numpy()
        first = time.perf_counter() - start
        results[name] = f"first call {first * 1e3:.0f} ms, " + milliseconds(
            {"then": Variant(function, True)}, "forward", (images, points), repeats
        )
    return {f"Lanczos crop of 16 × 64 × 64, {n}": r for n, r in results.items()}


def random_numbers(repeats: int) -> dict[str, str]:
    seed = tf.constant([7, 3], tf.int64)
    generators = {
        "stateless_normal": lambda s: tf.random.stateless_normal([1000], s),
        'stateless_normal, alg="philox"': lambda s: tf.random.stateless_normal([1000], s, alg="philox"),
        "ptycho_images.layers.standard_normal": lambda s: standard_normal([1000], 7, s[1]),
    }
    difference = {n: np.abs(plain(g)(seed) - compiled(g)(seed)).max() for n, g in generators.items()}
    return {f"{n}: with and without XLA differ by": f"{d:.1e}" for n, d in difference.items()}


def silent_checks(repeats: int) -> dict[str, str]:
    def check(x: tf.Tensor) -> tf.Tensor:
        tf.debugging.assert_less(x, 0.0)
        return tf.debugging.check_numerics(x / 0.0, "not finite")

    gather = lambda i: tf.gather(tf.constant([10, 20, 30]), i)  # noqa: E731
    nan = tf.constant([np.nan, 1, 2], tf.float32)
    wrong = tf.constant([-1, 7])
    return {
        "a false assertion and a NaN check": f"without: {outcome(plain(check), tf.ones(2))}; "
        f"XLA: {outcome(compiled(check), tf.ones(2))}",
        "gather([10, 20, 30], [-1, 7])": f"without: {outcome(plain(gather), wrong)[:20]}; "
        f"XLA: {compiled(gather)(wrong).numpy().tolist()}",
        "reduce_max([nan, 1, 2])": f"without: {plain(tf.reduce_max)(nan)}; "
        f"XLA: {compiled(tf.reduce_max)(nan)}",
    }


def border_rounding(repeats: int) -> dict[str, str]:
    image = normal(3, 9, 12, 1)
    boxes = tf.constant(RNG.integers(0, 9, (1000, 4)) / 8, tf.float32)
    which = tf.constant(RNG.integers(0, 3, 1000), tf.int32)
    expected = tf.image.crop_and_resize(image, boxes, which, (11, 7)).numpy() == 0
    ours = {p: lambda *a, path=p: crop_and_resize(*a, (11, 7), path=path) for p in ("exact", "matrix")}
    crops = {"the plain formula": lambda *a: gather_crop(*a, (11, 7)), **ours}
    flips = {n: ((compiled(f)(image, boxes, which).numpy() == 0) != expected).sum() for n, f in crops.items()}
    total = expected.size
    return {f"pixels that flip to the fill or back, {n}": f"{f} of {total}" for n, f in flips.items()}


def where_to_compile(repeats: int) -> dict[str, str]:
    def exported(jit: bool) -> int:
        inner = tf.function(lambda x: x + 1.0, jit_compile=True) if jit else tf.function(lambda x: x + 1.0)
        module = tf.Module()
        module.serve = tf.function(lambda x: {"y": inner(x)}, input_signature=[tf.TensorSpec((2,))])
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(module, folder, signatures=module.serve)
            return (Path(folder) / "saved_model.pb").read_bytes().count(b"_XlaMustCompile")

    counts = f"jit_compile inside a layer: {exported(True)}, outside: {exported(False)}"
    return {"marks in the exported model that demand XLA": counts}


def when_not(repeats: int) -> dict[str, str]:
    x, shifts = normal(64, 84, 84), tf.constant(RNG.uniform(-5, 5, (64, 2)), tf.float32)
    matrix = translate_by("matrix")
    functions = {True: compiled(matrix), False: plain(matrix)}
    first = {}
    for jit, function in functions.items():
        start = time.perf_counter()
        function(x, shifts).numpy()
        first[jit] = time.perf_counter() - start
    steady = alternated({str(j): lambda f=f: f(x, shifts).numpy() for j, f in functions.items()}, repeats)
    gain = steady["False"] - steady["True"]
    calls = f"{(first[True] - first[False]) / gain:.0f}" if gain > 0 else "never"
    return {
        "first call of a translation": f"XLA {first[True] * 1e3:.0f} ms, without {first[False] * 1e3:.0f} ms",
        "calls until compiling has paid": calls,
    }


RULES: dict[str, Callable[[int], dict[str, str]]] = {
    "kernels": missing_kernels,
    "dtypes": strict_dtypes,
    "static shapes": static_shapes,
    "pooling": pooling_gradient,
    "narrow convolutions": narrow_convolutions,
    "resampling": separable_resampling,
    "fusion": repeated_fusion,
    "random numbers": random_numbers,
    "checks": silent_checks,
    "border rounding": border_rounding,
    "where to compile": where_to_compile,
    "when not": when_not,
}


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--repeats", type=int, default=9, help="of which the median is taken (9)")
    options = options_of.parse_args()
    tf.get_logger().setLevel("ERROR")
    rows = []
    for rule, measure in RULES.items():
        for what, result in measure(options.repeats).items():
            rows.append({"rule": rule, "measured": what, "result": result})
            print(*rows[-1].values(), sep=" | ", flush=True)
    print(f"\n{markdown(rows)}\n\nMachine: {json.dumps(machine())}")


if __name__ == "__main__":
    main()
