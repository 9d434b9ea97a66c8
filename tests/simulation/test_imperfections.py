"""Imperfect measurements: each imperfection alone, by its closed form, and stored in the truth only."""

from dataclasses import replace
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from helpers.likelihood import intensity_of
from helpers.reference import poisson_deviance

from ptycho.config import ConfigError, Imperfections, ZonePlateProbe
from ptycho.readers.table import open_scan
from ptycho.scan.probe import make_probe
from ptycho.simulation import imperfections as module
from ptycho.simulation.imperfections import misstate_probe
from ptycho.simulation.measured_like import (
    PATHS,
    MeasuredLike,
    ScanSettings,
    simulate_measured_like,
    state_scan,
)
from ptycho.simulation.truth import read_truth
from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

N = 32
FRESNEL = 0.155e-9 * 1e-6 / 20e-9**2  # of 8 keV and the pixels of 20 nm that N = 32 has


def gaussian(sigma=4.0):
    axis = np.arange(N) - N // 2
    return np.exp(-(axis[:, None] ** 2 + axis**2) / (2 * sigma**2)).astype(complex)


def scan(**wrong):
    settings = ScanSettings(N=N, n_positions=50, nphotons=5e5, seed=3, imperfections=Imperfections(**wrong))
    axis = np.arange(N) - N // 2
    return simulate_measured_like(settings, gaussian() * np.exp(0.05j * (axis[:, None] ** 2 + axis**2)))


def counts(made, seed=0):
    return np.concatenate([*made.counts(np.random.default_rng(seed))]).astype(int)


@pytest.fixture(scope="module")
def perfect():
    made = scan()
    return SimpleNamespace(made=made, counts=counts(made))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"modes": 2}, "imperfections.coherence=1.0: must be from 0.5 to below 1 with modes=2"),
        ({"coherence": 0.8}, "imperfections.coherence=0.8: must be 1 with modes=1; say modes=2, 3 or 4"),
        ({"backlash_px": 1.0}, "imperfections.backlash_px=1.0: must be 0 with path=fermat, not snake"),
    ],
)
def test_settings_are_checked(wrong, message):
    with pytest.raises(ConfigError, match=message):
        scan(**wrong)


def test_modes_of_a_gaussian_are_its_hermite_functions():
    modes = module.incoherent_modes(gaussian(), 4, 0.8)
    inner = np.einsum("iab,jab->ij", modes.conj(), modes)
    power = np.sum(np.abs(gaussian()) ** 2)
    np.testing.assert_allclose(inner, power * np.diag([0.8, 0.8 / 7, 0.4 / 7, 0.2 / 7]), atol=1e-9 * power)
    np.testing.assert_allclose(modes[0], np.sqrt(0.8) * gaussian(), atol=1e-12)
    axis = np.arange(N) - N // 2
    for mode, factor in zip(modes[1:], (axis, axis[:, None], axis * axis[:, None]), strict=True):
        hermite = factor * gaussian()
        overlap = np.vdot(hermite, mode) / np.linalg.norm(hermite) / np.linalg.norm(mode)
        assert abs(overlap) > 1 - 1e-3  # 4 standard deviations from edge to edge


def test_a_shift_by_whole_pixels_moves_the_samples():
    probe = np.random.default_rng(0).normal(size=(N, N)) + 1j
    given = misstate_probe(probe, Imperfections(probe_shift_px=(3.0, -2.0)), FRESNEL, 0)
    np.testing.assert_allclose(given, np.roll(probe, (3, -2), (0, 1)), atol=1e-12)


def test_aberrations_have_their_symmetry_and_their_size_at_the_edge():
    probe = make_probe(ZonePlateProbe(), N)
    nu = np.hypot(*module.frequencies(N)) / module.pupil_edge(probe)
    ring = np.abs(nu - 1) < 0.1
    for key, sign, size in (("astigmatism_waves", 1, nu**2), ("coma_waves", -1, 3 * nu**3 - 2 * nu)):
        settings = Imperfections(**{key: 0.3})
        phase = module.aberrations(probe, settings, np.random.default_rng(2))
        np.testing.assert_allclose(phase[1:, 1:][::-1, ::-1], sign * phase[1:, 1:], atol=1e-12)
        assert (phase[ring] / size[ring]).max() == pytest.approx(2 * np.pi * 0.3, rel=0.02)
        given = misstate_probe(probe, settings, FRESNEL, 7)
        far, true = (np.abs(np.fft.fft2(wave)) for wave in (given, probe))
        np.testing.assert_allclose(far, true, atol=1e-5 * true.max())
        assert np.linalg.norm(given - probe) > 0.3 * np.linalg.norm(probe)


@pytest.mark.parametrize("count", [2, 3, 1000])
def test_drift_is_slow_and_has_the_specified_rms(count):
    moved = module.draw_drift(count, 0.5, np.random.default_rng(6))
    np.testing.assert_allclose(np.sqrt(np.mean(moved**2, axis=0)), 0.5)
    np.testing.assert_allclose(moved.mean(axis=0), 0, atol=1e-12)
    if count > 100:
        assert np.abs(np.diff(moved, axis=0)).max() < 0.01


def test_scale_and_rotation_are_about_the_middle():
    square = np.array([[10.0, 10], [10, 20], [20, 20], [20, 10]])
    turned = module.scale_and_turn(square, 1.1, 90.0)  # a row further becomes a column further
    np.testing.assert_allclose(turned, [[20.5, 9.5], [9.5, 9.5], [9.5, 20.5], [20.5, 20.5]], atol=1e-12)
    slightly = module.scale_and_turn(square, 1.0, 0.5) - square
    np.testing.assert_allclose(slightly[0], 5 * np.deg2rad([0.5, -0.5]), atol=5e-4)


def test_backlash_moves_every_second_row_of_a_snake():
    settings = ScanSettings(n_positions=90, path="snake", imperfections=Imperfections(backlash_px=1.5))
    places = PATHS["snake"](90, 4.0, settings.rng("path"))
    lines = np.split(places, range(10, 90, 10))
    for index, line in enumerate(lines):
        assert np.ptp(line[:, 0]) < 4.0 and np.all(np.diff(line[:, 1]) * (-1) ** index > 0)
    made = SimpleNamespace(positions=places, photon_probe=gaussian(), N=N)
    moved = state_scan(settings, made, FRESNEL)[0] - places
    expected = np.zeros((9, 10, 2))
    expected[1::2, :, 1] = 1.5
    np.testing.assert_allclose(moved.reshape(9, 10, 2), expected, atol=1e-12)


def test_a_probe_drifts_by_the_specified_amount(perfect):
    """At each time the patterns are those of a fixed probe; nothing else of the scan changes."""
    made, norm = scan(probe_variation=0.2), np.linalg.norm(perfect.made.probe)
    first, last = (made.probe + t * made.drift for t in (-0.5, 0.5))
    assert np.linalg.norm(last - first) == pytest.approx(0.2 * norm, rel=1e-9)
    assert abs(np.vdot(made.probe, made.drift)) < 1e-9 * norm**2
    np.testing.assert_array_equal(made.sample, perfect.made.sample)
    for j, probe in ((0, first), (-1, last)):
        alone = replace(made, probe=probe, drift=None, nphotons=1.0)
        expected = made.scale * alone.intensities(made.positions[[j]])[0]
        np.testing.assert_allclose(made.expected(slice(None))[j], expected, rtol=1e-9, atol=1e-9)


def test_flux_varies_as_specified_and_dims_whole_patterns(perfect):
    factor = module.draw_flux(50000, 0.2, np.random.default_rng(0))
    assert factor.mean() == pytest.approx(1, abs=5 * 0.2 / np.sqrt(50000)) and factor.min() > 0
    assert factor.std() == pytest.approx(0.2, rel=0.03)
    made = scan(flux_rms=0.2)
    everything = slice(None)
    ratio = made.expected(everything) / perfect.made.expected(everything)
    np.testing.assert_allclose(ratio, np.broadcast_to(made.flux[:, None, None], ratio.shape), rtol=1e-9)
    sums = counts(made).sum(axis=(1, 2)) / perfect.made.expected(everything).sum(axis=(1, 2))
    np.testing.assert_allclose(sums, made.flux, atol=6 / np.sqrt(3e5))


def test_the_point_spread_is_a_gaussian_and_loses_no_intensity(perfect):
    point = np.zeros((1, 33, 33))
    point[0, 16, 16] = 7.0
    spread, axis = module.blur(point, 1.2)[0], np.arange(33) - 16
    assert spread.sum() == pytest.approx(7)
    assert (spread.sum(axis=1) * axis**2).sum() / 7 == pytest.approx(1.44, rel=0.01)
    assert (spread.sum(axis=0) * axis).sum() == pytest.approx(0, abs=1e-12)
    made, everything = scan(point_spread_px=0.8), slice(None)
    sharp, soft = perfect.made.expected(everything), made.expected(everything)
    np.testing.assert_allclose(soft.sum(axis=(1, 2)), sharp.sum(axis=(1, 2)), rtol=1e-12)
    assert soft.max() < sharp.max()


def test_background_adds_its_mean_and_changes_nothing_else(perfect):
    added = counts(scan(background=0.6)) - perfect.counts
    assert added.min() == 0
    assert added.mean() == pytest.approx(0.6, abs=5 * np.sqrt(0.6 / added.size))
    assert added.var() == pytest.approx(0.6, rel=0.05)
    assert np.ptp(added.mean(axis=(1, 2))) < 10 * np.sqrt(0.6 / N**2)


def test_saturated_pixels_stop_counting_and_those_in_a_gap_read_nothing(perfect):
    level = int(np.median(perfect.counts.max(axis=(1, 2))) / 2)
    np.testing.assert_array_equal(counts(scan(saturation=level)), np.minimum(perfect.counts, level))
    made = scan(gap_columns=3, gap_rows=1)
    np.testing.assert_array_equal(counts(made), np.where(made.good, perfect.counts, 0))


HARD = Imperfections(
    **{"defocus_um": 11.6, "position_px": 0.7, "modes": 2, "coherence": 0.85, "background": 0.5},
    **{"gap_columns": 4, "flux_rms": 0.03, "probe_variation": 0.3},
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Scans with and without imperfections, in three formats, and how the imperfect one was made."""
    folder = tmp_path_factory.mktemp("imperfect")
    settings = {"N": N, "n_positions": 40, "nphotons": 2e5, "seed": 8}
    for name, wrong in (("clean", Imperfections()), ("hard", HARD)):
        for suffix in ("cxi", "h5", "npz"):
            path = str(folder / f"{name}.{suffix}")
            simulate_scan(SimulateConfig(output=path, imperfections=wrong, hot_pixels=2, **settings))
    hard = ScanSettings(imperfections=HARD, hot_pixels=2, **settings)
    made = simulate_measured_like(hard, make_probe(ZonePlateProbe(), N))
    return SimpleNamespace(folder=folder, made=made)


@pytest.mark.parametrize("suffix", ["cxi", "h5", "npz"])
def test_the_truth_is_read_back(suffix, files):
    truth, made = read_truth(files.folder / f"hard.{suffix}"), files.made
    assert isinstance(made, MeasuredLike) and truth.probe.shape == (2, N, N)
    np.testing.assert_allclose(truth.probe, made.photon_probe, rtol=1e-6, atol=1e-4)
    np.testing.assert_array_equal(truth.positions, made.positions)
    np.testing.assert_array_equal(truth.flux, made.flux)
    np.testing.assert_array_equal(truth.hot, made.hot)
    np.testing.assert_array_equal(truth.object, made.object.astype(np.complex64))
    assert truth.background == 0.5 and made.flux.std() > 0.01
    drift = truth.opr_weights[[-1, 0], 0, None, None] * truth.opr_modes
    change = np.linalg.norm(drift[0] - drift[1]) / np.linalg.norm(truth.probe[0])
    assert change == pytest.approx(HARD.probe_variation, rel=1e-5) and len(truth.opr_weights) == 40


def misfit(counts, good, object_, modes, positions, flux, background):
    """Return the mean Poisson deviance per pixel; ``modes`` of all patterns, or of each."""
    each = np.broadcast_to(modes, (len(counts), *modes.shape[-3:]))  # (J, K, N, N)
    beams = zip(each, positions, np.sqrt(flux), strict=True)
    expected = [np.fft.fftshift(intensity_of(object_, *beam, background)) for beam in beams]
    return poisson_deviance(np.array(expected)[:, good], counts[:, good])


def test_the_truth_explains_the_patterns_and_what_is_said_does_not(files):
    path = files.folder / "hard.cxi"
    seen, truth = open_scan(path), read_truth(path)
    with h5py.File(path) as file:
        counts = file["entry_1/data_1/data"][()].astype(float)
    good = files.made.good & ~truth.hot
    nominal = np.clip(seen.positions / 20e-9 + len(truth.object) / 2 - N / 2, 0, len(truth.object) - N)
    ones = np.ones(len(nominal))
    common = (counts, good, truth.object)
    probes = np.repeat(truth.probe[None], len(nominal), axis=0)
    probes[:, 0] += truth.opr_weights[:, :, None] * truth.opr_modes[0]
    exact = misfit(*common, probes, truth.positions, truth.flux, truth.background)
    others = {
        "drift": misfit(*common, truth.probe, truth.positions, truth.flux, truth.background),
        "probe": misfit(*common, seen.probe, truth.positions, truth.flux, truth.background),
        "positions": misfit(*common, probes, nominal, truth.flux, truth.background),
        "modes": misfit(*common, probes[:, :1], truth.positions, truth.flux, truth.background),
        "flux": misfit(*common, probes, truth.positions, ones, truth.background),
        "background": misfit(*common, probes, truth.positions, truth.flux, 0.0),
    }
    assert 0.8 < exact < 2 and min(others.values()) > exact  # above one for the sample's finer structure
    assert min(others[key] for key in ("probe", "positions", "modes")) > 3 * exact


@pytest.mark.parametrize("name", ["clean.cxi", "clean.npz", "none.h5", "text.txt"])
def test_a_file_without_truth_is_refused_in_one_line(name, files):
    (files.folder / "text.txt").write_text("no scan")
    with pytest.raises(ConfigError, match=f"{name}: holds no truth .*probe and positions are true") as caught:
        read_truth(files.folder / name)
    assert "\n" not in str(caught.value)
