"""When a network for many scans says that it does not know."""

import math

import pytest

from ptycho.evaluation.trust import DISAGREEMENT, EXCESS, excess, outside_training


def test_excess_is_what_noise_leaves():
    assert excess(0.5, 0.3) == pytest.approx(0.4)
    assert excess(0.2, 0.3) == 0
    assert excess(0.2, None) == 0.2


@pytest.mark.parametrize(
    "r_factor, r_noise, disagreement, outside",
    [
        (0.30, 0.30, 0.0, False),
        (math.hypot(0.3, 1.1 * EXCESS), 0.30, 0.0, True),
        (math.hypot(0.3, 0.9 * EXCESS), 0.30, 0.0, False),
        (1.1 * EXCESS, None, None, True),
        (0.01, 0.01, 1.1 * DISAGREEMENT, True),
        (0.01, 0.01, math.nan, False),
        (math.nan, 0.1, 0.0, True),
    ],
)
def test_the_flag(r_factor, r_noise, disagreement, outside):
    assert outside_training(r_factor, r_noise, disagreement) is outside
