"""StableHLO text, parsed, compiled and run by TensorFlow: what another compiler is given."""

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

TEXT = 4  # version of XlaCallModule that takes a module as text


def run_stablehlo(text, inputs, outputs):
    """Return what StableHLO ``text`` computes; ``outputs`` are their shapes and dtypes."""
    shapes, dtypes = zip(*outputs, strict=True)
    found = gen_xla_ops.xla_call_module(
        args=list(map(tf.constant, inputs)),
        version=TEXT,
        module=text.encode(),
        Sout=list(shapes),
        Tout=list(dtypes),
        platforms=["CPU"],
    )
    return [value.numpy() for value in found]
