"""Causes of a misfit: patterns by loops with one imperfection, at the true object and beam."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import N, Scan, likelihood_of
from scipy.ndimage import gaussian_filter

from ptycho.reconstruction.causes import CAUSES, CauseLimits, score_causes, score_fit

PHOTONS = 1e5


@pytest.fixture(scope="module")
def truth():
    return Scan.of(np.random.default_rng(3), PHOTONS, count=6, step=2.6)


def measured_by(truth, intensity, **beam):
    """The scan with counts of an intensity ``(J, N, N)``, zero frequency at sample 0."""
    return truth.dataset(np.random.default_rng(5), intensity, **beam)


def causes_in(truth, intensity, **beam):
    return score_causes(truth.object.astype(np.complex64), measured_by(truth, intensity, **beam))


def blurred_by(truth, moves):
    """The mean intensity over moves of the sample ``(k, 2)`` px."""
    return np.mean([replace(truth, positions=truth.positions + move).intensity() for move in moves], axis=0)


def test_photon_noise_has_no_cause(truth):
    found = causes_in(truth, truth.intensity())
    assert found.named() is None and not any(found.plausible(name) for name in CAUSES)
    assert all(gain < 30 for gain in found.gains.values())  # χ² of four numbers at most
    assert 0.3 < found.by_pixel.mean() < 1.05  # λ / (λ + ½) on average
    pixels = 36 * N**2
    assert abs(found.excess) < 5 * np.sqrt(2 * pixels)


def test_patterns_that_shift_with_the_position(truth):
    """By linear interpolation of neighbouring pixels; no stretch of the positions gives that."""
    far = truth.positions - truth.positions.mean(axis=0)
    intensity = truth.intensity()
    for axis, shift in enumerate(0.02 * far.T[::-1] * [[-1], [1]]):
        part, shift = np.abs(shift)[:, None, None], np.sign(shift)[:, None, None]
        there = np.where(shift > 0, np.roll(intensity, 1, axis + 1), np.roll(intensity, -1, axis + 1))
        intensity = (1 - part) * intensity + part * there
    found = causes_in(truth, intensity)
    assert found.named() == "pattern_shift" and not found.plausible("position_map")
    # Of d = ∂λ/∂q · ρ a pattern that moves by s has −s; (row by column, column by −row) here.
    np.testing.assert_allclose(found.sizes["pattern_shift"], [0, 0.02, -0.02, 0], atol=0.006)


def test_positions_of_another_map(truth):
    matrix = np.array([[1.02, 0.01], [0.0, 0.99]])
    middle = truth.positions.mean(axis=0)
    stated = (truth.positions - middle) @ np.linalg.inv(matrix).T + middle
    found = causes_in(truth, truth.intensity(), positions=stated)
    assert found.named() == "position_map" and not found.plausible("pattern_shift")
    np.testing.assert_allclose(found.sizes["position_map"], (matrix - np.eye(2)).ravel(), atol=0.006)


def test_a_sample_that_moves_along_columns(truth):
    moves = np.stack([np.zeros(5), np.linspace(-0.8, 0.8, 5)], axis=1)
    found = causes_in(truth, blurred_by(truth, moves))
    assert found.named() == "motion"
    rows, columns = found.sizes["motion"]
    assert columns == pytest.approx(np.var(moves[:, 1]) / 2, rel=0.25) and abs(rows) < 0.02


def test_a_detector_that_blurs(truth):
    intensity = truth.intensity()
    blurred = intensity + 0.1 * (np.roll(intensity, 1, 1) + np.roll(intensity, -1, 1) - 2 * intensity)
    found = causes_in(truth, blurred)
    assert found.named() == "point_spread"
    assert found.sizes["point_spread"][0] > 5 * abs(found.sizes["point_spread"][1])


def test_a_background(truth):
    found = causes_in(truth, truth.intensity() + 3)
    assert found.named() == "background"
    assert found.sizes["background"] == pytest.approx(3, rel=0.1)
    assert replace(found, excess=-1.0).named() is None, "it explains more than there is to explain"


def test_intensities_of_unknown_noise_tell_no_cause(truth):
    assert score_causes(truth.object.astype(np.complex64), replace(truth.dataset(), counts=False)) is None


def test_an_object_that_is_too_smooth_looks_like_no_motion_at_the_most_likely_one(truth):
    """The object is smoothed as by a regulariser; the same holds with a moving sample."""
    smooth = gaussian_filter(truth.object, 0.6).astype(np.complex64)
    data = measured_by(truth, truth.intensity())
    before, after = score_causes(smooth, data), score_fit(smooth, likelihood_of(data))
    assert before.gains["motion"] > 400 > 4 * after.gains["motion"] and after.named() is None
    moves = np.stack([np.zeros(5), np.linspace(-0.8, 0.8, 5)], axis=1)
    moved = score_fit(smooth, likelihood_of(measured_by(truth, blurred_by(truth, moves))))
    assert moved.named() == "motion"


def test_what_fitted_numbers_absorb_of_the_noise_is_no_lack_of_misfit(truth):
    data = measured_by(truth, truth.intensity())
    found = score_fit(truth.object.astype(np.complex64), likelihood_of(data), CauseLimits(unregularised=60))
    assert abs(found.excess) < 8 * np.sqrt(2 * 36 * N**2)
