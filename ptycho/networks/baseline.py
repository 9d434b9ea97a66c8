"""The supervised baseline: PtychoNN on single diffraction patterns."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from ptycho import physics
from ptycho.config import BaselineConfig
from ptycho.networks.geometry import Geometry
from ptycho.networks.layers import Decoder, Encoder, Model, channels_first, channels_last
from ptycho.physics import SEPARABLE, PatchMover


class PtychoNN(Model):
    """Encoder (32, 64, 128) and two decoders that give amplitude and phase of the patch.

    Source: Cherukara et al., Appl. Phys. Lett. 117 (2020) 044103. The input is the PINN's normalised
    amplitude; the amplitude output is linear, the phase ``π·tanh``.

    Args:
        settings: factor on the number of filters.
        geometry: sizes that the executable is built for; the weights fit its N alone.
        seed: of the initial weights.
        mover: how patches are moved.
    """

    def __init__(
        self,
        *,
        settings: BaselineConfig,
        geometry: Geometry,
        seed: int,
        mover: PatchMover = SEPARABLE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.geometry, self.mover = geometry, mover
        filters = [settings.filters_scale * n for n in (32, 64, 128)]
        self.encoder = Encoder(filters, seed, name="encoder")
        self.amplitude = Decoder(filters[::-1], 1, seed + 1000, name="amplitude")
        self.phase = Decoder(filters[::-1], 1, seed + 2000, name="phase")

    def build(self, input_shape):
        batch = input_shape[0]
        N = self.geometry.N
        self.encoder.build((batch, N, N, 1))
        for decoder in (self.amplitude, self.phase):
            decoder.build((batch, N // 8, N // 8, self.encoder.filters[-1]))
        self.built = True

    def call(self, x, offsets, probe):
        """Return object regions ``(B, R, R)`` complex64 from single patterns ``x (B, 1, N, N)``."""
        amplitude, phase = self._amplitude_and_phase(x)
        patches = physics.of_parts(amplitude * tf.cos(phase), amplitude * tf.sin(phase), probe)
        N, R = self.geometry.N, self.geometry.region_size
        return self.mover.place(patches, offsets + (R - N) / 2, (R, R))

    def losses_of(self, batch, probe, normalisation):
        """Return the MAE of amplitude and phase, weighted by the probe's intensity; the total comes first."""
        amplitude, phase = self._amplitude_and_phase(batch["x"])
        weight = physics.intensity(probe)
        weight = weight / tf.reduce_mean(weight)
        amplitude_mae = tf.reduce_mean(weight * tf.abs(amplitude - tf.abs(batch["target"])))
        phase_mae = tf.reduce_mean(weight * tf.abs(phase - tf.math.angle(batch["target"])))
        return {"loss": amplitude_mae + phase_mae, "amplitude_mae": amplitude_mae, "phase_mae": phase_mae}

    def _amplitude_and_phase(self, x):
        """Both ``(B, 1, N, N)`` float32."""
        code = self.encoder(channels_last(x))
        amplitude, phase = self.amplitude(code), math.pi * tf.tanh(self.phase(code))
        return channels_first(amplitude), channels_first(phase)
