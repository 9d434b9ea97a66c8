"""The physics-informed network: a generator of object regions, followed by the measurement."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ptycho import physics
from ptycho.losses import amplitude_mae, poisson_deviance, total_variation
from ptycho.models.layers import register


@register
class PtychoPINN(keras.Model):
    """A generator, the physics that predicts the measured amplitudes, and the loss between the two.

    Args:
        generator: layer ``(x, offsets, probe) → (B, R, R)`` complex64.
        region_size: R.
        support: even side of the central square outside which every probe it will be given is zero.
        mae_weight, nll_weight, realspace_weight: weights of amplitude MAE, Poisson deviance and total
            variation of the object.
        projective: translate with TensorFlow's projective kernel.
    """

    def __init__(
        self,
        generator: keras.layers.Layer,
        region_size: int,
        support: int,
        mae_weight: float = 1.0,
        nll_weight: float = 0.0,
        realspace_weight: float = 0.0,
        projective: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.generator, self.region_size, self.support = generator, region_size, support
        self.mae_weight, self.nll_weight = mae_weight, nll_weight
        self.realspace_weight, self.projective = realspace_weight, projective

    def build(self, input_shape):
        if not self.generator.built:  # a loaded generator is
            self.generator.build(input_shape)
        self.built = True

    def call(self, x, offsets, probe):
        """Object regions ``(B, R, R)`` complex64.

        Args:
            x: normalised amplitudes ``(B, C, N, N)`` float32.
            offsets: ``(B, C, 2)`` float32, positions relative to the region's centre.
            probe: ``s·f·P``, ``(N, N)`` complex64.
        """
        return self.generator(x, offsets, probe)

    def predict_amplitudes(self, objects, offsets, probe):
        """Normalised amplitudes ``(B, C, N, N)`` that object regions ``(B, R, R)`` would give.

        Where a pattern reaches beyond the region, the object is taken as the region's mean.
        """
        positions = offsets + (self.region_size - probe.shape[-1]) / 2
        mean = tf.stop_gradient(tf.reduce_mean(objects, axis=(1, 2), keepdims=True))
        waves = physics.exit_waves(objects - mean, positions, probe, self.support, self.projective)
        waves += physics.illuminate(mean[:, None], probe)
        return physics.detect(waves)

    def losses_of(self, batch, probe, normalisation):
        """The weighted total ``loss`` and its parts; parts of zero weight are left out.

        The object predicts the patterns it was made from and, where the batch has them, neighbouring
        patterns that the generator has not seen. Overlap settles what a single pattern leaves open: a
        pixel in the dim tail of one probe position is bright in another.
        """
        measured, offsets = batch["x"], batch["offsets"]
        objects = self(measured, offsets, probe)
        if "near_x" in batch:
            measured = tf.concat([measured, batch["near_x"]], axis=1)
            offsets = tf.concat([offsets, batch["near_offsets"]], axis=1)
        predicted = self.predict_amplitudes(objects, offsets, probe)
        parts = {
            "mae": (self.mae_weight, lambda: amplitude_mae(predicted, measured)),
            "nll": (self.nll_weight, lambda: poisson_deviance(predicted, measured, normalisation)),
            "tv": (self.realspace_weight, lambda: total_variation(objects)),
        }
        values = {name: value() for name, (weight, value) in parts.items() if weight > 0}
        return {"loss": sum(parts[name][0] * value for name, value in values.items())} | values

    def get_config(self):
        keys = ("region_size", "support", "mae_weight", "nll_weight", "realspace_weight", "projective")
        settings = {key: getattr(self, key) for key in keys}
        return (
            super().get_config()
            | settings
            | {"generator": keras.saving.serialize_keras_object(self.generator)}
        )

    @classmethod
    def from_config(cls, config):
        generator = keras.saving.deserialize_keras_object(config.pop("generator"))
        return cls(generator=generator, **config)
