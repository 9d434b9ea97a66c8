"""Frames and positions that arrive late, out of order, repeatedly or never."""

import numpy as np
import pytest

from ptycho_live.arrivals import BY_TIME, FRAME, ScanTable, make_positions


def frames(numbers, times=np.nan):
    found = np.zeros(len(numbers), FRAME)
    found["index"], found["time"] = numbers, times
    return found


NOTHING = frames([]), make_positions([], [], [])


def joined(table):
    there = table.frames[table.rows]
    assert len(there) == np.isfinite(table.frames["position"][:, 0]).sum()
    return {int(one["index"]): tuple(one["position"].tolist()) for one in there}


def test_by_index_in_whatever_order_they_came():
    table = ScanTable().extended(NOTHING[0], make_positions([4, 7], [4, 7], [40, 70]))
    table = table.extended(frames([4, 0, 2]), NOTHING[1])
    table = table.extended(NOTHING[0], make_positions([2], [2], [20]))
    assert joined(table) == {4: (4, 40), 2: (2, 20)}
    assert len(table.frames) == 3


LINE = make_positions(BY_TIME, [0, 2, 5, 6], [0, 4, 8, 12], [10, 12, 14, 16])


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 0, 2, 1]])
def test_by_time_on_the_straight_line_between_two_positions(order):
    table = ScanTable().extended(frames([0, 1, 2], [10.5, 15, 17]), NOTHING[1])
    for k in order:
        table = table.extended(NOTHING[0], LINE[[k]])
    assert joined(table) == {0: (0.5, 1), 1: (5.5, 10)}  # 2 comes after the last position
