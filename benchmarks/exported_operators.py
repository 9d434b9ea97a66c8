#!/usr/bin/env python
"""Which consumer runs the image operators of ``ptycho.xla``, and the operations of the original network.

    python benchmarks/exported_operators.py                     # the table operator × dtype × consumer
    python benchmarks/exported_operators.py --network           # a network in complex numbers, and in pairs

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
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="comma-separated")
    parser.add_argument("--reasons", action="store_true", help="log in full why a consumer refuses")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO if args.reasons else logging.ERROR, format="%(message)s")
    network() if args.network else operators(args.dtypes.split(","))


if __name__ == "__main__":
    main()
