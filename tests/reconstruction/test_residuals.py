"""Unexplained variance of patterns: by loops, and independent of the noise."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import N, Scan

from ptycho.reconstruction.misfit import Residuals, find_outliers, residuals

PHOTONS = 3e4


@pytest.fixture(scope="module")
def scan():
    found = Scan.of(np.random.default_rng(1), PHOTONS, count=7, step=1.6)
    whole = np.round(found.positions)
    return replace(found, positions=whole)


def of(scan, data, image=None):
    image = scan.object if image is None else image
    mean = data.amplitudes.statistics.mean_intensity
    return residuals(image.astype(np.complex64), data, mean, np.arange(len(data.positions)))


def neighbours(image, good):
    """Return the mean product of neighbours in rows and columns, and around corners, by loops."""
    products = []
    for r in range(N):
        for c in range(N):
            for other in ((r - 1) % N, c), (r, (c - 1) % N):
                if good[r, c] and good[other]:
                    products.append(image[r, c] * image[other])
    return np.mean(products)


@pytest.mark.parametrize("masked", [False, True])
def test_by_loops(scan, masked):
    rng = np.random.default_rng(2)
    good = rng.uniform(size=(N, N)) > 0.1 if masked else np.ones((N, N), bool)
    wrong = scan.object * np.exp(0.3j * rng.normal(size=scan.object.shape))
    data = scan.dataset(rng, good=good if masked else None)
    data = replace(data, amplitudes=np.where(good, data.amplitudes[:], 0))
    found = of(scan, data, wrong)
    counts = np.fft.ifftshift(np.asarray(data.amplitudes[:], float) ** 2, axes=(1, 2))
    intensity, measured = replace(scan, object=wrong).intensity(), np.fft.ifftshift(good)
    mean = counts.mean(axis=0)
    weight, f = 1 / np.sqrt(mean + 0.03 * mean.mean()), data.normalisation
    for j in (0, 17):
        flux = counts[j][measured].sum() / mean[measured].sum()
        missed = neighbours(weight * (counts[j] - intensity[j]), measured)
        varied = neighbours(weight * (counts[j] - flux * mean), measured)
        assert found.missed[j] == pytest.approx(f**2 * missed, rel=1e-3, abs=1e-4 * f**2)
        assert found.varied[j] == pytest.approx(f**2 * varied, rel=1e-3, abs=1e-4 * f**2)


@pytest.mark.parametrize("noise", ["photons", "amplitudes", "none"])
def test_noise_is_not_unexplained(scan, noise):
    """The truth explains all variation for any noise; the unit of the amplitudes does not matter."""
    rng = np.random.default_rng(3)
    data = scan.dataset(rng if noise == "photons" else None, counts=noise == "photons")
    if noise == "amplitudes":
        amplitudes = data.amplitudes[:] + rng.normal(0, 0.5, data.amplitudes.shape)
        data = replace(data, amplitudes=(0.01 * abs(amplitudes)).astype(np.float32), photon_scale=0.01)
    found = of(scan, data)
    assert abs(found.share) < 0.02 and found.worst_tenth < 0.05 and found.certainty > 5


def test_the_worst_tenth_of_few_photons_is_no_tenth_of_noise():
    """At 200 photons per pattern, noise alone leaves 10 % of the variation unexplained in 10 % of them."""
    dim = Scan.of(np.random.default_rng(9), 200, count=9, step=2.2)
    found = of(dim, dim.dataset(np.random.default_rng(10)))
    plain = np.quantile(found.missed, 0.9) / found.varied.mean()
    assert found.worst_tenth < 0.4 * plain and abs(found.share) < 3 * found.share_error
    spread = np.std(found.missed) / found.varied.mean()
    assert found.share_error == pytest.approx(np.sqrt(np.pi / 2 / 81) * spread, rel=0.35)


def test_noise_alone_does_not_vary_and_of_nothing_there_is_no_share(scan):
    rng = np.random.default_rng(8)
    counts = rng.poisson(np.full((len(scan.positions), N, N), 20.0))
    data = scan.dataset(rng)
    assert of(scan, replace(data, amplitudes=np.sqrt(counts).astype(np.float32))).certainty < 4
    nothing = Residuals(np.zeros(4), np.zeros(4), np.zeros(4))
    assert np.isnan(nothing.share) and np.isnan(nothing.worst_tenth) and nothing.certainty == 0


def test_a_few_bright_patterns_or_a_small_object_are_contrast():
    """Of 60 patterns, six are nine times as bright; or the object is in six of them alone."""
    rng = np.random.default_rng(9)
    bright = (1 + 0.3 * rng.normal(size=60)) * np.where(np.arange(60) % 10, 1, 81)
    small = 0.3 * rng.normal(size=60) + 9 * (np.arange(60) % 10 == 0) * rng.uniform(0.8, 1.2, 60)
    nothing = rng.normal(size=(1000, 60))
    of_bright, of_small, *of_nothing = (
        Residuals(np.zeros(60), varied, np.zeros(60)).certainty for varied in (bright, small, *nothing)
    )
    assert of_bright > 8 and of_small > 2.2 and np.mean(np.array(of_nothing) > 4) < 0.002


def misses(count, seed=0):
    """Return unexplained fractions of ``count`` patterns of a good scan, and their deviances."""
    rng = np.random.default_rng(seed)
    missed = 0.005 + 0.008 * rng.normal(size=count)
    return missed, np.exp(0.1 * rng.normal(size=count))


@pytest.mark.parametrize("variation", [1.0, 37.0])
def test_one_pattern_among_many_is_an_outlier(variation):
    """An outlier has a large misfit and a large unexplained fraction, at any scale of the misfit."""
    missed, deviances = misses(90)
    assert not len(find_outliers(Residuals(variation * missed, np.full(90, variation), missed), deviances))
    missed[[40, 7]] = 0.2  # 7 with an ordinary misfit
    deviances[[40, 3]] = 5.0  # 3 with an ordinary unexplained fraction
    found = find_outliers(Residuals(variation * missed, np.full(90, variation), missed), deviances)
    np.testing.assert_array_equal(found, [40])


def test_a_scan_that_is_explained_badly_has_no_outliers():
    """Nor has one without variation; many different patterns, or small misfits, are no outliers either."""
    missed, deviances = misses(90)
    many = np.arange(0, 90, 8)
    missed[many], deviances[many] = 0.5, 9.0
    nothing = Residuals(missed, np.zeros(90), missed)
    tiny = Residuals(1e-2 * missed, np.ones(90), missed)
    for one in (Residuals(missed, np.ones(90), missed), nothing, tiny):
        assert not len(find_outliers(one, deviances))
    assert not len(find_outliers(Residuals(missed[:1], np.ones(1), missed[:1]), np.full(1, np.nan)))
