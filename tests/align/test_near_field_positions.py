"""Positions of a near field by the correlation of its patterns, and its affine part in the fit."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import ptycho
from ptycho.align import align_scan
from ptycho.align.align_scan import STEPS, correct_near_field
from ptycho.align.aligned import RunContext, read
from ptycho.align.scan_rotation import positions_of_near_fields
from ptycho.config import ScanRunConfig
from ptycho.config.waves import wavelength_m
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.scan_likelihood import likelihood_of
from ptycho.reconstruction.selection import ModelOptions
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.scan.patterns import Patterns
from ptycho.scan.positions import rotation

SIDE, NUMBER, PITCH, ENERGY = 48, 15.0, 5e-7, 12e3
LENGTHS = {"energy_eV": ENERGY, "detector_pixel_m": PITCH}
LENGTHS["distance_m"] = NUMBER * PITCH**2 / wavelength_m(ENERGY)


def smooth(rng, side, width):
    field = gaussian_filter(rng.normal(size=(side, side)), width, mode="wrap")
    return field / field.std()


def photons(places, image=None):
    """Counts behind a diffuser by NumPy: the object moves, in a window twice as wide as the detector."""
    rng, wide = np.random.default_rng(1), 2 * SIDE
    beam = (1 + 0.2 * smooth(rng, wide, 3)) * np.exp(0.8j * smooth(rng, wide, 3))
    side = wide + int(places.max()) + 2
    image = np.exp((-0.1 + 0.4j) * smooth(rng, side, 2)) if image is None else image(side)
    q, k, patterns = np.fft.fftfreq(wide), np.fft.fftfreq(side), []
    way = np.exp(-1j * np.pi * NUMBER * np.add.outer(q**2, q**2))
    for place in places:
        ramp = np.exp(2j * np.pi * np.add.outer(place[0] * k, place[1] * k))
        part = np.fft.ifft2(np.fft.fft2(image) * ramp)[:wide, :wide]
        patterns.append(np.abs(np.fft.ifft2(way * np.fft.fft2(beam * part))) ** 2)
    inner = slice(SIDE // 2, SIDE // 2 + SIDE)
    return rng.poisson(500 * np.array(patterns)[:, inner, inner])


@pytest.fixture(scope="module")
def true():
    places = np.random.default_rng(4).uniform(0, 24, (20, 2))
    return places, photons(places)


@pytest.fixture
def scan_at(true, tmp_path):
    """``scan_at(nominal)``: the aligned scan whose file states these positions."""

    def at(nominal, counts=true[1], **keys):
        scan = ptycho.Scan.from_arrays(counts, nominal, counts=True, physics="near_field", **LENGTHS)
        config = ScanRunConfig(data=replace(scan.data, **keys))
        return read(scan.geometry, config, RunContext(tmp_path))

    return at


def rms(one, other):
    difference = one - other
    return np.sqrt(np.sum((difference - difference.mean(axis=0)) ** 2, axis=1).mean())


def wrong(places, degrees=12.0, error=2.0):
    return places @ rotation(degrees).T + np.random.default_rng(2).normal(size=places.shape) * error


@pytest.mark.parametrize(("side", "limit"), [(256, 0.35), (40, 0.6)], ids=["whole", "binned"])
def test_positions_follow_from_the_patterns(scan_at, true, side, limit):
    aligned = scan_at(wrong(true[0]))
    found = positions_of_near_fields(aligned.data, side=side)
    assert rms(aligned.data.positions, true[0]) > 2.5
    assert rms(found.positions, true[0]) < limit and found.error < limit
    np.testing.assert_allclose(found.positions.mean(axis=0), aligned.data.positions.mean(axis=0), atol=1e-6)


def test_bad_pixels_and_repeated_places_do_not_mislead(scan_at, true):
    """A tenth of the pixels is bad and bright; each place was measured twice, and columns lie close."""
    squeezed = true[0] * [1, 0.3]
    places = np.repeat(squeezed, 2, axis=0)
    counts = photons(places)
    bad = np.random.default_rng(8).random((SIDE, SIDE)) < 0.1
    counts[:, bad] = 10 * counts.max()
    aligned = scan_at(np.repeat(wrong(squeezed, error=0.0), 2, axis=0), counts)
    data = aligned.data
    good = np.zeros((data.N, data.N), bool)
    margin = (data.N - SIDE) // 2
    good[margin : margin + SIDE, margin : margin + SIDE] = ~bad
    found = positions_of_near_fields(replace(data, good=good, amplitudes=Patterns(data.amplitudes[:] * good)))
    assert rms(data.positions, places) > 1.0
    assert rms(found.positions, places) < 0.4
    assert positions_of_near_fields(replace(data, good=np.zeros_like(good))).error == np.inf


def test_patterns_that_share_too_little_stay_where_they_are(scan_at, true):
    data = scan_at(true[0]).data.subset(np.array([0, 1]), 1)
    places = np.float32([[0, 0], [0, 40]])
    apart = replace(data, beam=replace(data.beam, positions=places), object_size=data.N + 41)
    found = positions_of_near_fields(apart)
    np.testing.assert_array_equal(found.positions, apart.positions)
    assert found.error == np.inf


def test_a_scan_is_moved_where_that_explains_it(scan_at, true, tmp_path):
    aligned = scan_at(wrong(true[0], error=0.3))
    moved = correct_near_field(aligned, RunContext(tmp_path))
    assert rms(moved.data.positions, true[0]) < 0.35
    (decision,) = moved.steps
    assert decision.what == "positions corrected" and decision.value.startswith("20 patterns by ")
    degrees = float(decision.value.partition("rotated by ")[2].partition("°")[0])
    assert degrees == pytest.approx(-12, abs=1) and "data.position_jumps=false" in decision.why


def lattice(side):
    waves = np.cos(2 * np.pi * np.arange(side) / 6)
    return np.exp(0.3j * np.add.outer(waves, waves))


@pytest.mark.parametrize("of", [None, lattice], ids=["any object", "lattice"])
def test_right_positions_stay(scan_at, true, tmp_path, of):
    aligned = scan_at(true[0]) if of is None else scan_at(true[0], photons(true[0], of))
    assert correct_near_field(aligned, RunContext(tmp_path)) is aligned


def test_a_mirrored_scan_is_another_orientation(scan_at, true, tmp_path):
    aligned = scan_at(true[0] * [1, -1])
    assert correct_near_field(aligned, RunContext(tmp_path)) is aligned


def test_it_is_a_step_of_near_fields_whose_positions_may_be_corrected(scan_at, true):
    (step,) = (step for step in STEPS if step.run is correct_near_field)
    aligned = scan_at(true[0])
    assert step.applies(aligned) and not step.applies(scan_at(true[0], position_jumps=False))
    assert not step.applies(replace(aligned, data=replace(aligned.data, fresnel=None)))
    assert not step.applies(scan_at(true[0][:8], true[1][:8]))


def test_positions_that_explain_no_more_are_not_taken(scan_at, true, tmp_path, monkeypatch):
    """Whatever the correlations say."""
    aligned = scan_at(true[0])
    elsewhere = SimpleNamespace(positions=wrong(aligned.data.positions.astype(float)), error=0.1)
    monkeypatch.setattr(align_scan, "positions_of_near_fields", lambda data: elsewhere)
    assert correct_near_field(aligned, RunContext(tmp_path)) is aligned


def test_the_fit_refines_the_affine_part_of_a_near_field(scan_at, true):
    data = scan_at(true[0] @ rotation(4.0).T).data
    options = ModelOptions()
    assert options.moves_of(replace(data, fresnel=None)) == "independent"
    assert replace(options, moves="affine").moves_of(data) == "affine"
    objective = Objective(
        replace(likelihood_of(data), compile_xla=False),
        Prior("edge_preserving", 3.0),
        options.moves_of(data),
    )
    start = Estimate.of(data, np.ones((data.object_size,) * 2))
    alone = fit(objective, start, OBJECT_ALONE, 10).estimate
    found = fit(objective, alone, Refine(True, positions=True), 80).estimate.positions
    assert rms(found, true[0]) < 0.2 < 0.6 < rms(data.positions, true[0])
