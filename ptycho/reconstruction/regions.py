"""The object regions of all groups of a dataset, in batches of one shape; nothing here imports TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from ptycho.files.file_array import FileArray
from ptycho.progress import Progress
from ptycho.scan.dataset import Dataset

PredictStep = Callable[[np.ndarray, np.ndarray, np.ndarray], Any]
"""``(x, offsets, probe)`` of a batch → its regions ``(B, R, R)``, an array or a tensor."""
Inputs = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


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
    groups = len(regions)
    patterns = inputs(np.zeros(1, int))[0].shape[1]
    with closing(Progress("inference", groups * patterns)) as progress:
        for start in range(0, groups, batch_size):
            stop = min(start + batch_size, groups)
            x, offsets = inputs(np.minimum(np.arange(start, start + batch_size), groups - 1))
            regions[start:stop] = np.asarray(step(x, offsets, probe))[: stop - start]
            progress.advance((stop - start) * patterns)
