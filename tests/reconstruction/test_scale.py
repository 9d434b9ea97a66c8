"""Positions of another scale under the probe as it was told, against a reconstruction."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import Scan, likelihood_of

from ptycho.reconstruction.scale import better_scale
from ptycho.reconstruction.solver import Terms, fit
from ptycho.reconstruction.state import Freedom, State


@pytest.fixture(scope="module")
def scan():
    return Scan.of(np.random.default_rng(1), 1e5, count=6, step=2.0)


def judged(scan, factor):
    """What is found where positions are told ``factor`` times too far apart, and the probe is free."""
    data = scan.dataset(np.random.default_rng(2), exact=True)
    told = factor * scan.positions
    side = int(np.ceil(told.max())) + data.N + 2
    data = replace(data, beam=replace(data.beam, positions=told.astype(np.float32)), object_size=side)
    terms = Terms(likelihood_of(data))
    start = State.of(data, np.ones((side, side)))
    return better_scale(data, terms, fit(terms, start, Freedom(True), 60).state)


@pytest.mark.parametrize("factor", [1.3, 0.75])
def test_a_wrong_scale_is_found(scan, factor):
    found = judged(scan, factor)
    assert found.clear and found.factor == pytest.approx(1 / factor, rel=0.03)


def test_the_right_scale_is_not_doubted(scan):
    assert not judged(scan, 1.0).clear
