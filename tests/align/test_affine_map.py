"""Affine position correction: scale and rotation of nominal positions, of a scan simulated by loops."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import Scan

from ptycho.align.affine_map import find_map
from ptycho.scan.optics import curvature_of, curved, lens


@pytest.fixture(scope="module")
def scan():
    return Scan.of(np.random.default_rng(1), 1e5, count=7, step=2.0)


def found(scan, factor=1.0, degrees=0.0, jitter=0.0):
    """Return the map found for nominal positions that are scaled by a factor and rotated, rows to columns."""
    data, rng = scan.dataset(np.random.default_rng(2), exact=True), np.random.default_rng(3)
    c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    recorded = factor * scan.positions @ np.array([[c, s], [-s, c]]) + rng.normal(
        0, jitter, scan.positions.shape
    )
    recorded -= recorded.min(axis=0) - 1
    side = int(np.ceil(recorded.max())) + data.N + 2
    return find_map(
        replace(data, beam=replace(data.beam, positions=recorded.astype(np.float32)), object_size=side)
    )


def test_a_scale_and_a_turn_with_its_sign_are_found(scan):
    recorded = found(scan, 1.25, degrees=8.0)
    assert recorded.scale_differs and recorded.scale == pytest.approx(0.8, rel=0.02)
    assert recorded.turn_differs and recorded.degrees == pytest.approx(-8, abs=0.7)


def test_positions_that_are_right_but_for_noise_are_not_doubted(scan):
    recorded = found(scan, jitter=0.3)
    assert recorded is None or not (recorded.scale_differs or recorded.turn_differs)


def test_a_search_begins_only_where_the_score_test_asks_for_it(scan):
    assert found(scan) is None
    assert found(scan, factor=1.04) is not None


def test_few_patterns_tell_nothing(scan):
    data = scan.dataset(np.random.default_rng(2))
    assert find_map(data.subset(np.arange(11), 1)) is None


@pytest.mark.parametrize("curvature", [-240.0, 150.0])
def test_the_curvature_of_a_lens_is_found(curvature):
    """The pupil has a radius of 10 px at N = 64."""
    q = np.hypot(*np.mgrid[-32:32, -32:32])
    probe = lens((q < 10).astype(float), curvature)
    assert curvature_of(probe) == pytest.approx(curvature, abs=12)
    assert np.abs(curved(probe, -curvature)).argmax() == 32 * 64 + 32
