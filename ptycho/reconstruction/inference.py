"""The step of an inference: a network as a ``tf.function``."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from ptycho.reconstruction.stitching import PredictStep, predict_scan
from ptycho.scan.dataset import Dataset


def make_predict_step(model: keras.Model, compile_xla: bool) -> PredictStep:
    """Return ``(x, offsets, probe[, start]) → (B, R, R)`` as a ``tf.function``; XLA if ``compile_xla``."""

    @tf.function(jit_compile=compile_xla, reduce_retracing=False, autograph=False)
    def predict_step(
        x: tf.Tensor, offsets: tf.Tensor, probe: tf.Tensor, start: tf.Tensor | None = None
    ) -> tf.Tensor:
        return model(x, offsets, probe) if start is None else model(x, offsets, probe, start)

    return predict_step


def predict_regions(model: keras.Model, data: Dataset, batch_size: int, compile_xla: bool) -> np.ndarray:
    """Return object regions of all groups in order, ``(G, R, R)`` complex64 in the object's own units."""
    regions = np.empty((data.n_groups, data.region_size, data.region_size), np.complex64)
    predict_scan(regions, make_predict_step(model, compile_xla), data, batch_size)
    return regions
