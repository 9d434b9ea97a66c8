"""The preconditioner: symmetry, exact inverses in closed form, low frequencies, and fewer steps of a fit."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import Scan, distance, illuminated_mask, likelihood_of
from helpers.reference import random_complex

from ptycho.reconstruction import preconditioner
from ptycho.reconstruction.parameters import Parameters
from ptycho.reconstruction.preconditioner import Preconditioner, low_frequencies, regularised
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.scan.probe import energy_diameter


def inner(a, b):
    return float(np.vdot(a, b).real)


def waves(rng, shape):
    return (random_complex(rng, shape).astype(np.complex64) for _ in range(2))


def operator_of(prior):
    """That of an estimate, for vectors of the object and seven numbers more; and how long they are."""
    scan = Scan.of(np.random.default_rng(0), count=12, step=2.2)
    estimate = scan.estimate(1.0)
    operator = Preconditioner(prior, None, OBJECT_ALONE, estimate)
    operator.renew(Parameters.of(estimate, OBJECT_ALONE, 1.0), estimate, 0)
    return operator, 2 * estimate.object.size + 7


@pytest.mark.parametrize("prior", [Prior(), Prior("edge_preserving", 3.0), Prior("second_order", 10.0)])
def test_steps_lead_down_and_the_beam_is_not_scaled(prior):
    operator, count = operator_of(prior)
    a = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    scaled = operator(a)
    assert np.dot(scaled[:-7], a[:-7]) > 0 and np.any(scaled[:-7] != a[:-7])
    np.testing.assert_array_equal(scaled[-7:], a[-7:])
    assert not operator(np.zeros(count, np.float32)).any()
    if prior == Prior():  # without a regulariser it is symmetric
        b = np.random.default_rng(1).standard_normal(count).astype(np.float32)
        limit = 1e-5 * np.linalg.norm(scaled) * np.linalg.norm(b)
        assert abs(inner(scaled, b) - inner(a, operator(b))) < limit


def first_differences(side):
    return np.eye(side, k=1)[:-1] - np.eye(side)[:-1]


def test_it_solves_the_equations_of_likelihood_and_regulariser():
    """Against a dense solution of (H + λ ∇ᵀ w ∇) z = g, ∇ a matrix and w by the definition at an edge."""
    rng, (rows, columns), strength, delta = np.random.default_rng(3), (9, 7), 4.0, 0.05
    image = np.where(np.arange(rows)[:, None] < 4, 1.0, 0.3j) * np.ones(columns)
    down = np.kron(first_differences(rows), np.eye(columns))
    right = np.kron(np.eye(rows), first_differences(columns))
    jump = abs(1 - 0.3j)
    weight = np.where(np.arange(rows) == 3, 1 / np.hypot(jump, delta), 1 / delta)  # of each row of pixels
    weights = np.repeat(weight, columns)
    regulariser = down.T @ np.diag(weights[: len(down)]) @ down
    regulariser += right.T @ np.diag(np.repeat(weight, columns - 1)) @ right
    scale = np.exp(rng.normal(size=(rows, columns))).astype(np.float32)
    system = np.diag(scale.ravel().astype(float) ** 2) + strength * regulariser
    wave, _ = waves(rng, (rows, columns))
    root = scale.ravel()
    expected = root * np.linalg.solve(system, root * wave.ravel())  # in units of u = √H O
    prior, image = Prior("edge_preserving", strength), image.astype(np.complex64)
    parts = prior.stiffness(image), prior.curvature(image)
    found, roughly = (regularised(scale, *parts, steps=steps)(wave).ravel() for steps in (60, 5))
    np.testing.assert_allclose(found, expected, atol=2e-4 * np.abs(expected).max())
    off, all_of_it = (roughly - expected) / root, expected / root
    assert inner(off, system @ off) <= 0.3 * inner(all_of_it, system @ all_of_it)


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


def test_low_frequencies_are_found_in_fewer_steps(monkeypatch):
    """On a scan of many probe widths, the object is much closer to the converged one after equal steps."""
    scan = Scan.of(np.random.default_rng(4), 1e5, count=24, step=2.2)
    data = scan.dataset(np.random.default_rng(2))
    objective = Objective(likelihood_of(data), Prior("edge_preserving", 1.0))
    start = scan.rough(data.normalisation)
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
    objective = Objective(likelihood_of(data), Prior("second_order", 100.0))
    start = scan.rough(data.normalisation)
    end = fit(objective, start, OBJECT_ALONE, 300, enough=0.0).course[-1]
    scaled = fit(objective, start, OBJECT_ALONE, 40, enough=0.0).course[-1]
    monkeypatch.setattr(preconditioner, "regularised", lambda *parts: lambda wave: wave)
    same = fit(objective, start, OBJECT_ALONE, 40, enough=0.0).course[-1]
    assert scaled - end < 0.5 * (same - end), (scaled, same, end)
