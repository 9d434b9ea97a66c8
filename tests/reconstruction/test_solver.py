"""The solver on small scans with a known truth: errors as small as photons allow; fixed parts stay."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import (
    N,
    Scan,
    beam,
    distance,
    fisher_matrix,
    illuminated_mask,
    intensity_of,
    likelihood_of,
    moved_probes,
    smooth_object,
)
from helpers.reference import random_complex
from scipy.optimize import minimize

from ptycho.reconstruction import solver
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.parameters import Parameters
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.solver import Objective, fit, normalise

OBJECT, PROBE, POSITIONS = Refine(False), Refine(True), Refine(False, positions=True)
EVERYWHERE = np.ones((N, N), bool)


@pytest.fixture(scope="module")
def scan():
    """36 patterns of 10⁵ photons."""
    return Scan.of(np.random.default_rng(1), 1e5)


@pytest.fixture(scope="module")
def data(scan):
    return scan.dataset(np.random.default_rng(2))


def without_common_moves(moves, positions):
    """Return the moves without their least-squares shift, scale, rotation and shear."""
    model = np.column_stack([np.ones(len(positions)), positions])
    return moves - model @ np.linalg.lstsq(model, moves, rcond=None)[0]


# ---- the object, with a known beam


def predicted_error(scan, mask):
    """Relative error that photon noise leaves on a mask: the trace of the inverse of a dense Fisher matrix.

    What is hardly illuminated is left out.
    """
    side = len(scan.object)
    values, vectors = np.linalg.eigh(fisher_matrix(scan))
    kept = values > 1e-3 * np.median(values[values > 1e-6 * values.max()])
    covariance = np.sum(vectors[:, kept] ** 2 / values[kept], axis=1).reshape(2, side, side).sum(0)
    return np.sqrt(covariance[mask].sum() / np.sum(np.abs(scan.object[mask]) ** 2))


@pytest.fixture(scope="module")
def error_of_one():
    """Relative error of the object at one photon per pattern: it falls with the root of their number."""
    small = Scan.of(np.random.default_rng(3), 1e5, count=4)
    return predicted_error(small, illuminated_mask(small, 0.5)) * np.sqrt(1e5)


@pytest.mark.parametrize("photons", [1e5, 1e6])
def test_a_known_beam_leaves_the_error_that_photons_set(photons, error_of_one):
    small = Scan.of(np.random.default_rng(3), photons, count=4)
    data, mask = small.dataset(np.random.default_rng(4)), illuminated_mask(small, 0.5)
    found = fit(Objective(likelihood_of(data)), small.rough(data.normalisation), OBJECT, 900)
    expected = error_of_one / np.sqrt(photons)
    assert 0.5 * expected < distance(found.estimate.object, small.object, mask) < 1.2 * expected
    assert found.converged


def test_the_least_deviance_is_that_of_scipy():
    """Gaussian amplitudes of nine patterns: a long L-BFGS-B run in double precision gets no lower."""
    small = Scan.of(np.random.default_rng(5), 1e4, count=3)
    data = small.dataset(np.random.default_rng(6))
    probes, corners = moved_probes(small)
    measured = np.fft.ifftshift(data.amplitudes[:].astype(float), axes=(-2, -1))
    shape = small.object.shape

    def value_and_gradient(u):
        image, back, value = (u[: u.size // 2] + 1j * u[u.size // 2 :]).reshape(shape), 0, 0.0
        back = np.zeros(shape, complex)
        for probe, (row, col), amplitude in zip(probes, corners, measured, strict=True):
            window = np.s_[row : row + N, col : col + N]
            far = np.fft.fft2(probe * image[window], norm="ortho")
            root = np.sqrt(np.abs(far) ** 2 + 1e-4)
            value += 2 * np.sum((root - amplitude) ** 2)
            back[window] += probe.conj() * np.fft.ifft2(4 * (root - amplitude) / root * far, norm="ortho")
        return value, np.concatenate([back.real.ravel(), back.imag.ravel()])

    objective = Objective(likelihood_of(data, noise="gaussian"))
    start = small.rough(data.normalisation)
    found = fit(objective, start, OBJECT, 400, enough=1e-6)
    ends = []
    for image in (start.object, found.estimate.object):
        vector = np.concatenate([image.real.ravel(), image.imag.ravel()]).astype(float)
        ends.append(
            minimize(value_and_gradient, vector, jac=True, method="L-BFGS-B", options={"maxiter": 3000}).fun
        )
    before = value_and_gradient(np.concatenate([start.object.real.ravel(), start.object.imag.ravel()]))[0]
    assert found.course[0] == pytest.approx(before, rel=1e-4)
    assert found.course[-1] == pytest.approx(ends[1], rel=0.02)
    assert found.course[-1] < 1.05 * ends[0] < 0.1 * before


def test_a_fit_tells_its_course(scan, data):
    seen = []
    objective = Objective(likelihood_of(data))
    start = scan.rough(data.normalisation)
    found = fit(
        objective, start, OBJECT, 90, enough=0, watch=lambda estimate, value: seen.append((estimate, value))
    )
    assert len(found.course) == 91 and not found.converged
    assert [value for _, value in seen] == found.course
    assert np.diff(found.course).max() < 1e-6 * found.course[-1]
    again = objective.likelihood.evaluate(found.estimate).value
    assert again == pytest.approx(found.course[-1], rel=1e-5)
    assert 91 <= found.evaluations < 140
    np.testing.assert_array_equal(found.estimate.modes, start.modes)
    np.testing.assert_array_equal(found.estimate.positions, start.positions)


# ---- the beam


def with_probe(scan, f, probe):
    power = np.sum(np.abs(scan.modes) ** 2)
    return replace(scan.rough(f), modes=(f * np.sqrt(power) * probe[None]).astype(np.complex64))


def test_a_wrong_probe_becomes_right(scan, data):
    objective, f = Objective(likelihood_of(data)), data.normalisation
    start = with_probe(scan, f, beam(width=7, curvature=0.05))
    first = fit(objective, start, OBJECT, 30)
    found = fit(objective, first.estimate, PROBE, 400)
    assert distance(start.modes[0], scan.modes[0], EVERYWHERE) > 0.2
    assert distance(found.estimate.modes[0], scan.modes[0], EVERYWHERE) < 0.04
    assert found.course[-1] < 0.05 * first.course[-1]
    power = np.sum(np.abs(start.modes) ** 2)
    assert np.sum(np.abs(found.estimate.modes) ** 2) == pytest.approx(power, rel=1e-4)


def test_wrong_positions_come_back(scan, data):
    rng = np.random.default_rng(9)
    wrong = without_common_moves(0.3 * rng.normal(size=scan.positions.shape), scan.positions)
    start = replace(scan.rough(data.normalisation), positions=scan.positions + wrong)
    objective = Objective(likelihood_of(data))
    first = fit(objective, start, OBJECT, 30)
    found = fit(objective, first.estimate, POSITIONS, 400).estimate.positions - scan.positions
    assert np.std(without_common_moves(found, scan.positions)) < 0.2 * np.std(wrong)


def test_windows_stay_while_positions_move():
    """A probe that reaches the edges of its window would jump with a window that moves by a pixel."""
    wide = Scan.of(np.random.default_rng(1), 1e5, modes=beam(width=20)[None])
    data = wide.dataset(np.random.default_rng(2))
    objective = Objective(likelihood_of(data))
    wrong = wide.positions + 0.3 * np.random.default_rng(9).normal(size=wide.positions.shape)
    first = fit(objective, replace(wide.rough(data.normalisation), positions=wrong), OBJECT, 30)
    found = fit(objective, first.estimate, POSITIONS, 200)
    assert found.converged and found.evaluations < 1.5 * len(found.course)
    errors = [
        without_common_moves(at - wide.positions, wide.positions) for at in (wrong, found.estimate.positions)
    ]
    assert np.std(errors[1]) < 0.15 * np.std(errors[0])


# ---- the same far fields in other scales


def some_estimate(rng, data):
    f, M = data.normalisation, data.object_size
    return Estimate(
        smooth_object(rng, M).astype(np.complex64),
        (100 * f * random_complex(rng, (2, N, N))).astype(np.complex64),
        data.positions.astype(float),
        rng.uniform(0.5, 1.5, len(data.positions)).astype(np.float32),
        rng.uniform(0, 3, (N, N)).astype(np.float32),
    )


def test_normalise_leaves_far_fields_as_they_are(data):
    estimate = some_estimate(np.random.default_rng(13), data)
    found = normalise(estimate, 7.0, Refine(True, flux=True))
    for j in (0, 17, 35):
        intensities = [
            intensity_of(s.object, s.modes, s.positions[j], s.flux[j], s.background)
            for s in (estimate, found)
        ]
        np.testing.assert_allclose(*intensities, rtol=1e-3)
    assert np.sum(np.abs(found.modes) ** 2) == pytest.approx(7, rel=1e-5)
    assert np.mean(found.flux**2) == pytest.approx(1, rel=1e-5)
    assert abs(np.vdot(*found.modes)) < 1e-4
    assert normalise(estimate, 7.0, Refine(False, True, False, True)) is estimate


def test_normalise_leaves_the_priors_scale_as_it_is(data):
    """The objective, with the prior, does not depend on whether object or probe has the scale."""
    estimate = some_estimate(np.random.default_rng(14), data)
    prior = Prior("edge_preserving", 500.0)
    assert value_of(data, estimate, prior, 50.0) == pytest.approx(
        value_of(data, normalise(estimate, 50.0, PROBE), prior, 50.0), rel=1e-5
    )
    brighter = replace(estimate, object=estimate.object / 2, modes=2 * estimate.modes)
    assert value_of(data, estimate, prior, 50.0) == pytest.approx(
        value_of(data, brighter, prior, 50.0), rel=1e-5
    )


def value_of(data, estimate, prior, power):
    objective = Objective(likelihood_of(data), prior)
    parameters = Parameters.of(estimate, PROBE, data.normalisation)
    return solver._value_and_gradient(objective, parameters, power)(parameters.start())[0]


@pytest.mark.parametrize("refine", [OBJECT, PROBE, Refine(True, True, True, True)])
def test_slope_of_the_whole_objective(scan, data, refine):
    """The prior is as strong as the patterns, and its scale depends on the power of the probe."""
    rng = np.random.default_rng(15)
    estimate = replace(scan.estimate(data.normalisation), background=np.full((N, N), 1e-3, np.float32))
    estimate = replace(
        estimate, object=(1.1 * estimate.object + 0.05 * smooth_object(rng, len(estimate.object)))
    )
    estimate = replace(estimate, object=estimate.object.astype(np.complex64))
    objective = Objective(likelihood_of(data), Prior("quadratic", 3e3))
    parameters = Parameters.of(estimate, refine, data.normalisation)
    function = solver._value_and_gradient(
        objective, parameters, 0.7 * float(np.sum(np.abs(estimate.modes) ** 2))
    )
    u = parameters.start()
    _, gradient = function(u)
    steepest = gradient / np.linalg.norm(gradient)
    for way in (steepest, rng.normal(size=u.shape), np.sign(gradient) * rng.random(u.shape)):
        way = (way / np.linalg.norm(way)).astype(np.float32)
        step = np.float32(0.5)
        slope = (function(u + step * way)[0] - function(u - step * way)[0]) / (2 * step)
        limit = 3e-3 * float(np.linalg.norm(gradient))
        assert slope == pytest.approx(float(np.dot(way, gradient)), rel=3e-3, abs=limit)


def test_no_factor_drifts_from_object_to_probe(scan, data):
    """A prior is smallest for an object of zero, which a refined probe must not lead to."""
    objective = Objective(likelihood_of(data), Prior("quadratic", 300.0))
    start = fit(objective, scan.rough(data.normalisation), OBJECT, 60).estimate
    found = fit(objective, start, PROBE, 150).estimate
    assert np.sum(np.abs(found.modes) ** 2) == pytest.approx(np.sum(np.abs(start.modes) ** 2), rel=1e-4)
    mask = illuminated_mask(scan, 0.5)
    size = np.mean(np.abs(found.object[mask])) / np.mean(np.abs(scan.object[mask]))
    assert size == pytest.approx(1, abs=0.05)
