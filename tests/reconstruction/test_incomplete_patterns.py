"""Pixels that were not measured in single patterns count nowhere, whatever stands for them."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import N, full_scan, likelihood_of
from scipy.special import kl_div

from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.holdout import hold_out
from ptycho.reconstruction.misfit import misfit
from ptycho.reconstruction.uncertainty import measure_again
from ptycho.scan.patterns import unmeasured
from ptycho.training.competitors import geometry_of

PARTS = ("object", "modes", "positions", "flux", "background")


@pytest.fixture(scope="module")
def scan():
    return full_scan(5)


@pytest.fixture(scope="module")
def lacking():
    """A tenth of the pixels of each pattern, others in each, ``(J, N, N)``; the first pattern is whole."""
    chosen = np.random.default_rng(4).random((25, N, N)) < 0.1
    chosen[0] = False
    return chosen


@pytest.fixture(scope="module")
def pair(scan, lacking):
    """The same incomplete scan with two sets of guesses, and its whole patterns."""
    whole = scan.dataset(np.random.default_rng(5))
    guesses = np.zeros(lacking.shape, np.float32), np.full(lacking.shape, 300, np.float32)
    arrays = [np.where(lacking, unmeasured(guess), whole.amplitudes[:]) for guess in guesses]
    both = [replace(whole, amplitudes=array) for array in arrays]
    for data in both:
        data.__dict__["normalisation"] = whole.normalisation  # which the guesses would change
    return *both, whole


def test_deviance_by_the_measured_pixels(scan, pair, lacking):
    empty, bright, whole = pair
    estimate, away = scan.estimate(whole.normalisation), np.fft.ifftshift(lacking, axes=(1, 2))
    counts = np.fft.ifftshift(np.rint(whole.amplitudes[:].astype(float) ** 2), axes=(1, 2))
    pixels = 2 * kl_div(counts + 0.02, scan.intensity() + 0.02)
    found = [likelihood_of(data).evaluate(estimate, PARTS) for data in (empty, bright)]
    np.testing.assert_allclose(found[0].deviance, np.sum(pixels, axis=(1, 2), where=~away), rtol=1e-4)
    np.testing.assert_array_equal(found[0].deviance, found[1].deviance)
    for name in PARTS:
        assert np.isfinite(found[0].gradients[name]).all()
        np.testing.assert_array_equal(found[0].gradients[name], found[1].gradients[name])


@pytest.mark.parametrize("noise", ["poisson", "gaussian"])
def test_they_stay_so_where_the_noise_is_drawn_anew_or_held_out(pair, lacking, noise):
    """Of 25 patterns, photons or noise are held out."""
    whole = likelihood_of(pair[1], noise=noise)
    kept, held = hold_out(whole, 0)
    assert held.kind in ("photons", "noise")
    for part in (kept, held.likelihood, measure_again(whole, [1])):
        np.testing.assert_array_equal(np.isneginf(part.amplitudes(slice(0, 25))), lacking)


def test_scores_of_the_measured_pixels(scan, pair, lacking):
    empty, bright, whole = pair
    image = Estimate.of(whole, scan.object).object
    found, other = misfit(image, empty), misfit(image, bright)
    for name in ("residual", "measured", "noise", "deviance"):
        np.testing.assert_array_equal(getattr(found, name), getattr(other, name))
    np.testing.assert_array_equal(found.pixels, N**2 - lacking.sum(axis=(1, 2)))
    assert found.residual[0] == misfit(image, whole).residual[0]
    np.testing.assert_array_equal(likelihood_of(empty).pixels, found.pixels)


def test_networks_see_them_as_not_measured(pair, lacking):
    data, whole = pair[1], pair[2]
    assert geometry_of(data).masked and not geometry_of(whole).masked
    beam = replace(data.beam, flux=np.full(25, 1.5, np.float32), background=np.full((N, N), 0.3, np.float32))
    seen = replace(data, beam=beam).normalised(np.arange(25))
    np.testing.assert_array_equal(seen < 0, lacking)
