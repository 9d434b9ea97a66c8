"""Keras layers over the operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptycho.xla.resample import translate

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry2x32(
    key: tuple[tf.Tensor, tf.Tensor], counter: tuple[tf.Tensor, tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return two random words for each counter: the same with and without XLA, from whole-number arithmetic.

    TensorFlow's stateless generators give other numbers once compiled, ``alg="philox"`` included, unless the
    seed is a constant and the numbers are folded into the graph. Threefry-2x32 with 20 rounds (Salmon,
    Moraes, Dror, Shaw 2011: "Parallel random numbers: as easy as 1, 2, 3") is a few additions, rotations and
    exclusive ors of 32-bit words.

    Args:
        key: two uint32 words.
        counter: two uint32 words of any shape that broadcasts.

    Returns:
        two uint32 tensors ``(…)`` of the broadcast shape.
    """
    keys = (*key, tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(*key), tf.constant(_PARITY, tf.uint32)))
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for block in range(5):
        for bits in _ROTATIONS[block % 2]:
            x = x + y
            y = tf.bitwise.bitwise_xor(_rotate_left(y, bits), x)
        x = x + keys[(block + 1) % 3]
        y = y + keys[(block + 2) % 3] + tf.constant(block + 1, tf.uint32)
    return x, y


def _rotate_left(word: tf.Tensor, bits: int) -> tf.Tensor:
    left = tf.bitwise.left_shift(word, tf.constant(bits, tf.uint32))
    return tf.bitwise.bitwise_or(left, tf.bitwise.right_shift(word, tf.constant(32 - bits, tf.uint32)))


def standard_normal(shape: Sequence[int] | tf.Tensor, seed: int, step: tf.Tensor) -> tf.Tensor:
    """Return standard normal float32 numbers, by Box and Muller's method.

    Args:
        shape: shape of the result.
        seed: key of the sequence, its low 64 bits.
        step: ``()``, whole number below 2³²; another step gives other numbers.
    """
    words = (tf.constant((seed >> shift) & 0xFFFFFFFF, tf.uint32) for shift in (0, 32))
    index = tf.cast(tf.range(tf.reduce_prod(shape)), tf.uint32)
    x, y = threefry2x32(tuple(words), (tf.cast(step, tf.uint32), index))
    radius = tf.sqrt(-2 * tf.math.log(_unit(x)))
    return tf.reshape(radius * tf.cos(2 * np.pi * _unit(y)), shape)


def _unit(word: tf.Tensor) -> tf.Tensor:
    """A float32 number in (0, 1] from the high 24 bits."""
    high = tf.bitwise.right_shift(word, tf.constant(8, tf.uint32))
    return (tf.cast(high, tf.float32) + 0.5) * 2.0**-24


@keras.saving.register_keras_serializable(package="ptycho")
class Translation(keras.layers.Layer):
    """Sub-pixel translation of images, with an optional position jitter while training.

    ``layer([images, shifts], training=…)`` is ``translate(images, shifts + jitter·z)`` in training, where
    ``z (B, 2)`` is standard normal, and ``translate(images, shifts)`` otherwise. The numbers depend on
    ``seed`` and on how many training calls there were, and are the same with and without XLA. The count is a
    non-trainable weight, saved with the model, so that a resumed training continues the sequence.

    Inputs: images ``(B, H, W)`` or ``(B, H, W, C)`` floating or complex, and shifts ``(B, 2)`` (row, col) in
    pixels. Nothing is cast by the dtype policy. Output: the shape and dtype of the images.

    Args:
        jitter: standard deviation of the position noise in pixels, finite and not negative.
        fill_value: real value outside the image.
        seed: seed of the noise.

    Raises:
        ValueError: a jitter that is negative or not finite, or not two inputs.
    """

    def __init__(self, jitter: float = 0.0, fill_value: float = 0.0, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        if not 0 <= jitter < float("inf"):
            raise ValueError(f"jitter is {jitter}; allowed: a finite number of pixels, at least 0.")
        self.jitter, self.fill_value, self.seed = float(jitter), float(fill_value), int(seed)
        self.calls: Any = None

    def build(self, input_shape: Any) -> None:
        if self.jitter:
            self.calls = self.add_weight(
                shape=(), dtype="int64", initializer="zeros", trainable=False, name="training_calls"
            )

    def call(self, inputs: Any, training: bool | None = None) -> tf.Tensor:
        """Translate images ``(B, H, W[, C])`` by shifts ``(B, 2)`` (row, col) in pixels, with jitter in
        training.
        """
        if len(inputs) != 2:
            raise ValueError(f"inputs has {len(inputs)} elements; allowed: two, [images, shifts].")
        images, shifts = inputs
        if training and self.jitter:
            shifts = tf.cast(shifts, tf.float32) + self._noise(tf.shape(shifts))
        return translate(images, shifts, self.fill_value)

    def _noise(self, shape: tf.Tensor) -> tf.Tensor:
        step = tf.convert_to_tensor(self.calls)
        self.calls.assign(step + 1)
        return self.jitter * standard_normal(shape, self.seed, step)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape[0]

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "jitter": self.jitter,
            "fill_value": self.fill_value,
            "seed": self.seed,
        }
