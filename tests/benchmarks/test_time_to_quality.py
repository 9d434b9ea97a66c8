"""The benchmark of quality against training time: its times, crossings and exam, and a very short run."""

import numpy as np
import pytest

from benchmarks.time_to_quality import crossing, exam_times, middle


def test_times_are_geometric_and_end_with_the_budget():
    assert exam_times(0.5, 2, 4) == [0.5, 1, 2, 4]
    assert exam_times(0.5, 2, 5) == [0.5, 1, 2, 4, 5]
    assert exam_times(1, 3, 0.5) == [0.5]


def test_crossing_is_linear_in_log_time():
    rows = [{"seconds": t, "amplitude_ssim": s} for t, s in ((1, 0.2), (4, 0.6), (16, None), (32, 0.9))]
    assert crossing(rows[:2], 0.4) == pytest.approx(2)
    assert crossing(rows, 0.1) == 1 and crossing(rows, 0.95) is None
    assert crossing(rows, 0.9) == 32  # no score before it to interpolate from
    untrained = {"seconds": 0, "amplitude_ssim": 0.3}
    assert crossing([untrained, *rows], 0.25) == 0 and crossing([untrained, *rows[1:]], 0.5) == 4


def test_the_exam_is_the_middle_of_the_scan(datasets, small_config):
    exam = middle(small_config(), datasets["test"], 4)  # of 8 × 8 groups, pitch 8, region 36
    assert exam.data.n_groups == 16
    # The centres of groups 2 … 5 are at 18 + 8 · (2 … 5); their squares of side 8 reach from 30 to 62.
    assert (exam.region.top, exam.region.height) == (30, 32)
    centres = exam.data.centres + 16
    np.testing.assert_array_equal(np.unique(centres), [34, 42, 50, 58])
    assert middle(small_config(), datasets["test"], 99).data.n_groups == 64
