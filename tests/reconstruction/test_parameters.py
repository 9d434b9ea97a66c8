"""An estimate as one real vector: round trip, chain rule, and shifts that a position model excludes."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import N, Scan, likelihood_of
from helpers.reference import random_complex

from ptycho.reconstruction.estimate import Refine
from ptycho.reconstruction.parameters import Parameters, illuminated_pixels
from ptycho.scan.probe import ProbeSupport

ALL = Refine(True, True, True, True, point_spread=True)
PARTS = ("object", "modes", "positions", "flux", "background", "point_spread")


@pytest.fixture(scope="module")
def estimate():
    rng = np.random.default_rng(0)
    scan = Scan.of(rng, 1.0, count=5)
    found = replace(
        scan.estimate(1.0),
        modes=random_complex(rng, (2, N, N)).astype(np.complex64),
        flux=rng.uniform(0.7, 1.3, 25).astype(np.float32),
        background=rng.uniform(0, 3, (N, N)).astype(np.float32),
        point_spread=np.array([0.4, 0.9], np.float32),
    )
    found.background[3, 4] = 0
    return found


def moved(parameters, rng, size=0.3):
    """Return a vector that differs from the start in every number."""
    start = parameters.start()
    return (start + size * rng.normal(size=start.shape)).astype(np.float32)


@pytest.mark.parametrize(
    "refine", [ALL, Refine(False), Refine(False, True, object=False), Refine(True, flux=True)]
)
def test_the_start_is_the_base(estimate, refine):
    parameters = Parameters.of(estimate, refine, 0.1)
    found = parameters.estimate(parameters.start())
    assert parameters.start().dtype == np.float32
    for part in PARTS:
        value = getattr(found, part)
        np.testing.assert_allclose(value, getattr(estimate, part), rtol=1e-5, atol=1e-5, err_msg=part)
        assert value.dtype == getattr(estimate, part).dtype
    names = "object", "probe", "positions", "flux", "background", "point_spread"
    refined = [getattr(refine, name) for name in names]
    for part, is_refined in zip(PARTS, refined, strict=True):
        assert (part in parameters.names) == is_refined
        if not is_refined:
            other = parameters.estimate(moved(parameters, np.random.default_rng(1)))
            assert getattr(other, part) is getattr(estimate, part)


@pytest.mark.parametrize("model", ["independent", "affine", "affine_and_independent", "each"])
def test_gradient_is_the_chain_rule(estimate, model):
    """A toy function of all parts, quadratic or cubic in each; β is negative in places."""
    rng = np.random.default_rng(2)
    axis = np.arange(N) - N // 2
    inside = np.hypot(axis[:, None], axis) < 6
    parameters = Parameters.of(estimate, ALL, 0.1, model, ProbeSupport(inside))
    weights = {part: rng.normal(size=getattr(estimate, part).shape) for part in PARTS}

    def toy(at):
        value, gradients = 0.0, {}
        for part, weight in weights.items():
            x = getattr(at, part)
            x = x.astype(complex if np.iscomplexobj(x) else float)
            shifted = x - (0.3 + 0.2j if np.iscomplexobj(x) else 0.3)
            value += float(np.sum(weight * np.abs(shifted) ** 2) / 2)
            gradients[part] = (weight * shifted).astype(getattr(at, part).dtype)
        return value, gradients

    u = moved(parameters, rng)
    beta = parameters._parts(u)["background"]
    beta[::2] *= -1
    assert np.any(beta < 0) and np.any(u < 0)
    gradient = parameters.gradient(u, toy(parameters.estimate(u))[1])
    assert gradient.shape == u.shape and gradient.dtype == np.float32
    ends = np.cumsum(
        [scale.size * (1 + (name in ("object", "modes"))) for name, scale in parameters.scales.items()]
    )
    for name, begin, end in zip(parameters.names, [0, *ends[:-1]], ends, strict=True):
        for _ in range(3):
            way = np.zeros_like(u)
            way[begin:end] = rng.normal(size=end - begin)
            step = np.float32(0.02)
            up, down = (toy(parameters.estimate(u + sign * step * way))[0] for sign in (1, -1))
            slope = float(way @ gradient)
            limit = 1e-2 * np.linalg.norm(way) * np.linalg.norm(gradient[begin:end])
            assert (up - down) / (2 * step) == pytest.approx(slope, rel=1e-2, abs=float(limit) + 1e-6), name


def test_the_scale_of_the_point_spread_is_its_curvature():
    """That of half the deviance of patterns without noise, by its second difference along either axis."""
    scan = replace(Scan.of(np.random.default_rng(3), 1e5, count=5), point_spread=(0.5, 0.8))
    likelihood = likelihood_of(scan.dataset())
    truth = scan.estimate(likelihood.normalisation)
    refine = Refine(False, object=False, point_spread=True)
    found = Parameters.of(truth, refine, likelihood.photon).scales["point_spread"] ** 2
    for axis, step in enumerate(0.02 * np.eye(2, dtype=np.float32)):
        moved = [replace(truth, point_spread=truth.point_spread + k * step) for k in (-1, 0, 1)]
        down, middle, up = (likelihood.evaluate(there).value for there in moved)
        assert found[axis] == pytest.approx((down + up - 2 * middle) / 0.02**2, rel=0.3)


def explained(moves, columns):
    return columns @ np.linalg.lstsq(columns, moves, rcond=None)[0]


def test_models_of_the_moves(estimate):
    """Against a least-squares shift, and against scale, rotation and shear."""
    inner = replace(estimate, object=np.zeros((200, 200), np.complex64), positions=estimate.positions + 80)
    inner = replace(inner, object=np.ones((200, 200), np.complex64) * (1 + np.arange(200) % 3))
    one = np.ones((25, 1))
    centred = inner.positions - inner.positions.mean(axis=0)
    everything = np.hstack([one, centred])
    models = {
        "independent": lambda wanted: wanted - explained(wanted, everything),
        "affine": lambda wanted: explained(wanted, centred),
        "affine_and_independent": lambda wanted: wanted - wanted.mean(axis=0),
        "each": lambda wanted: wanted,
    }
    for model, expect in models.items():
        parameters = Parameters.of(inner, Refine(False, True, object=False), 0.1, model)
        step = moved(parameters, np.random.default_rng(3), size=20)
        found = parameters.estimate(step).positions - inner.positions
        wanted = (step.reshape(-1, 2) / parameters.scales["positions"]).astype(float)
        expected = expect(wanted)
        np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(wanted).max(), err_msg=model)


def test_positions_stay_within_the_object_and_at_its_edge(estimate):
    edge = estimate.positions.copy()
    edge[7] = len(estimate.object) - N
    parameters = Parameters.of(replace(estimate, positions=edge), Refine(False, True), 0.1)
    np.testing.assert_allclose(parameters.estimate(parameters.start()).positions, edge)
    parameters = Parameters.of(estimate, Refine(False, True, object=False), 0.1, "each")
    for sign in (1, -1):
        found = parameters.estimate(np.full(50, sign * 1e6, np.float32)).positions
        assert found.min() >= 0 and np.floor(found + 0.5).max() <= len(estimate.object) - N


def test_the_mean_flux_stays_and_a_background_is_never_negative(estimate):
    parameters = Parameters.of(estimate, Refine(False, False, True, object=False), 0.1)
    found = parameters.estimate(moved(parameters, np.random.default_rng(4))).flux
    assert found.mean() == pytest.approx(estimate.flux.mean(), rel=1e-5)
    assert np.abs(found - estimate.flux).max() > 1e-3 * estimate.flux.mean() and found.dtype == np.float32
    parameters = Parameters.of(estimate, Refine(False, background=True, object=False), 0.1)
    found = parameters.estimate(moved(parameters, np.random.default_rng(5), 1e3)).background
    assert found.min() >= 0 and found.max() > 3


def test_outside_its_mask_the_probe_stays_zero(estimate):
    inside = np.random.default_rng(6).random((N, N)) > 0.4
    parameters = Parameters.of(estimate, Refine(True), 0.1, support=ProbeSupport(inside))
    found = parameters.estimate(moved(parameters, np.random.default_rng(7))).modes
    assert not found[:, ~inside].any() and np.all(found[:, inside] != 0)
    ones = {part: np.ones_like(getattr(estimate, part)) for part in ("object", "modes")}
    gradient = parameters._parts(parameters.gradient(parameters.start(), ones))["modes"]
    assert not gradient[:, ~inside].any() and gradient[:, inside].all()


def test_the_gradient_under_a_pupil_is_that_of_what_the_vector_stands_for(estimate):
    """⟨∇f, way⟩ for f(u) = Re⟨slope, modes(u)⟩, with modes and OPR modes limited to the pupil."""
    rng = np.random.default_rng(6)
    support = ProbeSupport(rng.random((N, N)) > 0.4, far_field=True)
    parameters = Parameters.of(estimate, Refine(True, object=False), 0.1, support=support)
    slope = random_complex(rng, estimate.modes.shape).astype(np.complex64)
    u, way = parameters.start(), rng.normal(size=parameters.start().shape).astype(np.float32)
    moved_by = parameters.estimate(u + way).modes - parameters.estimate(u).modes
    found = np.vdot(parameters.gradient(u, {"modes": slope}), way)
    assert found == pytest.approx(np.vdot(slope, moved_by).real, rel=1e-3)
    far = np.fft.fft2(parameters.estimate(u + way).modes)
    assert np.abs(far[:, ~support.region]).max() < 1e-4 * np.abs(far).max()


def slow_curvatures(estimate):
    """``Σ|cP|²`` on the object, ``Σ|cO|²`` on the probe, and ``Σ|P O|²`` of each pattern, by loops."""
    illumination = np.zeros(estimate.object.shape)
    bright = np.zeros((N, N))
    energy = np.zeros(len(estimate.flux))
    power = np.sum(np.abs(estimate.modes.astype(complex)) ** 2, axis=0)
    for j, (row, col) in enumerate(np.floor(estimate.positions + 0.5).astype(int)):
        for y, x in np.ndindex(N, N):
            value = abs(complex(estimate.object[row + y, col + x])) ** 2
            illumination[row + y, col + x] += estimate.flux[j] ** 2 * power[y, x]
            bright[y, x] += estimate.flux[j] ** 2 * value
            energy[j] += power[y, x] * value
    return illumination, bright, energy


def test_scales_are_roots_of_the_curvature(estimate):
    illumination, bright, energy = slow_curvatures(estimate)
    parameters = Parameters.of(estimate, ALL, 0.1, diagonal=2e3)
    floored = np.maximum(illumination, 1e-3 * illumination.max())
    np.testing.assert_allclose(parameters.scales["object"] ** 2, 4 * floored / 0.01 + 2e3, rtol=1e-3)
    for mode in parameters.scales["modes"]:
        np.testing.assert_allclose(mode**2, 4 * bright / 0.01, rtol=1e-3)
    np.testing.assert_allclose(parameters.scales["flux"] ** 2, 4 * energy / 0.01, rtol=1e-3)
    np.testing.assert_allclose(parameters.scales["background"] ** 2, 4 * 25 / 0.01, rtol=1e-3)
    assert illuminated_pixels(estimate) == np.count_nonzero(illumination > 0.1 * illumination.max())
