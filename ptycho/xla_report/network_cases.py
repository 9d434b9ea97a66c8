"""The networks as cases of the compile report; see :mod:`ptycho.xla_report.cases`."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from scipy.ndimage import gaussian_filter

from ptycho.config import (
    FourierModel,
    GeneratorConfig,
    ProbeConfig,
    RunConfig,
    UNetModel,
    UnrolledModel,
    ZonePlateProbe,
)
from ptycho.networks import build_baseline, build_pinn
from ptycho.networks.geometry import Geometry
from ptycho.scan.probe import make_probe
from ptycho.xla_report.cases import Built, CompileCase

BATCH, N, GRIDSIZE, OFFSET = 16, 64, 2, 4
REGION, GROUP = N + (GRIDSIZE - 1) * OFFSET, GRIDSIZE**2


def _objects() -> tf.Tensor:
    """Smooth random object regions, ``(BATCH, REGION, REGION)`` complex64, amplitude about one."""
    rng = np.random.default_rng(0)
    noise = gaussian_filter(rng.normal(size=(2, BATCH, REGION, REGION)), (0, 0, 3, 3))
    amplitude, phase = 1 + noise[0] / noise[0].std() / 5, noise[1] / noise[1].std() / 2
    return tf.constant(amplitude * np.exp(1j * phase), tf.complex64)


def _pinn(model: GeneratorConfig, probe: ProbeConfig | None = None) -> CompileCase:
    """Object regions and predicted amplitudes of a PINN, as one real tensor."""

    def build(dtype: tf.DType) -> Built:
        config = RunConfig(model=model, batch_size=BATCH)
        light = make_probe(probe or config.probe, N)
        pinn = build_pinn(config, Geometry(N, REGION, GROUP, support=N))
        steps = OFFSET * (np.arange(GRIDSIZE) - (GRIDSIZE - 1) / 2)
        grid = np.stack(np.meshgrid(steps, steps, indexing="ij"), -1).reshape(GROUP, 2)
        offsets = tf.constant(np.tile(grid, (BATCH, 1, 1)), tf.float32)

        scale = N / 2 / np.linalg.norm(light)  # Σx² is about (N/2)²
        illumination = tf.constant(scale * light, tf.complex64)
        measured = pinn.predict_amplitudes(_objects(), offsets, illumination)

        def predict(x: tf.Tensor) -> tf.Tensor:
            objects = pinn(x, offsets, illumination)
            predicted = pinn.predict_amplitudes(objects, offsets, illumination)
            parts = (tf.math.real(objects), tf.math.imag(objects), predicted)
            return tf.concat([tf.reshape(part, (BATCH, -1)) for part in parts], axis=1)

        return predict, (measured,)

    return CompileCase(("float32",), build)


def _baseline() -> CompileCase:
    def build(dtype: tf.DType) -> Built:
        model = build_baseline(RunConfig(batch_size=BATCH), Geometry(N, N, 1, support=N))
        probe, offsets = tf.ones((N, N), tf.complex64), tf.zeros((BATCH, 1, 2))
        measured = tf.random.stateless_uniform((BATCH, 1, N, N), seed=(0, 0), alg="philox")
        return lambda x: model(x, offsets, probe), (measured,)

    return CompileCase(("float32",), build)


NETWORK_CASES: dict[str, CompileCase] = {
    "model unrolled": _pinn(UnrolledModel()),
    "model unrolled, curved probe": _pinn(UnrolledModel(), ZonePlateProbe()),
    "model unrolled_fast": _pinn(UnrolledModel(stages=3)),
    "model unet": _pinn(UNetModel()),
    "model unet, object_big": _pinn(UNetModel(object_big=True)),
    "model fno": _pinn(FourierModel()),
    "model baseline": _baseline(),
}
