"""Position jumps of tens of pixels, of a scan simulated by loops: patterns alone and sections of a scan."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import Scan, intensity_of

from ptycho.align.position_jumps import (
    JumpOptions,
    bring_together,
    find_jumps,
    sections,
    stand_out,
    strip,
)
from ptycho.align.registration import Registration, RegistrationOptions, seeds
from ptycho.reconstruction.estimate import Refine
from ptycho.scan.beam import Beam
from ptycho.scan.comparison import REFINED

KEPT = Refine(False)


@pytest.fixture(scope="module")
def scan():
    whole = Scan.of(np.random.default_rng(1), 1e6, count=10, step=2.0)
    return replace(whole, positions=np.round(whole.positions))


def recorded(scan, errors):
    """Return the scan with ``errors (J, 2)`` px added to its positions, on an object that holds them."""
    data, positions = scan.dataset(np.random.default_rng(2), exact=True), scan.positions + errors
    positions = positions - np.floor(positions.min(axis=0)) + 1
    side = data.N + int(np.ceil(positions.max())) + 2
    return replace(data, beam=Beam(data.probe, positions.astype(np.float32)), object_size=side)


def slipped(chosen, by):
    errors = np.zeros((100, 2))
    errors[chosen] = by
    return errors


@pytest.mark.parametrize(
    ("count", "by", "more"),
    [(9, (0.0, 5.9), False), (10, (0.0, 3.0), True), (1, (-3.6, 4.8), True), (400, (2.9, 0.0), False)],
)
def test_scatter_is_left_to_the_refinement_of_positions(count, by, more):
    """Of 1000 patterns less than a hundredth may be moved by 3 px or more, and none by 6 px."""
    moves = np.zeros((1000, 2))
    moves[:count] = by
    assert stand_out(moves) is more


def test_a_part_of_the_scan_is_fitted_on_its_window_of_the_object(scan):
    registration = Registration.of(recorded(scan, 0), KEPT)
    part, before = np.array([41, 30, 31, 40]), registration.estimate.object.copy()
    low = registration.nominal[part].min(axis=0).astype(int) - 6
    high = registration.nominal[part].max(axis=0).astype(int) + registration.data.N + 6
    registration.fit(part, KEPT, 30)
    changed = registration.estimate.object != before
    assert changed.any() and not np.delete(changed, np.s_[low[0] : high[0]], axis=0).any()
    assert not np.delete(changed, np.s_[low[1] : high[1]], axis=1).any()
    assert registration.own_shares(part).max() < 0.05


def test_moves_undo_the_errors(scan):
    errors = slipped([13, 47, 82], [(9, -4), (-6, 8), (-9, -5)])
    found = find_jumps(recorded(scan, errors), False)
    np.testing.assert_allclose(found.moves, -errors, atol=0.5)
    assert found.kind == "jumps" and found.gain.passes(REFINED) and not found.lost
    assert np.median(found.deviance) < 2 * scan.dataset().N ** 2


def test_moves_are_found_where_noise_is_most_of_what_is_unexplained():
    """10⁴ photons: with correct positions the misfit is 13 % less, and the rest is noise."""
    whole = Scan.of(np.random.default_rng(1), 1e4, count=10, step=2.0)
    errors = slipped(slice(70, None), (0, 6))
    found = find_jumps(recorded(replace(whole, positions=np.round(whole.positions)), errors), False)
    np.testing.assert_allclose(found.moves, -errors, atol=0.6)
    assert found.gain.gain < 0.2 and found.kind == "a jump"


def test_right_positions_and_bad_frames_stay_as_they_are(scan):
    data = recorded(scan, 0)
    amplitudes = data.amplitudes[:].copy()
    amplitudes[31], amplitudes[64] = 0, 40.0
    for one in (data, replace(data, amplitudes=amplitudes)):
        found = find_jumps(one)
        assert not found.moves.any() and not found.lost


def test_positions_at_random_are_lost_rather_than_moved(scan):
    errors = np.random.default_rng(3).uniform(-20, 20, scan.positions.shape)
    found = find_jumps(recorded(scan, errors).subset(np.arange(20), 1), False)
    assert found.lost and not found.moves.any()


def test_a_large_scan_is_tried_by_a_strip(scan):
    """Then the whole scan is searched, or, if it is too large, flagged without a correction."""
    data = recorded(scan, slipped(slice(56, None), (9, -4)))
    small = JumpOptions(pixels=60 * data.N**2)
    found = find_jumps(data, False, small)
    assert 40 < found.moved.sum() < 60 and not found.lost
    found = find_jumps(data, False, replace(small, most_pixels=99 * data.N**2))
    assert found.lost and not found.moves.any()


def test_single_patterns_of_a_large_scan_are_left_to_the_search_for_outliers(scan):
    data = recorded(scan, slipped([45, 54, 65], [(9, -4), (-6, 8), (-9, -5)]))
    found = find_jumps(data, False, JumpOptions(pixels=60 * data.N**2))
    assert found.contradicted and not found.moves.any() and not found.lost


@pytest.fixture(scope="module")
def known(scan):
    """A registration with the true object and all patterns but 44, whose position is wrong by (5, −7)."""
    registration = Registration.of(recorded(scan, slipped([44], (5, -7))), KEPT)
    image = np.full(registration.estimate.object.shape, registration.estimate.object[0, 0])
    corner = RegistrationOptions.reach + np.round(
        registration.nominal[0] - RegistrationOptions.reach - scan.positions[0]
    ).astype(int)
    side = len(scan.object)
    image[corner[0] : corner[0] + side, corner[1] : corner[1] + side] = scan.object
    registration.estimate = replace(registration.estimate, object=image.astype(np.complex64))
    registration.cover = registration.cover_of(np.delete(np.arange(100), 44))
    return registration


def test_wrong_places_are_left_although_the_object_was_fitted_there(known):
    moves = np.zeros((100, 2))
    moves[[12, 55, 78]] = (5, -4)
    registration = replace(known, placed=np.arange(100) != 44, moves=moves)
    registration.fit(np.flatnonzero(registration.placed), KEPT, 20)
    assert registration._place_again()
    assert np.abs(registration.moves[registration.placed]).max() <= 1


def test_the_share_by_loops(scan, known):
    """Of three patterns, two of them one or two pixels off, with ν and V summed pixel by pixel."""
    counts = np.fft.ifftshift(np.square(known.data.amplitudes[:].astype(float)), axes=(1, 2))
    mean = np.sqrt(counts.mean(axis=0))

    def left(root, other):
        return np.sum((root - np.sum(root * other) / np.sum(other**2) * other) ** 2)

    noise = np.minimum(mean**2, 0.25).sum()
    varied = np.mean([left(np.sqrt(n), mean) for n in counts]) - noise
    for j, move in ((20, (0, 0)), (33, (1, 0)), (71, (-1, 2))):
        intensity = intensity_of(scan.object, scan.modes, scan.positions[j] + move)
        expected = (left(np.sqrt(counts[j]), np.sqrt(intensity)) - noise) / varied
        assert known.shares(j, np.array([move]))[0] == pytest.approx(expected, abs=2e-3)


def test_seeds_go_one_way():
    """A raster back and forth, eight columns."""
    rows, columns = np.mgrid[:8, :8]
    columns[1::2] = columns[1::2, ::-1]
    found = seeds(np.stack([rows, columns], -1).reshape(-1, 2) * (1.0, 2.0))
    every, forward, back = found[0]
    assert {*every // 8 % 2} == {0, 1}
    inner = [seed[(seed % 8 > 0) & (seed % 8 < 7)] // 8 % 2 for seed in (forward, back)]
    assert {*inner[0]} != {*inner[1]} and all(len({*rows}) == 1 for rows in inner)


def test_a_strip_crosses_all_rows():
    rows, columns = np.mgrid[:20, :30]
    chosen = strip(3.0 * np.stack([rows, columns], -1).reshape(-1, 2), 80)
    assert {*chosen // 30} == {*range(20)} and {*chosen % 30} <= {*range(12, 18)}


# ---- sections

JUMP = np.where(np.arange(100) < 60, 0, 6)[:, None] * [0, 1]  # behind three fifths of the scan


def registered(scan, errors, moves):
    """Return a registration of a scan with position ``errors`` px, corrected by ``moves`` px."""
    registration = Registration.of(recorded(scan, errors), KEPT)
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
