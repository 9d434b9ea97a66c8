"""A probe that varies along the scan: intensities by loops, gradients by differences, its selection."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from helpers.likelihood import N, Scan, beam, distance, illuminated_mask, intensity_of, likelihood_of
from helpers.quick import decided
from helpers.reference import random_complex
from scipy.special import kl_div

import ptycho
from ptycho.config import ConfigError, OwnProbe, ScanRunConfig
from ptycho.config.solver_config import SolverConfig
from ptycho.evaluation.scan_figures import draw_variation
from ptycho.exports import product
from ptycho.exports.exported_scan import ExportedScan
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.holdout import hold_out
from ptycho.reconstruction.maximum_likelihood import solve
from ptycho.reconstruction.misfit import predictions
from ptycho.reconstruction.model_selection import (
    HYPOTHESES,
    _try_less_variation,
    first_noise,
    select_model,
)
from ptycho.reconstruction.parameters import Parameters
from ptycho.reconstruction.probe_variation import add_variation
from ptycho.reconstruction.selection import ModelOptions, Selection, SelectionOptions


def own_probes(scan, varied, weights):
    """Return the modes of each pattern by loops, ``(J, K, N, N)``."""
    probes = np.array([scan.modes] * len(weights), complex)
    for j, row in enumerate(weights):
        for weight, mode in zip(row, varied, strict=True):
            probes[j, 0] += weight * mode
    return probes


def intensity_under(scan, probes):
    parts = zip(probes, scan.positions, scan.flux, strict=True)
    return np.array([intensity_of(scan.object, probe, r, c, scan.background) for probe, r, c in parts])


@pytest.fixture(scope="module")
def varied():
    """Two modes, the first of which varies by two OPR modes with complex weights; noise-free patterns."""
    rng = np.random.default_rng(2)
    scan = Scan.of(rng, 2e4, count=5, modes=np.stack([0.9 * beam(), 0.3 * beam(row=2)]))
    scan = replace(scan, flux=rng.uniform(0.8, 1.2, 25))
    modes = 30 * random_complex(rng, (2, N, N)) * np.abs(beam())
    weights = random_complex(rng, (25, 2))
    return scan, modes, weights, intensity_under(scan, own_probes(scan, modes, weights))


def estimate_of(varied, f):
    scan, modes, weights, _ = varied
    opr = {"opr_modes": (f * modes).astype("c8"), "opr_weights": weights.astype("c8")}
    return replace(scan.estimate(f), **opr)


def data_of(varied, rng=None):
    return varied[0].dataset(rng, varied[3], exact=True)


def test_intensities_by_loops_in_fits_and_in_scores(varied):
    data = data_of(varied)
    estimate = estimate_of(varied, data.normalisation)
    assert likelihood_of(data).evaluate(estimate).deviance.max() < 0.02 * N**2
    beam_ = estimate.beam(data.photon_scale, data.normalisation)
    under, chosen = data.under(beam_), np.array([3, 0, 17])
    ((_, found),) = predictions(estimate.object, under, chosen)
    expected = data.normalisation * np.sqrt(varied[3][chosen])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-3)
    part = data.under(beam_).subset(chosen, 1)
    ((_, same),) = predictions(estimate.object, part, np.arange(3))
    np.testing.assert_allclose(found / data.normalisation, same / part.normalisation, rtol=1e-4)


def test_gradients_by_differences(varied):
    """Differences of loops in double precision, along random directions; also by probes of the patterns."""
    scan, modes, weights, _ = varied
    data = data_of(varied, np.random.default_rng(3))
    likelihood, rng, f = likelihood_of(data), np.random.default_rng(4), data.normalisation
    estimate = estimate_of(varied, f)
    estimate = replace(estimate, object=(0.9 * estimate.object).astype(np.complex64))
    scan = replace(scan, object=0.9 * scan.object)
    counts = np.fft.ifftshift(np.square(data.amplitudes[:].astype(float)), axes=(1, 2))
    found = likelihood.evaluate(estimate, ("modes", "opr_modes", "opr_weights")).gradients
    given = {"modes": scan.modes.astype(complex), "opr_modes": modes, "opr_weights": weights}
    for part, value in given.items():
        way = random_complex(rng, value.shape)

        def half_deviance(step, part=part, way=way):
            there = given | {part: given[part] + step * way}
            probes = own_probes(replace(scan, modes=there["modes"]), there["opr_modes"], there["opr_weights"])
            return kl_div(counts + 0.02, intensity_under(scan, probes) + 0.02).sum()

        slope = (half_deviance(1e-5) - half_deviance(-1e-5)) / 2e-5
        unit = 1 if part == "opr_weights" else f
        assert unit * np.vdot(found[part], way).real == pytest.approx(slope, rel=1e-3)
    each = likelihood.probe_gradients(estimate)
    np.testing.assert_allclose(each.sum(axis=0), found["modes"][0], rtol=1e-3, atol=1e-2)
    along = np.einsum("vyx,jyx->jv", estimate.opr_modes.conj(), each)
    np.testing.assert_allclose(along, found["opr_weights"], rtol=1e-3, atol=1e-2 * np.abs(along).max())


def test_weights_that_vary_slowly_are_cosines_over_the_scan(varied):
    """The vector represents weights in their span, and its gradient is that of differences there."""
    data = data_of(varied, np.random.default_rng(3))
    likelihood, estimate = likelihood_of(data), estimate_of(varied, data.normalisation)
    only = Refine(False, object=False, probe_variation=True)
    parameters = Parameters.of(estimate, only, likelihood.photon, weight_waves=3)
    time = (np.arange(25) + 0.5) / 25
    span = np.stack([np.cos(np.pi * m * time) for m in (1, 2, 3)], axis=1)
    start = parameters.start()
    for u in (start, start + np.random.default_rng(0).normal(size=start.shape).astype(np.float32)):
        weights = parameters.estimate(u).opr_weights
        fitted = span @ np.linalg.lstsq(span, weights, rcond=None)[0]
        np.testing.assert_allclose(weights, fitted, atol=1e-5 * np.abs(weights).max())
    found = likelihood.evaluate(parameters.estimate(start), ("opr_weights",)).gradients
    slope = parameters.gradient(start, found)
    way = np.random.default_rng(5).normal(size=start.shape).astype(np.float32)
    moved = parameters.estimate(start + way).opr_weights - parameters.estimate(start).opr_weights
    assert np.vdot(slope, way) == pytest.approx(np.vdot(found["opr_weights"], moved).real, rel=1e-3)


EDGES = ModelOptions(prior="edge_preserving", strength=3.0)
ALONE = replace(EDGES, positions=False, background=False, pupil=False, modes=1)


@pytest.fixture(scope="module")
def drifting():
    """64 patterns whose probe drifts along a wave by 0.4 of its norm."""
    rng = np.random.default_rng(1)
    scan, axis = Scan.of(rng, 1e5, count=8, step=2.2), np.arange(N) - N / 2
    wave = beam() * np.add.outer(axis, 0.7j * axis)
    wave -= beam() * np.vdot(beam(), wave)
    weights = np.linspace(-0.2, 0.2, 64)[:, None]
    probes = own_probes(scan, np.sqrt(1e5) * wave[None] / np.linalg.norm(wave), weights)
    intensity = intensity_under(scan, probes)
    return scan, scan.dataset(np.random.default_rng(3), intensity), weights[:, 0], intensity


def test_a_probe_that_drifts_is_found(drifting):
    scan, data, weights, _ = drifting
    found = solve(data, EDGES, 0, compile_xla=False)
    values = decided(found)
    assert values["OPR modes"] == "1" and values["probe"] == values["flux"] == "refined"
    assert found.refine.probe_variation
    assert distance(found.estimate.object, scan.object, illuminated_mask(scan, 0.5)) < 0.09
    assert abs(np.corrcoef(found.estimate.opr_weights[:, 0].real, weights)[0, 1]) > 0.98
    beam_ = found.estimate.beam(data.photon_scale, found.objective.likelihood.normalisation)
    assert 0.5 < beam_.variation / (0.4 / np.sqrt(12)) < 1.1, "the object takes a part of a slow change"


def dim_scan(count):
    """Measured patterns of a probe that does not vary, 10³ photons each."""
    return Scan.of(np.random.default_rng(1), 1e3, count=count, step=2.2).dataset(np.random.default_rng(9))


@pytest.mark.parametrize("real", [True, False])
def test_a_mode_of_variation_that_is_needless_is_dropped(drifting, real):
    """Such a mode replaced a background or positions before these were refined."""
    options, data = replace(ALONE, probe=True), drifting[1] if real else dim_scan(10)
    selection = select_model(data, replace(options, probe_variation=0), 0, False)
    start, _ = add_variation(selection.kept, selection.estimate, 1)
    refine = replace(selection.refine, flux=True, probe_variation=True)
    selection.options = options
    selection.take(selection.fit(start, refine, selection.prior), refine)
    for hypothesis in HYPOTHESES:
        hypothesis(selection)
    assert (len(selection.estimate.opr_modes), selection.refine.probe_variation) == (int(real), real)


@pytest.mark.parametrize("share, modes", [(0.05, "1"), (0.9, "0")])
def test_modes_of_variation_that_explain_too_little_of_a_misfit_go(drifting, share, modes):
    """The misfit is a background. Without them, the probe is again what it was before."""
    scan, _, _, intensity = drifting
    data = scan.dataset(np.random.default_rng(3), intensity + 0.003 * intensity.mean())
    limits = SelectionOptions(variation_share=share)
    selection = select_model(data, replace(ALONE, selection=limits), 0, False)
    values, stays = decided(selection), modes == "1"
    assert values["OPR modes"] == modes and selection.refine.probe_variation == stays
    assert list(selection.before_variation) == ["probe"] and values["flux"] == "refined"
    assert (values["probe"], selection.refine.probe) == (("not refined", "refined")[stays], stays)
    initial = scan.estimate(selection.kept.normalisation).modes
    assert np.allclose(selection.estimate.modes, initial, rtol=1e-4, atol=1e-6) != stays


@pytest.mark.parametrize(("gain", "count"), [(0.001, 0), (-0.001, 1)])
def test_where_photons_are_so_few_that_deviance_shows_no_misfit_modes_must_explain_something(gain, count):
    """Neither difference is certain: without the mode, held-out patterns are explained as well."""
    options = replace(EDGES, selection=SelectionOptions(steps=1, first_steps=5))
    kept = hold_out(first_noise(dim_scan(8), options, False), 0)[0]
    start, _ = add_variation(kept, Estimate.of(kept.data, options.start_object(kept.data)), 1)
    scores, change = np.full(20, 0.5), gain + np.tile([0.01, -0.01], 10)

    class Scored(NamedTuple):
        kind: str = "patterns"

        def score(self, estimate, refine):
            return scores * np.exp(-change * (not len(estimate.opr_modes)))

    refine = Refine(True, flux=True, probe_variation=True)
    selection = Selection(kept, kept, Scored(), options, start, refine, scores=scores)
    selection.before_variation = {"flux": start.flux}
    _try_less_variation(selection)
    assert len(selection.estimate.opr_modes) == count and selection.refine.flux == (count == 1)


def test_fixed_weights_are_probes_of_their_own():
    """Two scans of one object with a probe each: weights zero and one, which are not refined."""
    rng = np.random.default_rng(7)
    scan = Scan.of(rng, 1e5, count=5)
    probes = np.repeat(scan.modes[None], 25, axis=0).astype(complex)
    second = np.arange(25) % 2 == 1
    probes[second, 0] = np.sqrt(1e5) * beam(row=1.5, curvature=-0.05)
    data = scan.dataset(rng, intensity_under(scan, probes))
    f = data.normalisation
    opr = {"opr_modes": np.full((1, N, N), f * 1e-3, np.complex64)}
    start = replace(scan.estimate(f), opr_weights=second.astype(np.complex64)[:, None], **opr)
    beam_ = replace(start.beam(1.0, f), probe=data.probe)
    options = replace(EDGES, probe=True, probe_variation=0)
    solved = solve(data.under(beam_), options, 0, compile_xla=False).estimate
    np.testing.assert_array_equal(solved.opr_weights, start.opr_weights)
    own = solved.modes[0] + solved.opr_modes[0]
    assert distance(own, probes[1, 0], slice(None)) < 0.2 < distance(own, scan.modes[0], slice(None))


def test_from_a_simulated_scan_to_a_file_and_on_from_there(tmp_path):
    """Without OPR modes in the start, as many are made as specified; then they come from the file."""
    scan = ptycho.simulate(N, 70, 1e5, beam(), imperfections={"probe_variation": 0.5}, sample="blobs")
    known = ExportedScan(scan.positions, scan.probe, object=scan.truth, domain="counts")
    product.write(tmp_path / "a.h5", known)
    settings = dict.fromkeys(("positions", "background", "point_spread"), False)
    settings |= {"probe_modes": 1, "learn_probe": True, "flux": True}
    settings |= {"regulariser": "edge_preserving", "regularisation_weight": 3.0, "compile_xla": False}
    settings |= dict.fromkeys(("half_scans", "error_map", "progress"), False)
    found = ptycho.reconstruct(scan, start=tmp_path / "a.h5", probe_variation=2, steps=20, **settings)
    facts, beam_ = found.scores["beam"], found.beam
    assert facts["opr_modes"] == 2 and facts["probe_variation"] == pytest.approx(beam_.variation)
    assert beam_.opr_weights.shape == (70, 2) and "OPR modes: 2" in repr(beam_)
    assert abs(np.corrcoef(beam_.opr_weights[:, 0].real, np.arange(70))[0, 1]) > 0.9
    on = ptycho.reconstruct(scan, start=found.save(tmp_path / "b.h5"), steps=2, **settings)
    assert len(on.beam.opr_modes) >= 2 and on.scores["deviance"] < 1.1 * found.scores["deviance"]
    modes, weights = beam_.opr_modes, beam_.opr_weights
    figure = draw_variation(beam_.probe[0], modes, weights, None, "a")
    titles = [ax.get_title() for ax in figure.axes]
    assert titles[:2] == [f"probe of the {k} pattern" for k in ("first", "last")]


def test_what_has_a_constant_probe_is_refused():
    varied = SolverConfig(probe_variation=2)
    with pytest.raises(ConfigError, match=r"solver\.probe_variation=2, probe\.learn=false: a probe that"):
        ScanRunConfig(solver=varied, probe=OwnProbe(learn=False))
    with pytest.raises(ConfigError, match=r"probe_variation=2: must be 0 or null with solver\.slices=3"):
        replace(varied, slices=3, slice_thickness_m=1e-6)
    lengths = {"energy_eV": 12e3, "distance_m": 0.02, "detector_pixel_m": 5e-7}
    intensity = np.random.default_rng(0).poisson(9.0, (30, 32, 32))
    places = 5.0 * np.indices((5, 6)).reshape(2, -1).T
    near = ptycho.Scan.from_arrays(intensity, places, counts=True, physics="near_field", **lengths)
    with pytest.raises(ConfigError, match=r"probe_variation=2: the probe of a near field is constant; set"):
        ptycho.reconstruct(near, probe_variation=2, progress=False)
