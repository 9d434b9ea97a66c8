"""The whole solver on a scan: refined and fixed quantities, regularisation; the same result each time."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers.datasets import single_patterns
from helpers.likelihood import N, Scan, beam, distance, illuminated_mask, smooth_object
from helpers.quick import KNOWN, decided

from ptycho.reconstruction.blocks import Blockwise
from ptycho.reconstruction.estimate import Refine
from ptycho.reconstruction.maximum_likelihood import WarmStart, solve
from ptycho.reconstruction.model_selection import select_model
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.selection import ModelOptions, SelectionOptions
from ptycho.scan.probe import ProbeSupport

run = partial(solve, compile_xla=False)
EDGES = ModelOptions(prior="edge_preserving")  # faster than the default


@pytest.fixture(scope="module")
def scan():
    """64 patterns, so dense that whole patterns are held out."""
    return Scan.of(np.random.default_rng(1), 1e5, count=8, step=2.2)


@pytest.fixture(scope="module")
def wrong_probe():
    return (np.sqrt(1e5) * beam(width=7, curvature=0.05)).astype(np.complex64)


@pytest.mark.parametrize("count, photons, kind", [(8, 1e3, "patterns"), (6, 1e5, "photons")])
def test_a_beam_that_is_right_is_kept(count, photons, kind):
    scan = Scan.of(np.random.default_rng(1), photons, count=count, step=2.2)
    data = scan.dataset(np.random.default_rng(2))
    found = run(data, ModelOptions(), 0)
    kept = {key: decided(found)[key] for key in decided(found).keys() - {"regulariser", "initial object"}}
    assert kept.pop("OPR modes") == "0" and kept.pop("modes") == "1"
    assert kept == dict.fromkeys(("probe", "positions", "flux", "background"), "not refined")
    assert all(f"deviance of held-out {kind}" in decision.why for decision in found.decisions)
    assert found.refine == Refine(False)
    np.testing.assert_allclose(found.estimate.modes, data.model_probe, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.estimate.positions, data.positions)
    assert np.all(found.estimate.flux == 1) and not found.estimate.background.any()
    bound = {1e5: 0.02, 1e3: 0.12}[photons]
    assert distance(found.estimate.object, scan.object, illuminated_mask(scan, 0.5)) < bound


def test_a_wrong_probe_is_refined_and_nothing_else(scan, wrong_probe):
    data = scan.dataset(np.random.default_rng(2), probe=wrong_probe)
    found = run(data, ModelOptions(), 0)
    decisions = decided(found)
    assert decisions["probe"] == "refined"
    assert (decisions["modes"], decisions["background"]) == ("1", "not refined")
    everywhere, mask = np.ones((N, N), bool), illuminated_mask(scan, 0.5)
    assert distance(found.estimate.modes[0], scan.modes[0], everywhere) < 0.06
    assert distance(found.estimate.object, scan.object, mask) < 0.1
    kept = run(data, KNOWN, 0)
    assert distance(kept.estimate.object, scan.object, mask) > 0.12
    np.testing.assert_allclose(kept.estimate.modes, data.model_probe, rtol=1e-5, atol=1e-6)


def test_wrong_flux_is_refined():
    plain = Scan.of(np.random.default_rng(1), 1e5, count=12, step=2.2)
    flux = np.random.default_rng(3).uniform(0.9, 1.1, 144)
    data = replace(plain, flux=flux / np.sqrt(np.mean(flux**2))).dataset(np.random.default_rng(4))
    found = run(data, replace(EDGES, probe=False, positions=False, background=False), 0)
    assert found.refine == Refine(False, flux=True) and decided(found)["flux"] == "refined"
    assert np.corrcoef(found.estimate.flux, flux)[0, 1] > 0.96


def test_a_background_is_refined(scan):
    background = np.full((N, N), 30.0)
    data = replace(scan, background=background).dataset(np.random.default_rng(5))
    found = run(data, replace(EDGES, probe=False, positions=False, flux=False), 0)
    assert decided(found)["background"] == "refined" and found.refine.background
    photons = found.estimate.background / found.objective.likelihood.photon**2
    assert np.median(photons) == pytest.approx(30, rel=0.1)


def test_a_point_spread_is_refined(scan):
    """Of another width along rows than along columns; no mode or slice stands for it."""
    data = replace(scan, point_spread=(0.7, 0.4)).dataset(np.random.default_rng(5))
    found = run(data, replace(EDGES, probe=None, positions=False, flux=False), 0)
    assert decided(found)["point_spread"] == "refined" and found.refine.point_spread
    np.testing.assert_allclose(np.abs(found.estimate.point_spread), [0.7, 0.4], atol=0.1)
    assert (decided(found).get("modes", "1"), found.estimate.slices) == ("1", 1)


def test_a_start_with_a_point_spread_finds_its_width_in_blocks_too(scan):
    """No product holds the width; blocks do not refine it."""
    data = replace(scan, point_spread=(0.7, 0.4)).dataset(np.random.default_rng(5))
    refine = Refine(False, point_spread=True)
    for blockwise in (None, Blockwise(16)):
        start = WarmStart(scan.object.astype(np.complex64), refine)
        found = solve(data, KNOWN, 0, False, warm_start=start, blockwise=blockwise)
        np.testing.assert_allclose(np.abs(found.estimate.point_spread), [0.7, 0.4], atol=0.05)


def test_a_second_mode_is_refined():
    first, second = beam(), beam(1.5, 2.0, width=6)
    second = second - first * np.vdot(first, second)
    modes = np.array([np.sqrt(0.7) * first, np.sqrt(0.3) * second / np.linalg.norm(second)])
    scan = Scan.of(np.random.default_rng(6), 1e5, count=8, step=2.2, modes=modes)
    data = scan.dataset(np.random.default_rng(7), probe=scan.modes[0].astype(np.complex64))
    found = run(data, replace(EDGES, positions=False, flux=False, background=False), 0)
    assert decided(found)["probe"] == "refined" and len(found.estimate.modes) == 2
    assert not found.estimate.has_point_spread, "nor does a point spread stand for it"
    power = np.sum(np.abs(found.estimate.modes) ** 2, axis=(1, 2))
    assert power[1] / power.sum() == pytest.approx(0.3, abs=0.05)


def optic(side, pupil, defocus):
    """Return a wave of power one whose far field is a ring of the radii ``pupil``, ``(side, side)``."""
    q = np.hypot(*np.meshgrid(*2 * [np.fft.fftfreq(side, 1 / side)], indexing="ij"))
    inside = (q >= pupil[0]) & (q <= pupil[1])
    wave = np.fft.fftshift(np.fft.ifft2(inside * np.exp(1j * defocus * q**2)))
    return wave / np.linalg.norm(wave)


def scan_by_an_optic(side=32, count=10, step=2, photons=1e4, pupil=(0, 4), defocus=0.12):
    """Return a scan at whole pixels with a defocused wave whose far field is a disk or ring, and the wave."""
    rng = np.random.default_rng(1)
    probe = np.sqrt(photons) * optic(side, pupil, defocus)
    grid = np.stack(np.divmod(np.arange(count**2), count), axis=1)
    corners = step * grid + rng.integers(0, 2, grid.shape)
    image = smooth_object(rng, side + corners.max() + 2)
    waves = np.stack([probe * image[row : row + side, col : col + side] for row, col in corners])
    counts = rng.poisson(np.abs(np.fft.fft2(waves, norm="ortho")) ** 2)
    amplitudes = np.fft.fftshift(np.sqrt(counts), axes=(1, 2))
    return single_patterns(amplitudes, probe[None], corners, len(image)), probe


def test_a_pupil_limits_a_refined_probe():
    data, probe = scan_by_an_optic()
    options = replace(EDGES, probe=True, positions=False, flux=False, background=False, modes=1)
    found, without = (run(data, replace(options, pupil=pupil), 0) for pupil in (None, False))
    assert decided(found)["pupil"] == "limited" and "pupil" not in decided(without)
    everywhere = np.ones(probe.shape, bool)
    errors = [distance(one.estimate.modes[0], probe, everywhere) for one in (found, without)]
    assert errors[0] < 0.9 * errors[1]
    far = np.abs(np.fft.fft2(found.estimate.modes[0])) ** 2
    assert np.count_nonzero(far > 1e-6 * far.max()) < 0.5 * far.size


@pytest.mark.parametrize(
    ("stretch", "probe", "models"),
    [
        (1.06, False, ["affine and independent"]),
        (1.025, True, ["independent", "affine and independent"]),
        (1.0, True, ["independent", "independent"]),
    ],
)
def test_positions_have_an_affine_part(stretch, probe, models):
    """Independent corrections keep the scale of nominal positions. A small error is decided at the end.

    Decided by three standard errors and more, with other noise, too (three seeds).
    """
    rng = np.random.default_rng(1)
    scan = Scan.of(rng, 1e5, count=8, step=2.2)
    middle, errors = scan.positions.mean(axis=0), rng.normal(0, 0.3, scan.positions.shape)
    common = np.column_stack([scan.positions, np.ones(len(errors))])
    errors -= common @ np.linalg.lstsq(common, errors, rcond=None)[0]  # no affine part
    nominal = (middle + stretch * (scan.positions - middle) + errors).astype(np.float32)
    data, decisions = scan.dataset(np.random.default_rng(3)), []
    data = replace(data, beam=replace(data.beam, positions=nominal))
    options = replace(EDGES, probe=probe, positions=True, flux=False, background=False, modes=1)
    options = replace(options, pupil=False, probe_variation=0)
    selection = select_model(data, options, 0, False, on_decision=decisions.append)
    assert [decision.value for decision in decisions if decision.what == "position model"] == models
    assert decided(selection)["position model"] == models[-1]
    assert selection.moves == models[-1].replace(" ", "_")
    if stretch == 1.06:
        kept = [np.flatnonzero((nominal == place).all(axis=1))[0] for place in selection.kept.data.positions]
        left = selection.estimate.positions - scan.positions[kept]
        assert np.std(left - left.mean(axis=0)) < 0.1 < 0.3 < np.std(nominal - scan.positions)


def test_a_drift_is_found_beside_a_wrong_probe(scan, wrong_probe):
    """Without the affine part the fit ends at .67 to .71 px; with it at .04 to .11 (five objects).

    The rest of the beam is decided after it, and the last fit begins where that of the core has ended.
    """
    time = np.linspace(0, 1, 64)
    drift = 1.5 * np.column_stack([np.sin(2.2 * time) - 0.8 * time**2, time**2 - 0.25 * np.sin(5 * time)])
    nominal = scan.positions - drift
    data = scan.dataset(np.random.default_rng(2), probe=wrong_probe)
    beam = replace(data.beam, positions=(nominal - nominal.min(axis=0) + 1).astype(np.float32))
    options = replace(EDGES, background=False, modes=1, pupil=False, probe_variation=0)

    def rms_error(positions):
        errors = positions - scan.positions
        return np.sqrt(np.sum(np.var(errors, axis=0)))

    names, watched = [], []
    found = run(
        replace(data, beam=beam),
        options,
        0,
        watch=lambda estimate, *_: watched.append(rms_error(estimate.positions)),
        on_decision=lambda decision: names.append(decision.what),
    )
    assert max(rms_error(found.estimate.positions), watched[0]) < 0.2 < 0.5 < rms_error(beam.positions)
    assert decided(found)["position model"] == "affine and independent"
    assert names.index("position model") < names.index("flux")


@pytest.mark.parametrize("error", [0.0, 0.5])
def test_positions_that_stood_for_a_background_are_nominal_again(error):
    """Right ones are refined first, and return as the background explains more. Wrong ones are refined."""
    rng = np.random.default_rng(1)
    scan = Scan.of(rng, 1e5, count=8, step=2.2)
    scan = replace(scan, background=np.full((N, N), 0.1 * 1e5 / N**2))
    nominal = (scan.positions + rng.normal(0, error, scan.positions.shape)).astype(np.float32)
    data = scan.dataset(np.random.default_rng(2))
    data, decisions = replace(data, beam=replace(data.beam, positions=nominal)), []
    options = replace(EDGES, probe=False, flux=False, probe_variation=0)
    selection = select_model(data, options, 0, False, on_decision=decisions.append)
    values = [decision.value for decision in decisions if decision.what == "positions"]
    assert values[-1] == "refined" if error else values == ["refined", "not refined"]
    assert [decision.value for decision in selection.decisions if decision.what == "positions"] == values[-1:]
    assert ("position model" in decided(selection)) == bool(error), "without corrections they have no model"
    assert selection.refine == Refine(False, bool(error), False, True)
    moved = selection.estimate.positions - selection.kept.data.positions
    assert np.sqrt(np.mean(moved**2)) == pytest.approx(error, rel=0.3)


def test_specified_options_are_kept(scan):
    data = scan.dataset(np.random.default_rng(2))
    options = ModelOptions(
        *(True, True, True, True),
        **{"modes": 2, "probe_variation": 0, "noise": "robust", "steps": 20, "pupil": False},
        **{"prior": "edge_preserving", "strength": 3.0, "moves": "independent"},
    )
    found = run(data, options, 0)
    assert found.refine == Refine(True, True, True, True) and len(found.estimate.modes) == 2
    assert found.objective.prior == Prior("edge_preserving", 3.0)
    assert found.objective.likelihood.noise == "robust"
    assert len(found.fit.course) <= 22, "two fits, each with its start"
    refined = dict.fromkeys(("probe", "positions", "flux", "background"), "refined")
    assert decided(found) == refined | {"modes": "2"}
    assert all(decision.why.startswith("specified") for decision in found.decisions)
    never = run(data, KNOWN, 0)
    assert never.refine == Refine(False) and not never.decisions and never.objective.prior.strength == 0


def test_a_mask_of_the_probe_is_kept_to(scan, wrong_probe):
    axis = np.arange(N) - N // 2
    inside = np.hypot(axis[:, None], axis) < 6
    data = scan.dataset(np.random.default_rng(2), probe=wrong_probe * inside)
    options = replace(KNOWN, probe=True, support=ProbeSupport(inside), modes=1, steps=30)
    found = run(data, options, 0)
    assert not found.estimate.modes[:, ~inside].any()


def test_few_photons_of_a_smooth_object_are_smoothed():
    rng = np.random.default_rng(8)
    found = run(Scan.of(rng, 300.0, count=8, step=2.2).dataset(rng), replace(KNOWN, prior="quadratic"), 0)
    strength = found.objective.prior.strength
    assert strength >= 10 and found.decisions[-1].value == f"quadratic, λ {strength:g}"


def test_the_same_seed_gives_the_same(scan, wrong_probe):
    data = scan.dataset(np.random.default_rng(2), probe=wrong_probe)
    options = ModelOptions(positions=False, background=False, modes=1, steps=10)
    one, two, other = (run(data, options, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.estimate.object, two.estimate.object)
    assert one.decisions == two.decisions != other.decisions


def test_amplitudes_that_are_no_counts_in_any_unit(scan, wrong_probe):
    """The noise is estimated from residuals, in the unit of the amplitudes."""
    data = scan.dataset(np.random.default_rng(2), probe=wrong_probe, counts=False)
    milli = replace(data, amplitudes=data.amplitudes[:] / 1e3, photon_scale=1e-3)
    options = replace(EDGES, positions=False, flux=False, background=False, modes=1)
    units = []
    for one in (data, milli):
        found = run(one, options, 0)
        assert decided(found)["probe"] == "refined" and found.objective.likelihood.noise == "gaussian"
        assert distance(found.estimate.object, scan.object, illuminated_mask(scan, 0.5)) < 0.1
        units.append(found.objective.likelihood.unit)
    assert units[0] == pytest.approx(1, abs=0.25)  # σ = ½, as of photons
    assert units[1] == pytest.approx(units[0] / 1e3, rel=0.05)


def test_the_core_of_a_long_scan_is_compact(dataset_of):
    rows, cols = np.divmod(np.arange(600), 60)
    positions = np.stack([2 * rows, 2 * cols], axis=1)  # a strip of 20 × 120
    order = np.random.default_rng(9).permutation(600)
    data = dataset_of(positions[order], np.arange(600)[:, None], object_size=150)
    found = SelectionOptions(core_pixels=120 * N**2).core(data)
    assert len(found.positions) == 120
    rows, cols = np.ptp(found.positions, axis=0)
    assert rows == 18 and 22 <= cols <= 26  # ten rows, of which twelve to fourteen columns
    assert found.object_size < 150, "an object of its own"
    assert SelectionOptions(core_pixels=400 * N**2).core(data) is data, "half as many again are not worth it"
    assert len(SelectionOptions(core_pixels=0, fewest=70).core(data).positions) == 70


def test_the_model_of_a_long_scan_is_selected_on_its_core(wrong_probe):
    small = SelectionOptions(fewest=64, core_pixels=0)
    scan = Scan.of(np.random.default_rng(10), 1e5, count=11, step=2.2)
    data = scan.dataset(np.random.default_rng(11), probe=wrong_probe)
    options = replace(EDGES, positions=False, flux=False, background=False, modes=1, selection=small)
    found = run(data, options, 0)
    assert found.refine == Refine(True) and found.estimate.positions.shape == (121, 2)
    assert found.objective.likelihood.data.beam is data.beam
    assert distance(found.estimate.object, scan.object, illuminated_mask(scan, 0.5)) < 0.1


def test_a_wrong_probe_does_not_leave_its_errors_in_the_object():
    """From an object that is fitted to its end under another pupil, the deviance stays above 3."""
    data, probe = scan_by_an_optic(count=8, step=5, photons=1e6, pupil=(2, 6), defocus=0.03)
    wrong = optic(len(probe), (1, 5), 0.018) * np.linalg.norm(probe)
    data = replace(data, beam=data.beam.with_probe(wrong[None].astype(np.complex64)))
    alone = replace(EDGES, positions=False, flux=False, background=False, modes=1, probe_variation=0)
    selection = select_model(data, replace(alone, pupil=False), 0, True)
    assert {one.what: one.value for one in selection.decisions} == {"probe": "refined"}
    assert np.exp(selection.deviance) < 1.6
