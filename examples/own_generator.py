"""Your own network.

    ptycho scan data.file=scan.cxi nepochs=10 model=custom model.target=own_generator:build
    output_dir=outputs/own

The function is called with ``geometry`` (N, region_size R, group_size C) and ``seed``, and gives a Keras
layer ``(x, offsets, probe) → (B, R, R)`` complex64: amplitudes (B, C, N, N), positions (B, C, 2) against the
region's centre in pixels, the probe (K, N, N). Its weights must exist once it was called. XLA compiles it, so
its shapes must be static.
"""

import keras
import tensorflow as tf


class Phases(keras.layers.Layer):
    """Two convolutions over the patterns, which give the phase of the middle of the region; amplitude one."""

    def __init__(self, geometry, seed):
        super().__init__(name="phases")
        self.margin = (geometry.region_size - geometry.N) // 2, -(-(geometry.region_size - geometry.N) // 2)
        start = [keras.initializers.HeNormal(seed=seed + number) for number in range(2)]
        self.first = keras.layers.Conv2D(
            16, 3, padding="same", activation="relu", kernel_initializer=start[0]
        )
        self.last = keras.layers.Conv2D(1, 3, padding="same", kernel_initializer=start[1])

    def call(self, x, offsets, probe):
        phase = self.last(self.first(tf.transpose(x, (0, 2, 3, 1))))[..., 0]
        phase = tf.pad(phase, ((0, 0), self.margin, self.margin))
        return tf.complex(tf.cos(phase), tf.sin(phase))


def build(geometry, seed):
    return Phases(geometry, seed)
