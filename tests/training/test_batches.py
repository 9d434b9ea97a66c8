"""Batches of a data set: inputs of a network, their order, and preparation ahead of use."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import tensorflow as tf
from helpers import reference

from ptycho.config import ScanConfig
from ptycho.simulation.simulate import simulate
from ptycho.training.fitting import batch_of, padded_batches, prefetched, training_batches


@pytest.fixture(scope="module")
def plain(dataset_of):
    positions = [[3 * k, 2 * k] for k in range(8)]
    return dataset_of(positions, [[k, k + 1] for k in range(7)], region_size=20)


def test_batch_holds_the_patterns_of_its_groups_in_order(plain):
    batch = batch_of(plain, np.array([5, 2]))
    assert set(batch) == {"x", "offsets"} and batch["x"].shape == (2, 2, 16, 16)
    for row, group in enumerate((5, 2)):
        for k in range(2):
            expected = plain.normalisation * plain.amplitudes[group + k]
            np.testing.assert_allclose(batch["x"][row, k], expected, rtol=1e-6)
    assert batch["offsets"].shape == (2, 2, 2)
    step = batch["offsets"][:, 1] - batch["offsets"][:, 0]
    np.testing.assert_array_equal(step, [[3, 2], [3, 2]])


@pytest.mark.parametrize("jitter", [0.0, 0.9])
def test_targets_are_the_true_patches(datasets, small_config, jitter):
    data = datasets["train"]
    if jitter:
        data = simulate(small_config(nimgs_train=2, scan=ScanConfig(jitter)))[0]["train"]
    groups = np.array([0, data.n_groups - 1])
    target = batch_of(data, groups, truth=True)["target"].numpy()
    assert target.shape == (2, 4, 32, 32) and target.dtype == np.complex64
    for row, group in enumerate(groups):
        for k in (0, 3):
            pattern = data.groups[group, k]
            expected = reference.extract(data.objects[data.image[pattern]], data.positions[pattern], 32)
            np.testing.assert_allclose(target[row, k], expected, atol=1e-6)


def visited(data, batches):
    sums = [float(data.normalisation * data.amplitudes[int(g[0])].sum()) for g in data.groups]
    keys = {round(total, 1): i for i, total in enumerate(sums)}
    assert len(keys) == data.n_groups
    return [[keys[round(float(x.numpy()[0].sum()), 1)] for x in batch["x"]] for batch in batches]


def order(data, seed, epoch):
    return tuple(chain.from_iterable(visited(data, training_batches(data, data.n_groups, seed, epoch))))


def test_training_batches_are_full_and_visit_groups_once_in_an_order_of_seed_and_epoch(plain):
    batches = visited(plain, training_batches(plain, 3, seed=0, epoch=0))
    assert [len(b) for b in batches] == [3, 3]
    assert len(set(chain.from_iterable(batches))) == 6
    orders = {(seed, epoch): order(plain, seed, epoch) for seed in (0, 1) for epoch in (0, 1)}
    assert len(set(orders.values())) == 4
    assert all(sorted(groups) == list(range(7)) for groups in orders.values())
    assert order(plain, 1, 1) == orders[1, 1]


@pytest.mark.parametrize(
    "batch_size, expected, real",
    [(3, [[0, 1, 2], [3, 4, 5], [6, 6, 6]], [3, 3, 1]), (9, [[0, 1, 2, 3, 4, 5, 6, 6, 6]], [7])],
)
def test_padded_batches(plain, batch_size, expected, real):
    pairs = list(padded_batches(plain, batch_size))
    assert [count for _, count in pairs] == real
    assert visited(plain, [batch for batch, _ in pairs]) == expected


def test_batches_made_ahead_are_the_same_in_the_same_order(datasets):
    data = datasets["train"].with_neighbours(2, 10.0, seed=0)
    plainly = list(training_batches(data, 4, 0, 0, truth=True))
    ahead = list(prefetched(training_batches(data, 4, 0, 0, truth=True)))
    assert len(ahead) == len(plainly) == 3
    for found, expected in zip(ahead, plainly, strict=True):
        assert found.keys() == expected.keys() == {"x", "offsets", "near_x", "near_offsets", "target"}
        for key, value in expected.items():
            assert found[key].dtype == value.dtype
            np.testing.assert_array_equal(found[key], value)
    assert list(prefetched(iter(()))) == []


def test_an_error_in_the_making_of_a_batch_reaches_the_loop(plain):
    blind = replace(plain, objects=None)
    with pytest.raises(ValueError, match="no true objects"):
        list(prefetched(training_batches(blind, 2, 0, 0, truth=True)))

    def broken():
        yield batch_of(plain, np.array([0]))
        raise OSError("the disk is gone")

    with pytest.raises(tf.errors.UnknownError, match="OSError: the disk is gone"):
        list(prefetched(broken()))
