"""A learned prior in the objective: the input of its network, the plug-and-play term, and the fit."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from helpers.likelihood import Scan, distance, illuminated_mask
from helpers.reference import random_complex

from ptycho.reconstruction import learned
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.learned import VIEW, Learned, apply, denoiser_term, view
from ptycho.reconstruction.prior import Anchor
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit, fit_learned, fit_to_the_end


@pytest.fixture(scope="module")
def scan():
    return Scan.of(np.random.default_rng(1), 1e3, count=5, step=3)


@pytest.fixture(scope="module")
def data(scan):
    return scan.dataset(np.random.default_rng(2))


@pytest.fixture(scope="module")
def likelihood(data):
    return ScanLikelihood(data, data.normalisation, compile_xla=False)


@pytest.fixture(scope="module")
def estimate(data, likelihood):
    flat = Estimate.of(data, np.ones((data.object_size,) * 2))
    return fit(Objective(likelihood), flat, OBJECT_ALONE, 15).estimate


def towards(target, likelihood):
    """Return a denoiser that returns the object ``(M, M)``."""

    def network(shown, noise):
        del noise
        known = np.where(viewed.illumination > VIEW.least, target, 0)[viewed.box]
        there = learned._filled(known) / viewed.noise
        pair = np.stack([there.real, there.imag], axis=-1)[None].astype("f")
        return tf.constant(pair) - tf.stack([shown[..., 0], shown[..., 2]], axis=-1)

    viewed = view(likelihood, Estimate.of(likelihood.data, np.ones(target.shape)))
    return network


def test_the_anchor_is_a_parabola():
    rng, shape = np.random.default_rng(3), (7, 9)
    target, image = (random_complex(rng, shape).astype(np.complex64) for _ in range(2))
    weight = rng.uniform(0.1, 2, shape).astype("f")
    term = Anchor(target, weight)
    value, gradient = term(image)
    assert value == pytest.approx(float(np.sum(weight * np.abs(image - target) ** 2)) / 2, rel=1e-5)
    for step in (1e-2, 1e-2j):
        moved = image.copy()
        moved[2, 5] += step
        expected = np.real(np.conj(step) * gradient[2, 5]) + weight[2, 5] * abs(step) ** 2 / 2
        assert term(moved)[0] - value == pytest.approx(expected, rel=1e-2, abs=1e-5)
    assert term.active and not term(target)[1].any()


def test_a_network_is_shown_the_object_and_what_patterns_ask_for(data, likelihood, estimate):
    viewed = view(likelihood, estimate)
    illumination = np.zeros(estimate.object.shape)
    power = np.sum(np.abs(estimate.modes.astype(complex)) ** 2, axis=0)
    N = data.N
    for row, col in np.floor(estimate.positions + 0.5).astype(int):
        illumination[row : row + N, col : col + N] += power
    np.testing.assert_allclose(viewed.illumination, illumination / illumination.max(), atol=1e-5)
    illuminated = illumination > VIEW.least * illumination.max()
    sigma = likelihood.photon / np.sqrt(2 * illumination[illuminated])
    np.testing.assert_allclose(viewed.deviation[illuminated], sigma, rtol=1e-4)
    bright = illumination > VIEW.bright * illumination.max()
    variance = np.mean(likelihood.photon**2 / (2 * illumination[bright]))
    assert viewed.noise == pytest.approx(np.sqrt(variance), rel=1e-4)
    rows, columns = viewed.box
    assert illuminated[rows, columns].sum() == illuminated.sum()
    gradient = likelihood.evaluate(estimate, ("object",)).gradients["object"]
    inside = illuminated[viewed.box]
    height, width = inside.shape
    shown = viewed.inputs[:height, :width][inside] * viewed.noise
    np.testing.assert_allclose(shown[:, 0] + 1j * shown[:, 2], estimate.object[viewed.box][inside], atol=1e-5)
    asked = -(viewed.deviation**2 * gradient)[viewed.box][inside]
    np.testing.assert_allclose(shown[:, 1] + 1j * shown[:, 3], asked, atol=1e-4 * np.abs(asked).max())
    assert not viewed.inputs[:height, :width][~inside].any()
    assert viewed.inputs.shape[0] % 4 == viewed.inputs.shape[1] % 4 == 0


def test_tiles_give_what_the_whole_gives():
    rng = np.random.default_rng(4)
    shown, noise = rng.normal(size=(36, 52, 4)).astype("f"), np.zeros((36, 52, 1), "f")

    def blur(x, nu):
        """Of reach 8."""
        del nu
        return tf.nn.avg_pool2d(x[..., :2], 17, 1, "SAME")

    whole = apply(blur, shown, noise)
    np.testing.assert_allclose(apply(blur, shown, noise, tile=16, reach=8), whole, atol=1e-6)


def test_the_fit_goes_to_what_the_network_knows(scan, likelihood, estimate):
    mask = illuminated_mask(scan, 0.5)
    before = distance(estimate.object, scan.object, mask)
    along = np.vdot(scan.object[mask], estimate.object[mask])
    truth = (scan.object * along / abs(along)).astype(np.complex64)
    errors = []
    for strength in (1.0, 100.0):
        prior = Learned(towards(truth, likelihood), strength)
        found = fit_learned(Objective(likelihood, learned=prior), estimate)
        errors.append(distance(found.estimate.object, scan.object, mask))
    assert errors[1] < 0.3 * errors[0] and errors[0] < 0.8 * before and found.converged
    term = denoiser_term(replace(prior, strength=2.0), likelihood, estimate)
    viewed = view(likelihood, estimate)
    illuminated = viewed.illumination > VIEW.least
    bright = viewed.illumination >= VIEW.bright
    between = np.abs(viewed.illumination - (VIEW.bright + VIEW.least) / 2) < 0.01
    np.testing.assert_allclose(term.target[bright], truth[bright], atol=1e-4)
    np.testing.assert_array_equal(term.target[~illuminated], estimate.object[~illuminated])
    went = np.abs(term.target - estimate.object)[between] / np.abs(truth - estimate.object)[between]
    assert np.all((went > 0.3) & (went < 0.7)) and between.any()
    np.testing.assert_allclose(term.weight[bright], 2 / viewed.deviation[bright] ** 2, rtol=1e-5)
    np.testing.assert_allclose(term.weight[~bright], 0.1 * term.weight.max(), rtol=1e-4)


def test_the_rounds_come_last_and_leave_the_beam(likelihood, estimate):
    prior = Learned(lambda x, nu: tf.zeros_like(x[..., :2]), 5.0)
    plain = fit_to_the_end(Objective(likelihood), estimate, OBJECT_ALONE, 20)
    objective = replace(Objective(likelihood), learned=prior)
    found = fit_to_the_end(objective, estimate, OBJECT_ALONE, 20)
    assert found.course[: len(plain.course)] == plain.course and len(found.course) > len(plain.course)
    np.testing.assert_array_equal(found.estimate.modes, estimate.modes)
    np.testing.assert_array_equal(found.estimate.positions, estimate.positions)
