"""The step of an inference: a network as a ``tf.function``; stitched objects corrected by the patterns."""

from __future__ import annotations

import logging
from contextlib import closing

import keras
import numpy as np
import tensorflow as tf

from ptycho.config import check
from ptycho.progress import Progress
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.scan_likelihood import likelihood_of
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.reconstruction.stitching import PredictStep, predict_scan
from ptycho.scan.dataset import Dataset

log = logging.getLogger(__name__)


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


def refine(objects: np.ndarray, data: Dataset, steps: int) -> np.ndarray:
    """Return the most likely objects near others: at most ``steps`` steps refine the object alone.

    The probe and all else are known. See :mod:`ptycho.reconstruction.solver`. Amplitudes that are not those
    of counts are taken as normal numbers of one variance. A step takes two transforms a pattern, or three
    where it moves the probe.

    Args:
        objects: ``(I, M, M)`` complex64, in the units of the training data's objects.
        data: the patterns, in memory or in a file, their positions, and the probe.
        steps: at most; fewer where they gain nothing more.

    Returns:
        ``(I, M, M)`` complex64; an object without patterns stays as it is.

    Raises:
        ConfigError: ``steps`` is less than one, or the objects are not those of the data.
    """
    check(steps >= 1, "steps", steps, "at least 1")
    shape = (data.n_images, data.object_size, data.object_size)
    check(objects.shape == shape, "shape of the objects", objects.shape, f"{shape}, as the data have it")
    refined = objects.astype(np.complex64)
    with closing(Progress("refinement", steps * len(data.amplitudes))) as progress:
        for i in np.unique(data.image):
            part = data if data.n_images == 1 else data.subset(np.flatnonzero(data.image == i), 1)
            likelihood = likelihood_of(part, progress.advance)
            fitted = fit(Objective(likelihood), Estimate.of(part, refined[i]), OBJECT_ALONE, steps)
            refined[i] = fitted.estimate.object
            if fitted.converged:
                done = len(fitted.course) - 1
                log.info("refinement: object %d is done after %d of %d steps", i, done, steps)
    return refined
