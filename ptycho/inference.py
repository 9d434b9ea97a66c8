"""Inference in batches of one shape."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import keras
import numpy as np
import tensorflow as tf

from ptycho.data import Dataset, padded_batches
from ptycho.progress import Progress
from ptycho.rows import Rows

PredictStep = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


def make_predict_step(model: keras.Model, compile_xla: bool) -> PredictStep:
    """``(x, offsets, probe) → (B, R, R)`` as a ``tf.function``; XLA-compiled exactly if ``compile_xla``."""

    @tf.function(jit_compile=compile_xla, reduce_retracing=False)
    def predict_step(x: tf.Tensor, offsets: tf.Tensor, probe: tf.Tensor) -> tf.Tensor:
        return model(x, offsets, probe)

    return predict_step


def predict_regions(model: keras.Model, data: Dataset, batch_size: int, compile_xla: bool) -> np.ndarray:
    """Object regions of all groups, in their order, ``(G, R, R)`` complex64 in the object's own units."""
    regions = np.empty((data.n_groups, data.region_size, data.region_size), np.complex64)
    predict_into(regions, make_predict_step(model, compile_xla), data, batch_size)
    return regions


def predict_into(regions: np.ndarray | Rows, step: PredictStep, data: Dataset, batch_size: int) -> None:
    """Write the object regions of all groups into ``regions (G, R, R)``, in memory or in a file.

    The groups run in batches of ``batch_size``, the last one filled up and cropped afterwards, so that one
    shape is compiled whatever their number.
    """
    probe = tf.constant(data.model_probe)
    done = 0
    with closing(Progress("inference", data.n_groups * data.group_size)) as progress:
        for batch, real in padded_batches(data, batch_size):
            regions[done : done + real] = step(batch["x"], batch["offsets"], probe).numpy()[:real]
            done += real
            progress.advance(real * data.group_size)
