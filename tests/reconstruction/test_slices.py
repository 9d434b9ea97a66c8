"""Slices of a thick sample: start, fit, scores, storage and refusals."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.likelihood import N, illuminated_mask, likelihood_of
from helpers.multislice import BETWEEN, thick_intensity, thick_scan
from helpers.quick import KNOWN
from helpers.reference import random_complex

import ptycho
from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.solver_config import SolverConfig
from ptycho.config.waves import Fresnel
from ptycho.preparation.dataset import space_between_slices
from ptycho.reconstruction import slice_selection
from ptycho.reconstruction.maximum_likelihood import Solved
from ptycho.reconstruction.misfit import misfit
from ptycho.reconstruction.model_selection import select_model
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.regulariser_selection import Regularisation, select_regulariser
from ptycho.reconstruction.slice_selection import SliceOptions, divided, fit_fewer_slices, try_slices
from ptycho.reconstruction.solver import FIT, OBJECT_ALONE, Objective, fit
from ptycho.reconstruction.uncertainty import map_errors
from ptycho.scan.ramp import move_ramp
from ptycho.scan.reconstruction import Reconstruction

ONE_MODE = replace(KNOWN, modes=1)
THICKNESS = {"slices": 2, "slice_thickness_m": 3e-6}


def test_a_root_of_phases_beyond_a_turn_is_smooth():
    rows, columns = np.mgrid[:20, :23]
    phase = 0.9 * rows - 0.4 * columns  # 26 rad in all
    image = ((0.5 + 0.01 * columns) * np.exp(1j * phase)).astype(np.complex64)
    slices = divided(image, 3)
    np.testing.assert_allclose(slices.prod(axis=0), image, atol=1e-5)
    steps = np.angle(slices[0, 1:] * slices[0, :-1].conj())
    np.testing.assert_allclose(steps, 0.3, atol=1e-4)


def test_slices_are_divided_by_their_thickness():
    """Two slices a and b as three: two thirds of a, a third of each, two thirds of b."""
    rng = np.random.default_rng(2)
    amplitudes, phases = rng.uniform(0.2, 1.5, (2, 5, 7)), rng.uniform(-1, 1, (2, 5, 7))
    found = divided((amplitudes * np.exp(1j * phases)).astype(np.complex64), 3)
    shares = [(2 / 3, 0), (1 / 3, 1 / 3), (0, 2 / 3)]
    for part, (a, b) in zip(found, shares, strict=True):
        phase = a * phases[0] + b * phases[1]
        expected = amplitudes[0] ** a * amplitudes[1] ** b * np.exp(1j * phase)
        np.testing.assert_allclose(part, expected, rtol=1e-5)


def test_differences_along_depth_cost_their_square():
    rng = np.random.default_rng(1)
    image, move = (random_complex(rng, (3, 5, 4)).astype(np.complex64) for _ in range(2))
    prior, plane = Prior("quadratic", 2.0, depth=7.0), Prior("quadratic", 2.0)

    def slowly(slices):
        between = sum(abs(slices[k + 1][i] - slices[k][i]) ** 2 for k in (0, 1) for i in np.ndindex(5, 4))
        return 7 * between + sum(plane(one.astype(np.complex64))[0] for one in slices)

    value, slope = prior(image)
    assert value == pytest.approx(slowly(image.astype(complex)), rel=1e-5)
    h = 1e-2
    ahead, behind = (slowly(image + sign * h * move.astype(complex)) for sign in (1, -1))
    assert np.vdot(slope, move).real == pytest.approx((ahead - behind) / 2 / h, rel=1e-3)
    stiff = Prior("none", depth=7.0).stiffness(image)
    np.testing.assert_allclose(stiff, np.broadcast_to(np.reshape([14, 28, 14], (3, 1, 1)), (3, 5, 4)))
    for one in (prior, Prior("none", depth=7.0), plane):
        assert Regularisation.of(Regularisation(one).name, None).prior == one


def test_what_is_alike_along_depth_is_found_so():
    """At few photons, the selected weight along depth brings the slices closer to the truth."""
    scan, slices = thick_scan(modes=1, count=7, photons=1e2)
    alike = np.stack([slices[0]] * 2)
    intensity = np.array([thick_intensity(alike, scan.modes, r) for r in scan.positions])
    known = {"object_size": slices.shape[-1], "between": BETWEEN, "exact": True}
    data = scan.dataset(np.random.default_rng(6), 100 * intensity / intensity.mean(), **known)
    options = replace(ONE_MODE, slices=2, prior="edge_preserving")
    selection = select_model(data, options, 0, True)
    chosen = select_regulariser(selection)
    assert chosen.prior.depth > 0
    flat, found = (
        selection.fit(selection.estimate, OBJECT_ALONE, prior, 100).estimate.object
        for prior in (replace(chosen.prior, depth=0.0), chosen.prior)
    )
    assert np.abs(np.diff(found, axis=0)).mean() < 0.5 * np.abs(np.diff(flat, axis=0)).mean()


def test_errors_of_slices_are_those_of_their_product():
    """Without a distance between them, patterns only depend on the product."""
    scan, _ = thick_scan(modes=1, count=4)
    data = scan.dataset(np.random.default_rng(4), exact=True)
    thin = fit(Objective(likelihood_of(data)), scan.estimate(data.normalisation), OBJECT_ALONE, 100).estimate
    near = replace(data, between=replace(BETWEEN, length=1e-3 * BETWEEN.length))
    two = replace(thin, object=divided(thin.object, 2))
    mask = illuminated_mask(scan)
    each = (data, thin), (near, two)
    one, both = (map_errors(Objective(likelihood_of(d)), estimate, mask, 0) for d, estimate in each)
    for known, found in ((one.amplitude, both.amplitude), (one.phase, both.phase)):
        np.testing.assert_allclose(np.median(found[0][mask] / known[0][mask]), 1, atol=0.2)


@pytest.fixture(scope="module")
def thick():
    """Patterns of two slices, and fits of one slice and of two with a known probe."""
    scan, slices = thick_scan(modes=1, count=7, photons=1e4)
    intensity = np.array([thick_intensity(slices, scan.modes, r) for r in scan.positions])
    known = {"object_size": slices.shape[-1], "between": BETWEEN, "exact": True}
    data = scan.dataset(np.random.default_rng(5), intensity, **known)
    objective = Objective(likelihood_of(data, compile_xla=True))
    start = replace(scan.estimate(data.normalisation), object=np.ones(slices.shape[1:], np.complex64))
    one = fit(objective, start, OBJECT_ALONE, 40)
    solved = Solved(one.estimate, OBJECT_ALONE, objective, (), one)
    begin = replace(one.estimate, object=divided(one.estimate.object, 2))
    two = fit(objective, begin, OBJECT_ALONE, 100, FIT.enough / 5)
    return scan, slices, data, solved, replace(solved, estimate=two.estimate, fit=two)


def test_slices_are_found_that_one_slice_does_not_explain(thick):
    scan, slices, _, one, two = thick
    mask = illuminated_mask(replace(scan, object=slices[0]))
    deviances = [s.objective.likelihood.evaluate(s.estimate).deviance.sum() for s in (one, two)]
    measured = N**2 * len(scan.positions)
    assert deviances[0] > 3 * deviances[1] and deviances[1] < 1.1 * measured
    for found, truth in zip(two.estimate.object, slices, strict=True):
        a, b = found[mask], truth[mask]
        error = np.linalg.norm(a * np.vdot(a, b) / np.vdot(a, a) - b) / np.linalg.norm(b - b.mean())
        assert error < 0.3


def test_their_number_and_distance_are_found(thick):
    """The fit starts from half of the distance; a thin object gets no slices."""
    scan, _, data, _, _ = thick
    options = replace(ONE_MODE, slices=None)
    begin = replace(data, between=replace(BETWEEN, length=BETWEEN.length / 2))
    found = select_model(begin, options, 0, True)
    assert found.estimate.slices == 2
    assert found.kept.data.between.length == pytest.approx(BETWEEN.length, rel=0.15)
    flat = scan.dataset(np.random.default_rng(4), object_size=data.object_size, between=BETWEEN, exact=True)
    none = select_model(flat, options, 0, True)
    assert none.estimate.slices == 1 and none.kept.data.between == BETWEEN
    assert none.decisions[-1].why.startswith("two: deviance of held-out")


def test_fewer_slices_have_the_thickness_of_more(thick):
    """Four slices, half as far apart as the two of the sample, are divided from these two."""
    _, _, data, one, _ = thick
    near = replace(data, between=replace(BETWEEN, length=BETWEEN.length / 2))
    objective = replace(one.objective, likelihood=replace(one.objective.likelihood, data=near))
    four = fit_fewer_slices(objective, one.estimate, 4, 400)
    np.testing.assert_array_equal(four[::2], four[1::2])
    two = replace(one.estimate, object=(four[::2] * four[1::2]).astype(np.complex64))
    deviance = one.objective.likelihood.evaluate(two).deviance.sum()
    assert deviance < 2 * N**2 * len(data.positions)


@pytest.mark.parametrize(("far", "depths"), [((0.5, 1.0, 2.0), 1.25), ((0.5,), 0.625)])
def test_slices_far_apart_that_scatter_strongly(far, depths):
    """Two slices 1.23 depths of field apart, of 2 rad: trials begin at .5, or also at 1 and 2."""
    scan, slices = thick_scan(modes=1, count=7, photons=1e4)
    strong = np.stack([slices[0] ** 2, np.ones_like(slices[0]), slices[1] ** 2])
    intensity = np.array([thick_intensity(strong, scan.modes, r) for r in scan.positions])
    half = replace(BETWEEN, length=BETWEEN.length * 2.5 / BETWEEN.fresnel)
    known = {"object_size": strong.shape[-1], "between": half, "exact": True}
    data = scan.dataset(np.random.default_rng(5), intensity, **known)
    selection = select_model(data, replace(ONE_MODE, slices=1), 0, True)
    selection.options = replace(ONE_MODE, slices=None)
    try_slices(selection, SliceOptions(far=far, ratios=(1.25,), rounds=1, numbers=()))
    assert selection.kept.data.between.fresnel / 5 == pytest.approx(depths, rel=1e-6)


@pytest.mark.parametrize("distance", [1.0, 1.5])
def test_three_slices_are_found_behind_two_or_between_them(distance):
    """Three slices of 2 rad, from two as far apart as the first two of them, or as thick as all three."""
    scan, slices = thick_scan(slices=3, modes=1, count=7, photons=1e4)
    intensity = np.array([thick_intensity(slices**2, scan.modes, r) for r in scan.positions])
    apart = replace(BETWEEN, length=distance * BETWEEN.length)
    known = {"object_size": slices.shape[-1], "between": apart, "exact": True}
    data = scan.dataset(np.random.default_rng(5), intensity, **known)
    selection = select_model(data, replace(ONE_MODE, slices=1), 0, True)
    selection.options = replace(ONE_MODE, slices=None, thickness_specified=True)
    try_slices(selection, SliceOptions(numbers=(3,)))
    assert selection.estimate.slices == 3
    assert selection.kept.data.between.length == pytest.approx(BETWEEN.length, rel=1e-6)


@pytest.mark.parametrize(("factor", "expected"), [(0.01, 1), (1.0, 2)])
def test_a_further_mode_that_explains_more_ends_the_search(thick, monkeypatch, factor, expected):
    """A thin object under a second mode leaves a hundredth of what it leaves under one, or as much."""
    options = replace(ONE_MODE, slices=None, modes=None, thickness_specified=True)

    def mode(selection, refine):
        return selection.estimate, factor * selection.scores

    monkeypatch.setattr(slice_selection, "_with_further_mode", mode)
    searched = []
    number = slice_selection._number
    monkeypatch.setattr(slice_selection, "_number", lambda *given: searched.append(1) or number(*given))
    found = select_model(thick[2], options, 0, True)
    assert (found.estimate.slices, len(searched)) == (expected, expected - 1)
    (decision,) = (finding for finding in found.decisions if finding.what == "slices")
    assert ("a further mode explains more" in decision.why) == (expected == 1)


def test_scores_are_those_of_the_slices_and_stay_when_a_ramp_moves(thick):
    _, _, data, _, two = thick
    beam = two.estimate.beam(data.photon_scale, data.normalisation)
    image, mask = two.estimate.projection[None], np.ones((1, *two.estimate.projection.shape), bool)
    made = Reconstruction(image, mask, beam, slices=two.estimate.object)
    found = misfit(made.layers, data.under(beam))
    exact = two.objective.likelihood.evaluate(two.estimate).deviance.sum() / N**2 / len(beam.positions)
    assert found.mean_deviance == pytest.approx(exact, rel=0.05)
    assert misfit(made.object, data.under(beam)).mean_deviance > 3 * found.mean_deviance
    turned = move_ramp(made)
    same = misfit(turned.layers, data.under(turned.beam))
    assert same.r_factor == pytest.approx(found.r_factor, rel=0.05)  # a ramp at the edge of the window
    np.testing.assert_allclose(turned.slices.prod(axis=0), turned.object, atol=1e-4)


def test_a_scan_from_simulation_to_file(tmp_path, read_rightly):
    """A smaller example of the page: a finding has the gain by slices, and files store them."""
    scan = ptycho.simulate(32, 30, nphotons=1e6, sample="blobs", seed=1, slices=2, slice_thickness_m=9e-6)
    quick = {"positions": False, "flux": False, "background": False, "compile_xla": False, "steps": 12}
    quick |= {"learn_probe": False, "regulariser": "none", "progress": False, "half_scans": False}
    result = ptycho.reconstruct(scan, slices=2, slice_thickness_m=6e-6, **quick)
    finding = next(one for one in result.decisions if one.what == "solver: slices")
    assert finding.why.startswith("specified; deviance of held-out photons falls")
    assert result.slices.shape == (2, *result.object.shape)
    assert result.errors.amplitude.shape[-2:] == result.object.shape
    product = result.slices.prod(axis=0)
    np.testing.assert_allclose(np.where(result.mask, product, 0), result.object, atol=1e-4)
    assert "phase of slice 1" in result.report(tmp_path / "a.html").read_text()
    for name in ("a.h5", "a.npz"):
        again = ptycho.Result.load(result.save(tmp_path / name))
        np.testing.assert_array_equal(again.slices, result.slices.astype(np.complex64))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"slices": 2}, r"slice_thickness_m=null: must be the distance of neighbouring slices in metres"),
        ({"slices": 1, "slice_thickness_m": 1e-6}, r"slice_thickness_m=1e-06: must be null with .*slices=1"),
        ({"slices": 0}, r"slices"),
    ],
)
def test_a_distance_belongs_to_slices(settings, text):
    with pytest.raises(ConfigError, match=text):
        SolverConfig(**settings)


def test_methods_for_thin_objects_alone_are_refused():
    with pytest.raises(ConfigError, match=r"solver\.slices=2: only the solver knows slices; remove"):
        ScanRunConfig(solver=SolverConfig(**THICKNESS), models=("lsqml",))
    scan = ptycho.simulate(32, 20, nphotons=1e4)
    with pytest.raises(ConfigError, match=r"slices=2: .*wavelength is unknown; set .*energy_eV"):
        ptycho.reconstruct(scan, progress=False, **THICKNESS)
    thick = ptycho.simulate(32, 70, nphotons=1e4, **THICKNESS)
    with pytest.raises(ConfigError, match=r"slices=2: 70 patterns are fitted in blocks of 64.*block=70"):
        ptycho.reconstruct(thick, progress=False, block=64, **THICKNESS)
    known = {"pixel": SimpleNamespace(metres=None), "raw": SimpleNamespace(energy_eV=None)}
    near = SimpleNamespace(fresnel=Fresnel(2.0, 2.0), **known)
    with pytest.raises(ConfigError, match=r"slices=2: a near field is that of a thin .*solver\.slices=1"):
        space_between_slices(near, SolverConfig(**THICKNESS))
