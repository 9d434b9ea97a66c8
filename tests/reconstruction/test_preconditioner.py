"""Longer steps along slow phases: the operator's symmetry, what it does to one wave, and fewer steps."""

from dataclasses import replace
from itertools import islice

import numpy as np
from helpers.likelihood import Scan, distance, likelihood_of, lit_mask

from ptycho.reconstruction import solver
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.quasi_newton import minimise, plain
from ptycho.reconstruction.slow_phases import SLOW, longer_steps
from ptycho.reconstruction.solver import OBJECT_ALONE, Terms, fit
from ptycho.scan.probe import energy_diameter


def test_the_operator_is_symmetric_and_positive():
    rng = np.random.default_rng(0)
    scan = Scan.of(rng, count=5)
    state = scan.state(1.0)
    scaled = longer_steps(state)
    count = 2 * state.object.size + 7  # what follows the object is left as it is
    a, b = (rng.standard_normal(count).astype(np.float32) for _ in range(2))
    np.testing.assert_allclose(np.dot(scaled(a), b), np.dot(a, scaled(b)), rtol=1e-4)
    assert np.dot(scaled(a), a) > np.dot(a, a)
    np.testing.assert_array_equal(scaled(a)[-7:], a[-7:])


def test_amplitudes_and_fast_phases_stay_and_slow_phases_grow():
    """By hand: a phase of k cycles a pixel grows by 1 + 1/((k² + 1/M²) D²/SLOW²), an amplitude by nothing."""
    rng, scan = np.random.default_rng(1), Scan.of(np.random.default_rng(1), count=8)
    state = replace(scan.state(1.0), object=np.full(scan.object.shape, np.exp(0.7j), np.complex64))
    side, width = len(state.object), energy_diameter(state.modes)
    lit = lit_mask(scan, 0.1)
    amplitude = (rng.standard_normal((side, side)) * np.exp(0.7j)).astype(np.complex64)
    vector = amplitude.view(np.float32).ravel()
    np.testing.assert_allclose(longer_steps(state)(vector), vector, atol=1e-5)
    wave = 1j * np.exp(0.7j) * lit
    longer = longer_steps(state)(wave.astype(np.complex64).view(np.float32).ravel())
    gain = (longer.view(np.complex64).reshape(side, side) / np.exp(0.7j)).imag[side // 2, side // 2]
    largest = 1 + (SLOW * side / width) ** 2
    assert 0.3 * largest < gain < largest


def test_a_prior_that_holds_slow_phases_bounds_them():
    scan = Scan.of(np.random.default_rng(1), count=6)
    state, vector = scan.state(1.0), np.random.default_rng(2).standard_normal(2 * scan.object.size)
    free, held = (longer_steps(state, s)(vector.astype(np.float32)) - vector for s in (0.0, 0.5))
    assert np.abs(held).max() <= 2.01 * np.abs(vector).max() and np.linalg.norm(held) < np.linalg.norm(free)


def test_a_scale_that_is_the_inverse_curvature_ends_a_quadratic_at_once():
    curvature = np.array([1e4, 1.0, 1e-3], np.float32)

    def function(x):
        return float(np.sum(curvature * x**2) / 2), (curvature * x).astype(np.float32)

    start = np.ones(3, np.float32)
    points = islice(minimise(function, start, lambda q: q / curvature), 2)
    course = [point.value for point in points]
    assert course[1] < 1e-6 * course[0]


def test_slow_phases_are_found_in_fewer_steps(monkeypatch):
    """A scan of many probe widths: after the same steps the object is much nearer to where they end."""
    scan = Scan.of(np.random.default_rng(4), 1e5, count=24, step=2.2)
    data = scan.dataset(np.random.default_rng(2))
    terms, start = Terms(likelihood_of(data), Prior("edge_preserving", 1.0)), scan.rough(data.normalisation)
    lit = lit_mask(scan, 0.3)
    scaled = fit(terms, start, OBJECT_ALONE, 24, enough=0.0)
    monkeypatch.setattr(solver, "longer_steps", lambda state, stiffness: plain)
    same = fit(terms, start, OBJECT_ALONE, 24, enough=0.0)
    errors = [distance(found.state.object, scan.object, lit) for found in (scaled, same)]
    assert errors[0] < 0.85 * errors[1], errors
