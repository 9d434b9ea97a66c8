"""What networks share: the sizes that they are built for, Keras layers, and their variables as arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

PRECISION = {"dtype": "float32"}
SETTINGS = PRECISION | {"data_format": "channels_last"}  # not those of ~/.keras/keras.json


class Layer(keras.layers.Layer):
    """A Keras layer in float32, whatever dtype or policy a user or another program has set for Keras."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs | PRECISION)

    def add_complex_weight(self, shape: tuple[int, ...], deviation: float, seed: int) -> list[keras.Variable]:
        """Return real and imaginary part of a weight, normal with a standard ``deviation``."""
        normal = keras.initializers.RandomNormal
        parts = {"real": normal(0.0, deviation, seed), "imaginary": normal(0.0, deviation, seed + 1)}
        return [self.add_weight(shape=shape, name=name, initializer=part) for name, part in parts.items()]


class Model(keras.Model):
    """A Keras model in float32, as :class:`Layer`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs | PRECISION)


def conv(
    filters: int, seed: int, name: str, activation: str | None = None, zero: bool = False, side: int = 3
) -> keras.layers.Conv2D:
    """Return a 3 × 3 "same" convolution with He-normal weights drawn from ``seed``, or with zero weights."""
    kernel = keras.initializers.Zeros() if zero else keras.initializers.HeNormal(seed=seed)
    return keras.layers.Conv2D(
        filters, side, padding="same", activation=activation, kernel_initializer=kernel, name=name, **SETTINGS
    )


class MaxPool2x2(Layer):
    """2 × 2 max-pooling as elementwise maxima of four strided slices.

    ``out[i, j] = max(in[2i, 2j], in[2i, 2j+1], in[2i+1, 2j], in[2i+1, 2j+1])``; equal to
    ``MaxPooling2D(2)`` in value and gradient (ties go to the first), without the window gradient that
    XLA compiles to a slow loop. ``(B, H, W, C)`` to ``(B, H//2, W//2, C)``.
    """

    def call(self, inputs):
        """Return ``(B, H//2, W//2, C)`` of ``(B, H, W, C)``; an odd last row or column is dropped."""
        rows, cols = inputs.shape[1] // 2 * 2, inputs.shape[2] // 2 * 2
        corners = [inputs[:, i:rows:2, j:cols:2] for i in (0, 1) for j in (0, 1)]
        return tf.maximum(tf.maximum(corners[0], corners[1]), tf.maximum(corners[2], corners[3]))


class ConvStack(Layer):
    """Two 3 × 3 convolutions with ReLU; ``(B, H, W, ·)`` to ``(B, H, W, filters)``."""

    def __init__(self, filters: int, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.filters, self.seed = filters, seed
        self.first = conv(filters, seed, "first", "relu")
        self.second = conv(filters, seed + 1, "second", "relu")

    def build(self, input_shape):
        self.first.build(input_shape)
        self.second.build((*input_shape[:-1], self.filters))

    def call(self, inputs):
        """Convolve twice: ``(B, H, W, ·)`` to ``(B, H, W, filters)``."""
        return self.second(self.first(inputs))


class Encoder(Layer):
    """Convolution stacks, each followed by 2 × 2 max-pooling; the resolution falls by ``2**len(filters)``."""

    def __init__(self, filters: list[int], seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.filters, self.seed = list(filters), seed
        self.stacks = [ConvStack(n, seed + 10 * i, name=f"level_{i}") for i, n in enumerate(filters)]
        self.pool = MaxPool2x2(name="pool")

    def build(self, input_shape):
        batch, height, width, channels = input_shape
        for stack in self.stacks:
            stack.build((batch, height, width, channels))
            height, width, channels = height // 2, width // 2, stack.filters

    def call(self, inputs):
        """Encode ``(B, H, W, C)`` to ``(B, H/2^k, W/2^k, filters[-1])``, k the number of filters."""
        for stack in self.stacks:
            inputs = self.pool(stack(inputs))
        return inputs


class Decoder(Layer):
    """Convolution stacks, each followed by nearest-neighbour upsampling by two, and a last convolution."""

    def __init__(self, filters: list[int], channels: int, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.filters, self.channels, self.seed = list(filters), channels, seed
        self.stacks = [ConvStack(n, seed + 10 * i, name=f"level_{i}") for i, n in enumerate(filters)]
        self.up = keras.layers.UpSampling2D(2, name="up", **SETTINGS)
        self.last = conv(channels, seed + 10 * len(filters), "last")

    def build(self, input_shape):
        batch, height, width, channels = input_shape
        for stack in self.stacks:
            stack.build((batch, height, width, channels))
            height, width, channels = 2 * height, 2 * width, stack.filters
        self.last.build((batch, height, width, channels))

    def call(self, inputs):
        """Decode ``(B, H, W, C)`` to ``(B, 2^k·H, 2^k·W, channels)``, k the number of filters."""
        for stack in self.stacks:
            inputs = self.up(stack(inputs))
        return self.last(inputs)


def sizes(tensor: tf.Tensor) -> list[int | tf.Tensor]:
    """Return the shape of a tensor ``(B, …)``: numbers where known, as all are but for any batch size."""
    return [tf.shape(tensor)[axis] if n is None else n for axis, n in enumerate(tensor.shape)]


def channels_last(patterns: tf.Tensor) -> tf.Tensor:
    """Move channels last: ``(B, C, N, N)`` to ``(B, N, N, C)``."""
    return tf.transpose(patterns, (0, 2, 3, 1))


def channels_first(images: tf.Tensor) -> tf.Tensor:
    """Move channels first: ``(B, N, N, C)`` to ``(B, C, N, N)``."""
    return tf.transpose(images, (0, 3, 1, 2))


@dataclass(frozen=True)
class Geometry:
    """Sizes that an executable is built for.

    Attributes:
        N: side of a pattern.
        region_size: R, side of the object region that covers a group.
        group_size: C, patterns in a group.
        support: even side of the central square outside which every probe that it will be given is zero.
        exact: fractions of a pixel move the probe, exactly, rather than the object, by interpolation.
        masked: patterns may hold pixels that were not measured; they are negative.
    """

    N: int
    region_size: int
    group_size: int
    support: int
    exact: bool = False
    masked: bool = False

    def __post_init__(self) -> None:
        if self.support % 2 or not 0 < self.support <= self.N:
            raise ValueError(f"support={self.support}: must be even and at most N={self.N}")
        if self.region_size < self.N:
            raise ValueError(f"region_size={self.region_size}: must be at least N={self.N}")


Arrays = dict[str, np.ndarray]


def get_weights(owner: Any) -> Arrays:
    """Return the values of all ``variables`` of a model or an optimizer by their path."""
    return {variable.path: variable.numpy() for variable in owner.variables}


def check_weights(owner: Any, values: Arrays, what: str = "weights") -> None:
    """Raise ValueError unless ``values`` has exactly the names and shapes of the variables of ``owner``."""
    shapes = {variable.path: tuple(variable.shape) for variable in owner.variables}
    if shapes.keys() != values.keys():
        odd = sorted(shapes.keys() ^ values.keys())
        raise ValueError(f"{what} do not belong to this network: {len(odd)} names differ, first {odd[0]}")
    for path, shape in shapes.items():
        if values[path].shape != shape:
            raise ValueError(f"{what}: {path} has shape {values[path].shape}; must be {shape}")


def set_weights(owner: Any, values: Arrays, what: str = "weights") -> None:
    """Assign by path, after :func:`check_weights`: either all variables change or none."""
    check_weights(owner, values, what)
    for variable in owner.variables:
        variable.assign(values[variable.path])


def make_predict_step(model: keras.Model, compile_xla: bool) -> Callable[..., Any]:
    """Return a network as a ``tf.function``, ``(x, offsets, probe[, start]) → (B, R, R)``."""

    def predict_step(*inputs: Any) -> tf.Tensor:
        return model(*inputs)

    return tf.function(predict_step, jit_compile=compile_xla, reduce_retracing=False, autograph=False)
