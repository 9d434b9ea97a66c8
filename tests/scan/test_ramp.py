"""The ramp that object and probe share: patterns stay, the object is flat, directions are right."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.datasets import single_patterns
from helpers.likelihood import intensity_of
from helpers.reference import random_complex

from ptycho.config.waves import Fresnel
from ptycho.scan.beam import Beam
from ptycho.scan.ramp import flat_object, move_ramp
from ptycho.scan.reconstruction import Reconstruction

N, SIDE = 8, 21
POSITIONS = np.array([[0, 0], [3, 7], [13, 2], [11, 13]])


@pytest.fixture
def random():
    return np.random.default_rng(5)


def tilted(image, rows, cols):
    """Return the image with a phase ramp of (rows, cols) detector pixels, 2π/N rad per object pixel each."""
    row, col = np.indices(image.shape)
    return image * np.exp(2j * np.pi * (rows * row + cols * col) / N)


def reconstruction(image, probe):
    mask = np.zeros(image.shape, bool)
    mask[1:-2, 2:-1] = True
    objects = np.where(mask, image, 0)[None].astype(np.complex64)
    return Reconstruction(objects, mask[None], Beam(probe.astype(np.complex64), POSITIONS))


def patterns(made, image):
    """``Σ_m |F(P_m O_j)|²`` by a loop."""
    return np.array([intensity_of(image, made.beam.probe, place) for place in made.beam.positions])


def test_patterns_stay_and_the_object_is_flat(random):
    smooth = np.exp(0.2j * np.sin(np.indices((SIDE, SIDE)).sum(axis=0)))
    image = tilted(smooth, 0.4, -0.7)
    made = replace(reconstruction(image, random_complex(random, (2, N, N))), uncut=image)
    flat = move_ramp(made)
    for before, after in ((made.object, flat.object), (made.uncut, flat.layers)):
        expected = patterns(made, before)
        np.testing.assert_allclose(patterns(flat, after), expected, rtol=2e-3, atol=1e-3 * expected.mean())
    steps = flat.object[1:] * flat.object[:-1].conj(), flat.object[:, 1:] * flat.object[:, :-1].conj()
    assert max(abs(np.angle(step.sum())) for step in steps) < 0.02
    assert np.array_equal(flat.mask, made.mask) and not flat.object[~flat.covered].any()
    empty = reconstruction(np.zeros((SIDE, SIDE)), random_complex(random, (N, N)))
    assert move_ramp(empty) is empty


@pytest.mark.parametrize("background", [0.0, 0.02])
@pytest.mark.parametrize("offset", [(0.4, -0.7), (-1.6, 0.0)])
def test_a_flat_object_shifts_the_far_field_of_the_probe_onto_the_patterns(random, offset, background):
    row, col = np.indices((N, N)) - N // 2
    probe = np.exp(-(row**2 + 1.5 * col**2) / 6 + 0.3j * row)
    image = tilted(np.exp(0.1j * random.normal(size=(SIDE, SIDE))), *offset)
    counts = patterns(reconstruction(image, probe[None]), image)
    amplitudes = np.fft.fftshift(np.sqrt(counts + background * counts.mean()), axes=(-2, -1))
    data = single_patterns(amplitudes, probe[None], POSITIONS, SIDE)
    made = flat_object(data)
    np.testing.assert_allclose(abs(made), 1, rtol=1e-6)
    slope = np.angle([(made[1:] / made[:-1]).mean(), (made[:, 1:] / made[:, :-1]).mean()])
    np.testing.assert_allclose(slope * N / (2 * np.pi), offset, atol=0.06)
    assert made.dtype == np.complex64
    shifted = probe * made[0, 0] / np.abs(made[0, 0])
    np.testing.assert_allclose(flat_object(data, shifted[None]), flat_object(data), atol=1e-5)
    near = replace(data, fresnel=Fresnel(0.1, 0.1))
    assert np.array_equal(flat_object(near), np.ones((SIDE, SIDE)))
