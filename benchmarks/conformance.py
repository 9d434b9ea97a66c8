"""Random cases of every operator and dtype, compared with an oracle at the fixed tolerances below.

    python benchmarks/conformance.py [--cases 500] [--only translate,warp]

The oracle is TensorFlow's CPU kernel if it has one for the dtype, or else the NumPy loops of ``oracles.py``.
Every case runs eagerly and compiled, and on every path of the operator. A case fails if a value differs from
the oracle by more than the tolerance, or if a pixel is filled in only one of the two.

Tolerances are in units in the last place (ulp) of the dtype of the computation, at the largest pixel that a
sample reads: 4 for ``bilinear``, 0 for ``nearest``; plus one ulp of the dtype of the result if it is
narrower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks import parser
from benchmarks.conformance_cases import CROP_DTYPES, OPERATORS, Batch
from benchmarks.tables import write

ULPS = {"bilinear": 4, "nearest": 0}


def compute_precision(dtype: tf.DType) -> type:
    return np.float64 if dtype in (tf.float64, tf.complex128) else np.float32


def magnitude_read(batch: Batch) -> np.ndarray:
    """Return the largest magnitude that each sample may read, fill included, ``(cases, h, w, 1)``."""
    images = np.abs(tf.cast(batch.images, tf.complex128).numpy()).max(axis=3)
    fill = abs(batch.settings.get("fill_value", batch.settings.get("extrapolation_value")))
    largest = np.zeros(batch.rows.shape)
    height, width = images.shape[1:]
    for dy in (0, 1):
        for dx in (0, 1):
            r, c = (np.nan_to_num(np.floor(p)) + d for p, d in ((batch.rows, dy), (batch.cols, dx)))
            outside = (r < 0) | (r >= height) | (c < 0) | (c >= width)
            if batch.settings.get("fill_mode", "constant") != "constant":
                pixel = np.broadcast_to(images.max(axis=(1, 2))[:, None, None], r.shape)
            else:
                index = r.clip(0, height - 1).astype(int), c.clip(0, width - 1).astype(int)
                pixel = images[batch.which[:, None, None], *index]
            largest = np.maximum(largest, np.where(outside, fill, pixel))
    return largest[..., None]


def tolerance(batch: Batch, method: str, result: tf.DType) -> np.ndarray:
    largest = magnitude_read(batch)
    precision = compute_precision(result)
    allowed = ULPS[method] * np.spacing(largest.astype(precision)).astype(np.float64)
    if result in (tf.float16, tf.bfloat16):
        allowed = allowed + largest * 2.0 ** (-10 if result == tf.float16 else -7)
    return allowed


def failures(batch: Batch, method: str, result: tf.Tensor, expected: np.ndarray) -> tuple[np.ndarray, float]:
    """Return for each case whether it fails, and the largest deviation in units of the tolerance."""
    got = tf.cast(result, tf.complex128).numpy()
    expected = np.asarray(expected).astype(np.complex128)
    deviation = np.maximum(np.abs((got - expected).real), np.abs((got - expected).imag))
    allowed = np.broadcast_to(tolerance(batch, method, result.dtype), deviation.shape)
    fill = batch.settings.get("fill_value", batch.settings.get("extrapolation_value"))
    flipped = (
        (got == fill) != (expected == fill) if "crop_size" in batch.settings else np.zeros(got.shape, bool)
    )
    wrong = ~(deviation <= allowed) | flipped
    ratio = (deviation[allowed > 0] / allowed[allowed > 0]).max(initial=0.0)
    return wrong.any(axis=(1, 2, 3)), float(ratio)


def run_path(call: Callable[..., tf.Tensor], batch: Batch, compiled: bool) -> tf.Tensor:
    def function(images: tf.Tensor, *arrays: tf.Tensor) -> tf.Tensor:
        return call(images, *arrays, **batch.settings)

    arrays = [tf.constant(a) for a in batch.arrays]
    if not compiled:
        return function(batch.images, *arrays)
    return tf.function(function, jit_compile=True, autograph=False)(batch.images, *arrays)


@dataclass
class Count:
    """The outcome of one operator and dtype."""

    operator: str
    dtype: str
    cases: int = 0
    failed: int = 0
    worst: float = 0.0  # largest deviation over the tolerance
    identical_eagerly: int = 0
    kinds: dict[str, int] = field(default_factory=dict)


def check(
    name: str,
    dtype: str,
    cases: int,
    seed: int = 0,
    modes: tuple[bool, ...] = (False, True),
    shapes: Sequence[int] = range(6),
) -> Count:
    """Run cases of an operator in one dtype on every path, eagerly (``modes`` False) and compiled (True).

    ``shapes``: indices of the shapes of images and results.
    """
    operator, count = OPERATORS[name], Count(name, dtype)
    rng = np.random.default_rng([seed, sorted(OPERATORS).index(name), CROP_DTYPES.index(dtype)])
    for batch in operator.batches(rng, cases, dtype, shapes):
        expected = operator.oracle(batch)
        failed = np.zeros(len(batch.rows), bool)
        for path, call in operator.paths.items():
            for compiled in modes:
                result = run_path(call, batch, compiled)
                wrong, ratio = failures(batch, operator.method, result, expected)
                failed |= wrong
                count.worst = max(count.worst, ratio)
                if not compiled and path == next(iter(operator.paths)):
                    same = tf.cast(result, tf.complex128).numpy() == np.asarray(expected).astype(
                        np.complex128
                    )
                    count.identical_eagerly += int(same.all(axis=(1, 2, 3)).sum())
        count.cases += len(failed)
        count.failed += int(failed.sum())
        for kind, members in batch.kinds.items():
            count.kinds[kind] = count.kinds.get(kind, 0) + int(members.sum())
    return count


def line(count: Count) -> dict[str, object]:
    """Return a row of the table."""
    kinds = {kind: count.kinds.get(kind, "–") for kind in ("border", "flipped", "size 1", "grid-aligned")}
    return {
        "operator": count.operator,
        "dtype": count.dtype,
        "cases": count.cases,
        "failed": count.failed,
        "worst / tolerance": f"{count.worst:.2f}",
        "bit-identical eagerly": count.identical_eagerly,
    } | kinds


def main() -> int:
    options_of = parser(__doc__)
    options_of.add_argument("--cases", type=int, default=500, help="cases per operator and dtype (500)")
    options_of.add_argument("--only", default="", help="comma-separated parts of operator names (all)")
    options = options_of.parse_args()
    tf.get_logger().setLevel("ERROR")
    rows, failed = [], 0
    for name, operator in OPERATORS.items():
        for dtype in operator.dtypes if any(part in name for part in options.only.split(",")) else ():
            count = check(name, dtype, options.cases)
            rows.append(line(count))
            failed += count.failed
            print(*rows[-1].values(), sep=" | ", flush=True)
    write(Path("outputs/benchmarks/conformance"), rows, f"{failed} failed.")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
