"""The losses against double precision and loops, from one photon to 10⁸ in a pixel, and their gradients."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import reference
from helpers.gradients import gradients

from ptycho.networks.pinn import poisson_deviance, total_variation


@pytest.mark.parametrize("f", [1.0, 3e-4])
@pytest.mark.parametrize("counts", [1, 2, 10, 1e3, 1e5, 1e8])
@pytest.mark.parametrize("ratio", [1e-4, 0.3, 0.499, 0.501, 0.98, 1.02, 3.0, 100.0])
def test_deviance_of_a_pixel(f, counts, ratio):
    expected = reference.poisson_deviance(ratio * counts, counts)
    predicted, measured = (np.float32([f * np.sqrt(n)]) for n in (ratio * counts, counts))  # x = f √n
    assert float(poisson_deviance(predicted, measured, tf.constant(f))) == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("counts", [0.0, 1.0, 100.0, 1e8])
@pytest.mark.parametrize("rate", [0.0, 1e-12, 1e-4, 1.0, 1e8])
def test_deviance_and_its_gradient_are_finite(counts, rate):
    measured, predicted = np.float32([np.sqrt(counts)]), np.float32([np.sqrt(rate)])
    value, gradient = gradients(lambda x: poisson_deviance(x, measured, tf.constant(1.0)), predicted)
    assert np.isfinite(value) and np.isfinite(gradient).all() and value >= 0
    if rate >= 1e-4:  # d/dx̂ of 2[x̂² − n·log x̂²]
        slope = 4 * np.sqrt(rate) - 4 * counts / np.sqrt(rate)
        assert float(gradient[0]) == pytest.approx(slope, rel=0.02, abs=1)


def test_total_variation_of_a_constant_object_is_zero_with_a_finite_gradient():
    constant = tf.fill((1, 6, 7), tf.constant(0.3 - 0.4j, tf.complex64))
    value, gradient = gradients(total_variation, constant)
    assert float(value) == 0
    np.testing.assert_array_equal(gradient, np.zeros((1, 6, 7)))
