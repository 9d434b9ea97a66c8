"""The error map: against dense linear algebra, and outside the illuminated region."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.likelihood import Scan, fisher_matrix, illuminated_mask, likelihood_of

from ptycho.reconstruction.parameters import object_illumination
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.reconstruction.uncertainty import (
    ErrorMapOptions,
    Redrawn,
    map_errors,
    measure_again,
)


@pytest.fixture(scope="module")
def scan():
    """9 patterns between pixels."""
    return Scan.of(np.random.default_rng(3), 1e6, count=3)


@pytest.fixture(scope="module")
def data(scan):
    return scan.dataset(np.random.default_rng(4))


@pytest.fixture(scope="module")
def fisher(scan):
    return fisher_matrix(scan)


def fitted(data, scan, strength, **changes):
    objective = Objective(likelihood_of(data, **changes), Prior("quadratic", strength))
    near = scan.estimate(data.normalisation)  # the truth; the minimum is close to it
    return objective, fit(objective, near, OBJECT_ALONE, 400).estimate


def spread(scan, fisher, strength, illumination):
    """σ of amplitude and phase ``(M, M)`` by ``T (H + R)⁻¹ H (H + R)⁻¹ Tᵀ`` of dense matrices.

    T removes the global phase, on which neither likelihood nor prior depends.
    """
    side, count = len(scan.object), scan.object.size
    difference = np.eye(side, k=1)[:-1] - np.eye(side)[:-1]
    square, one = difference.T @ difference, np.eye(side)
    stiffness = 2 * strength * np.kron(np.eye(2), np.kron(square, one) + np.kron(one, square))
    turn = np.concatenate([-scan.object.imag.ravel(), scan.object.real.ravel()])
    level = np.trace(fisher) / len(fisher)
    held = 1e3 * level * np.outer(turn, turn) / (turn @ turn) + 1e-7 * level * np.eye(len(fisher))
    inverse = np.linalg.inv(fisher + stiffness + held)
    weighted = np.tile(illumination.ravel(), 2) * turn
    response = inverse - np.outer(turn, weighted @ inverse) / (weighted @ turn)
    covariance = response @ fisher @ response.T
    unit = (scan.object / np.abs(scan.object)).ravel()
    real, imag = covariance[:count, :count].diagonal(), covariance[count:, count:].diagonal()
    cross = 2 * unit.real * unit.imag * covariance[:count, count:].diagonal()
    radial = unit.real**2 * real + unit.imag**2 * imag + cross
    across = unit.imag**2 * real + unit.real**2 * imag - cross
    amplitude, phase = (np.sqrt(part).reshape(side, side) for part in (radial, across))
    return amplitude, phase / np.abs(scan.object)


@pytest.mark.parametrize("strength", [100.0, 3000.0])
def test_it_is_that_of_dense_linear_algebra(scan, data, fisher, strength):
    """The reconstructed object is close to the truth, so that its matrices are those of the truth."""
    objective, estimate = fitted(data, scan, strength)
    illuminated = illuminated_mask(scan, 0.2)
    options = ErrorMapOptions(draws=12, width=1.0)
    errors = map_errors(objective, estimate, np.ones_like(illuminated), 0, options)
    expected = spread(scan, fisher, strength, object_illumination(estimate).astype(float))
    for sigma, known in zip((errors.amplitude[0], errors.phase[0]), expected, strict=True):
        ratio = sigma[illuminated] / known[illuminated]
        assert np.median(ratio) == pytest.approx(1, abs=0.1)
        assert np.quantile(ratio, 0.1) > 0.8 and np.quantile(ratio, 0.9) < 1.25


def test_it_is_infinite_outside_of_the_mask_and_without_illumination(scan, data):
    objective, estimate = fitted(data, scan, 300.0)
    corner, mask = len(scan.object) - 1, np.ones(scan.object.shape, bool)
    mask[:, 7] = False
    dark = estimate.object.copy()
    dark[12, 11] = 0
    errors = map_errors(objective, replace(estimate, object=dark), mask, 0)
    for sigma in (errors.amplitude, errors.phase):
        assert sigma.shape == (1, *mask.shape) and sigma.dtype == np.float32
        assert np.isinf(sigma[0, :, 7]).all() and np.isinf(sigma[0, corner, corner])  # no pattern reaches it
    illuminated = illuminated_mask(scan) & mask
    assert np.isfinite(errors.amplitude[0][illuminated]).all()
    assert (errors.amplitude[0][illuminated] > 0).all()
    assert np.isinf(errors.phase[0, 12, 11]) and illuminated[12, 11]
    again = map_errors(objective, replace(estimate, object=dark), mask, 0)
    np.testing.assert_array_equal(errors.phase, again.phase)


def redrawn(measured, unit, noise, seed):
    likelihood = SimpleNamespace(amplitudes=lambda part: measured[part], unit=unit, noise=noise)
    return Redrawn(likelihood, (seed,))


def test_photons_are_drawn_around_those_that_were_measured(data):
    measured = np.broadcast_to(np.sqrt([0.0, 3.0, 40.0]), (3, 20000, 3)).astype(np.float32)
    again = redrawn(2 * measured, 2.0, "poisson", 1)
    drawn = (again[0:2] / 2) ** 2
    np.testing.assert_allclose(drawn.mean(axis=(0, 1)), [0, 3, 40], rtol=0.02)
    np.testing.assert_allclose(drawn.var(axis=(0, 1)), [0, 3, 40], rtol=0.03)
    np.testing.assert_allclose(drawn, np.rint(drawn), atol=1e-4)
    np.testing.assert_array_equal(again[0:2], again[0:2])
    assert (again[0:1] != again[1:2]).any()
    other = measure_again(replace(likelihood_of(data), instead=again), [1, 2])
    assert (other.instead[0:1] != again[0:1]).any()


def test_without_photons_the_noise_is_half_a_unit():
    measured = np.full((2, 100, 99), 0.1, np.float32)
    drawn = redrawn(measured, 0.1, "gaussian", 5)[0:2]
    assert drawn.mean() == pytest.approx(0.1, abs=0.003)
    assert drawn.std() == pytest.approx(0.05, rel=0.03)
