"""Fitted and held-out patterns: each has its own part of the beam, in every method."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import reference

from ptycho.align.aligned import RunContext
from ptycho.config import OwnProbe, ScanRunConfig, XlaConfig
from ptycho.config.data import DataConfig
from ptycho.config.solver_config import SolverConfig
from ptycho.evaluation.trust import FEW, IN_NOISE, NOT_CONVERGED, ORIENTATION, RASTER, SCALE
from ptycho.methods import pipeline
from ptycho.methods.assessment import assess_fit, pixel_ratio, probe_caustic, trust_row
from ptycho.methods.pipeline import with_outliers
from ptycho.methods.prepared import Prepared
from ptycho.methods.table import METHODS, NETWORK, SOLVER, MethodInputs
from ptycho.scan.beam import Beam
from ptycho.scan.finding import Finding
from ptycho.scan.reconstruction import Reconstruction

N, SIDE = 16, 40
ASKED = ScanRunConfig(
    data=DataConfig(file=("x",), N=N),
    solver=SolverConfig(steps=2, positions=False, flux=False, background=False, regularisation_weight=1.0),
    probe=OwnProbe(learn=False),
    xla=XlaConfig(compile=False),
)


def wave(shape, seed):
    rng = np.random.default_rng(seed)
    return (1 + 0.3 * rng.normal(size=shape) + 0.3j * rng.normal(size=shape)).astype(np.complex64)


OBJECT = wave((SIDE, SIDE), 1)


def measured(beam):
    """Amplitudes by brute force, at whole positions."""
    found = []
    for (row, col), c in zip(beam.positions.astype(int), beam.flux, strict=True):
        patch = OBJECT[row : row + N, col : col + N]
        found.append(np.sqrt(sum(np.abs(reference.far_field(c * P * patch)) ** 2 for P in beam.probe)))
    return np.asarray(found, np.float32)


@pytest.fixture(scope="module")
def prepared(dataset_of):
    """Twenty patterns of two modes with a varying flux; every fifth is held out."""
    rng = np.random.default_rng(3)
    positions = rng.integers(0, SIDE - N, (20, 2))
    flux = rng.uniform(0.7, 1.3, 20).astype(np.float32)
    probe = 30 * wave((2, N, N), 2) * np.array([1, 0.4])[:, None, None]
    sizes = {"object_size": SIDE, "photon_scale": 1.0}
    whole = dataset_of(positions, np.arange(20)[:, None], probe=probe, flux=flux, **sizes)
    whole = replace(whole, amplitudes=measured(whole.beam))
    out = np.arange(2, 20, 5)
    few = (Finding.warning("few", FEW),)
    return Prepared("scan", None, whole, np.setdiff1d(np.arange(20), out), out, decisions=few)


def another(beam):
    """Return a beam with other positions and flux, different for each pattern."""
    k = np.arange(len(beam.positions))
    moved = np.clip(beam.positions + np.stack([k % 3, k % 2], axis=1), 0, SIDE - N).astype(np.float32)
    return Beam(wave((2, N, N), 5), moved, (beam.flux * (1 + 0.01 * k)).astype(np.float32))


def same(one, other, rtol=0.0):
    for key, value in other.arrays().items():
        np.testing.assert_allclose(one.arrays()[key], value, rtol=rtol, err_msg=key)


def test_each_pattern_goes_with_its_own_part_of_a_beam(prepared):
    beam = another(prepared.whole.beam)
    for data, indices in ((prepared.fitted(beam), prepared.kept), (prepared.left_out(beam), prepared.out)):
        np.testing.assert_array_equal(data.amplitudes[:], prepared.whole.amplitudes[indices])
        np.testing.assert_array_equal(data.positions, beam.positions[indices])
        np.testing.assert_array_equal(data.beam.flux, beam.flux[indices])
        np.testing.assert_array_equal(data.probe, beam.probe)
    assert replace(prepared, out=np.zeros(0, int)).left_out(beam) is None


def test_a_finished_reconstruction_is_scored_by_the_one_before(prepared):
    """The former one did not fit the held-out patterns; the finished one is scored with its own beam."""
    mask = np.ones((1, SIDE, SIDE), bool)
    right = Reconstruction(OBJECT[None], mask, prepared.whole.beam)
    wrong = Reconstruction(OBJECT.T[None], mask, prepared.whole.beam)
    fit = assess_fit(replace(wrong, before=right), prepared)
    assert fit.used.r_factor < 1e-4 and fit.held_out.r_factor < 1e-4
    assert len(fit.used.residual) == 16 and len(fit.held_out.residual) == 4
    assert assess_fit(replace(right, before=wrong), prepared).used.r_factor > 0.05
    steady = replace(prepared, whole=replace(prepared.whole, beam=replace(prepared.whole.beam, flux=None)))
    assert assess_fit(right, steady).used.r_factor < 1e-4
    assert assess_fit(replace(right, beam=None), steady).used.r_factor > 0.05


def test_a_pattern_that_contradicts_the_others_is_named(dataset_of, caplog):
    """True object and beam, except for one position; every third frame of the file is used."""
    rng, axis = np.random.default_rng(5), np.arange(N) - N // 2
    probe = 60 * np.exp(-(axis[:, None] ** 2 + axis**2) / 18).astype(np.complex64)[None]
    positions = rng.integers(0, SIDE - N, (40, 2))
    values = {"probe": probe, "flux": np.ones(40), "object_size": SIDE, "photon_scale": 1.0}
    whole = dataset_of(positions, np.arange(40)[:, None], **values)
    counts = rng.poisson(np.square(measured(whole.beam)))
    scan = SimpleNamespace(frames=3 * np.arange(40), positions=whole.positions)
    whole = replace(whole, amplitudes=np.sqrt(counts).astype(np.float32))
    prepared = Prepared("scan", scan, whole, np.arange(2, 40), np.arange(2))
    right = Reconstruction(OBJECT[None], np.ones((1, SIDE, SIDE), bool), beam=whole.beam)
    assert with_outliers(prepared, right, assess_fit(right, prepared)).decisions == ()
    places = whole.beam.positions.copy()
    places[8] = (places[8] + 11) % (SIDE - N)
    wrong = replace(right, beam=replace(whole.beam, positions=places))
    (warning,) = with_outliers(prepared, wrong, assess_fit(wrong, prepared)).decisions
    assert warning.warns and "data.drop=[24] " in str(warning) and str(warning) in caplog.text


def test_doubts_of_the_scan_and_of_the_reconstruction_are_its_flags(prepared):
    doubts = (Finding.warning("scale", SCALE),)
    made = Reconstruction(OBJECT[None], np.ones((1, SIDE, SIDE), bool), decisions=doubts, converged=False)
    flags = trust_row(assess_fit(made, prepared), made, prepared)["flags"]
    assert {FEW, SCALE, NOT_CONVERGED} <= set(flags)


def test_the_photon_noise_in_the_amplitude_is_flagged_where_photons_were_counted(dataset_of):
    rng = np.random.default_rng(0)
    data = dataset_of([[r, c] for r in range(0, 48, 8) for c in range(0, 48, 8)], [[k] for k in range(36)])
    objects = (1 + 0.02 * reference.random_complex(rng, (1, 64, 64))).astype(np.complex64)
    scan = Prepared("scan", None, data, np.arange(36), np.zeros(0, int))
    made = Reconstruction(objects, np.ones(objects.shape, bool), data.beam)
    row = trust_row(assess_fit(made, scan), made, scan)
    assert row["noise_share"] > 1 and IN_NOISE in row["flags"]
    uncounted = replace(scan, whole=replace(data, counts=False))
    row = trust_row(assess_fit(made, uncounted), made, uncounted)
    assert row["noise_share"] is None and IN_NOISE not in row["flags"]


@pytest.mark.parametrize("moved, flagged", [(0.0, True), (3.0, False)])
def test_an_object_with_the_period_of_its_raster_is_flagged(dataset_of, moved, flagged):
    """A wave of amplitude 0.1 in noise of the same size; a raster of its period, with and without jitter."""
    rng = np.random.default_rng(4)
    raster = np.stack(np.divmod(np.arange(100), 10), axis=1) * 5 + moved * rng.uniform(0, 1, (100, 2))
    whole = dataset_of(raster, np.arange(100)[:, None], region_size=18)
    waves = 1 + 0.1 * np.cos(2 * np.pi * np.arange(64) / 5)[:, None] + 0.1 * rng.normal(size=(64, 64))
    made = Reconstruction(waves[None].astype(np.complex64), np.ones((1, 64, 64), bool))
    scan = Prepared("scan", None, whole, np.arange(0, 100), np.zeros(0, int))
    row = trust_row(assess_fit(made, scan), made, scan)
    assert (RASTER in row["flags"]) is flagged
    if flagged:
        assert row["raster_artefact"]["amplitude"] == pytest.approx(0.1 / 2**0.5, rel=0.3)
    else:
        assert row["raster_artefact"] is None


def test_the_probe_of_a_near_field_has_no_caustic(prepared):
    made = Reconstruction(OBJECT[None], np.ones((1, SIDE, SIDE), bool))
    known = {"raw": SimpleNamespace(energy_eV=8e3), "pixel": SimpleNamespace(metres=(1e-8, 1e-8))}
    far, near = (SimpleNamespace(near_field=field, **known) for field in (None, object()))
    assert probe_caustic(replace(prepared, scan=far), made).facts["fwhm_at_sample_m"] > 0
    assert probe_caustic(replace(prepared, scan=near), made) is None


def test_the_solver_keeps_the_beam_that_it_may_not_change(prepared, tmp_path):
    """The beam has all patterns in order; at the end the mean square of the flux is one."""
    made = METHODS[SOLVER](prepared, {}, MethodInputs(ASKED, RunContext(tmp_path)))
    initial = prepared.whole.beam
    same(made.before.beam, initial, 1e-5)
    same(made.beam, replace(initial, flux=initial.flux / np.sqrt(np.mean(initial.flux**2))), 1e-5)
    assert len(made.fit.objective.likelihood.data.positions) == len(prepared.kept) + len(prepared.out)
    assert len(assess_fit(made, prepared).held_out.residual) == len(prepared.out)


class Echo:
    """A network that returns its initial object, or ones."""

    def __init__(self, general, probe):
        self.general, self.probe, self.start = general, probe, None

    def view(self, data):
        self.data = data
        return data

    def predict_regions(self, view, regions, batch_size=None, start=None):
        self.start = start
        for g in range(len(regions)):
            regions[g : g + 1] = np.ones((1, *regions.shape[1:]), np.complex64)


@pytest.mark.parametrize("poor", [True, False])
def test_a_poor_fit_is_tried_in_other_orientations(prepared, monkeypatch, tmp_path, poor):
    doubt = Finding.warning("data.transpose=true explains more", ORIENTATION)
    flags = SimpleNamespace(flags=["poor_fit"] if poor else [])
    monkeypatch.setattr(pipeline, "evidence_of", lambda fit, halves: flags)
    monkeypatch.setattr(pipeline, "doubt_orientation", lambda *given: doubt)
    scan = replace(prepared, reading=ASKED.data)
    before = Reconstruction(OBJECT[None], np.ones((1, SIDE, SIDE), bool), prepared.whole.beam)
    after = pipeline.with_orientation(scan, before, None, RunContext(tmp_path), least=0.0)
    assert after.decisions == (doubt,) * poor


@pytest.mark.parametrize("general", [True, False])
def test_a_network_works_under_the_best_beam_there_is(prepared, tmp_path, general):
    """It has the beam of the solver, with the probe of its own training at the power of the solver's."""
    initial, found = prepared.whole.beam, another(prepared.whole.beam)
    solved = Reconstruction(OBJECT[None], np.ones((1, SIDE, SIDE), bool), found)
    learned = wave((3, N, N), 9)
    scaled = found.with_probe(learned).scaled_to(found.power)
    for before, modes, beam in ((None, None, initial), (solved, None, found), (solved, learned, scaled)):
        echo = Echo(general, initial.probe[0])
        inputs = MethodInputs(ASKED, RunContext(tmp_path), echo, modes)
        made = METHODS[NETWORK](prepared, {} if before is None else {SOLVER: before}, inputs)
        same(made.beam, beam)
        same(echo.data.beam, beam.at(prepared.kept))
        assert (echo.start is None) == (before is None or not general)
    assert np.sum(np.abs(made.beam.probe) ** 2) == pytest.approx(found.power, rel=1e-5)


@pytest.mark.parametrize(
    ("theirs", "ours", "N", "ratio"),
    [
        ((1e-8, 2e-8), (1.005e-8, 2.01e-8), 64, 1),
        ((1e-8, 2e-8), (0.8e-8, 1.6e-8), 80, 1.25),
        ((1e-8, 2e-8), (0.8e-8, 2e-8), 80, None),  # of another shape
        ((1e-8, 1e-8), (2e-8, 2e-8), 32, None),  # the reconstruction is coarser
        (None, (1e-8, 1e-8), 80, 1.25),  # whose longer side counts
    ],
)
def test_the_pixel_of_the_reference_over_that_of_the_reconstruction(theirs, ours, N, ratio):
    raw = SimpleNamespace(object_pixel_m=theirs, patterns=SimpleNamespace(shape=(9, 48, 64)))
    scan = SimpleNamespace(raw=raw, N=N, pixel=SimpleNamespace(metres=ours), detector=SimpleNamespace(bin=1))
    assert pixel_ratio(scan) == (None if ratio is None else pytest.approx(ratio))
