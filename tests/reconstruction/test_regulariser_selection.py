"""Of weights of a regulariser that held-out patterns do not tell apart the strongest is taken."""

import numpy as np
import pytest

from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.regulariser_selection import Regularisation, strongest_of_equals
from ptycho.reconstruction.trial import Trial
from ptycho.scan.comparison import EQUAL, WITHIN_ERROR


def trial(strength, log_deviances):
    scores = np.exp(log_deviances)
    return Trial(Regularisation(Prior("second_order", strength)), None, np.zeros(0), scores)


@pytest.mark.parametrize("third, strongest", [(0.0009, 30.0), (0.0011, 10.0)])
def test_the_strongest_of_weights_within_a_tenth_of_a_per_cent(third, strongest):
    levels = ((3.0, 0.1), (10.0, 0.0), (30.0, third))
    ladder = [trial(strength, np.full(10, level)) for strength, level in levels]
    assert strongest_of_equals(ladder[1], ladder, EQUAL).hypothesis.prior.strength == strongest


@pytest.mark.parametrize("loss, strongest", [(0.009, 30.0), (0.011, 10.0)])
def test_the_strongest_of_weights_within_one_standard_error(loss, strongest):
    """Differences of ±.04 in 17 patterns: a standard error of .04 / √17 = .0097."""
    scatter = 0.04 * np.array([0] + 8 * [1, -1])
    ladder = [trial(10.0, np.zeros(17)), trial(30.0, loss + scatter)]
    assert strongest_of_equals(ladder[0], ladder, WITHIN_ERROR).hypothesis.prior.strength == strongest


def test_without_an_equal_it_is_the_best():
    best = trial(3.0, np.zeros(5))
    assert strongest_of_equals(best, [], EQUAL) is best
