"""Near fields: Fresnel's integral, adjoint, energy, and positions between pixels."""

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


def test_by_fresnels_integral():
    """Of a wave that is tilted and off the centre, so that a wrong sign or axis shows."""
    wave = bump(tilt=0.08)
    np.testing.assert_allclose(at_detector(wave), reference.fresnel(wave, WAY.numbers), atol=2e-3)


def test_adjoint_and_energy():
    """``⟨Aψ, φ⟩ = ⟨ψ, A*φ⟩``, A* propagates back and undoes the shift; ``A* A = 1``."""
    rng = np.random.default_rng(3)
    psi, phi = (random_complex(rng, (3, N, N)) for _ in range(2))
    shift = rng.uniform(-0.5, 0.5, (3, 2))
    there, back = at_detector(psi, WAY, shift), at_detector(phi, WAY.reversed, -shift)
    assert np.vdot(there, phi) == pytest.approx(np.vdot(psi, back), rel=1e-10)
    assert np.linalg.norm(there) == pytest.approx(np.linalg.norm(psi), rel=1e-12)
    np.testing.assert_allclose(at_detector(there, WAY.reversed, -shift), psi, atol=1e-11)
    np.testing.assert_allclose(at_detector(psi), WAY.propagated(psi), atol=1e-11)  # the same in NumPy


def image(place):
    """Patterns ``(J, N, N)`` of a smooth object at positions ``(J, 2)``, zero frequency in the middle."""
    rows, cols = axes(side=N + 8)
    smooth = np.exp(1j * np.sin(0.3 * rows + 0.1 * cols) - 0.3 * np.cos(0.2 * cols - 0.25 * rows) ** 2)
    target, probe = (tf.constant(wave[None], tf.complex64) for wave in (smooth, bump(width=7.0)))
    places = tf.constant(place[None], tf.float32)
    intensity = physics.forward(target, places, probe, exact=True, fresnel=WAY)
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
    probe = tf.constant(bump()[None], tf.complex64)
    intensity = physics.forward(flat, places, probe, exact=True, fresnel=WAY)
    for other in intensity[0, 1:]:
        np.testing.assert_allclose(other, intensity[0, 0], atol=2e-4)
