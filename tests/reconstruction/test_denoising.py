"""Objects without the noise of photons: how much there is of it, and what is taken off."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import reference

from ptycho.methods.assessment import judge, trust_row
from ptycho.methods.prepared import Prepared
from ptycho.methods.table import DENOISED, METHODS
from ptycho.reconstruction.denoising import denoise, photon_noise
from ptycho.scan.coverage import covered
from ptycho.scan.error_map import ErrorMap
from ptycho.scan.reconstruction import Reconstruction


def test_photon_noise_is_that_of_the_information_in_the_amplitudes(dataset_of):
    """``4 Σ_q (∂A_q/∂O)²`` of amplitudes A by differences, for the mean of both parts; √n has σ = ½."""
    rng = np.random.default_rng(0)
    data = dataset_of([[0, 0], [2, 1]], [[0], [1]])
    N, s = data.N, 3.0
    data = replace(data, photon_scale=s)
    target = reference.random_complex(rng, (data.object_size,) * 2)

    def amplitudes(image):
        every = [
            reference.far_field(data.probe[0] * image[r : r + N, c : c + N])
            for r, c in data.positions.astype(int)
        ]
        return s * np.abs(every)

    sigma, step = photon_noise(data), 1e-5
    assert sigma.shape == (1, data.object_size, data.object_size)
    for row, col in ((8, 8), (4, 8), (13, 10)):
        information = 0.0
        for part in (1, 1j):
            moved = target.copy()
            moved[row, col] += part * step
            information += 4 * np.sum(((amplitudes(moved) - amplitudes(target)) / step) ** 2) / 2
        assert sigma[0, row, col] == pytest.approx(1 / np.sqrt(information), rel=1e-3)
    assert np.isinf(sigma[0, 0, -1])  # neither pattern reaches it


def test_photon_noise_sums_the_modes(dataset_of):
    data = dataset_of([[0, 0]], [[0]])
    both = replace(data, beam=data.beam.with_probe(np.concatenate([data.probe, 2 * data.probe])))
    lit = np.isfinite(photon_noise(data))
    np.testing.assert_allclose(photon_noise(both)[lit], photon_noise(data)[lit] / np.sqrt(5), rtol=1e-5)


def two_halves(sigma, seed=0, side=48):
    """An object of two constants that differ by 20 σ, the noise on it, and its standard deviation."""
    rng = np.random.default_rng(seed)
    target = np.where(np.arange(side) < side // 2, 0.5, 0.5 + 20 * sigma) * np.exp(0.7j)
    target = np.broadcast_to(target, (side, side)).astype(complex)
    noise = rng.normal(0, sigma, (2, side, side))
    return target, noise[0] + 1j * noise[1], np.full((1, side, side), sigma, np.float32)


def test_noise_is_taken_off_and_edges_are_not():
    target, noise, sigma = two_halves(0.01)
    mask = np.ones((1, 48, 48), bool)
    found = denoise((target + noise)[None].astype(np.complex64), mask, sigma)[0]
    assert np.std(found - target) < 0.35 * np.std(noise)
    edge = slice(22, 26)
    assert np.std((found - target)[:, edge]) < 0.7 * np.std(noise[:, edge])
    assert abs(np.mean(found - target)) < 1e-3


def test_no_more_noise_is_taken_off_than_there_is():
    """Ten times as much as photons are said to leave, or a tenth: by what is seen, and by what is said."""
    target, noise, sigma = two_halves(0.01)
    mask, made = np.ones((1, 48, 48), bool), (target + noise)[None].astype(np.complex64)
    right, more, less = (denoise(made, mask, factor * sigma)[0] for factor in (1, 10, 0.1))
    assert np.std(more - right) < 0.1 * np.std(noise)
    assert np.std(less - made[0]) < 0.1 * np.std(noise)
    clean = target[None].astype(np.complex64)
    np.testing.assert_allclose(denoise(clean, mask, sigma), clean, atol=1e-6)


def test_each_pixel_has_its_own_noise():
    rng = np.random.default_rng(1)
    sigma = np.broadcast_to(np.geomspace(0.005, 0.03, 64), (64, 64)).astype(np.float32)
    noise = sigma * (rng.normal(size=(64, 64)) + 1j * rng.normal(size=(64, 64)))
    made = (1 + noise)[None].astype(np.complex64)
    found = denoise(made, np.ones((1, 64, 64), bool), sigma[None])[0]
    for part in (slice(0, 16), slice(24, 40), slice(48, 64)):
        assert np.std(found[:, part] - 1) < 0.4 * np.std(noise[:, part])


def test_what_is_not_lit_stays_and_is_not_looked_at():
    target, noise, sigma = two_halves(0.01)
    made = np.stack([target + noise] * 2).astype(np.complex64)
    mask = np.zeros((2, 48, 48), bool)
    mask[0, 5:40, 7:44] = True
    mask[0, 20, 20] = False
    made[0, ~mask[0]] = 50
    sigma = np.where(mask, sigma, np.inf).astype(np.float32)
    found = denoise(made, mask, sigma)
    np.testing.assert_array_equal(found[~mask], made[~mask])
    inside = (slice(10, 16), slice(12, 40))
    assert np.std((found[0] - target)[inside]) < 0.5 * np.std(noise[inside])


def test_a_global_phase_stays_one():
    target, noise, sigma = two_halves(0.01)
    made, mask = (target + noise)[None].astype(np.complex64), np.ones((1, 48, 48), bool)
    turn = np.exp(1.1j).astype(np.complex64)
    np.testing.assert_allclose(
        denoise(turn * made, mask, sigma), turn * denoise(made, mask, sigma), atol=2e-3
    )


def test_a_run_keeps_the_beam_and_flags_the_noise_where_it_still_is(dataset_of):
    rng = np.random.default_rng(0)
    places = [[r, c] for r in range(0, 48, 8) for c in range(0, 48, 8)]
    data = dataset_of(places, [[k] for k in range(36)])
    objects = np.ones((1, 64, 64)) + 0.02 * reference.random_complex(rng, (1, 64, 64))
    each = Prepared("scan", None, data, np.arange(36), np.zeros(0, int))
    errors = ErrorMap(*2 * [np.ones(objects.shape, np.float32)])
    made = Reconstruction(objects.astype(np.complex64), covered(data), data.beam, errors=errors)
    found = METHODS[DENOISED](each, {"solver": made}, None)
    assert found.beam is data.beam and found.denoised and not made.denoised
    assert made.errors is not None and found.errors is None  # those of the noisy object are not its own
    expected = denoise(made.objects, made.mask, photon_noise(data))
    np.testing.assert_array_equal(found.objects, expected)
    noisy, clean = (trust_row(judge(one, each), one, each) for one in (made, found))
    assert noisy["noise_share"] > 1 and "amplitude_in_noise" in noisy["flags"]
    assert clean["noise_share"] > 1 and "amplitude_in_noise" not in clean["flags"]
    uncounted = replace(each, whole=replace(data, counts=False))
    assert trust_row(judge(made, uncounted), made, uncounted)["noise_share"] is None
