"""The arithmetic the operators agree on: at least float32, complex numbers by parts, products never in TF32.

Matrix units of recent GPUs round float32 factors to 11 significant bits (TF32) unless the whole program
forbids it. A resampled image would then carry errors of 5·10⁻⁴ of its largest pixel. Where that may
happen, each factor is split into two numbers of 11 bits, a = a₁ + a₂, and

    a·b ≈ a₁·b₁ + a₁·b₂ + a₂·b₁

is one product with three times the inner length whose factors survive the rounding unchanged; what is left
out is of the order of 2⁻²⁴, the rounding of float32 itself.

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


def matmul(a: tf.Tensor, b: tf.Tensor, transpose_a: bool = False, transpose_b: bool = False) -> tf.Tensor:
    """Return ``tf.matmul`` of ``(…, m, k)`` and ``(…, k, n)``, to float32 where matrix units would use TF32.

    Whether such a device is present is read when the function is traced.
    """
    if a.dtype != tf.float32 or not _tf32_may_run():
        return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    a = tf.linalg.matrix_transpose(a) if transpose_a else a
    b = tf.linalg.matrix_transpose(b) if transpose_b else b
    return split_matmul(*_with_common_batch(a, b))


@tf.custom_gradient
def split_matmul(a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    """Return ``a·b`` from factors of 11 significant bits, see the head of this file.

    Args:
        a: ``(…, m, k)`` float32, finite.
        b: ``(…, k, n)`` float32, finite, with the same leading axes.
    """
    a1, b1 = _leading_bits(a), _leading_bits(b)
    a2, b2 = _leading_bits(a - a1), _leading_bits(b - b1)
    product = tf.matmul(tf.concat([a1, a1, a2], axis=-1), tf.concat([b1, b2, b1], axis=-2))

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return (
            split_matmul(upstream, tf.linalg.matrix_transpose(b)),
            split_matmul(tf.linalg.matrix_transpose(a), upstream),
        )

    return product, gradient


def _leading_bits(x: tf.Tensor) -> tf.Tensor:
    """Round float32 to the 11 significant bits that TF32 holds."""
    bits = tf.bitcast(x, tf.int32) + 0x1000
    return tf.bitcast(tf.bitwise.bitwise_and(bits, ~0x1FFF), tf.float32)


def _with_common_batch(a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    batch = tf.broadcast_dynamic_shape(tf.shape(a)[:-2], tf.shape(b)[:-2])
    return tuple(tf.broadcast_to(x, tf.concat([batch, tf.shape(x)[-2:]], axis=0)) for x in (a, b))


def _tf32_may_run() -> bool:
    """True where a visible GPU has TF32 units (compute capability 8 or later) and they are enabled."""
    if not tf.config.experimental.tensor_float_32_execution_enabled():
        return False
    details = (tf.config.experimental.get_device_details(g) for g in tf.config.get_visible_devices("GPU"))
    return any(d.get("compute_capability", (8, 0))[0] >= 8 for d in details)


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
