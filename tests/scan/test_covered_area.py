"""Coverage of a scan: a threshold of the summed illumination, without the effect of a single noisy pixel."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import reference
from helpers.datasets import single_patterns

from ptycho.reconstruction.misfit import misfit
from ptycho.scan.reconstruction import covered, covered_part, photon_noise


def scan_of(probe, positions):
    return single_patterns(np.ones((len(positions), *probe.shape)), probe, positions, 60)


def test_a_noisy_pixel_of_the_probe_covers_nothing_and_a_pattern_apart_does():
    probe = (np.hypot(*np.mgrid[-16:16, -16:16]) < 6).astype(float)
    positions = [(2, 2), (2, 5), (4, 3), (26, 27)]
    expected = np.zeros((60, 60), bool)
    for row, column in positions:
        expected[row : row + 32, column : column + 32] |= probe > 0
    noisy = probe.copy()
    noisy[2, 3] = noisy[29, 29] = 0.2
    np.testing.assert_array_equal(covered(scan_of(noisy, positions))[0], expected)
    np.testing.assert_array_equal(covered(scan_of(noisy, positions), island=0.0)[0].sum(), expected.sum() + 8)


def test_bright_patterns_are_predicted_by_what_lies_outside_the_mask_too():
    """Where a probe is faint, 10⁸ photons still show the object."""
    rng, probe = np.random.default_rng(2), np.exp(-(np.hypot(*np.mgrid[-16:16, -16:16]) ** 2) / 60) + 0j
    target = reference.random_complex(rng, (60, 60)) + 2
    positions = [(2, 2), (8, 5), (14, 12)]
    waves = np.stack([reference.far_field(probe * target[r : r + 32, c : c + 32]) for r, c in positions])
    scale = np.sqrt(1e8 / np.mean(np.sum(np.abs(waves) ** 2, axis=(1, 2))))
    amplitudes = (scale * np.abs(waves)).astype(np.float32)
    data = replace(scan_of(probe, positions), amplitudes=amplitudes, photon_scale=float(scale))
    made = covered_part(target, data)
    assert not made.object[~made.covered].any()
    assert misfit(made.layers, data).mean_deviance < 0.1 < misfit(made.object, data).mean_deviance


def test_photon_noise_is_that_of_the_information_in_the_amplitudes(dataset_of):
    """``4 Σ_q (∂A_q/∂O)²`` of amplitudes A by differences, for the mean of both parts; √n has σ = ½."""
    rng = np.random.default_rng(0)
    data = dataset_of([[0, 0], [2, 1]], [[0], [1]])
    N, s = data.N, 3.0
    data = replace(data, photon_scale=s)
    target = reference.random_complex(rng, (data.object_size,) * 2)

    def amplitudes(image):
        windows = (image[r : r + N, c : c + N] for r, c in data.positions.astype(int))
        every = [reference.far_field(data.probe[0] * window) for window in windows]
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
    illuminated = np.isfinite(photon_noise(data))
    one, two = (photon_noise(scan)[illuminated] for scan in (data, both))
    np.testing.assert_allclose(two, one / np.sqrt(5), rtol=1e-5)
