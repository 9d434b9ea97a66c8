"""A partially coherent probe in the physics and the network: intensities of modes and a background add."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from helpers import reference
from helpers.measurement import diffract, exit_waves

from ptycho import physics
from ptycho.config import RunConfig, UnrolledModel
from ptycho.networks import build_pinn
from ptycho.networks.layers import Geometry

N, K = 7, 3  # odd; three modes
B, C = 2, 3


def complex64(rng, *shape):
    return reference.random_complex(rng, shape).astype(np.complex64)


def probe_of(kind, rng, side=N):
    shape = {"modes": (K,), "each": (B, C, 1), "each with modes": (B, C, K)}[kind]
    return complex64(rng, *shape, side, side)


PROBES = ["modes", "each", "each with modes"]
PLACES = ["whole", "fractions"]


def positions_of(places, rng):
    found = rng.uniform(0, [12 - N, 15 - N], (B, C, 2))
    return (np.floor(found) if places == "whole" else found).astype(np.float32)


def waves_by_loops(objects, positions, probe, kind):
    """ψ as ``(B, C, K, N, N)``."""
    count = probe.shape[-3]
    waves = np.zeros((B, C, count, N, N), complex)
    for b, c, k in np.ndindex(B, C, count):
        patch = reference.extract(objects[b], positions[b, c], N)
        waves[b, c, k] = (probe[b, c] if kind.startswith("each") else probe)[k] * patch
    return waves


@pytest.mark.parametrize("kind, places", [*itertools.product(PROBES, PLACES)])
@pytest.mark.parametrize("mover", [physics.SEPARABLE, physics.PROJECTIVE], ids=["separable", "projective"])
def test_back_projection_is_the_adjoint(kind, places, mover):
    """⟨exit_waves(O), ψ⟩ = ⟨O, back_project(ψ)⟩, with a complex probe and an object that is not square."""
    rng = np.random.default_rng(3)
    objects, probe = complex64(rng, B, 12, 15), probe_of(kind, rng)
    positions, probe = tf.constant(positions_of(places, rng)), tf.constant(probe)
    there = exit_waves(tf.constant(objects), positions, probe, mover=mover)
    waves = complex64(rng, *there.shape)
    back = physics.back_project(tf.constant(waves), positions, probe, (12, 15), mover=mover)
    assert back.shape == objects.shape
    left, right = np.vdot(waves, there.numpy()), np.vdot(back.numpy(), objects)
    assert abs(left - right) < 1e-5 * abs(left) + 1e-3 and abs(left) > 1


@pytest.mark.parametrize("kind, places", [*itertools.product(PROBES, PLACES)])
def test_diffract_by_loops(kind, places):
    rng = np.random.default_rng(7)
    objects, positions, probe = complex64(rng, B, 12, 15), positions_of(places, rng), probe_of(kind, rng)
    found = diffract(*map(tf.constant, (objects, positions, probe))).numpy()
    waves = waves_by_loops(objects, positions, probe, kind)
    np.testing.assert_allclose(exit_waves(*map(tf.constant, (objects, positions, probe))), waves, atol=2e-5)
    for b, c in np.ndindex(B, C):
        intensity = sum(np.abs(reference.far_field(wave)) ** 2 for wave in waves[b, c])
        np.testing.assert_allclose(found[b, c], np.sqrt(intensity), rtol=1e-4, atol=1e-4)


def far(waves):
    return np.fft.fft2(waves, norm="ortho")


def test_after_the_change_the_intensities_add_up_to_the_measured():
    """``Σ_m |F(ψ_m + Δψ_m)|² = x²`` where something was measured, by the least change, ``(x − a)²``."""
    rng = np.random.default_rng(8)
    waves = complex64(rng, 2, K, 6, 9)
    measured = rng.uniform(0.3, 3, (2, 6, 9)).astype(np.float32)
    measured[:, 2, 3:5] = -1
    change = physics.modulus_change(tf.constant(waves), tf.constant(measured), True)
    before = np.sum(np.abs(far(waves)) ** 2, axis=1)
    after = np.sum(np.abs(far(waves + change.numpy())) ** 2, axis=1)
    wanted = np.where(measured < 0, np.sqrt(before), measured)
    np.testing.assert_allclose(after, wanted**2, rtol=1e-4, atol=1e-4)
    sizes = np.sum(np.abs(far(change.numpy())) ** 2, axis=1)
    np.testing.assert_allclose(sizes, (wanted - np.sqrt(before)) ** 2, atol=1e-3)


def test_the_ramp_by_its_formula():
    """``exp(−2πi q·s)``, rows first; windows odd by even. The Nyquist frequency of the even side is −½."""
    probe = tf.zeros((K, 5, 8), tf.complex64)
    shifts = np.array([[0.3, -0.45], [0, 0], [2, 1]], np.float32)
    found = physics.shift_ramp(tf.constant(shifts), probe).numpy()
    assert found.shape == (3, 1, 5, 8)
    found = found.reshape(3, 5, 8)
    rows, cols = [0, 1, 2, -2, -1], [0, 1, 2, 3, -4, -3, -2, -1]
    for k, i, j in np.ndindex(3, 5, 8):
        angle = shifts[k, 0] * rows[i] / 5 + shifts[k, 1] * cols[j] / 8
        assert found[k, i, j] == pytest.approx(np.exp(-2j * np.pi * angle), abs=1e-5)


@functools.cache
def network_case(exact):
    rng, side = np.random.default_rng(14), 16
    config = RunConfig(N=32, size=128, model=UnrolledModel(stages=2, width=4), batch_size=2)
    geometry = Geometry(side, side + 4, 3, side, exact, False)
    pinn = build_pinn(config.model, geometry, config.xla, config.loss_weights, config.seed)
    for weight in pinn.generator.trainable_variables:  # its CNNs start at zero
        weight.assign_add(0.02 * rng.normal(size=weight.shape).astype(np.float32))
    axis = np.arange(side) - side / 2
    probe = np.exp(-(axis[:, None] ** 2 + 1.3 * axis**2) / 20 + 0.05j * axis[:, None] ** 2)
    x = rng.uniform(0, 2, (2, 3, side, side)).astype(np.float32)
    offsets = rng.uniform(-1, 1, (2, 3, 2)).astype(np.float32)
    return pinn, {"x": tf.constant(x), "offsets": tf.constant(offsets)}, probe.astype(np.complex64)


@pytest.mark.parametrize("exact", [False, True])
def test_a_network_predicts_the_sum_of_its_modes_intensities(exact):
    """The pattern of two modes is the root of the summed squares of their patterns."""
    pinn, batch, probe = network_case(exact)
    modes = np.stack([probe, 0.5j * np.roll(probe, 2, axis=0)])
    objects = tf.constant(complex64(np.random.default_rng(15), 2, 20, 20))
    found = pinn.predict_amplitudes(objects, batch["offsets"], tf.constant(modes))
    each = [pinn.predict_amplitudes(objects, batch["offsets"], tf.constant(mode[None])) for mode in modes]
    np.testing.assert_allclose(found, np.sqrt(each[0] ** 2 + each[1] ** 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("second", [0.0, 0.4])
def test_the_gradient_of_the_loss_is_finite(second):
    pinn, batch, probe = network_case(True)
    modes = tf.constant(np.stack([probe, second * probe[:, ::-1]]))
    with tf.GradientTape() as tape:
        loss = pinn.losses_of(batch, modes, tf.constant(0.1))["loss"]
    gradients = tape.gradient(loss, pinn.trainable_variables)
    assert np.isfinite(float(loss))
    assert all(np.isfinite(g.numpy()).all() for g in gradients)
    assert max(np.abs(g.numpy()).max() for g in gradients) > 1e-6
