"""A network that denoises an object: its inputs are a fit, the gradient of its patterns, and its noise.

A convolutional network of complex features with three resolutions. Convolutions have complex kernels and no
bias, and features are bent by gates alone, real numbers made of their moduli:

    z ← z + K₂ ∗ [g(|u|) u],   u = K₁ ∗ z,   g = sigmoid(W log(1 + |u|²) + V ν + b)

So the phase of all inputs is that of the output, exactly: ``D(e^{iφ}x) = e^{iφ}D(x)``. Resolutions are halved
by means of 2 × 2 pixels and doubled by linear interpolation, which leave no checkerboard.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ptycho.networks.layers import SETTINGS, Layer, Model, set_weights, sizes

REACH = 64  # pixels, beyond which nothing counts
WEIGHTS = Path(__file__).resolve().parent.parent / "pretrained" / "prior" / "weights.npz"


class ComplexConv(Layer):
    """``u = K ∗ z`` with a complex kernel K, "same", no bias; ``(B, H, W, 2C)``, all real parts first."""

    def __init__(self, filters: int, seed: int, side: int = 3, zero: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.filters, self.seed, self.side, self.zero = filters, seed, side, zero

    def build(self, input_shape):
        count = input_shape[-1] // 2
        deviation = 0.0 if self.zero else (2 * self.side**2 * count) ** -0.5
        shape = (self.side, self.side, count, self.filters)
        self.real, self.imaginary = self.add_complex_weight(shape, deviation, self.seed)

    def call(self, inputs):
        """Convolve ``inputs (B, H, W, 2C)`` by the complex kernel: ``(B, H, W, 2·filters)``."""
        real, imaginary = self.real, self.imaginary
        kernel = tf.concat(
            [tf.concat([real, imaginary], axis=3), tf.concat([-imaginary, real], axis=3)], axis=2
        )
        return tf.nn.conv2d(inputs, kernel, strides=1, padding="SAME")


class GatedBlock(Layer):
    """One step of the text above; ``[z (B, H, W, 2C), ν (B, H, W, 1)]`` to ``(B, H, W, 2C)``."""

    def __init__(self, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seed = seed

    def build(self, input_shape):
        count = input_shape[0][-1] // 2
        self.first = ComplexConv(count, self.seed, name="first")
        self.second = ComplexConv(count, self.seed + 2, zero=True, name="second")
        self.gate = keras.layers.Conv2D(
            count,
            1,
            kernel_initializer=keras.initializers.GlorotNormal(seed=self.seed + 4),
            name="gate",
            **SETTINGS,
        )
        self.first.build(input_shape[0])
        self.second.build(input_shape[0])
        self.gate.build((*input_shape[0][:-1], count + 1))

    def call(self, inputs):
        """Return ``z + K₂ ∗ [g(|u|) u]``, ``(B, H, W, 2C)``, of ``inputs [z, ν]``; u = K₁ ∗ z."""
        z, nu = inputs
        u = self.first(z)
        real, imaginary = tf.split(u, 2, axis=-1)
        strength = tf.math.log(1 + tf.square(real) + tf.square(imaginary))
        gate = tf.sigmoid(self.gate(tf.concat([strength, nu], axis=-1)))
        return z + self.second(tf.concat([gate * real, gate * imaginary], axis=-1))


def halve(z: tf.Tensor) -> tf.Tensor:
    """Return means of 2 × 2 pixels; ``(B, H, W, C)`` to ``(B, H/2, W/2, C)``."""
    return tf.nn.avg_pool2d(z, 2, 2, "VALID")


def double(z: tf.Tensor) -> tf.Tensor:
    """Interpolate linearly, ¾ of a pixel and ¼ of its neighbour; ``(B, H, W, C)`` to ``(B, 2H, 2W, C)``."""
    rows = tf.concat([z[:, :1], z[:, :-1]], axis=1), tf.concat([z[:, 1:], z[:, -1:]], axis=1)
    z = _interleave(z, *rows, axis=1)
    columns = tf.concat([z[:, :, :1], z[:, :, :-1]], axis=2), tf.concat([z[:, :, 1:], z[:, :, -1:]], axis=2)
    return _interleave(z, *columns, axis=2)


def _interleave(z: tf.Tensor, before: tf.Tensor, after: tf.Tensor, axis: int) -> tf.Tensor:
    pairs = tf.stack([0.75 * z + 0.25 * before, 0.75 * z + 0.25 * after], axis=axis + 1)
    batch, height, width, _ = sizes(z)
    rows, columns = (2 * height, width) if axis == 1 else (height, 2 * width)
    return tf.reshape(pairs, (batch, rows, columns, z.shape[-1]))


class Denoiser(Model):
    """Network from ``[x (B, H, W, 4), ν (B, H, W, 1)]`` to the object's change ``(B, H, W, 2)``; 4 divides H,
    W.

    x: real parts of object and request, then their imaginary parts, in units of the noise σ₀; ν: the
    logarithm of each pixel's noise over σ₀. ``features``: complex ones at each resolution; ``blocks``: on the
    way down, the last those of the last resolution.
    """

    def __init__(
        self,
        seed: int = 0,
        features: Sequence[int] = (12, 24, 32),
        blocks: Sequence[int] = (1, 2, 3),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.enter = [ComplexConv(n, seed + 100 * i, name=f"enter_{i}") for i, n in enumerate(features)]
        self.down = [
            [GatedBlock(seed + 1000 + 100 * i + 10 * k, name=f"down_{i}_{k}") for k in range(count)]
            for i, count in enumerate(blocks)
        ]
        self.leave = [
            ComplexConv(n, seed + 50 + 100 * i, side=1, name=f"leave_{i}")
            for i, n in enumerate(features[:-1])
        ]
        self.up = [
            [GatedBlock(seed + 2000 + 100 * i + 10 * k, name=f"up_{i}_{k}") for k in range(max(count, 2))]
            for i, count in enumerate(blocks[:-1])
        ]
        self.last = ComplexConv(1, seed + 9, zero=True, name="last")

    def call(self, inputs):
        """Return the change ``(B, H, W, 2)`` of ``inputs`` ``[x (B, H, W, 4), ν (B, H, W, 1)]``."""
        z, nu = inputs
        kept, noises = [], []
        for level, enter in enumerate(self.enter):
            if level:
                kept.append(z)
                noises.append(nu)
                z, nu = halve(z), halve(nu)
            z = enter(z)
            for block in self.down[level]:
                z = block([z, nu])
        for level in reversed(range(len(self.leave))):
            z, nu = kept[level] + double(self.leave[level](z)), noises[level]
            for block in self.up[level]:
                z = block([z, nu])
        return self.last(z)


def new_denoiser(seed: int = 0, **sizes: Sequence[int]) -> Denoiser:
    """Return a network that changes nothing yet, of some ``sizes`` (features and blocks)."""
    network = Denoiser(seed, name="denoiser", **sizes)
    network([tf.zeros((1, 4, 4, 4)), tf.zeros((1, 4, 4, 1))])
    return network


def load_denoiser(file: Path = WEIGHTS) -> Denoiser:
    """Return the network whose weights are in ``file``, arrays by path."""
    network = new_denoiser()
    with np.load(file, allow_pickle=False) as stored:
        set_weights(network, dict(stored))
    return network
