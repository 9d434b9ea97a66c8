"""Batches of groups, the input of a network."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.scan.dataset import Dataset
from ptycho.scan.windows import cut_windows

Batch = dict[str, tf.Tensor]


def batch_of(data: Dataset, indices: np.ndarray, truth: bool = False) -> Batch:
    """Return normalised amplitudes ``x (B, C, N, N)`` and ``offsets (B, C, 2)`` of some groups, float32.

    With neighbours, also theirs, as ``near_x (B, K, N, N)`` and ``near_offsets (B, K, 2)``. With
    ``truth``, also the true object patches ``target (B, C, N, N)`` complex64.
    """
    members = data.groups[indices]
    batch = {"x": data.normalised(members), "offsets": data.offsets[indices]}
    if data.neighbours is not None:
        near = data.neighbours[indices]
        offsets = data.positions[near] - data.centres[indices][:, None]
        batch |= {"near_x": data.normalised(near), "near_offsets": offsets}
    if truth:
        patches = true_patches(data, members.ravel())
        batch["target"] = tf.reshape(patches, (*members.shape, data.N, data.N))
    return {key: tf.constant(value) for key, value in batch.items()}


def true_patches(data: Dataset, patterns: np.ndarray) -> tf.Tensor:
    """Return the object under some patterns, ``(K, N, N)`` complex64."""
    if data.objects is None:
        raise ValueError("this dataset has no true objects")
    whole = np.floor(data.positions[patterns]).astype(np.int64)
    windows = np.empty((len(patterns), data.N + 1, data.N + 1), np.complex64)
    for image in np.unique(data.image[patterns]):
        chosen = data.image[patterns] == image
        windows[chosen] = cut_windows(data.objects[image], whole[chosen], data.N + 1)
    fraction = tf.constant((data.positions[patterns] - whole)[:, None], tf.float32)
    return physics.extract_patches(tf.constant(windows), fraction, data.N)[:, 0]


def training_batches(
    data: Dataset, batch_size: int, seed: int, epoch: int, truth: bool = False, first: int = 0
) -> Iterator[Batch]:
    """Yield full batches of one epoch in an order that (seed, epoch) decides; the remainder is dropped.

    The first ``first`` batches are skipped.
    """
    order = np.random.default_rng([seed, epoch]).permutation(data.n_groups)
    for step in range(first, data.n_groups // batch_size):
        yield batch_of(data, order[step * batch_size : (step + 1) * batch_size], truth)


def padded_batches(data: Dataset, batch_size: int, truth: bool = False) -> Iterator[tuple[Batch, int]]:
    """Yield all groups in order with their real number; the last batch repeats its last group to fill up."""
    for start in range(0, data.n_groups, batch_size):
        indices = np.arange(start, start + batch_size)
        real = min(batch_size, data.n_groups - start)
        yield batch_of(data, np.minimum(indices, data.n_groups - 1), truth), real


def prefetched(batches: Iterator[Batch], count: int = 2) -> Iterator[Batch]:
    """Yield the same batches, all of one form; the next ``count`` are made while the device works on one."""
    first = next(batches, None)
    if first is None:
        return
    form = {key: tf.TensorSpec.from_tensor(value) for key, value in first.items()}
    every = tf.data.Dataset.from_generator(lambda: itertools.chain([first], batches), output_signature=form)
    yield from every.prefetch(count)
