"""Frames and positions that come late, out of order, repeated or not at all."""

import numpy as np
import pytest

from ptycho.live.arrivals import BY_TIME, FRAME, make_positions
from ptycho.live.joining import Joiner


def frames(numbers, times=np.nan):
    found = np.zeros(len(numbers), FRAME)
    found["index"], found["time"] = numbers, times
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


LINE = make_positions(BY_TIME, [0, 2, 5, 6], [0, 4, 8, 12], [10, 12, 14, 16])


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 0, 2, 1]])
def test_by_time_on_the_straight_line_between_two_positions(order):
    joiner = Joiner()
    joiner.add_frames(frames([0, 1, 2], [10.5, 15, 17]))
    for k in order:
        joiner.add_positions(LINE[[k]])
    assert joined(joiner) == {0: (0.5, 1), 1: (5.5, 10)}  # 2 comes after the last position


def test_no_position_is_made_up_across_a_pause_of_the_encoder():
    joiner = Joiner()
    joiner.add_positions(make_positions(BY_TIME, np.zeros(5), 0, [0, 1, 2, 3, 30]))
    joiner.add_frames(frames([0, 1], [2.5, 15]))
    assert joined(joiner).keys() == {0}


def test_an_index_goes_before_a_time():
    joiner = Joiner()
    joiner.add_positions(make_positions([BY_TIME, BY_TIME], [0, 1], [0, 1], [0, 1]))
    joiner.add_frames(frames([0], [0.5]))
    joiner.add_positions(make_positions(0, 9, 9))
    assert joined(joiner) == {0: (9, 9)}


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
