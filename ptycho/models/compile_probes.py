"""The networks as entries of the compile report; see :mod:`ptycho.xla.probes`."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
from scipy.ndimage import gaussian_filter

from ptycho.config import IdealDiskProbe, RunConfig, UnrolledModel, ZonePlateProbe
from ptycho.models.baseline import PtychoNN
from ptycho.models.pinn import PtychoPINN
from ptycho.models.unet import UNet
from ptycho.models.unrolled import Unrolled
from ptycho.probe import make_probe
from ptycho.xla.probes import Built, Probe

BATCH, N, GRIDSIZE, OFFSET = 16, 64, 2, 4
REGION, GROUP = N + (GRIDSIZE - 1) * OFFSET, GRIDSIZE**2


def _objects() -> tf.Tensor:
    """Smooth random object regions, ``(BATCH, REGION, REGION)`` complex64, amplitude about one."""
    rng = np.random.default_rng(0)
    noise = gaussian_filter(rng.normal(size=(2, BATCH, REGION, REGION)), (0, 0, 3, 3))
    amplitude, phase = 1 + noise[0] / noise[0].std() / 5, noise[1] / noise[1].std() / 2
    return tf.constant(amplitude * np.exp(1j * phase), tf.complex64)


def _pinn(generator: Callable[[], keras.layers.Layer], curved: bool = False) -> Probe:
    """Object regions and predicted amplitudes of a PINN, as one real tensor."""

    def build(dtype: tf.DType) -> Built:
        config = RunConfig(probe=ZonePlateProbe() if curved else IdealDiskProbe())
        probe = make_probe(config.probe, N)
        pinn = PtychoPINN(generator(), REGION, N)
        pinn.build((BATCH, GROUP, N, N))
        steps = OFFSET * (np.arange(GRIDSIZE) - (GRIDSIZE - 1) / 2)
        grid = np.stack(np.meshgrid(steps, steps, indexing="ij"), -1).reshape(GROUP, 2)
        offsets = tf.constant(np.tile(grid, (BATCH, 1, 1)), tf.float32)

        scale = N / 2 / np.linalg.norm(probe)  # Σx² is about (N/2)²
        probe = tf.constant(scale * probe, tf.complex64)
        measured = pinn.predict_amplitudes(_objects(), offsets, probe)

        def predict(x: tf.Tensor) -> tf.Tensor:
            objects = pinn(x, offsets, probe)
            predicted = pinn.predict_amplitudes(objects, offsets, probe)
            parts = (tf.math.real(objects), tf.math.imag(objects), predicted)
            return tf.concat([tf.reshape(part, (BATCH, -1)) for part in parts], axis=1)

        return predict, (measured,)

    return Probe(("float32",), build)


def _unrolled(model: UnrolledModel) -> Unrolled:
    return Unrolled(
        N,
        REGION,
        model.stages,
        model.width,
        model.blocks,
        model.coarsening,
        model.illumination_floor,
        N,
        0,
        name="generator",
    )


def _baseline() -> Probe:
    def build(dtype: tf.DType) -> Built:
        model = PtychoNN(N, N, 1, 0)
        model.build((BATCH, 1, N, N))
        probe, offsets = tf.ones((N, N), tf.complex64), tf.zeros((BATCH, 1, 2))
        measured = tf.random.stateless_uniform((BATCH, 1, N, N), seed=(0, 0), alg="philox")
        return lambda x: model(x, offsets, probe), (measured,)

    return Probe(("float32",), build)


MODEL_PROBES: dict[str, Probe] = {
    "model unrolled": _pinn(lambda: _unrolled(UnrolledModel())),
    "model unrolled, curved probe": _pinn(lambda: _unrolled(UnrolledModel()), curved=True),
    "model unrolled_fast": _pinn(lambda: _unrolled(UnrolledModel(stages=3))),
    "model unet": _pinn(lambda: UNet(N, REGION, GROUP, 2, False, 0, name="generator")),
    "model unet, object_big": _pinn(lambda: UNet(N, REGION, GROUP, 2, True, 0, name="generator")),
    "model baseline": _baseline(),
}
