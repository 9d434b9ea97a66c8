"""The largest weight of a regulariser is selected among those with equal scores on held-out patterns."""

import numpy as np
import pytest

from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.regulariser_selection import (
    Regularisation,
    strongest_of_equals,
    unless_clearly_worse,
)
from ptycho.reconstruction.trial import Trial


def trial(level, kind, strength):
    """Return a trial of ten patterns with this log-deviance."""
    return Trial(Regularisation(Prior(kind, strength)), None, np.zeros(0), np.full(10, np.exp(level)))


@pytest.mark.parametrize("third, strongest", [(0.0009, 30.0), (0.0011, 10.0)])
def test_the_strongest_of_weights_within_a_tenth_of_a_per_cent(third, strongest):
    levels = ((0.1, 3.0), (0.0, 10.0), (third, 30.0))
    ladder = [trial(level, "second_order", strength) for level, strength in levels]
    edges = trial(0.0005, "edge_preserving", 100.0)
    found = strongest_of_equals(ladder[1], [edges, *ladder])
    assert found.hypothesis.prior == Prior("second_order", strongest)


@pytest.mark.parametrize("difference, kept", [(-0.01, False), (0.002, False), (0.01, True)])
def test_a_classical_regulariser_is_kept_only_if_it_is_clearly_better(difference, kept):
    """The standard error of the mean of these ten differences is 0.005."""
    scatter = 0.015 * np.tile([1.0, -1.0], 5)  # of √(n − 1) · 0.005
    classical = trial(0.0, "second_order", 10.0)
    learned = Trial(None, None, np.zeros(0), np.exp(difference + scatter))
    assert (unless_clearly_worse(learned, classical) is classical) == kept
