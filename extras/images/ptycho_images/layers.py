"""Keras layers over the operators."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ptycho.xla.resample import translate
from ptycho_images.noise import standard_normal


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
