"""Two halves of a scan compared: what they tell, and when they tell nothing."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import Scan

from ptycho.methods.assessment import half_scans
from ptycho.methods.solver import half_object
from ptycho.reconstruction.deciding import Wishes
from ptycho.reconstruction.maximum_likelihood import solve
from ptycho.scan.coverage import covered_part


@pytest.fixture(scope="module")
def scan():
    return Scan.of(np.random.default_rng(1), count=11, step=4.0)


def halves(scan, converged):
    """Of halves that are both the true object."""
    states = iter(converged)
    return half_scans(
        lambda part: replace(covered_part(scan.object, part), converged=next(states)), scan.dataset(), 0
    )


def test_halves_that_agree_never_fall(scan):
    found = halves(scan, (True, True))
    np.testing.assert_allclose(found.correlation, 1, atol=1e-5)
    assert set(found.crossings.values()) == {None}


@pytest.mark.parametrize("converged", [(True, False), (False, True)])
def test_halves_that_are_not_done_tell_nothing(scan, caplog, converged):
    with caplog.at_level(logging.WARNING):
        assert halves(scan, converged) is None
    assert "raise solver.steps" in caplog.text


def test_a_half_that_is_explained_worse_than_the_whole_is_not_done(scan):
    """After as many steps as it takes, and after two."""
    data = scan.dataset(np.random.default_rng(2))
    wishes = Wishes(probe=False, positions=False, flux=False, background=False, prior="none", steps=60)
    solved = solve(data, wishes, 0)
    made = replace(covered_part(solved.state.object, data), fit=solved)
    half = data.subset(np.arange(0, 121, 2), 1)
    assert half_object(made, 60)(half).converged
    assert not half_object(made, 2)(half).converged
