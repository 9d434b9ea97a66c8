"""Frames and positions that come late, out of order, repeated or not at all."""

import numpy as np

from ptycho.live.arrivals import BY_TIME
from ptycho.live.joining import FrameList, PlaceList, join


def frames(numbers, times=None, arrived=None):
    count = len(numbers)
    return FrameList(
        np.array(numbers, np.int64),
        np.full(count, np.nan) if times is None else np.array(times, float),
        np.arange(count, dtype=float) if arrived is None else np.array(arrived, float),
    )


def places(numbers, values, times=None, arrived=None):
    found = frames(numbers, times, arrived)
    return PlaceList(found.indices, found.times, found.arrived, np.array(values, float).reshape(-1, 2))


def test_by_number_in_whatever_order_they_came():
    joined = join(frames([4, 0, 2]), places([2, 4, 7], [[2, 20], [4, 40], [7, 70]], arrived=[5, 0, 0]))
    np.testing.assert_array_equal(joined.indices, [2, 4])
    np.testing.assert_array_equal(joined.rows, [2, 0])
    np.testing.assert_array_equal(joined.positions, [[2, 20], [4, 40]])
    np.testing.assert_array_equal(joined.arrived, [5, 0])
    assert (joined.waiting, joined.unused, joined.gaps) == (1, 1, 2)  # 0 waits; 7 is unused; 1 and 3 miss


def test_nothing_yet():
    joined = join(frames([]), places([], []))
    assert (len(joined.rows), joined.waiting, joined.unused, joined.gaps) == (0, 0, 0, 0)


def test_by_time_on_the_straight_line_between_two_positions():
    line = places([BY_TIME] * 4, [[0, 0], [2, 4], [4, 8], [6, 12]], [10, 12, 14, 16])
    joined = join(frames([0, 1, 2], [10.5, 15, 17]), line)
    np.testing.assert_array_equal(joined.indices, [0, 1])
    np.testing.assert_allclose(joined.positions, [[0.5, 1], [5, 10]])
    assert joined.waiting == 1  # after the last position


def test_no_position_is_made_up_across_a_pause_of_the_encoder():
    line = places([BY_TIME] * 5, np.zeros((5, 2)), [0, 1, 2, 3, 30])
    assert len(join(frames([0, 1], [2.5, 15]), line).rows) == 1


def test_a_number_goes_before_a_time():
    both = places([BY_TIME, BY_TIME, 0], [[0, 0], [1, 1], [9, 9]], [0, 1, np.nan])
    np.testing.assert_array_equal(join(frames([0], [0.5]), both).positions, [[9, 9]])
