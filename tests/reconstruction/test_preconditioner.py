"""The preconditioner: symmetry, exact inverses in closed form, low frequencies, and fewer steps of a fit."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from helpers.likelihood import Scan, distance, illuminated_mask, likelihood_of
from helpers.reference import random_complex

from ptycho.reconstruction import preconditioner
from ptycho.reconstruction.parameters import Parameters
from ptycho.reconstruction.preconditioner import Preconditioner, low_frequencies, regularised
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.quasi_newton import minimise
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.scan.probe import energy_diameter


def inner(a, b):
    return float(np.vdot(a, b).real)


def waves(rng, shape):
    return (random_complex(rng, shape).astype(np.complex64) for _ in range(2))


@pytest.mark.parametrize("prior", [Prior(), Prior("edge_preserving", 3.0), Prior("second_order", 10.0)])
def test_the_operator_is_symmetric_and_positive(prior):
    rng = np.random.default_rng(0)
    scan = Scan.of(rng, count=12, step=2.2)
    estimate = scan.estimate(1.0)
    operator = Preconditioner(prior, None, OBJECT_ALONE, estimate)
    operator.renew(Parameters.of(estimate, OBJECT_ALONE, 1.0), estimate, 0)
    count = 2 * estimate.object.size + 7  # the numbers after the object are not changed
    a, b = (rng.standard_normal(count).astype(np.float32) for _ in range(2))
    scaled = operator(a)
    assert abs(inner(scaled, b) - inner(a, operator(b))) < 1e-5 * np.linalg.norm(scaled) * np.linalg.norm(b)
    assert np.dot(scaled[:-7], a[:-7]) > 0 and np.any(scaled[:-7] != a[:-7])
    np.testing.assert_array_equal(scaled[-7:], a[-7:])


def test_without_a_regulariser_it_is_the_diagonal():
    """Σ w²/H_i = 1/H: the identity in the units of the parameters, for any illumination."""
    rng = np.random.default_rng(1)
    scale = np.exp(rng.normal(size=(9, 12))).astype(np.float32)
    wave, _ = waves(rng, scale.shape)
    np.testing.assert_allclose(regularised(scale, np.zeros(scale.shape))(wave), wave, rtol=2e-4, atol=2e-5)


def test_under_uniform_illumination_it_is_the_inverse():
    """The inverse of H + λ·2·s(k) for a quadratic regulariser, by its eigenvectors, plane waves."""
    shape, H, i, j = (16, 20), 3.0, *np.mgrid[:16, :20]
    scale = np.full(shape, np.sqrt(H), np.float32)
    operator = regularised(scale, Prior("quadratic", 5.0).stiffness(np.ones(shape, np.complex64)))
    for row, column in [(0, 0), (1, 3), (8, 10), (15, 2)]:
        wave = np.exp(2j * np.pi * (row * i / 16 + column * j / 20)).astype(np.complex64)
        s = 4 * np.sin(np.pi * row / 16) ** 2 + 4 * np.sin(np.pi * column / 20) ** 2
        np.testing.assert_allclose(operator(wave), H / (H + 10 * s) * wave, rtol=2e-3, atol=1e-5)


def test_amplitudes_and_high_frequencies_stay_and_low_ones_grow():
    """By hand: a phase of k cycles/px is scaled by 1/((k² + 1/M²) D²/0.5²), an amplitude by one."""
    rng, scan = np.random.default_rng(1), Scan.of(np.random.default_rng(1), count=8)
    estimate = replace(scan.estimate(1.0), object=np.full(scan.object.shape, np.exp(0.7j), np.complex64))
    side, width = len(estimate.object), energy_diameter(estimate.modes)
    illuminated, scale = illuminated_mask(scan, 0.1), np.ones(scan.object.shape, np.float32)
    more = low_frequencies(estimate, scale, 0.0, None)
    amplitude = (rng.standard_normal((side, side)) * np.exp(0.7j)).astype(np.complex64)
    np.testing.assert_allclose(more(amplitude), 0, atol=1e-5)
    longer = more((1j * np.exp(0.7j) * illuminated).astype(np.complex64))
    gain = (longer / np.exp(0.7j)).imag[side // 2, side // 2]
    largest = (0.5 * side / width) ** 2
    assert 0.3 * largest < gain < largest


def test_what_holds_low_frequencies_bounds_them():
    scan = Scan.of(np.random.default_rng(1), count=6)
    estimate, (wave, _) = scan.estimate(1.0), waves(np.random.default_rng(2), scan.object.shape)
    scale = np.ones(scan.object.shape, np.float32)
    alone, held = (low_frequencies(estimate, scale, pull, None)(wave) for pull in (0.0, 0.5))
    assert np.abs(held).max() <= 2.01 * np.abs(wave).max() and np.linalg.norm(held) < np.linalg.norm(alone)


def test_a_scale_that_is_the_inverse_curvature_ends_a_quadratic_at_once():
    curvature = np.array([1e4, 1.0, 1e-3], np.float32)

    def function(x):
        return float(np.sum(curvature * x**2) / 2), (curvature * x).astype(np.float32)

    start = np.ones(3, np.float32)
    points = islice(minimise(function, start, lambda q: q / curvature), 2)
    course = [point.value for point in points]
    assert course[1] < 1e-6 * course[0]


def test_low_frequencies_are_found_in_fewer_steps(monkeypatch):
    """On a scan of many probe widths, the object is much closer to the converged one after equal steps."""
    scan = Scan.of(np.random.default_rng(4), 1e5, count=24, step=2.2)
    data = scan.dataset(np.random.default_rng(2))
    objective, start = (
        Objective(likelihood_of(data), Prior("edge_preserving", 1.0)),
        scan.rough(data.normalisation),
    )
    illuminated = illuminated_mask(scan, 0.3)
    scaled = fit(objective, start, OBJECT_ALONE, 24, enough=0.0)
    monkeypatch.setattr(preconditioner, "overlaps_well", lambda estimate: False)
    same = fit(objective, start, OBJECT_ALONE, 24, enough=0.0)
    errors = [distance(found.estimate.object, scan.object, illuminated) for found in (scaled, same)]
    assert errors[0] < 0.85 * errors[1], errors


def test_a_stiff_regulariser_costs_few_steps(monkeypatch):
    """The remaining gain after equal steps with a strong second-order regulariser, against the diagonal."""
    scan = Scan.of(np.random.default_rng(4), 1e4, count=12, step=2.2)
    data = scan.dataset(np.random.default_rng(2))
    objective, start = (
        Objective(likelihood_of(data), Prior("second_order", 100.0)),
        scan.rough(data.normalisation),
    )
    end = fit(objective, start, OBJECT_ALONE, 300, enough=0.0).course[-1]
    scaled = fit(objective, start, OBJECT_ALONE, 40, enough=0.0).course[-1]
    monkeypatch.setattr(preconditioner, "regularised", lambda scale, stiffness: lambda wave: wave)
    same = fit(objective, start, OBJECT_ALONE, 40, enough=0.0).course[-1]
    assert scaled - end < 0.5 * (same - end), (scaled, same, end)
