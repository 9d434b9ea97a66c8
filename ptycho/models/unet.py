"""The ``unet`` generator: the published PtychoPINN encoder with two decoders."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from ptycho import physics
from ptycho.models.layers import Decoder, Encoder, channels_first, channels_last, register


def encoder_filters(N: int, scale: int) -> list[int]:
    """Filters of the encoder: 32·s, 64·s, 128·s at N = 64, one more doubling for each doubling of N."""
    levels = max(2, int(math.log2(N)) - 3)
    return [32 * scale * 2**i for i in range(levels)]


@register
class UNet(keras.layers.Layer):
    """Encoder and two decoders; amplitude by a sigmoid, phase by ``π·tanh``, on the central N/2 × N/2.

    With ``object_big`` false the network gives one image for the group, zero-padded to the region. With
    ``object_big`` true it gives one for each pattern; they are moved to their positions and averaged where
    they overlap. Source: Hoidn, Mishra & Mehta, Scientific Reports 13 (2023) 22789.

    Args:
        N, region_size, group_size: N, R, C.
        filters_scale: s.
        object_big: one patch per pattern.
        seed: of the initial weights.
        projective: translate with TensorFlow's projective kernel.
    """

    def __init__(
        self,
        N: int,
        region_size: int,
        group_size: int,
        filters_scale: int,
        object_big: bool,
        seed: int,
        projective: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.N, self.region_size, self.group_size = N, region_size, group_size
        self.filters_scale, self.object_big, self.seed = filters_scale, object_big, seed
        self.projective = projective
        filters = encoder_filters(N, filters_scale)
        channels = group_size if object_big else 1
        self.encoder = Encoder(filters, seed, name="encoder")
        self.amplitude = Decoder(filters[1:][::-1], channels, seed + 1000, name="amplitude")
        self.phase = Decoder(filters[1:][::-1], channels, seed + 2000, name="phase")

    def build(self, input_shape):
        batch = input_shape[0]
        self.encoder.build((batch, self.N, self.N, self.group_size))
        side = self.N // 2 ** len(self.encoder.filters)
        for decoder in (self.amplitude, self.phase):
            decoder.build((batch, side, side, self.encoder.filters[-1]))

    def call(self, x, offsets, probe):
        """Object regions ``(B, R, R)`` complex64 from ``x (B, C, N, N)`` and ``offsets (B, C, 2)``."""
        code = self.encoder(channels_last(x))
        amplitude = tf.sigmoid(self.amplitude(code))
        phase = math.pi * tf.tanh(self.phase(code))
        patches = channels_first(tf.complex(amplitude * tf.cos(phase), amplitude * tf.sin(phase)))
        if self.object_big:
            return self._assemble(physics.pad_to(patches, self.N), offsets)
        return physics.pad_to(patches[:, 0], self.region_size)

    def _assemble(self, patches, offsets):
        """Mean of placed patches ``(B, C, N, N)`` over those that support a pixel; zero where none does."""
        positions = offsets + (self.region_size - self.N) / 2
        shape = (self.region_size, self.region_size)
        support = physics.pad_to(tf.ones((*patches.shape[:2], self.N // 2, self.N // 2)), self.N)
        total = physics.place_patches(patches, positions, shape, self.projective)
        count = physics.place_patches(support, positions, shape, self.projective)
        return physics.scaled(total, 1 / tf.maximum(count, 1.0))

    def get_config(self):
        keys = (
            "N",
            "region_size",
            "group_size",
            "filters_scale",
            "object_big",
            "seed",
            "projective",
        )
        return super().get_config() | {key: getattr(self, key) for key in keys}
