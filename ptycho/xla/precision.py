"""The arithmetic the operators agree on: at least float32, complex numbers by parts.

**Where XLA must not fuse** (:func:`materialised`): XLA merges a cheap computation into everything that reads
its result. Where that is a gather, a chain of two gathers reads every pixel of the first several times, and a
gradient that begins with gathers of the upstream computes the loss and the whole forward pass anew for each
of its reads. ``XlaOptimizationBarrier`` does not help, since the barrier is removed before the last fusions.
A conditional does: its branches and operands are computations of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

INTEGER_DTYPES = (tf.uint8, tf.uint16, tf.int8, tf.int16, tf.int32, tf.int64)
IMAGE_DTYPES = (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128)


def compute_dtype(dtype: tf.DType) -> tf.DType:
    """Return the real dtype in which ``dtype`` is computed: float64 for double precision, else float32."""
    return tf.float64 if dtype.real_dtype == tf.float64 else tf.float32


def check_image_dtype(dtype: tf.DType, argument: str, allowed: Sequence[tf.DType] = IMAGE_DTYPES) -> None:
    """Raise ``ValueError`` unless ``dtype`` is ``allowed``, by default floating or complex."""
    if dtype not in allowed:
        names = ", ".join(d.name for d in allowed)
        raise ValueError(f"{argument} has dtype {dtype.name}; allowed: {names}. Cast it first.")


def by_parts(
    operator: Callable[[tf.Tensor, float], tf.Tensor], images: tf.Tensor, fill_value: complex = 0.0
) -> tf.Tensor:
    """Apply a real ``operator(part, fill)`` to the parts of ``images (…)`` and ``fill_value``.

    Computed in at least float32; the result has the dtype of ``images``.
    """
    fill = complex(fill_value)
    if images.dtype.is_complex:
        return tf.complex(
            operator(tf.math.real(images), fill.real), operator(tf.math.imag(images), fill.imag)
        )
    return tf.cast(operator(tf.cast(images, compute_dtype(images.dtype)), fill.real), images.dtype)


def materialised(value: tf.Tensor, *witnesses: tf.Tensor) -> tf.Tensor:
    """Return ``value (…)``; in a compiled function it is computed once and stored, as is its upstream
    gradient.

    Outside ``tf.function(jit_compile=True)`` nothing is added to the graph.

    Args:
        value: any tensor.
        witnesses: real tensors, of whose first nine numbers at least one is not known before run time:
            XLA evaluates what follows from constants, and then the barrier is gone.
    """
    if tf.executing_eagerly() or not control_flow_util.GraphOrParentsInXlaContext(
        tf.compat.v1.get_default_graph()
    ):
        return value
    numbers = tf.concat([tf.cast(tf.reshape(w, [-1])[:9], tf.float32) for w in witnesses], 0)
    bits = tf.bitcast(numbers, tf.int32)
    true = tf.bitwise.bitwise_or(tf.reduce_sum(bits), 1) != 0  # always, but no pass of XLA knows

    @tf.custom_gradient
    def stored(value: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        return _chosen(true, value), lambda upstream: _chosen(true, upstream)

    return stored(value)


def _chosen(true: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.cond(true, lambda: value, lambda: tf.zeros_like(value)), value.shape)
