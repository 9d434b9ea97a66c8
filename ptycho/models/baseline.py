"""The supervised baseline: PtychoNN on single diffraction patterns."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from ptycho import physics
from ptycho.models.layers import Decoder, Encoder, channels_first, channels_last, register


@register
class PtychoNN(keras.Model):
    """Encoder (32, 64, 128) and two decoders that give amplitude and phase of the patch.

    Source: Cherukara et al., Appl. Phys. Lett. 117 (2020) 044103. The input is the PINN's normalised
    amplitude; the amplitude output is linear, the phase ``π·tanh``.

    Args:
        N, region_size: side of a pattern, and of the region its patch is placed in.
        filters_scale: factor on the number of filters.
        seed: of the initial weights.
        projective: translate with TensorFlow's projective kernel.
    """

    def __init__(
        self,
        N: int,
        region_size: int,
        filters_scale: int,
        seed: int,
        projective: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.N, self.region_size, self.filters_scale = N, region_size, filters_scale
        self.seed, self.projective = seed, projective
        filters = [32 * filters_scale, 64 * filters_scale, 128 * filters_scale]
        self.encoder = Encoder(filters, seed, name="encoder")
        self.amplitude = Decoder(filters[::-1], 1, seed + 1000, name="amplitude")
        self.phase = Decoder(filters[::-1], 1, seed + 2000, name="phase")

    def build(self, input_shape):
        batch = input_shape[0]
        self.encoder.build((batch, self.N, self.N, 1))
        for decoder in (self.amplitude, self.phase):
            decoder.build((batch, self.N // 8, self.N // 8, self.encoder.filters[-1]))
        self.built = True

    def call(self, x, offsets, probe):
        """Object regions ``(B, R, R)`` complex64 from single patterns ``x (B, 1, N, N)``."""
        amplitude, phase = self._amplitude_and_phase(x)
        patches = tf.complex(amplitude * tf.cos(phase), amplitude * tf.sin(phase))
        positions = offsets + (self.region_size - self.N) / 2
        shape = (self.region_size, self.region_size)
        return physics.place_patches(patches, positions, shape, self.projective)

    def losses_of(self, batch, probe, normalisation):
        """MAE of amplitude and of phase, weighted by the probe's intensity; the first entry is the total."""
        amplitude, phase = self._amplitude_and_phase(batch["x"])
        weight = physics.intensity(probe)
        weight = weight / tf.reduce_mean(weight)
        amplitude_mae = tf.reduce_mean(weight * tf.abs(amplitude - tf.abs(batch["target"])))
        phase_mae = tf.reduce_mean(weight * tf.abs(phase - tf.math.angle(batch["target"])))
        return {
            "loss": amplitude_mae + phase_mae,
            "amplitude_mae": amplitude_mae,
            "phase_mae": phase_mae,
        }

    def _amplitude_and_phase(self, x):
        """Both ``(B, 1, N, N)`` float32."""
        code = self.encoder(channels_last(x))
        amplitude, phase = self.amplitude(code), math.pi * tf.tanh(self.phase(code))
        return channels_first(amplitude), channels_first(phase)

    def get_config(self):
        keys = ("N", "region_size", "filters_scale", "seed", "projective")
        return super().get_config() | {key: getattr(self, key) for key in keys}
