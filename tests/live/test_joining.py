"""Frames and positions that come late, out of order, repeated or not at all."""

import numpy as np

from ptycho.live.arrivals import FRAME, make_positions
from ptycho.live.joining import Joiner


def frames(numbers):
    found = np.zeros(len(numbers), FRAME)
    found["index"] = numbers
    return found


def joined(joiner):
    """Positions by the index of their frame."""
    there = joiner.frames[np.isfinite(joiner.frames["row"])]
    assert np.isfinite(there["arrived"]).all()
    return {int(one["index"]): (one["row"], one["col"]) for one in there}


def test_by_index_in_whatever_order_they_came():
    joiner = Joiner()
    joiner.add_positions(make_positions([4, 7], [4, 7], [40, 70]))
    joiner.add_frames(frames([4, 0, 2]))
    joiner.add_positions(make_positions([2], [2], [20]))
    assert joined(joiner) == {4: (4, 40), 2: (2, 20)}
    assert joiner.unused() == 1 and len(joiner.frames) == 3


def test_many_records_in_batches_of_a_random_order():
    """Against a plain dictionary, by batches in a random order."""
    rng, count = np.random.default_rng(0), 20_000
    truth = rng.normal(size=(count, 2))
    joiner = Joiner()
    for some, others in zip(
        np.array_split(rng.permutation(count), 40), np.array_split(rng.permutation(count), 40), strict=True
    ):
        joiner.add_frames(frames(some))
        joiner.add_positions(make_positions(others, *truth[others].T))
    assert joined(joiner) == {k: tuple(truth[k]) for k in range(count)} and joiner.unused() == 0
