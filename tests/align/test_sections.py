"""Patterns behind a jump are shifted together; patterns with unequal shifts are not."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import Scan

from ptycho.align.registration import Registration
from ptycho.align.sections import bring_together, sections
from ptycho.reconstruction.estimate import Refine
from ptycho.scan.beam import Beam

JUMP = np.where(np.arange(100) < 60, 0, 6)[:, None] * [0, 1]  # behind three fifths of the scan


@pytest.fixture(scope="module")
def scan():
    whole = Scan.of(np.random.default_rng(1), 1e6, count=10, step=2.0)
    return replace(whole, positions=np.round(whole.positions))


def registered(scan, errors, moves):
    """Return a registration of a scan with position ``errors`` px, corrected by ``moves`` px."""
    data, positions = scan.dataset(np.random.default_rng(2), exact=True), scan.positions + errors
    positions = positions - np.floor(positions.min(axis=0)) + 1
    side = data.N + int(np.ceil(positions.max())) + 2
    data = replace(data, beam=Beam(data.probe, positions.astype(np.float32)), object_size=side)
    registration = Registration.of(data, Refine(False))
    registration.placed, registration.moves = np.ones(100, bool), moves.astype(float)
    registration.fit(np.arange(100), registration.refined, 20)
    return registration


def test_what_is_behind_a_jump_moves_as_one(scan):
    """The object became two pixels too wide there, a little from pattern to pattern."""
    too_wide = np.round(np.clip((np.arange(100) - 60) / 15, 0, 2))[:, None] * [1, 0]
    registration = registered(scan, JUMP, too_wide - JUMP)
    assert bring_together(registration)
    np.testing.assert_array_equal(registration.moves, -JUMP)


def test_what_is_right_stays(scan):
    registration = registered(scan, JUMP, -JUMP)
    assert not bring_together(registration)
    np.testing.assert_array_equal(registration.moves, -JUMP)


def test_patterns_that_drift_are_not_put_in_steps(scan):
    drift = np.round(np.linspace(0, 8, 100))[:, None] * [0, 1]
    registration = registered(scan, drift, -drift)
    before = registration.estimate
    assert len(sections(registration.moves, registration.placed)) > 1
    assert not bring_together(registration)
    np.testing.assert_array_equal(registration.moves, -drift)
    np.testing.assert_array_equal(registration.estimate.object, before.object)


def test_sections_by_hand():
    """Fifty without a shift, forty shifted by six within a pixel, five elsewhere, and one without a place."""
    moves = np.concatenate([np.zeros((50, 2)), np.tile([[6, 0], [6, 1]], (20, 1)), np.full((6, 2), 20.0)])
    first, second = sections(moves, np.arange(96) < 95)
    assert first.tolist() == list(range(50)) and second.tolist() == list(range(50, 90))
