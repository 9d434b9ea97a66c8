"""Fourier ring correlation against loops and closed forms, on non-square, odd-sized images."""

import numpy as np
import pytest
from helpers import reference

from ptycho.evaluation.frc import frc, frc_by_direction, frc_crossing, half_bit


@pytest.fixture(params=["real", "complex"])
def pair(request):
    """Two images that differ by noise."""
    rng = np.random.default_rng(3)
    a = reference.random_complex(rng, (21, 35)) + 2
    a = a.real if request.param == "real" else a
    return a, a + rng.normal(size=a.shape)


def test_frc_equals_the_ring_loop(pair):
    a, b = pair
    frequency, correlation = frc(a, b)
    expected = reference.ring_correlation(a, b)
    np.testing.assert_allclose(frequency, expected[0], rtol=1e-12)
    np.testing.assert_allclose(correlation, expected[1], atol=1e-12)


def test_crossing_interpolates_and_takes_the_first_fall():
    q = np.array([0.2, 0.4, 0.6, 0.8])
    assert frc_crossing(q, np.array([0.9, 0.7, 0.3, 0.8]), 0.5) == (pytest.approx(0.5), True)
    assert frc_crossing(q, np.array([0.0, 0.7, 0.3, 0.8]), 0.5) == (pytest.approx(0.1), True)
    assert frc_crossing(q, np.array([0.9, 0.7, 0.6, 0.5]), 0.5) == (1.0, False)


def test_half_bit_is_that_of_the_paper():
    """Of a ring of n samples: .2071 + 1.9102/√n over 1.2071 + .9102/√n; ring 10 of 64 × 64 has 20π."""
    n = 20 * np.pi
    expected = (0.2071 + 1.9102 / n**0.5) / (1.2071 + 0.9102 / n**0.5)
    assert half_bit(np.array([10 / 32]), (64, 64))[0] == pytest.approx(expected)
    assert half_bit(np.array([0.5]), (64, 128))[0] < half_bit(np.array([0.5]), (64, 64))[0]


def test_sectors_equal_a_sum_over_their_samples(pair):
    """Ring 7 of (21, 35), sample by sample; a transposed image has the other sector."""
    a, b = pair
    hann = np.outer(*[np.sin(np.pi * (np.arange(n) + 0.5) / n) ** 2 for n in a.shape])
    fa, fb = (np.fft.fft2(hann * (x - np.average(x, weights=hann))) for x in (a, b))
    cross = power_a = power_b = 0
    for i, u in enumerate(np.fft.fftfreq(21)):
        for j, v in enumerate(np.fft.fftfreq(35)):
            if abs(21 * np.hypot(u, v) - 7) < 0.5 and np.degrees(np.arctan2(abs(v), abs(u))) <= 20:
                cross += (fa[i, j] * fb[i, j].conj()).real
                power_a, power_b = power_a + abs(fa[i, j]) ** 2, power_b + abs(fb[i, j]) ** 2
    found = frc_by_direction(a, b, 20.0)[1]
    assert found[1, 6] == pytest.approx(cross / np.sqrt(power_a * power_b), abs=1e-12)
    np.testing.assert_allclose(frc_by_direction(a.T, b.T, 20.0)[1][2], found[1], atol=1e-12)
