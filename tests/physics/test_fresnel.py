"""Near fields: closed forms, Fresnel's integral, adjoint, energy, direction, and positions between pixels."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import reference
from helpers.reference import random_complex

from ptycho import physics
from ptycho.config.waves import Fresnel

N = 48
WAY = Fresnel(30.0, 21.0)  # unlike along rows and columns


def axes(row=0.0, col=0.0, side=N):
    axis = np.arange(side) - side // 2
    return axis[:, None] - row, axis[None, :] - col


def bump(row=3.0, col=-2.0, width=3.0, tilt=0.0):
    """Return an off-centre Gaussian, which travels to larger rows if it is tilted."""
    r, c = axes(row, col)
    return np.exp(-(r**2 + 1.4 * c**2) / width**2 + 2j * np.pi * tilt * r)


def at_detector(wave, way=WAY, moved=None):
    """Return the wave at the detector by the code under test, with its centre at N//2."""
    waves = tf.constant(np.asarray(wave)[..., None, :, :], tf.complex128)
    shifts = None if moved is None else tf.constant(moved, tf.float64)
    return physics.centre(physics.at_detector(waves, fresnel=way, moved=shifts)[..., 0, :, :]).numpy()


def test_a_gaussian_beam_grows_as_it_does():
    """``w(z)² = w₀² (1 + (z/z_R)²)``, z/z_R = F/(π w₀²), and its middle falls to ``w₀/w`` along each axis."""
    found = np.abs(at_detector(np.exp(-(axes()[0] ** 2 / 16 + axes()[1] ** 2 / 9)))) ** 2
    for axis, (waist, number) in enumerate([(4.0, 30.0), (3.0, 21.0)]):
        wide = waist * np.sqrt(1 + (number / (np.pi * waist**2)) ** 2)
        profile = found.sum(axis=1 - axis)
        variance = np.sum(profile * (np.arange(N) - N // 2) ** 2) / profile.sum()
        assert variance == pytest.approx(wide**2 / 4, rel=1e-3)


def test_by_fresnels_integral():
    wave = bump(tilt=0.08)
    np.testing.assert_allclose(at_detector(wave), reference.fresnel(wave, WAY.numbers), atol=2e-3)


def test_a_lens_focuses_ahead_and_not_behind():
    """The phase ``exp(−iπ x²/F)`` of a converging lens: focused after F, spread after −F."""
    rows, cols = axes()
    lens = np.exp(-1j * np.pi * (rows**2 / WAY.row + cols**2 / WAY.col) - (rows**2 + cols**2) / 60)
    ahead, behind = (np.abs(at_detector(lens, way)) ** 2 for way in (WAY, WAY.reversed))
    assert np.unravel_index(ahead.argmax(), ahead.shape) == (N // 2, N // 2)
    assert ahead.max() > 20 * behind.max()


def test_adjoint_and_energy():
    """``⟨Aψ, φ⟩ = ⟨ψ, A*φ⟩``, A* propagates back and undoes the shift; ``A* A = 1``."""
    rng = np.random.default_rng(3)
    psi, phi = (random_complex(rng, (3, N, N)) for _ in range(2))
    shift = rng.uniform(-0.5, 0.5, (3, 2))
    there, back = at_detector(psi, WAY, shift), at_detector(phi, WAY.reversed, -shift)
    assert np.vdot(there, phi) == pytest.approx(np.vdot(psi, back), rel=1e-10)
    assert np.linalg.norm(there) == pytest.approx(np.linalg.norm(psi), rel=1e-12)
    np.testing.assert_allclose(at_detector(there, WAY.reversed, -shift), psi, atol=1e-11)


def test_numpy_and_tensorflow_are_alike():
    wave = random_complex(np.random.default_rng(1), (2, N, N))
    np.testing.assert_allclose(at_detector(wave), WAY.propagated(wave), atol=1e-11)


def image(place):
    """Patterns ``(J, N, N)`` of a smooth object at positions ``(J, 2)``, zero frequency in the middle."""
    rows, cols = axes(side=N + 8)
    smooth = np.exp(1j * np.sin(0.3 * rows + 0.1 * cols) - 0.3 * np.cos(0.2 * cols - 0.25 * rows) ** 2)
    intensity = physics.forward(
        tf.constant(smooth[None], tf.complex64),
        tf.constant(place[None], tf.float32),
        tf.constant(bump(width=7.0)[None], tf.complex64),
        exact=True,
        fresnel=WAY,
    )
    return physics.detect(intensity)[0].numpy()


def test_positions_between_pixels_make_no_jump():
    """At half a pixel the next whole position takes over: a shift of the wrong sign would give a jump."""
    before, after = image(np.array([[3.499, 2.2], [3.501, 2.2]]))
    assert np.abs(before - after).max() < 5e-3 * before.max()
    there, next_ = image(np.array([[3.0, 2.0], [4.0, 2.0]]))
    assert np.abs(there - next_).max() > 0.1 * there.max()


def test_the_sample_moves_and_the_beam_stays():
    """If the object is flat, the pattern does not change with the position, nor between pixels."""
    flat = tf.ones((1, N + 8, N + 8), tf.complex64)
    places = tf.constant([[[2.0, 3.0], [2.3, 2.6], [3.5, 3.1]]])
    intensity = physics.forward(
        flat, places, tf.constant(bump()[None], tf.complex64), exact=True, fresnel=WAY
    )
    for other in intensity[0, 1:]:
        np.testing.assert_allclose(other, intensity[0, 0], atol=2e-4)


def test_a_beam_that_diverges():
    """Fresnel's integral of a spherical wave times an object, at M x, is that of a parallel beam at z12/M."""
    z01, z12, wavelength = 3.0, 9.0, 12.0  # in pixels of the object, and of its square
    M, x = (z01 + z12) / z01, np.arange(N) - N // 2
    wave = np.exp(-((x + 2) ** 2) / 30 + 0.4j * np.sin(x / 3))
    fine = np.linspace(-30, 30, 6001)
    there = np.interp(fine, x, wave.real) + 1j * np.interp(fine, x, wave.imag)
    phases = np.pi / wavelength * (fine**2 / z01 + np.subtract.outer(M * x, fine) ** 2 / z12)
    cone = np.abs(np.exp(1j * phases) @ there) ** 2
    number = wavelength * z12 / M
    parallel = np.abs(Fresnel(number, number).propagated(np.outer(wave, np.ones(N)))[:, 0]) ** 2
    cone, parallel = (profile[8:-8] / profile[8:-8].sum() for profile in (cone, parallel))
    np.testing.assert_allclose(cone, parallel, atol=0.02 * parallel.max())
