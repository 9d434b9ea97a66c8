"""Half-scan correlation: its values, and when there is none."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import Scan
from helpers.quick import KNOWN

from ptycho.methods.half_scans import half_scans
from ptycho.methods.solver import half_object
from ptycho.reconstruction.maximum_likelihood import solve
from ptycho.scan.reconstruction import covered_part, photon_noise


@pytest.fixture(scope="module")
def scan():
    return Scan.of(np.random.default_rng(1), count=11, step=4.0)


def halves(scan, converged):
    """Return the correlation of halves that are both the true object."""
    states = iter(converged)
    part = lambda part: replace(covered_part(scan.object, part), converged=next(states))  # noqa: E731
    return half_scans(part, scan.dataset(), 0)


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
    """After enough steps, and after two."""
    data = scan.dataset(np.random.default_rng(2))
    solved = solve(data, replace(KNOWN, steps=60), 0)
    made = replace(covered_part(solved.estimate.object, data), fit=solved)
    half = data.subset(np.arange(0, 121, 2), 1)
    assert half_object(made, 60)(half).converged
    assert not half_object(made, 2)(half).converged


def test_halves_that_differ_by_photon_noise_alone_end_where_it_says(scan):
    """Each half is the true object plus the noise of its own photons, ``photon_noise``."""
    dim = replace(scan, modes=scan.modes / 6)
    data, rng = dim.dataset(np.random.default_rng(3)), np.random.default_rng(4)

    def noisy(part):
        sigma = np.where(np.isfinite(photon_noise(part)[0]), photon_noise(part)[0], 0)
        noise = sigma * (rng.standard_normal(sigma.shape) + 1j * rng.standard_normal(sigma.shape))
        return covered_part((dim.object + noise).astype(np.complex64), part)

    found = half_scans(noisy, data, 0)
    assert found.agree_to < 0.8
    assert found.by_photons == pytest.approx(found.agree_to, rel=0.4)
