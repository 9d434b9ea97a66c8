"""Where XLA must not fuse: a value that is stored instead of computed again by each of its readers.

XLA merges a cheap computation into everything that reads its result. Where that is a gather, a chain of two
gathers reads every pixel of the first several times, and a gradient that begins with gathers of the upstream
computes the loss and the whole forward pass anew for each of its reads. ``XlaOptimizationBarrier`` does not
help, since the barrier is removed before the last fusions. A conditional does: its branches and operands are
computations of their own.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.ops import control_flow_util


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
