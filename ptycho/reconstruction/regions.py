"""The object regions of all groups of a dataset, in batches of one shape; nothing here imports TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from ptycho.files.file_array import FileArray
from ptycho.progress import Progress
from ptycho.reconstruction.stitching import stitch
from ptycho.scan.dataset import Dataset
from ptycho.scan.windows import inner_windows

PredictStep = Callable[..., Any]
"""``(x, offsets, probe[, start])`` of a batch → its regions ``(B, R, R)``, an array or a tensor."""
Inputs = Callable[[np.ndarray], tuple[np.ndarray, ...]]


def predict_scan(
    regions: np.ndarray | FileArray,
    step: PredictStep,
    data: Dataset,
    batch_size: int,
    start: np.ndarray | None = None,
) -> None:
    """Write the object regions of all groups of a dataset into ``regions (G, R, R)``.

    Args:
        start: objects ``(I, M, M)`` complex64 to begin with, zero where nothing is known; None: a constant.
    """
    margin = (data.region_size - data.N + 1) // 2  # a region may reach beyond its object
    canvas = None if start is None else np.pad(start, ((0, 0), (margin, margin), (margin, margin)))

    def inputs(indices: np.ndarray) -> tuple[np.ndarray, ...]:
        known = data.normalised(data.groups[indices]), data.offsets[indices]
        if canvas is None:
            return known
        places = zip(data.group_image[indices], data.origins[indices] + margin, strict=True)
        cut = [inner_windows(canvas[i], place[None], data.region_size)[0] for i, place in places]
        return *known, np.stack(cut).astype(np.complex64)

    predict_into(regions, step, inputs, data.model_probe, batch_size)


def predict_in_rounds(
    regions: np.ndarray | FileArray,
    step: PredictStep,
    data: Dataset,
    batch_size: int,
    rounds: int,
    start: np.ndarray | None = None,
) -> None:
    """Run :func:`predict_scan` several times; each round begins with the stitched objects of the last.

    The first begins with ``start (I, M, M)``, or with zeros: the generator's constant.
    """
    shape = (data.n_images, data.object_size, data.object_size)
    start = np.zeros(shape, np.complex64) if start is None else start
    for _ in range(rounds - 1):
        predict_scan(regions, step, data, batch_size, start)
        start = stitch(regions, data, "probe").objects
    predict_scan(regions, step, data, batch_size, start)


def predict_into(
    regions: np.ndarray | FileArray, step: PredictStep, inputs: Inputs, probe: np.ndarray, batch_size: int
) -> None:
    """Write the object regions of all groups into ``regions``.

    The groups run in batches of ``batch_size``, the last one filled up and cropped afterwards, so that one
    shape is compiled whatever their number.

    Args:
        regions: ``(G, R, R)`` complex64, in memory or in a file.
        inputs: indices ``(B,)`` of groups → normalised amplitudes ``(B, C, N, N)``, offsets ``(B, C, 2)``
            and, if they begin with something, starts ``(B, R, R)``.
        probe: ``s·f·P``, ``(K, N, N)`` complex64.
    """
    groups = len(regions)
    patterns = inputs(np.zeros(1, int))[0].shape[1]
    with closing(Progress("inference", groups * patterns)) as progress:
        for start in range(0, groups, batch_size):
            stop = min(start + batch_size, groups)
            x, offsets, *starts = inputs(np.minimum(np.arange(start, start + batch_size), groups - 1))
            regions[start:stop] = np.asarray(step(x, offsets, probe, *starts))[: stop - start]
            progress.advance((stop - start) * patterns)
