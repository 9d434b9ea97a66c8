#!/usr/bin/env python
"""Which consumer runs the image operators of ``ptycho.xla``, and the operations of the original network.

    python benchmarks/exported_operators.py                     # the table operator × dtype × consumer
    python benchmarks/exported_operators.py --network           # a network in complex numbers, and in pairs
    python benchmarks/exported_operators.py --others            # operations that networks are made of

Every cell is an export and a run, compared with TensorFlow without XLA; it shows the largest difference over
the largest magnitude, or why the consumer refuses. A complex operator is given, and gives, its real and
imaginary parts.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import tensorflow as tf

from ptycho.config import RunConfig
from ptycho.networks import build_pinn
from ptycho.networks.geometry import Geometry
from ptycho.physics import Pair
from ptycho.portable.audit import audit, summary, table
from ptycho.portable.consumers import CONSUMERS, tried
from ptycho.portable.network import frozen
from ptycho.xla_report.cases import CASES

N, R, C, B = 32, 36, 4, 2


AS_CHANNELS = "complex64 as channels"
DTYPES = ("float32", "float16", "bfloat16", "float64", "complex64", AS_CHANNELS)


def parts_of(value: tf.Tensor) -> tf.Tensor:
    """``(…, C)`` complex to ``(…, 2C)`` real; anything else as it is."""
    if not value.dtype.is_complex:
        return value
    return tf.concat([tf.math.real(value), tf.math.imag(value)], axis=-1)


def real_function(function: Callable, inputs: tuple, as_channels: bool) -> tuple[Callable, list[np.ndarray]]:
    """The function with real tensors in the place of complex ones, and its inputs.

    Inside, the parts become complex numbers again; or they stay channels of a real image, which the operators
    treat alike.
    """
    complex_ = [value.dtype.is_complex and not as_channels for value in inputs]

    def real(*given: tf.Tensor) -> dict[str, tf.Tensor]:
        values = [
            tf.complex(*tf.split(value, 2, axis=-1)) if kind else value
            for value, kind in zip(given, complex_, strict=True)
        ]
        return {"result": parts_of(function(*values))}

    return real, [parts_of(value).numpy() for value in inputs]


def operators(dtypes: list[str]) -> None:
    print(f"| operator | dtype | {' | '.join(CONSUMERS)} |\n|{'---|' * (len(CONSUMERS) + 2)}", flush=True)
    for name, case in CASES.items():
        for dtype in dtypes:
            function, inputs = case.build(tf.as_dtype(dtype.split()[0]))
            expected = parts_of(function(*inputs)).numpy()
            real, values = real_function(function, inputs, dtype == AS_CHANNELS)
            signature = [tf.TensorSpec(v.shape, v.dtype, name=f"input_{k}") for k, v in enumerate(values)]
            serve = tf.function(real, input_signature=signature, autograph=False)
            cells = [cell(tried(consumer, serve, values, expected)) for consumer in CONSUMERS]
            print(f"| {name} | {dtype} | {' | '.join(cells)} |", flush=True)


def cell(outcome: tuple[float | None, str]) -> str:
    difference, reason = outcome
    if difference is not None:
        return f"{difference:.0e}"
    logging.info("%s", reason)
    return f"no: {reason[:80]}".replace("|", "/")


def _pool_gradient(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = tf.nn.max_pool2d(x, 2, 2, "SAME")
    return tape.gradient(value, x)


def _complex(x: tf.Tensor) -> tf.Tensor:
    return tf.complex(x, -x)[..., 0]


OTHERS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {  # of an image (2, 8, 8, 4)
    "convolution 3 × 3": lambda x: tf.nn.conv2d(x, tf.ones((3, 3, 4, 4)), 1, "SAME"),
    "dilated by 2": lambda x: tf.nn.conv2d(x, tf.ones((3, 3, 4, 4)), 1, "SAME", dilations=2),
    "in 2 groups": lambda x: tf.nn.conv2d(x, tf.ones((3, 3, 2, 4)), 1, "SAME"),
    "transposed": lambda x: tf.nn.conv2d_transpose(x, tf.ones((3, 3, 4, 4)), (2, 16, 16, 4), 2),
    "max-pooling": lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME"),
    "gradient of max-pooling": _pool_gradient,
    "gather, batched": lambda x: tf.gather(x, tf.constant([[1, 2], [0, 5]]), axis=1, batch_dims=1),
    "scatter, adding": lambda x: tf.tensor_scatter_nd_add(x, [[0], [0]], x),
    "sum by segments": lambda x: tf.math.unsorted_segment_sum(x, [1, 1], 3),
    "sorting": lambda x: tf.sort(x, axis=1),
    "where → indices": lambda x: tf.gather_nd(x, tf.where(x > 0)),
    "roll": lambda x: tf.roll(x, 3, 1),
    "resize, bicubic": lambda x: tf.image.resize(x, (12, 12), "bicubic"),
    "crop_and_resize": lambda x: tf.image.crop_and_resize(x, [[0.1, 0.1, 0.8, 0.9]], [1], (5, 5)),
    "products of int64": lambda x: tf.cast(tf.cast(x * 9, tf.int64) * 3, tf.float32),
    "sine in float64": lambda x: tf.cast(tf.sin(tf.cast(x, tf.float64)), tf.float32),
    "rfft2d": lambda x: tf.abs(tf.signal.rfft2d(x[..., 0])),
    "fft2d": lambda x: tf.abs(tf.signal.fft2d(_complex(x))),
    "product of complex": lambda x: tf.abs(_complex(x) * _complex(x)),
    "sum of complex": lambda x: tf.abs(_complex(x) + 1),
}


def _named(function: Callable) -> Callable:
    return lambda x: {"result": function(x)}


def others() -> None:
    print(f"| operation | {' | '.join(CONSUMERS)} |\n|{'---|' * (len(CONSUMERS) + 1)}", flush=True)
    values = np.random.default_rng(0).normal(size=(2, 8, 8, 4)).astype(np.float32)
    for name, function in OTHERS.items():
        signature = [tf.TensorSpec(values.shape, tf.float32, name="x")]
        serve = tf.function(_named(function), signature, autograph=False)
        expected = serve(tf.constant(values))["result"].numpy()
        cells = [cell(tried(consumer, serve, [values], expected)) for consumer in CONSUMERS]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def network() -> None:
    """The audits of one small ``unrolled`` network, in complex tensors and in pairs."""
    generator = build_pinn(RunConfig(N=N), Geometry(N, R, C, N)).generator
    kinds = {"complex tensors": tf.complex, "pairs of reals": Pair}
    for kind, waves in kinds.items():

        def regions(x: tf.Tensor, offsets: tf.Tensor, probe: tf.Tensor, waves: Callable = waves) -> dict:
            found = generator.call(x, offsets, waves(probe[0], probe[1]))
            real, imag = (
                (found.real, found.imag)
                if isinstance(found, Pair)
                else (
                    tf.math.real(found),
                    tf.math.imag(found),
                )
            )
            return {"regions": tf.stack([real, imag], axis=1)}

        shapes = {"x": (B, C, N, N), "offsets": (B, C, 2), "probe": (2, N, N)}
        rng = np.random.default_rng(0)
        inputs = [np.abs(rng.normal(size=shape)).astype(np.float32) for shape in shapes.values()]
        rows = audit(frozen(regions, shapes), inputs)
        print(f"\n{kind}\n", *table(rows), "", *summary(rows, 0)[:1], sep="\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", action="store_true", help="audit a network instead")
    parser.add_argument("--others", action="store_true", help="try common operations instead")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="comma-separated")
    parser.add_argument("--reasons", action="store_true", help="log in full why a consumer refuses")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO if args.reasons else logging.ERROR, format="%(message)s")
    if args.network or args.others:
        network() if args.network else others()
    else:
        operators(args.dtypes.split(","))


if __name__ == "__main__":
    main()
