"""The estimate of the initial probe: modulus, phase and signs, and its accuracy on simulated scans."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.phase_scans import scan_with

import ptycho
from ptycho.align.align_scan import STEPS
from ptycho.align.aligned import AlignedScan, RunContext
from ptycho.align.geometry import CoarseRotation
from ptycho.align.initial_probe import (
    ProbeOptions,
    compare_defocus,
    compare_probe,
    guess_probe,
    scale_to_patterns,
)
from ptycho.align.orientation import REVERSED
from ptycho.config import IdealDiskProbe, OwnProbe, ScanRunConfig, ZonePlateProbe
from ptycho.evaluation.trust import ORIENTATION
from ptycho.reconstruction.trial import TrialOptions, place_anew
from ptycho.scan.optics import OPTICS, curved, frequency, pupil
from ptycho.scan.patterns import Patterns
from ptycho.scan.positions import rotation
from ptycho.scan.probe import make_probe, waves_of

N = 32
PIXEL_NM, WAVELENGTH_NM = 20.0, 0.15498  # of the zone plate's default at N = 32, 8 keV


def overlap(one, two):
    """``|⟨P, G⟩| / |P||G|``."""
    return abs(np.vdot(one, two)) / np.linalg.norm(one) / np.linalg.norm(two)


def test_the_pupil_is_the_root_of_the_mean():
    mean = np.arange(25.0).reshape(5, 5) ** 2
    np.testing.assert_array_equal(pupil(mean), np.arange(25.0).reshape(5, 5))
    good = np.ones((5, 5), bool)
    good[2, 2:] = False
    found = pupil(mean, good)
    np.testing.assert_array_equal(found[good], pupil(mean)[good])
    assert found[2, 4] in (9, 19) and np.isin(found[2, 2:], pupil(mean)[good]).all()


@pytest.mark.parametrize("name", list(OPTICS))
@pytest.mark.parametrize("side", [16, 17])
def test_an_optic_keeps_the_modulus(name, side):
    modulus = np.exp(-((frequency(side) / 0.2) ** 2))
    numbers = OPTICS[name].numbers(modulus)
    assert len(numbers) >= 3 and np.ptp(np.diff(numbers)) < 1e-9
    if name == "lens":
        np.testing.assert_allclose(numbers, -numbers[::-1], atol=1e-9)
    for number in numbers[[0, len(numbers) // 2, -1]]:
        probe = OPTICS[name].probe(modulus, number)
        far = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(probe), norm="ortho"))
        np.testing.assert_allclose(np.abs(far), modulus, atol=1e-5)
        assert OPTICS[name].text(number)


@pytest.mark.parametrize(
    "settings, optic",
    [(ZonePlateProbe(), "lens"), (ZonePlateProbe(defocus_um=-30.0), "lens"), (IdealDiskProbe(), "pinhole")],
)
def test_probes_of_simulated_scans(settings, optic):
    probe = make_probe(settings, N)
    data = scan_with(probe, seed=1, side=6, step=3)
    found = guess_probe(data, TrialOptions(patterns=36), ProbeOptions(steps=4))
    assert found.best.hypothesis[0] == optic
    assert overlap(found.probe, probe) > max(0.97, overlap(found.optic_probe, probe))
    for guess in (found.probe, found.optic_probe):
        energy = data.photon_scale**2 * np.sum(np.abs(guess) ** 2)
        assert energy == pytest.approx(data.amplitudes.statistics.mean_energy, rel=1e-4)
    if optic == "lens":
        expected = -np.pi * WAVELENGTH_NM * 1e3 * settings.defocus_um / PIXEL_NM**2
        assert found.best.hypothesis[1] == pytest.approx(expected, rel=0.25)
    assert found.best.score == min(trial.score for trial in found.tried)
    assert found.refined.score < found.best.score
    assert found.finding.what == "probe" and f"the best of {len(found.tried)}" in found.finding.why


def test_few_photons_do_not_refine_the_probe():
    """Noise that a refined probe would fit makes it explain held-out patterns worse."""
    probe = make_probe(ZonePlateProbe(), N)
    data = scan_with(probe, seed=1, side=6, step=3, photons=300)
    found = guess_probe(data, TrialOptions(patterns=36), ProbeOptions(steps=4))
    assert found.probe is found.optic_probe and found.refined is found.best
    assert overlap(found.probe, probe) > 0.9
    assert "refined" not in str(found.finding)


@pytest.fixture(scope="module")
def defocused():
    """A scan in which parallax has shown the curvature of the probe, or its negative; and the curvature."""
    optic, modulus = OPTICS["lens"], np.exp(-((frequency(N) / 0.2) ** 4))
    curvature = optic.numbers(modulus)[-1]
    return scan_with(optic.probe(modulus, curvature), seed=1, side=7, step=3, photons=1e5), curvature


def compared(defocused, own, run=compare_probe, orientation=None, **keys):
    """The scan under its ``own`` probe after one step, and the data before it."""
    data, curvature = defocused
    data = data.under_probe(scale_to_patterns(own, data)[None])
    scan = ptycho.Scan.from_arrays(
        np.rint(data.amplitudes[:] ** 2), data.positions, data.probe[0], counts=True
    )
    rotation = CoarseRotation(curvatures=() if run is compare_defocus else (curvature, -curvature))
    reading = scan.data if orientation is None else replace(scan.data, orientation=orientation)
    aligned = AlignedScan(scan.geometry, data, ScanRunConfig(data=reading, **keys), rotation=rotation)
    (step,) = (step for step in STEPS if step.run is run)
    return (run(aligned, RunContext(Path())) if step.applies(aligned) else aligned), data


def test_a_probe_of_another_defocus_is_replaced(defocused):
    data, curvature = defocused
    modulus = pupil(data.amplitudes.statistics.mean_intensity)
    wrong = OPTICS["lens"].probe(modulus, -0.4 * curvature)
    aligned, _ = compared(defocused, wrong)
    (warning,) = aligned.decisions
    assert "the specified probe explains held-out patterns worse" in str(warning) and warning.warns
    assert overlap(aligned.data.probe[0], data.probe[0]) > 0.95
    aligned, before = compared(defocused, wrong, probe=OwnProbe(learn=False))
    assert aligned.data is before


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("photons", [300, 1e5])
def test_the_right_probe_is_kept_for_either_half_turn(defocused, photons, reverse):
    """P*(−x) and positions turned by 180° give the same patterns; rotation and probe are decided later."""
    probe = defocused[0].probe[0]
    scan = scan_with(probe, seed=1, side=7, step=3, photons=photons)
    own = REVERSED.patterns(probe).conj() if reverse else probe
    aligned, before = compared((scan, defocused[1]), own)
    assert aligned.data is before and not aligned.decisions


@pytest.mark.parametrize("factor", [-1, 0.3])
def test_a_specified_probe_gets_the_curvature_of_the_patterns(defocused, factor):
    data, curvature = defocused
    right = data.probe[0]
    wrong = curved(right, (factor - 1) * curvature)
    aligned, _ = compared(defocused, wrong, compare_defocus)
    (warning,) = aligned.decisions
    assert warning.warns and ("check its defocus" in str(warning)) == (factor > 0)
    assert (warning.flags == (ORIENTATION,)) == (factor < 0)
    assert overlap(aligned.data.probe[0], right) > max(0.97, overlap(wrong, right))
    assert aligned.data.beam.power == pytest.approx(data.beam.power, rel=1e-4)
    aligned, before = compared(defocused, wrong, compare_defocus, probe=OwnProbe(learn=False))
    assert aligned.data is before
    aligned, before = compared(defocused, wrong, compare_defocus, orientation="auto")
    assert (aligned.data is before) == (factor < 0)  # then the positions are negated


def astigmatic(curvature, astigmatism):
    """The probe of mirrors that focus in two planes."""
    rows, columns = np.meshgrid(*(np.arange(N) / N - 0.5,) * 2, indexing="ij")
    phase = (curvature + astigmatism) * rows**2 + (curvature - astigmatism) * columns**2
    return waves_of(np.exp(-((frequency(N) / 0.2) ** 4)) * np.exp(1j * phase))


def test_a_specified_probe_gets_the_astigmatism_of_the_patterns():
    right, wrong = astigmatic(200, 110), astigmatic(140, 0)
    data = scan_with(right, seed=1, side=7, step=3, photons=1e5)
    aligned, _ = compared((data, 0.0), wrong, compare_defocus)
    assert "astigmatism" in str(aligned.decisions[0]) and aligned.decisions[0].warns
    assert overlap(aligned.data.probe[0], right) > 0.98 > 0.93 > overlap(wrong, right)


def test_the_astigmatism_of_an_estimated_probe():
    right = astigmatic(200, -120)
    found = guess_probe(scan_with(right, seed=1, side=7, step=3, photons=1e5))
    assert overlap(found.probe, right) > 0.97 and overlap(found.optic_probe, right) > 0.9
    assert "astigmatism -" in found.text


@pytest.mark.parametrize("side", [8, 9])
def test_curvature_and_astigmatism_are_a_phase_of_the_far_field(side):
    rng = np.random.default_rng(3)
    probe = rng.normal(size=(side, side)) + 1j * rng.normal(size=(side, side))
    far, changed = (
        np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(wave))) for wave in (probe, curved(probe, 9.0, -4.0))
    )
    for row in range(side):
        for col in range(side):
            y, x = (row - side // 2) / side, (col - side // 2) / side
            expected = far[row, col] * np.exp(1j * (9 * (y**2 + x**2) - 4 * (y**2 - x**2)))
            assert changed[row, col] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("factor", "found", "masked"), [(0.6, True, True), (1.6, True, False), (1.0, False, True)]
)
def test_a_faint_object_shows_the_curvature(defocused, factor, found, masked):
    """Most of the deviance is noise there, so that another curvature gains little of it."""
    right, curvature = defocused[0].probe[0], defocused[1]
    faint, good = scan_with(right, seed=1, side=8, step=3, photons=1e4, strength=0.1), np.ones((N, N), bool)
    if masked:
        good[:, ::3] = False
        faint = replace(faint, amplitudes=Patterns(good * faint.amplitudes[:]), good=good)
    aligned, before = compared((faint, curvature), curved(right, (factor - 1) * curvature), compare_defocus)
    assert (aligned.data is not before) == found
    assert overlap(aligned.data.probe[0], right) > 0.97


@pytest.mark.parametrize("reverse", [False, True])
def test_a_specified_probe_may_be_the_complex_conjugate(reverse):
    """With aberrations that no curvature replaces: coma, whose sign a reversal changes, and astigmatism."""
    rows, columns = np.meshgrid(*(np.arange(N) / N - 0.5,) * 2, indexing="ij")
    modulus = np.exp(-((frequency(N) / 0.2) ** 4))
    phase = 260 * (rows**2 + columns**2) + 130 * (rows**2 - columns**2) + 300 * columns**3
    right = waves_of(modulus * np.exp(1j * phase))
    wrong = REVERSED.patterns(right).conj() if reverse else right.conj()
    data = scan_with(right, seed=1, side=7, step=3, photons=1e5)
    aligned, _ = compared((data, 0.0), wrong, compare_defocus)
    (warning,) = aligned.decisions
    assert "its complex conjugate" in str(warning) and warning.flags == (ORIENTATION,)
    assert overlap(aligned.data.probe[0], right) > 0.98 > 0.9 > overlap(wrong, right)


@pytest.mark.parametrize("change", ["nothing", "scale", "rotation", "transposed", "mirrored", "one late"])
def test_other_errors_do_not_change_the_defocus(defocused, change):
    probe = defocused[0].probe[0]
    data = scan_with(probe, seed=1, side=7, step=3, photons=1e5)
    amplitudes, positions = data.amplitudes[:], data.positions.astype(float)
    if change in ("scale", "rotation"):
        matrix = 0.8 * np.eye(2) if change == "scale" else rotation(8.0)
        positions = (positions - positions.mean(axis=0)) @ matrix.T + positions.mean(axis=0)
    elif change == "one late":
        positions = np.roll(positions, 1, axis=0)
    elif change == "transposed":
        amplitudes = amplitudes.swapaxes(1, 2)
    elif change == "mirrored":
        amplitudes = np.roll(amplitudes[:, ::-1], 1, axis=1)
    changed = place_anew(data, amplitudes, positions, None)
    aligned, before = compared((changed, defocused[1]), probe, compare_defocus)
    assert aligned.data is before and not aligned.decisions
