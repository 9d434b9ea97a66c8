"""The physics-informed network: a generator of object regions, followed by the measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from ptycho import physics
from ptycho.networks.geometry import Geometry
from ptycho.networks.layers import Model
from ptycho.networks.losses import loss_of
from ptycho.physics import SEPARABLE, PatchMover


class PtychoPINN(Model):
    """A generator, the physics that predicts the measured amplitudes, and the loss between the two.

    Args:
        generator: layer ``(x, offsets, probe) → (B, R, R)`` complex64.
        geometry: sizes that the executable is built for.
        weights: of the losses, by what :func:`ptycho.networks.losses.loss_of` knows them by.
        mover: how patches are moved.
    """

    def __init__(
        self,
        *,
        generator: keras.layers.Layer,
        geometry: Geometry,
        weights: Mapping[str, float],
        mover: PatchMover = SEPARABLE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.generator, self.geometry, self.mover = generator, geometry, mover
        self.weighted = {key: weight for key, weight in weights.items() if weight > 0}

    def build(self, input_shape):
        if not self.generator.built:
            self.generator.build(input_shape)
        self.built = True

    def call(self, x, offsets, probe, start=None):
        """Return object regions ``(B, R, R)`` complex64.

        Args:
            x: normalised amplitudes ``(B, C, N, N)`` float32.
            offsets: ``(B, C, 2)`` float32, positions relative to the region's centre.
            probe: ``s·f·P``, ``(K, N, N)`` complex64.
            start: estimates of the regions, ``(B, R, R)`` complex64, for a generator that can begin with one.
        """
        return (
            self.generator(x, offsets, probe) if start is None else self.generator(x, offsets, probe, start)
        )

    def predict_amplitudes(self, objects, offsets, probe):
        """Return normalised amplitudes ``(B, C, N, N)`` that object regions ``(B, R, R)`` would give.

        Where a pattern reaches beyond the region, the object is taken as the region's mean.
        """
        geometry = self.geometry
        mean = tf.stop_gradient(tf.reduce_mean(objects, axis=(1, 2), keepdims=True))
        around = PatchMover(
            lambda *arguments: self.mover.extract(*arguments) + mean[:, None], self.mover.place
        )
        intensity = physics.forward(
            objects - mean,
            offsets + (geometry.region_size - probe.shape[-1]) / 2,
            probe,
            exact=geometry.exact,
            support=geometry.support,
            mover=around,
        )
        return physics.detect(intensity)

    def losses_of(self, batch, probe, normalisation):
        """Return the weighted total ``loss`` and its parts; parts of zero weight are left out.

        The object predicts the patterns it was made from and, where the batch has them, neighbouring
        patterns that the generator has not seen. Overlap settles what a single pattern leaves open: a
        pixel in the dim tail of one probe position is bright in another.
        """
        measured, offsets = batch["x"], batch["offsets"]
        objects = self(measured, offsets, tf.stop_gradient(probe))
        if "near_x" in batch:
            measured = tf.concat([measured, batch["near_x"]], axis=1)
            offsets = tf.concat([offsets, batch["near_offsets"]], axis=1)
        predicted = self.predict_amplitudes(objects, offsets, probe)
        if self.geometry.masked:  # what was not measured is as predicted
            measured = tf.where(measured < 0, tf.stop_gradient(predicted), measured)
        known = {
            "predicted": predicted,
            "measured": measured,
            "objects": objects,
            "normalisation": normalisation,
        }
        losses = {key: loss_of(key) for key in self.weighted}
        values = {key: loss.value(**known) for key, loss in losses.items()}
        total = sum(self.weighted[key] * value for key, value in values.items())
        return {"loss": total} | {losses[key].column: value for key, value in values.items()}
