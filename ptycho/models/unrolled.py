"""The ``unrolled`` generator: a few physics iterations, each corrected by a small residual CNN."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ptycho import physics
from ptycho.models.layers import conv, pad_to, register

MODULUS_FLOOR = 1e-3  # ε₁, of the normalised amplitude
ILLUMINATION_FLOOR = 1e-3  # ε₂, of the strongest illumination
FEATURES = 5  # Re O, Im O, Re g, Im g, illumination


@register
class ResidualCNN(keras.layers.Layer):
    """Correction of an object estimate, computed at half resolution.

    ``(B, h, h, 5)`` features → space-to-depth → 3 × 3 convolutions of ``width`` channels with ``blocks``
    residual blocks → depth-to-space → ``(B, h, h, 2)``, real and imaginary part. h is even. The last
    convolution starts at zero, so an untrained network is the bare physics iteration.
    """

    def __init__(self, width: int, blocks: int, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width, self.blocks, self.seed = width, blocks, seed
        self.head = conv(width, seed, "head", "relu")
        self.first = [conv(width, seed + 2 * i + 1, f"first_{i}", "relu") for i in range(blocks)]
        self.second = [conv(width, seed + 2 * i + 2, f"second_{i}") for i in range(blocks)]
        self.tail = conv(8, seed, "tail", zero=True)

    def build(self, input_shape):
        batch, height, width, channels = input_shape
        inner = (batch, height // 2, width // 2, self.width)
        self.head.build((*inner[:3], 4 * channels))
        for layer in (*self.first, *self.second, self.tail):
            layer.build(inner)

    def call(self, features):
        hidden = self.head(tf.nn.space_to_depth(features, 2))
        for first, second in zip(self.first, self.second, strict=True):
            hidden = tf.nn.relu(hidden + second(first(hidden)))
        return tf.nn.depth_to_space(self.tail(hidden), 2)

    def get_config(self):
        return super().get_config() | {"width": self.width, "blocks": self.blocks, "seed": self.seed}


@register
class Unrolled(keras.layers.Layer):
    """Unrolled physics iteration.

    The object starts as a constant: the mean amplitude that the energy of the group's patterns implies,
    ``√(Σx² / Σ|P|²)`` per pattern, times a trainable level. Each of K stages computes the simultaneous
    object update of difference-map and PIE-type solvers,

        g = Σ_k P̄_k (F⁻¹[x_k Ψ_k / √(|Ψ_k|² + ε₁²)] − ψ_k) / (Σ_k |P_k|² + ε₂ max Σ_k |P_k|²),

    adds it, and adds the output of a :class:`ResidualCNN` fed with the object, g and the illumination, on
    the central ``crop`` of the region, which the probe illuminates; outside it the estimate stands.
    Sources: Thibault et al., Ultramicroscopy 109 (2009), eq. 8; Maiden & Rodenburg, Ultramicroscopy 109
    (2009), eq. 6 (which divides by max |P|² instead).

    Args:
        region_size: R.
        stages, width, blocks: K and the size of each stage's CNN; each stage has its own weights.
        crop: even side of the central square that the CNNs see, at most R.
        seed: of the initial weights.
        projective: translate with TensorFlow's projective kernel.
    """

    def __init__(
        self,
        region_size: int,
        stages: int,
        width: int,
        blocks: int,
        crop: int,
        seed: int,
        projective: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if crop % 2 or not 0 < crop <= region_size:
            raise ValueError(f"crop={crop}: must be even and at most region_size={region_size}")
        self.region_size, self.stages, self.width, self.blocks = region_size, stages, width, blocks
        self.crop, self.seed, self.projective = crop, seed, projective
        self.cnns = [ResidualCNN(width, blocks, seed + 100 * k, name=f"stage_{k}") for k in range(stages)]

    def build(self, input_shape):
        self.level = self.add_weight(shape=(), initializer="ones", name="level")
        for cnn in self.cnns:
            cnn.build((input_shape[0], self.crop, self.crop, FEATURES))

    def call(self, x, offsets, probe):
        """Object regions ``(B, R, R)`` complex64 from ``x (B, C, N, N)``, ``offsets``, ``probe (N, N)``."""
        positions = offsets + (self.region_size - probe.shape[-1]) / 2
        illumination = self._illumination(positions, probe)
        objects, x = self._start(x, probe), physics.uncentre(x)
        for cnn in self.cnns:
            g = self._update(objects, x, positions, probe, illumination)
            objects = objects + g
            objects = objects + self._correction(cnn, objects, g, illumination)
        return objects

    def _start(self, x, probe):
        energy = tf.reduce_mean(tf.reduce_sum(tf.square(x), axis=(2, 3)), axis=1)  # (B,)
        mean_amplitude = self.level * tf.sqrt(energy / tf.reduce_sum(physics.intensity(probe)))
        shape = (x.shape[0], self.region_size, self.region_size)
        flat = tf.broadcast_to(mean_amplitude[:, None, None], shape)
        return tf.complex(flat, tf.zeros_like(flat))

    def _illumination(self, positions, probe):
        """``Σ_k |P_k|²`` over the region, ``(B, R, R)`` float32."""
        light = tf.broadcast_to(physics.intensity(probe), (*positions.shape[:2], *probe.shape))
        return self._place(light, positions)

    def _update(self, objects, x, positions, probe, illumination):
        patches = physics.extract_patches(objects, positions, probe.shape[-1], self.projective)
        exit_waves = physics.illuminate(patches, probe)
        far_fields = physics.far_field(exit_waves)
        to_measured = x * tf.math.rsqrt(physics.intensity(far_fields) + MODULUS_FLOOR**2)
        revised = physics.near_field(physics.scaled(far_fields, to_measured))
        change = tf.math.conj(probe) * (revised - exit_waves)
        floor = ILLUMINATION_FLOOR * tf.reduce_max(illumination, axis=(1, 2), keepdims=True)
        return physics.scaled(self._place(change, positions), 1 / (illumination + floor))

    def _place(self, patches, positions):
        shape = (self.region_size, self.region_size)
        return physics.place_patches(patches, positions, shape, self.projective)

    def _correction(self, cnn, objects, g, illumination):
        start = (self.region_size - self.crop) // 2
        window = (slice(None), slice(start, start + self.crop), slice(start, start + self.crop))
        inner, step, light = objects[window], g[window], illumination[window]
        light = light / tf.reduce_max(light, axis=(1, 2), keepdims=True)
        parts = [tf.math.real(inner), tf.math.imag(inner), tf.math.real(step), tf.math.imag(step), light]
        correction = cnn(tf.stack(parts, axis=-1))
        return pad_to(tf.complex(correction[..., 0], correction[..., 1]), self.region_size)

    def get_config(self):
        keys = ("region_size", "stages", "width", "blocks", "crop", "seed", "projective")
        return super().get_config() | {key: getattr(self, key) for key in keys}
