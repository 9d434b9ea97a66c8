"""Pairs of reals against complex numbers: their algebra, their Fourier transform, and the physics on them."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import reference
from helpers.measurement import exit_waves

from ptycho import physics
from ptycho.physics import Pair
from ptycho.physics.waves import fourier_matrix, transformed


def pair(values):
    return Pair(tf.constant(values.real, tf.float32), tf.constant(values.imag, tf.float32))


def number(waves):
    return waves.real.numpy() + 1j * waves.imag.numpy() if isinstance(waves, Pair) else waves.numpy()


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize(("side", "inner"), [(8, 8), (15, 15), (16, 6), (17, 5), (64, 30)])
def test_fourier_matrix_is_the_transform_of_the_padded_signal(rng, side, inner):
    signal = reference.random_complex(rng, (4, inner))
    before = (side - inner) // 2
    padded = np.pad(signal, ((0, 0), (before, side - inner - before)))
    M = fourier_matrix(side, inner)
    np.testing.assert_allclose(signal @ M.T, np.fft.fft(padded, norm="ortho"), atol=1e-12)
    np.testing.assert_allclose(M.conj().T @ M, np.eye(inner), atol=1e-12)


@pytest.mark.parametrize(("side", "inner"), [(15, 15), (16, 16), (18, 12)])
def test_far_and_near_field_of_pairs(rng, side, inner):
    wave = reference.random_complex(rng, (2, 3, inner, inner))
    before = (side - inner) // 2
    padded = np.pad(wave, ((0, 0), (0, 0), *[(before, side - inner - before)] * 2))
    far = physics.far_field(pair(wave), side)
    np.testing.assert_allclose(number(far), np.fft.fft2(padded, norm="ortho"), atol=3e-6)
    np.testing.assert_allclose(number(physics.from_far_field(far, inner)), wave, atol=3e-6)
    whole = physics.far_field(tf.constant(wave, tf.complex64), side)
    np.testing.assert_allclose(number(whole), np.fft.fft2(padded, norm="ortho"), atol=3e-6)


@pytest.mark.parametrize("shape", [(16, 1), (1, 4), (3, 1, 1), ()])
def test_transformed_of_batches_with_axes_of_length_one(rng, shape):
    """In a graph, TensorFlow's kernel for batches of products with one matrix is wrong for some shapes."""
    wave, matrix = reference.random_complex(rng, (*shape, 64, 64)), reference.random_complex(rng, (64, 64))
    graph = tf.function(lambda real, imag: vars(transformed(Pair(real, imag), matrix / 64)))
    found = Pair(**graph(tf.constant(wave.real, tf.float32), tf.constant(wave.imag, tf.float32)))
    np.testing.assert_allclose(number(found), matrix / 64 @ wave @ matrix.T / 64, atol=1e-5)


def test_pairs_give_the_diffraction_of_the_loops(rng):
    image, probe = reference.random_complex(rng, (21, 18)), reference.random_complex(rng, (12, 12))
    positions = np.array([[1.0, 2.0], [3.25, 0.5], [8.9, 6.0]], np.float32)
    waves = exit_waves(pair(image[None]), tf.constant(positions[None]), pair(probe[None]))
    found = np.sqrt(physics.total_intensity(physics.far_field(waves)))[0]
    centred = np.fft.fftshift(found, axes=(1, 2))
    np.testing.assert_allclose(centred, reference.diffraction(image, positions, probe), atol=1e-4)
