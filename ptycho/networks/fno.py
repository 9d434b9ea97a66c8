"""The ``fno`` generator: a Fourier neural operator.

    h ← gelu( W h + b + F⁻¹ R F h ),   R: a matrix (width, width) for each of the lowest spatial frequencies

Each layer sees the whole pattern at once through the frequencies |k_row| ≤ m, 0 ≤ k_column < m. So few are
cheaper by matrix products with cosines and sines than by fast transforms, and need no complex numbers, which
XLA and every exported format can run. Source: Li et al., Fourier neural operator for parametric partial
differential equations, ICLR 2021.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.config import FourierModel
from ptycho.networks.encoder_decoders import mean_of_patches
from ptycho.networks.layers import Geometry, Layer, channels_first, channels_last, conv
from ptycho.physics import SEPARABLE, PatchMover


def waves(side: int, modes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``cos`` and ``sin`` of ``2π k x / side``, ``(side, K)`` float32, over √side."""
    angle = 2 * np.pi * np.outer(np.arange(side), modes) / side
    return (np.cos(angle) / np.sqrt(side)).astype("float32"), (np.sin(angle) / np.sqrt(side)).astype(
        "float32"
    )


class SpectralConvolution(Layer):
    """A linear map of the channels for each low frequency, ``(B, H, W, width)`` real to the same shape.

    Frequencies: ``−m … m−1`` along rows, ``0 … m−1`` along columns; the negative ones follow, as of a real
    image. Weights: real and imaginary part ``(2m, m, width, width)``.
    """

    def __init__(self, width: int, modes: int, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width, self.modes, self.seed = width, modes, seed

    def build(self, input_shape):
        shape = (2 * self.modes, self.modes, self.width, self.width)
        self.real, self.imaginary = self.add_complex_weight(shape, self.width**-0.5, self.seed)

    def call(self, inputs):
        """Mix the channels of ``inputs (B, H, W, width)`` at each low frequency; the same shape."""
        height, width = inputs.shape[1:3]
        row_cos, row_sin = waves(height, np.arange(-self.modes, self.modes))
        col_cos, col_sin = waves(width, np.arange(self.modes))
        real = tf.einsum("bhwc,wk->bhkc", inputs, col_cos)
        imaginary = -tf.einsum("bhwc,wk->bhkc", inputs, col_sin)
        real, imaginary = _turned(real, imaginary, row_cos, -row_sin, "bhkc,hj->bjkc")
        mix = "bjkc,jkcd->bjkd"
        real, imaginary = (
            tf.einsum(mix, real, self.real) - tf.einsum(mix, imaginary, self.imaginary),
            tf.einsum(mix, real, self.imaginary) + tf.einsum(mix, imaginary, self.real),
        )
        real, imaginary = _turned(real, imaginary, row_cos.T, row_sin.T, "bjkd,jh->bhkd")
        twice = np.where(np.arange(self.modes) == 0, 1, 2).astype("float32")  # ±k_column
        back = "bhkd,kw->bhwd"
        return tf.einsum(back, real, (twice * col_cos).T) - tf.einsum(back, imaginary, (twice * col_sin).T)


def _turned(
    real: tf.Tensor, imaginary: tf.Tensor, cos: np.ndarray, sin: np.ndarray, sum_: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """Real and imaginary part of a sum over one axis with ``cos + i sin``."""
    return (
        tf.einsum(sum_, real, cos) - tf.einsum(sum_, imaginary, sin),
        tf.einsum(sum_, real, sin) + tf.einsum(sum_, imaginary, cos),
    )


class FourierOperator(Layer):
    """A Fourier neural operator from patterns to patches; amplitude by a sigmoid, phase by ``π·tanh``.

    Each pattern gets a patch ``(N, N)``; they are moved to their positions and averaged where they overlap.

    Args:
        settings: width, m and number of layers.
        geometry: sizes that the executable is built for; the weights fit its C alone.
        seed: of the initial weights.
        mover: how patches are moved.
    """

    def __init__(
        self,
        *,
        settings: FourierModel,
        geometry: Geometry,
        seed: int,
        mover: PatchMover = SEPARABLE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.geometry, self.mover = geometry, mover
        w, m, layers = settings.width, settings.modes, range(settings.layers)
        self.lift = conv(w, seed, "lift", side=1)
        self.spectral = [SpectralConvolution(w, m, seed + 10 * k + 1, name=f"spectral_{k}") for k in layers]
        self.local = [conv(w, seed + 10 * k + 3, f"local_{k}", side=1) for k in layers]
        self.hidden = conv(2 * w, seed + 1000, "hidden", "gelu", side=1)
        self.last = conv(2 * geometry.group_size, seed + 1001, "last", side=1)

    def build(self, input_shape):
        batch, N, C, w = input_shape[0], self.geometry.N, self.geometry.group_size, self.lift.filters
        self.lift.build((batch, N, N, C + 2))
        for layer in (*self.spectral, *self.local, self.hidden):
            layer.build((batch, N, N, w))
        self.last.build((batch, N, N, 2 * w))

    def call(self, x, offsets, probe):
        """Return object regions ``(B, R, R)`` complex64 from ``x (B, C, N, N)`` and ``offsets (B, C, 2)``."""
        x = tf.maximum(x, 0.0) if self.geometry.masked else x
        features = channels_last(x)
        axis = np.linspace(-1, 1, self.geometry.N, dtype="float32")
        places = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
        places = features[..., :1] * 0 + places  # of every group
        features = self.lift(tf.concat([features, places], axis=-1))
        for k, (spectral, local) in enumerate(zip(self.spectral, self.local, strict=True)):
            features = spectral(features) + local(features)
            features = features if k == len(self.local) - 1 else tf.nn.gelu(features)
        amplitude, phase = tf.split(self.last(self.hidden(features)), 2, axis=-1)
        amplitude, phase = tf.sigmoid(amplitude), math.pi * tf.tanh(phase)
        patches = physics.of_parts(amplitude * tf.cos(phase), amplitude * tf.sin(phase), probe)
        patches = physics.by_part(channels_first, patches)
        return mean_of_patches(patches, offsets, self.geometry, self.mover)
