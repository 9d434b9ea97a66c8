"""The physics-informed network: a generator of object regions, the measurement, and the losses.

None of the losses sees the true object. To add one: a function here, an entry in :data:`LOSSES`, and its
weight among the keys of a run (:class:`ptycho.config.TrainedConfig`), under the same name. One from outside
is named by the key ``loss``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ptycho import physics
from ptycho.config.own_code import is_import_path, load
from ptycho.networks.layers import Geometry, Model
from ptycho.physics import SEPARABLE, PatchMover
from ptycho.physics.deviance import u_minus_log1p


def amplitude_mae(predicted: tf.Tensor, measured: tf.Tensor) -> tf.Tensor:
    """Return the mean of ``|x̂ − x|`` over normalised amplitudes ``(…)``; scalar."""
    return tf.reduce_mean(tf.abs(predicted - measured))


def poisson_deviance(
    predicted: tf.Tensor, measured: tf.Tensor, normalisation: tf.Tensor, floor: float = 1e-6
) -> tf.Tensor:
    """Return the mean per pixel of ``2[λ − n + n·log(n/λ)]``, of counts ``n = (x/f)²``, ``λ = (x̂/f)²``.

    With ``u = (λ − n)/n = (x̂ − x)(x̂ + x)/x²`` it is ``2n·[u − log(1 + u)]``: the difference of counts is
    taken in amplitudes, and the bracket without cancellation, so that float32 holds at 10⁸ counts in a
    pixel. Where ``n = 0`` it is ``2λ``. It is about one where the model fits to the noise.

    Args:
        predicted: ``x̂ ≥ 0``, ``(…)`` float32.
        measured: ``x ≥ 0``, the same shape.
        normalisation: ``f``, scalar: amplitude of one count.
        floor: predicted counts of a pixel, at least.
    """
    scale = 1 / normalisation
    rate = tf.square(predicted * scale) + tf.constant(floor, predicted.dtype)
    counts = tf.square(measured * scale)
    positive = counts > 0.25  # counts are whole numbers
    safe = tf.where(positive, measured, tf.ones_like(measured))
    u = (predicted - safe) * (predicted + safe) / tf.square(safe)
    u = tf.where(positive, u, tf.zeros_like(u))
    ratio = tf.where(positive, rate / tf.maximum(counts, 0.25), tf.ones_like(rate))
    return tf.reduce_mean(2 * tf.where(positive, counts * u_minus_log1p(u, ratio), rate))


def total_variation(objects: tf.Tensor) -> tf.Tensor:
    """Return the mean of ``|O[i+1, j] − O[i, j]| + |O[i, j+1] − O[i, j]|`` of complex ``(B, H, W)``."""
    rows = tf.abs(objects[:, 1:, :] - objects[:, :-1, :])
    cols = tf.abs(objects[:, :, 1:] - objects[:, :, :-1])
    return tf.reduce_mean(rows) + tf.reduce_mean(cols)


class Loss(NamedTuple):
    """A loss under its name in ``history.csv``; ``value`` is called by keyword.

    It is given ``predicted`` and ``measured`` amplitudes ``(B, C, N, N)``, the ``objects (B, R, R)`` and the
    ``normalisation`` f, and gives a scalar.
    """

    column: str
    value: Callable[..., tf.Tensor]


LOSSES = {  # by the configuration's key of their weight
    "mae_weight": Loss("mae", lambda predicted, measured, **_: amplitude_mae(predicted, measured)),
    "nll_weight": Loss(
        "nll",
        lambda predicted, measured, normalisation, **_: poisson_deviance(predicted, measured, normalisation),
    ),
    "realspace_weight": Loss("tv", lambda objects, **_: total_variation(objects)),
}


def loss_of(key: str) -> Loss:
    """Return the entry of :data:`LOSSES`, or the user's own loss that an import path names."""
    return Loss("own", load("loss", key)) if is_import_path(key) else LOSSES[key]


class PtychoPINN(Model):
    """A generator, the physics that predicts the measured amplitudes, and the loss between the two.

    Args:
        generator: layer ``(x, offsets, probe) → (B, R, R)`` complex64.
        geometry: sizes that the executable is built for.
        weights: of the losses, by what :func:`ptycho.networks.pinn.loss_of` knows them by.
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
