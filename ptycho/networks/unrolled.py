"""The ``unrolled`` generator: a few physics iterations, each corrected by a small residual CNN."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from ptycho import physics
from ptycho.config import UnrolledModel
from ptycho.networks.layers import Geometry, Layer, conv, sizes
from ptycho.physics import SEPARABLE, PatchMover


class ResidualCNN(Layer):
    """Correction of an object estimate, computed on a grid that is ``coarsening`` times coarser.

    ``(B, h, h, 5)`` features → space-to-depth → 3 × 3 convolutions of ``width`` channels with ``blocks``
    residual blocks → depth-to-space → ``(B, h, h, 2)``, real and imaginary part. An h that the coarsening
    does not divide is padded and cropped. The last convolution starts at zero: untrained, this is the bare
    physics iteration.

    Called, it gives its hidden channels, too. With ``recalls`` it adds a 1 × 1 convolution of those that
    another one had, which starts at zero, to its first layer.
    """

    def __init__(
        self, width: int, blocks: int, coarsening: int, seed: int, recalls: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.width, self.blocks, self.coarsening, self.seed = width, blocks, coarsening, seed
        self.head = conv(width, seed, "head")
        self.recall = conv(width, seed, "recall", zero=True, side=1) if recalls else None
        self.first = [conv(width, seed + 2 * i + 1, f"first_{i}", "relu") for i in range(blocks)]
        self.second = [conv(width, seed + 2 * i + 2, f"second_{i}") for i in range(blocks)]
        self.tail = conv(2 * coarsening**2, seed, "tail", zero=True)

    def build(self, input_shape):
        batch, height, width, channels = input_shape
        inner = (batch, *(-(-side // self.coarsening) for side in (height, width)), self.width)
        self.head.build((*inner[:3], self.coarsening**2 * channels))
        for layer in (*([self.recall] if self.recall else []), *self.first, *self.second, self.tail):
            layer.build(inner)

    def call(self, features, recalled=None):
        """Return the correction ``(B, h, h, 2)`` and the hidden channels, on the coarse grid."""
        height, width = features.shape[1:3]
        hidden = self.head(self._coarsen(features))
        if self.recall is not None:
            hidden += self.recall(recalled)
        hidden = tf.nn.relu(hidden)
        for first, second in zip(self.first, self.second, strict=True):
            hidden = tf.nn.relu(hidden + second(first(hidden)))
        return self._refine(self.tail(hidden))[:, :height, :width], hidden

    def _coarsen(self, images):
        """Space-to-depth, after zeros behind the last row and column where the coarsening needs them."""
        if self.coarsening == 1:
            return images
        rows, cols = (-side % self.coarsening for side in images.shape[1:3])
        return tf.nn.space_to_depth(tf.pad(images, [[0, 0], [0, rows], [0, cols], [0, 0]]), self.coarsening)

    def _refine(self, images):
        return images if self.coarsening == 1 else tf.nn.depth_to_space(images, self.coarsening)


class PlacedProbe(NamedTuple):
    """Whole positions of the probe, the probe moved by the rest, and ``Σ_k |P_k|²``."""

    positions: tf.Tensor
    probe: tf.Tensor
    illumination: tf.Tensor


class Unrolled(Layer):
    """Unrolled physics iteration.

    The object starts as a constant: the mean amplitude that the energy of the group's patterns implies,
    ``√(Σx² / Σ|P|²)`` per pattern, times a trainable level. Each of K stages computes the simultaneous
    object update of difference-map and PIE-type solvers,

        g = Σ_k P̄_k (F⁻¹[x_k Ψ_k / √(|Ψ_k|² + ε₁²)] − ψ_k) / (Σ_k |P_k|² + ε₂ max Σ_k |P_k|²),

    adds it, and adds the output of a :class:`ResidualCNN` fed with the object, g and the illumination, each
    scaled to order one (which trains several times faster than the bare numbers do). All
    this happens on the central part of the region that the probe can reach; outside it the start stands.
    With ``settings.misfit`` the CNNs also see how well the object explains the patterns:

        log √(Σ_k |F⁻¹[…] − ψ_k|² / Σ_k x_k² + 10⁻⁸) / 4,

    from which they learn what noise there is, and how far it is to go. With ``settings.memory`` each CNN is
    given the hidden channels of the one before, from which it can learn a momentum, and more. A ``start``
    that is given takes the place of the constant, where it is not zero.
    Sources: Thibault et al., Ultramicroscopy 109 (2009), eq. 8; Maiden & Rodenburg, Ultramicroscopy 109
    (2009), eq. 6 (which divides by max |P|² instead).

    No weight depends on N, R or C: those of one training serve any scan.

    Args:
        settings: K and the size of each stage's CNN, which has its own weights; the grid that the CNNs work
            on; ε₂, a weakly illuminated pixel being corrected the less the larger it is.
        geometry: sizes that the executable is built for.
        seed: of the initial weights.
        mover: how patches are moved.
    """

    def __init__(
        self,
        *,
        settings: UnrolledModel,
        geometry: Geometry,
        seed: int,
        mover: PatchMover = SEPARABLE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.settings, self.geometry, self.mover = settings, geometry, mover
        size = (settings.width, settings.blocks, settings.coarsening)
        self.cnns = [
            ResidualCNN(*size, seed + 100 * k, settings.memory and k > 0, name=f"stage_{k}")
            for k in range(settings.stages)
        ]

    @property
    def side(self) -> int:
        """Side of the part of the region that the probe can reach."""
        return self.geometry.support + self.geometry.region_size - self.geometry.N

    def build(self, input_shape):
        self.level = self.add_weight(shape=(), initializer="ones", name="level")
        for cnn in self.cnns:
            cnn.build((input_shape[0], self.side, self.side, 5 + self.settings.misfit))

    def call(self, x, offsets, probe, start=None):
        """Return object regions ``(B, R, R)`` complex64.

        Args:
            x: ``(B, C, N, N)``, normalised amplitudes.
            offsets: ``(B, C, 2)``.
            probe: ``(K, N, N)``, its modes, or for each group ``(B, 1, K, N, N)``.
            start: ``(B, R, R)`` complex64, an estimate of the objects, zero where there is none. None: none.
        """
        placed = self._placed(offsets, probe)
        initial = self._begin(x, probe, start)
        objects = inner = physics.crop_to(initial, self.side)
        hidden = None
        for cnn in self.cnns:
            change, g = self._step(objects, x, placed)
            objects = objects + g
            features = self._features(objects, g, placed.illumination, self._misfit(change, x))
            correction, hidden = cnn(features, hidden)
            correction *= 0.3  # of the order of an object; the CNN gives numbers of order one
            objects = objects + physics.of_parts(correction[..., 0], correction[..., 1], g)
        return initial + physics.pad_to(objects - inner, self.geometry.region_size)

    def iterate(self, x, offsets, probe, start, count):
        """Return the objects after ``count`` updates g alone: what a solver makes of patterns and noise.

        Arguments and result as of the call.
        """
        placed = self._placed(offsets, probe)
        initial = self._begin(x, probe, start)
        inner = physics.crop_to(initial, self.side)
        objects = tf.while_loop(
            lambda k, _: k < count,
            lambda k, objects: (k + 1, objects + self._step(objects, x, placed)[1]),
            (tf.constant(0), inner),
        )[1]
        return initial + physics.pad_to(objects - inner, self.geometry.region_size)

    def _placed(self, offsets, probe):
        positions = offsets + (self.side - self.geometry.N) / 2
        if self.geometry.exact:
            positions, probe = physics.split_positions(positions, probe)
        return PlacedProbe(positions, probe, self._illumination(positions, probe))

    def _step(self, objects, x, placed):
        """How the exit waves change, and g."""
        change = self._change(objects, physics.uncentre(x), placed.positions, placed.probe)
        return change, self._update(change, placed.positions, placed.probe, placed.illumination)

    def _begin(self, x, probe, start):
        """``start``, and the constant where it is zero, ``(B, R, R)``."""
        R = self.geometry.region_size
        shape = (sizes(x)[0], R, R)
        initial = physics.by_part(lambda part: tf.broadcast_to(part, shape), self._level(x, probe))
        return initial if start is None else tf.where(start == 0, initial, start)

    def _level(self, x, probe):
        """The constant, ``(B, 1, 1)``."""
        energy = tf.reduce_mean(self._energy(x), axis=1)  # (B,)
        power = physics.over_modes(physics.intensity(probe))
        power = tf.reshape(tf.reduce_sum(power, axis=(-2, -1)), [-1])  # (1,), or (B,): a probe for each group
        level = self.level * tf.sqrt(energy / power)
        return physics.of_parts(level, tf.zeros_like(level), probe)[:, None, None]

    def _energy(self, x):
        """``Σx²`` of each pattern, ``(B, C)``."""
        return tf.reduce_sum(tf.square(tf.maximum(x, 0.0) if self.geometry.masked else x), axis=(2, 3))

    def _illumination(self, positions, probe):
        """``Σ_k |P_k|²``, ``(B, side, side)`` float32."""
        N, support = self.geometry.N, self.geometry.support
        intensity = physics.over_modes(physics.intensity(physics.crop_to(probe, support)))
        intensity = tf.broadcast_to(intensity, (*sizes(positions)[:2], support, support))
        return self.mover.place(intensity, positions + (N - support) / 2, (self.side, self.side))

    def _change(self, objects, measured, positions, probe):
        """How exit waves change when they take the measured amplitudes, ``(B, C, K, support, support)``."""
        waves = physics.illuminated_waves(objects, positions, probe, self.geometry.support, self.mover)
        return physics.modulus_change(waves, measured, self.geometry.masked)

    def _update(self, change, positions, probe, illumination):
        """``g`` on the part of the region that the probe can reach, ``(B, side, side)`` complex64."""
        shape = (self.side, self.side)
        change = physics.back_project(change, positions, probe, shape, self.geometry.support, self.mover)
        brightest = tf.reduce_max(illumination, axis=(1, 2), keepdims=True)
        return physics.scaled(change, 1 / (illumination + self.settings.illumination_floor * brightest))

    def _misfit(self, change, x):
        """Return the CNNs' input of the misfit, ``(B, 1, 1)``; None: it is not used."""
        if not self.settings.misfit:
            return None
        square = physics.intensity(change)
        left = tf.reduce_sum(square, axis=tuple(range(1, square.shape.rank)))
        share = tf.sqrt(left / tf.reduce_sum(self._energy(x), axis=1) + 1e-4**2)
        return tf.math.log(share)[:, None, None] / 4

    def _features(self, objects, g, illumination, misfit):
        """Return the input of a CNN, ``(B, side, side, 5)`` or one more: O, g, illumination, misfit."""
        illumination = illumination / tf.reduce_max(illumination, axis=(1, 2), keepdims=True)
        objects, g = 4.0 * objects, 30.0 * g  # of order 0.3 and 0.03: the CNN takes numbers of order one
        parts = [part(waves) for waves in (objects, g) for part in (physics.real, physics.imag)]
        extra = [] if misfit is None else [tf.broadcast_to(misfit, sizes(illumination))]
        return tf.stack([*parts, illumination, *extra], axis=-1)
