"""Minimisation by limited-memory BFGS, of functions whose minimum is known."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from ptycho.reconstruction.quasi_newton import SEARCH, minimise


class Counted:
    """A function that counts its evaluations."""

    def __init__(self, value, slope):
        self.value, self.slope, self.calls = value, slope, 0

    def __call__(self, x):
        self.calls += 1
        return float(self.value(x)), np.asarray(self.slope(x))


def quadratic(rng, condition, size=21):
    """``½ xᵀAx − bᵀx`` and its minimum ``A⁻¹b``."""
    rotation = np.linalg.qr(rng.normal(size=(size, size)))[0]
    A, b = rotation @ np.diag(np.geomspace(1, condition, size)) @ rotation.T, rng.normal(size=size)
    return Counted(lambda x: x @ A @ x / 2 - b @ x, lambda x: A @ x - b), np.linalg.solve(A, b), A, b


def points(function, start, most):
    return list(itertools.islice(minimise(function, start), most + 1))


@pytest.mark.parametrize("condition, steps", [(1.0, 3), (30.0, 40), (1e4, 300)])
def test_the_minimum_of_a_quadratic(condition, steps):
    function, minimum, _, b = quadratic(np.random.default_rng(0), condition)
    course = points(function, np.zeros(21), steps)
    least = -b @ minimum / 2
    assert course[-1].value - least < 1e-6 * abs(least)
    np.testing.assert_allclose(course[-1].x, minimum, atol=2e-3 * np.abs(minimum).max())


def test_the_course_through_rosenbrocks_valley():
    """Points are what the function gives, no step leads up, and the last point is the minimum."""
    function = Counted(rosen, rosen_der)
    start = np.array([-1.2, 1.0, -0.7])
    course = points(function, start, 200)
    assert course[0].x is start
    for point in course:
        assert point.value == rosen(point.x)
        np.testing.assert_array_equal(point.gradient, rosen_der(point.x))
    np.testing.assert_array_equal(start, [-1.2, 1.0, -0.7])
    values = np.array([point.value for point in course])
    assert np.all(np.diff(values) <= SEARCH.precision * np.abs(values[:-1]))
    np.testing.assert_allclose(course[-1].x, 1, atol=1e-3)


def test_at_a_minimum_it_ends():
    function, minimum, *_ = quadratic(np.random.default_rng(2), 1.0)
    still = Counted(function.value, np.zeros_like)
    assert len(points(still, minimum, 10)) == 1 and still.calls == 1


def test_where_no_step_leads_down_it_ends():
    """A gradient with the wrong sign: every length is tried, and it ends, with and without a memory."""
    uphill = Counted(lambda x: x @ x, lambda x: -2 * x)
    assert len(points(uphill, np.ones(3), 10)) == 1
    assert uphill.calls == 1 + SEARCH.tries
    turned = []

    def later(x):
        turned.append(1)
        return float(x @ x), (2 if len(turned) < 3 else -2) * x * np.arange(1, 4)

    assert len(points(later, np.ones(3), 50)) < 50


def test_values_that_are_not_finite_are_stepped_back_from():
    """``x − log x`` is not defined at the end of the first step, of length one."""
    with np.errstate(invalid="ignore"):
        function = Counted(lambda x: np.sum(x - np.log(x)), lambda x: 1 - 1 / x)
        course = points(function, np.array([20.0, 0.05]), 60)
    np.testing.assert_allclose(course[-1].x, 1, atol=1e-2)
    assert all(np.isfinite(point.value) for point in course)


@pytest.mark.parametrize("start", [[-1.2, 1.0], [30.0, -70.0], [1e-3, 4e3]])
def test_every_evaluation_is_counted(start):
    function = Counted(rosen, rosen_der)
    counted = 0
    for point in itertools.islice(minimise(function, np.array(start)), 60):
        counted += point.evaluations
        assert counted == function.calls


@pytest.mark.parametrize(("same_factor", "most"), [(1, 2.0), (5, 1.4)])
def test_a_costly_scale_is_applied_little_more_than_once_a_step(same_factor, most):
    """An inverse curvature that is right but for a factor of 40, which no step can be without."""
    function, minimum, A, b = quadratic(np.random.default_rng(3), 1e3)
    inverse, calls = 40 * np.linalg.inv(A + 2 * np.eye(21)), []

    def scale(q):
        calls.append(q)
        return inverse @ q

    options = replace(SEARCH, same_factor=same_factor)
    course = list(itertools.islice(minimise(function, np.zeros(21), scale, options), 26))
    assert course[-1].value + b @ minimum / 2 < 1e-6 * abs(b @ minimum)
    assert function.calls <= 32 and len(calls) <= most * 25
