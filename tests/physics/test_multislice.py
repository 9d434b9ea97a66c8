"""Thick samples by multislice: the physics against loops in NumPy, gradients against finite differences."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from helpers.likelihood import likelihood_of
from helpers.multislice import BETWEEN, DISTANCE, PIXEL, WAVELENGTH, spectrum, thick_intensity, thick_scan
from helpers.reference import random_complex
from scipy.special import kl_div

from ptycho import physics
from ptycho.config.waves import FreeSpace, Fresnel


@pytest.mark.parametrize("side", [9, 64])
def test_the_transfer_function_is_the_angular_spectrum_and_keeps_energy(side):
    np.testing.assert_allclose(BETWEEN.transfer(side), spectrum(side), atol=1e-8)
    waves = random_complex(np.random.default_rng(0), (2, side, side)).astype(np.complex64)
    after = physics.propagate(tf.constant(waves), physics.transfer_of(BETWEEN, waves.shape[-1])).numpy()
    np.testing.assert_allclose(np.linalg.norm(after), np.linalg.norm(waves), rtol=1e-5)
    paraxial = Fresnel(*(WAVELENGTH * DISTANCE / length**2 for length in PIXEL))  # where angles are small
    np.testing.assert_allclose(BETWEEN.transfer(side), paraxial.transfer(side), atol=1e-3)


def test_free_space_damps_what_is_finer_than_the_wavelength():
    near = FreeSpace(3.0, 4.0, 4.0).transfer(8)  # pixels of a quarter of a wavelength
    assert np.abs(near).max() <= 1 and abs(near[4, 4]) < 1e-6


def test_forward_by_loops():
    scan, slices = thick_scan(slices=3)
    expected = np.array([thick_intensity(slices, scan.modes, r) for r in scan.positions])
    modes, stack = tf.constant(scan.modes, tf.complex64), tf.constant(slices[None], tf.complex64)
    places = tf.constant(scan.positions[None], tf.float32)
    found = physics.forward(stack, places, modes, exact=True, between=BETWEEN)[0].numpy()
    assert np.linalg.norm(found - expected) < 1e-5 * np.linalg.norm(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * expected.mean())


def test_a_thin_object_is_not_touched_by_a_distance():
    scan, _ = thick_scan()
    data = scan.dataset(np.random.default_rng(0))
    estimate, parts = scan.estimate(data.normalisation), ("object", "modes", "positions")
    both = data, replace(data, between=BETWEEN)
    plain, other = (likelihood_of(one).evaluate(estimate, parts) for one in both)
    assert np.array_equal(plain.deviance, other.deviance)
    for part in parts:
        assert np.array_equal(plain.gradients[part], other.gradients[part])


@pytest.mark.parametrize("part", ["object", "modes", "positions"])
def test_gradients_by_finite_differences(part):
    """Finite differences of loops in double precision; two modes, an object of odd side, two slices."""
    scan, slices = thick_scan()
    data = replace(scan.dataset(np.random.default_rng(1), object_size=slices.shape[-1]), between=BETWEEN)
    f, rng = data.normalisation, np.random.default_rng(2)
    estimate = replace(scan.estimate(f), object=(0.9 * slices).astype(np.complex64))
    gradient = likelihood_of(data).evaluate(estimate, (part,)).gradients[part]
    counts = np.fft.ifftshift(np.square(data.amplitudes[:].astype(float)), axes=(-2, -1))

    def value(step):
        there = {name: getattr(estimate, name).astype(complex) for name in ("object", "modes")}
        there["positions"] = estimate.positions
        there[part] = there[part] + step * move
        intensity = [thick_intensity(there["object"], there["modes"] / f, r) for r in there["positions"]]
        return kl_div(counts + 0.02, np.array(intensity) + 0.02).sum()

    shape = getattr(estimate, part).shape
    move = rng.normal(size=shape) if part == "positions" else random_complex(rng, shape)
    step = 1e-5
    slope = (value(step) - value(-step)) / (2 * step)
    found = np.vdot(gradient.astype(complex), move).real
    assert found == pytest.approx(slope, rel=1e-3)
