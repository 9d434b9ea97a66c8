"""Encoder–decoder networks: the ``unet`` generator, and PtychoNN, the supervised baseline."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from ptycho import physics
from ptycho.config import BaselineConfig, UNetModel
from ptycho.networks.layers import (
    Decoder,
    Encoder,
    Geometry,
    Layer,
    Model,
    channels_first,
    channels_last,
    sizes,
)
from ptycho.physics import SEPARABLE, PatchMover
from ptycho.physics.waves import Waves


class UNet(Layer):
    """Encoder and two decoders; amplitude by a sigmoid, phase by ``π·tanh``, on the central N/2 × N/2.

    With ``object_big`` false the network gives one image for the group, zero-padded to the region. With
    ``object_big`` true it gives one for each pattern; they are moved to their positions and averaged where
    they overlap. Source: Hoidn, Mishra & Mehta, Scientific Reports 13 (2023) 22789.

    Args:
        settings: s, and ``object_big``.
        geometry: sizes that the executable is built for; the weights fit its N and C alone.
        seed: of the initial weights.
        mover: how patches are moved.
    """

    def __init__(
        self,
        *,
        settings: UNetModel,
        geometry: Geometry,
        seed: int,
        mover: PatchMover = SEPARABLE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.settings, self.geometry, self.mover = settings, geometry, mover
        # 32·s, 64·s, 128·s at N = 64, one more doubling for each doubling of N
        filters = [32 * settings.filters_scale * 2**i for i in range(settings.halvings(geometry.N))]
        channels = geometry.group_size if settings.object_big else 1
        self.encoder = Encoder(filters, seed, name="encoder")
        self.amplitude = Decoder(filters[1:][::-1], channels, seed + 1000, name="amplitude")
        self.phase = Decoder(filters[1:][::-1], channels, seed + 2000, name="phase")

    def build(self, input_shape):
        batch = input_shape[0]
        N = self.geometry.N
        self.encoder.build((batch, N, N, self.geometry.group_size))
        side = N // 2 ** len(self.encoder.filters)
        for decoder in (self.amplitude, self.phase):
            decoder.build((batch, side, side, self.encoder.filters[-1]))

    def call(self, x, offsets, probe):
        """Return object regions ``(B, R, R)`` complex64 from ``x (B, C, N, N)`` and ``offsets (B, C, 2)``."""
        x = tf.maximum(x, 0.0) if self.geometry.masked else x
        code = self.encoder(channels_last(x))
        amplitude = tf.sigmoid(self.amplitude(code))
        phase = math.pi * tf.tanh(self.phase(code))
        patches = physics.of_parts(amplitude * tf.cos(phase), amplitude * tf.sin(phase), probe)
        patches = physics.by_part(channels_first, patches)
        if self.settings.object_big:
            return mean_of_patches(patches, offsets, self.geometry, self.mover)
        return physics.pad_to(patches[:, 0], self.geometry.region_size)


def mean_of_patches(patches: Waves, offsets: tf.Tensor, geometry: Geometry, mover: PatchMover) -> Waves:
    """Return the mean of placed patches ``(B, C, n, n)``, n ≤ N, where they support a pixel; else zero."""
    N, R = geometry.N, geometry.region_size
    positions = offsets + (R - N) / 2
    support = physics.pad_to(tf.ones((*sizes(offsets)[:2], *sizes(patches)[2:4])), N)
    total = mover.place(physics.pad_to(patches, N), positions, (R, R))
    count = mover.place(support, positions, (R, R))
    return physics.scaled(total, 1 / tf.maximum(count, 1.0))


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
