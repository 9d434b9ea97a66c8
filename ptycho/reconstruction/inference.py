"""Inference in batches of one shape."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import keras
import numpy as np
import tensorflow as tf

from ptycho.files.file_array import FileArray
from ptycho.progress import Progress
from ptycho.scan.dataset import Dataset

PredictStep = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
Inputs = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def make_predict_step(model: keras.Model, compile_xla: bool) -> PredictStep:
    """``(x, offsets, probe) → (B, R, R)`` as a ``tf.function``; XLA-compiled exactly if ``compile_xla``."""

    @tf.function(jit_compile=compile_xla, reduce_retracing=False, autograph=False)
    def predict_step(x: tf.Tensor, offsets: tf.Tensor, probe: tf.Tensor) -> tf.Tensor:
        return model(x, offsets, probe)

    return predict_step


def predict_regions(model: keras.Model, data: Dataset, batch_size: int, compile_xla: bool) -> np.ndarray:
    """Object regions of all groups, in their order, ``(G, R, R)`` complex64 in the object's own units."""
    regions = np.empty((data.n_groups, data.region_size, data.region_size), np.complex64)
    predict_scan(regions, make_predict_step(model, compile_xla), data, batch_size)
    return regions


def predict_scan(regions: np.ndarray | FileArray, step: PredictStep, data: Dataset, batch_size: int) -> None:
    """Write the object regions of all groups of a dataset into ``regions (G, R, R)``."""

    def inputs(indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return data.normalised(data.groups[indices]), data.offsets[indices]

    predict_into(regions, step, inputs, data.model_probe, batch_size)


def predict_into(
    regions: np.ndarray | FileArray, step: PredictStep, inputs: Inputs, probe: np.ndarray, batch_size: int
) -> None:
    """Write the object regions of all groups into ``regions``.

    The groups run in batches of ``batch_size``, the last one filled up and cropped afterwards, so that one
    shape is compiled whatever their number.

    Args:
        regions: ``(G, R, R)`` complex64, in memory or in a file.
        inputs: indices ``(B,)`` of groups → normalised amplitudes ``(B, C, N, N)`` and offsets ``(B, C, 2)``.
        probe: ``s·f·P``, ``(N, N)`` complex64.
    """
    groups, probe = len(regions), tf.constant(probe)
    patterns = inputs(np.zeros(1, int))[0].shape[1]
    with closing(Progress("inference", groups * patterns)) as progress:
        for start in range(0, groups, batch_size):
            stop = min(start + batch_size, groups)
            x, offsets = inputs(np.minimum(np.arange(start, start + batch_size), groups - 1))
            predicted = step(tf.constant(x), tf.constant(offsets), probe)
            regions[start:stop] = predicted.numpy()[: stop - start]
            progress.advance((stop - start) * patterns)
