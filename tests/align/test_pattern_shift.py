"""Patterns that shift on the detector: the model by loops, what is found, and how a scan is then read."""

import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.datasets import single_patterns
from helpers.likelihood import N, Scan, check_gradient, full_scan, intensity_of, likelihood_of
from helpers.multislice import BETWEEN, thick_intensity, thick_scan
from helpers.phase_scans import phase_object
from scipy.special import kl_div

import ptycho
from ptycho.align.align_scan import STEPS, align_scan
from ptycho.align.aligned import RunContext, read
from ptycho.align.orientation import Orientation
from ptycho.align.pattern_shift import find_pattern_shift, trend
from ptycho.align.registration import Registration
from ptycho.align.scan_rotation import centres_of_mass
from ptycho.config import ConfigError, ScanRunConfig, ZonePlateProbe
from ptycho.config.data import DataConfig
from ptycho.preparation.dataset import at_positions
from ptycho.preparation.prepare import interpret_again
from ptycho.preparation.start import decided_reading
from ptycho.reconstruction.difference_map import difference_map
from ptycho.reconstruction.estimate import Refine
from ptycho.reconstruction.misfit import predictions
from ptycho.scan.optics import curvature_of, curved
from ptycho.scan.patterns import Patterns
from ptycho.scan.positions import rotation
from ptycho.scan.probe import make_probe

SHIFTS = np.random.default_rng(2).uniform(-1.5, 1.5, (25, 2)).astype(np.float32)
DESCAN = np.array([[0.03, 0.04], [-0.05, 0.01]])


def ramp(shift, side):
    """``exp(2πi d·x/N)`` over an object; where x is zero does not matter."""
    phase = 2 * np.pi / N * np.arange(side)
    return np.exp(1j * np.add.outer(shift[0] * phase, shift[1] * phase))


def measured(scan, shifts=SHIFTS, rng=None):
    """A scan by loops, each pattern of an object with its own phase ramp; and its expected photons."""
    images = [scan.object * ramp(shift, len(scan.object)) for shift in shifts]
    beams = zip(images, scan.positions, scan.flux, strict=True)
    intensity = np.array([intensity_of(image, scan.modes, *beam, scan.background) for image, *beam in beams])
    beam = {"flux": scan.flux.astype(np.float32), "background": np.fft.fftshift(scan.background)}
    data = scan.dataset(rng, intensity, exact=True, **beam)
    return replace(data, amplitudes=data.amplitudes.shifted(shifts)), intensity


@pytest.fixture(scope="module")
def shifted_scan():
    scan = full_scan(5)
    return scan, *measured(scan, rng=np.random.default_rng(5))


def test_a_shifted_pattern_is_shifted():
    """By two whole pixels, rows down and columns to the left, of a pattern with the zero frequency first."""
    scan = full_scan(5)
    whole = np.tile(np.array([2, -1], np.float32), (25, 1))
    np.testing.assert_allclose(
        measured(scan, whole)[1] - scan.background,
        np.roll(scan.intensity() - scan.background, (2, -1), (1, 2)),
        atol=1e-8,
    )


def test_deviance_of_every_pattern(shifted_scan):
    scan, data, intensity = shifted_scan
    found = likelihood_of(data, chunk_pixels=16 * N**2).evaluate(scan.estimate(data.normalisation))
    counts = np.fft.ifftshift(np.rint(data.amplitudes[:].astype(float) ** 2), axes=(-2, -1))
    expected = 2 * kl_div(counts + 0.02, intensity + 0.02).sum(axis=(1, 2))
    np.testing.assert_allclose(found.deviance, expected, rtol=1e-4)


@pytest.mark.parametrize("part", ["object", "modes", "positions"])
def test_gradients(shifted_scan, part):
    scan, data, _ = shifted_scan
    check_gradient(likelihood_of(data, chunk_pixels=16 * N**2), scan, data.normalisation, part)


def test_predictions_are_those_of_loops(shifted_scan):
    scan, data, intensity = shifted_scan
    (_, found), *_ = predictions(scan.object.astype(np.complex64), data, np.arange(25))
    np.testing.assert_allclose(found, data.normalisation * np.sqrt(intensity), rtol=2e-3, atol=2e-3)


def test_the_last_slice_shifts_patterns():
    scan, slices = thick_scan()
    shifts = SHIFTS[:16]
    images = [np.stack([*slices[:-1], slices[-1] * ramp(shift, len(slices[0]))]) for shift in shifts]
    intensity = [
        thick_intensity(image, scan.modes, r) for image, r in zip(images, scan.positions, strict=True)
    ]
    known = {"object_size": len(slices[0]), "between": BETWEEN, "exact": True}
    data = scan.dataset(None, np.array(intensity), **known)
    data = replace(data, amplitudes=data.amplitudes.shifted(shifts))
    estimate = replace(scan.estimate(data.normalisation), object=slices.astype(np.complex64))
    assert likelihood_of(data).evaluate(estimate).deviance.max() < 1e-2
    (x, found), *_ = predictions(slices.astype(np.complex64), data, np.arange(16))
    np.testing.assert_allclose(found, x, rtol=2e-3, atol=2e-3)


def test_a_common_shift_is_a_ramp_of_the_object():
    """In the difference map, and in the registration of patterns: the other models of a pattern."""
    scan = Scan.of(np.random.default_rng(1), 1e4)
    data, shift = scan.dataset(np.random.default_rng(2)), np.array([0.7, -1.2], np.float32)
    moved = replace(data, amplitudes=data.amplitudes.shifted(np.tile(shift, (36, 1))))
    turn = ramp(shift, len(scan.object))
    start = scan.estimate(data.normalisation)
    turned = replace(start, object=(start.object * turn).astype(np.complex64))
    expected = difference_map(likelihood_of(data), turned, iterations=2).object
    found = difference_map(likelihood_of(moved), start, iterations=2).object * turn
    assert np.linalg.norm(found - expected) < 1e-4 * np.linalg.norm(expected)
    shares = []
    for scan_of, image in ((data, turned), (moved, start)):
        registration = Registration.of(scan_of, Refine(False))
        wide = np.pad(image.object, registration.options.reach)
        registration.estimate = replace(registration.estimate, object=wide.astype(np.complex64))
        shares.append(registration.shares(14, np.array([[0, 0], [1, -1]])))
    np.testing.assert_allclose(shares[1], shares[0], rtol=1e-4)


def test_a_trend_is_found_exactly_and_its_error_by_hand():
    places = np.random.default_rng(3).uniform(0, 40, (50, 2))
    matrix, error = trend(places @ DESCAN.T + [3.0, 1.0], places)
    np.testing.assert_allclose(matrix, DESCAN, atol=1e-12)
    assert error.max() < 1e-12
    line = np.array([[-1.0, 0], [0, 0], [1, 0], [0, 2.0], [0, -2.0]])
    _, error = trend(np.array([[0.0, 1], [0, 0], [0, 0], [0, 0], [0, 0]]), line)
    # of the second value: rows fit −½, so that Σ of the squares left is 1 − ½ − 1/5
    np.testing.assert_allclose(error[1], np.sqrt(0.3 / 5 / np.array([2.0, 8.0])))


def simulated(matrix=DESCAN, photons=1e5, lens=0.0, side=9):
    """Photons of a scan of a phase object, in which pattern j is shifted by ``S (r_j − r̄)``.

    ``lens``: pixels by which a curved phase of the object shifts patterns, for one of the position.
    """
    rng = np.random.default_rng(7)
    grid = 3.5 * np.stack(np.divmod(np.arange(side**2), side), axis=1)
    positions = np.round(grid + rng.uniform(0, 2, grid.shape))
    size, probe = 32 + int(positions.max()) + 2, make_probe(ZonePlateProbe(), 32)
    axis = np.arange(size) - size / 2
    image = phase_object(size, rng) * np.exp(1j * np.pi * lens / 32 * np.add.outer(axis**2, axis**2))
    x, shifts = np.arange(32), (positions - positions.mean(axis=0)) @ np.array(matrix).T
    waves = [
        probe * image[r : r + 32, c : c + 32] * np.exp(2j * np.pi / 32 * np.add.outer(a * x, b * x))
        for (r, c), (a, b) in zip(positions.astype(int), shifts, strict=True)
    ]
    far = np.abs(np.fft.fftshift(np.fft.fft2(waves), axes=(1, 2))) ** 2
    counts = rng.poisson(photons * far / far.sum(axis=(1, 2)).mean())
    scale = np.sqrt(photons / np.sum(np.abs(probe) ** 2))
    return single_patterns(np.sqrt(counts), scale * probe, positions, size), counts


def test_a_shift_is_found():
    data, _ = simulated(photons=1e4)
    np.testing.assert_allclose(find_pattern_shift(data).matrix, DESCAN, atol=0.003)


def test_under_a_wrong_or_unknown_probe_the_trend_is_the_symmetric_part():
    """Half the curvature explains the patterns under no S; the antisymmetric part is still found."""
    data, _ = simulated()
    expected, _ = trend(centres_of_mass(data), data.positions)
    half = curved(data.probe[0], -0.5 * curvature_of(data.probe[0]))
    for known, specified in ((data, False), (data.under_probe(half[None]), True)):
        matrix = find_pattern_shift(known, specified=specified).matrix
        np.testing.assert_allclose(matrix + matrix.T, expected + expected.T, atol=1e-9)
        np.testing.assert_allclose(matrix - matrix.T, DESCAN - DESCAN.T, atol=0.008)


def test_a_shift_is_found_beside_masked_pixels_and_at_positions_that_are_turned():
    data, _ = simulated()
    good = np.arange(32) % 5 > 0
    data = replace(data, good=np.tile(good, (32, 1)), amplitudes=Patterns(data.amplitudes[:] * good))
    found = find_pattern_shift(at_positions(data, data.positions @ rotation(-20.0).T), 20.0)
    np.testing.assert_allclose(found.matrix @ rotation(-20.0), DESCAN, atol=0.005)


@pytest.mark.parametrize("lens", [0.0, 0.04])
def test_right_patterns_are_not_shifted(lens):
    """An object whose phase is curved as that of a lens has the trend, too, but explains its patterns."""
    assert find_pattern_shift(simulated(np.zeros((2, 2)), lens=lens)[0]) is None


def test_the_sample_of_a_microscope_has_no_lens():
    """There a symmetric shift is taken, which cannot be distinguished from a curved phase."""
    data = simulated(0.04 * np.eye(2))[0]
    np.testing.assert_allclose(find_pattern_shift(data, uncurved=True).matrix, 0.04 * np.eye(2), atol=0.006)


def as_read(tmp_path, counts, data, **keys):
    given = ptycho.Scan.from_arrays(counts, data.positions, data.probe[0], counts=True)
    config = ScanRunConfig(data=replace(given.data, **keys))
    return given, read(interpret_again(given.geometry, config.data), config, RunContext(tmp_path))


def test_a_scan_is_read_with_the_shift_that_was_found(tmp_path):
    data, counts = simulated(side=10)
    _, scan = as_read(tmp_path, counts, data)
    aligned = align_scan(scan, RunContext(tmp_path))
    (finding,) = (step for step in aligned.steps if step.what == "pattern shift")
    matrix = np.array(aligned.config.data.pattern_shift)
    np.testing.assert_allclose(matrix, 32 * DESCAN, atol=32 * 0.003)
    assert finding.value.startswith("data.pattern_shift=[[") and " " not in finding.value
    expected = (data.positions - data.positions.mean(axis=0)) @ matrix.T / 32
    np.testing.assert_allclose(aligned.data.amplitudes.shifts, expected, atol=1e-4)
    texts = {"findings": {"pattern shift": [finding.value, "why"]}}
    (tmp_path / "metrics.json").write_text(json.dumps(texts))
    assert decided_reading(tmp_path, scan.config.data).pattern_shift == aligned.config.data.pattern_shift


def test_finer_object_pixels_leave_the_shifts_as_they_are(tmp_path):
    data, counts = simulated()
    padded = np.pad(counts, ((0, 0), (8, 8), (8, 8)))
    given = ptycho.Scan.from_arrays(padded, data.positions, counts=True)
    shifts = []
    for side in (32, 48):  # positions are in pixels of the whole detector
        config = ScanRunConfig(data=replace(given.data, N=side, pattern_shift=((1.0, 0.5), (-0.5, 2.0))))
        scan = read(interpret_again(given.geometry, config.data), config, RunContext(tmp_path))
        shifts.append(scan.data.amplitudes.shifts)
    np.testing.assert_allclose(shifts[0], shifts[1], atol=0.02)


def test_a_shift_that_is_specified_is_not_tested(tmp_path):
    data, counts = simulated()
    (step,) = (step for step in STEPS if step.phase == "pattern_shift")
    assert step.applies(as_read(tmp_path, counts, data)[1])
    _, scan = as_read(tmp_path, counts, data, pattern_shift=((0.0, 0.0), (0.0, 0.0)))
    assert scan.data.amplitudes.shifts is None and not step.applies(scan)


@pytest.mark.parametrize("way", [(True, False, True, 1), (False, True, False, -1), (True, True, True, -1)])
def test_shifts_turn_with_the_detector(tmp_path, way):
    """Read in another orientation, with the keys that it says, the shifts are those of its trial."""
    data, counts = simulated()
    _, scan = as_read(tmp_path, counts, data, pattern_shift=tuple(map(tuple, DESCAN)))
    orientation = Orientation(*way)
    keys = orientation.keys(scan.config.data)
    words = dict(word.removeprefix("data.").split("=") for word in keys.split())
    stated = {key: json.loads(value) for key, value in words.items()}
    _, again = as_read(tmp_path, counts, data, **({"pattern_shift": tuple(map(tuple, DESCAN))} | stated))
    tried = orientation.of(scan.data)
    np.testing.assert_allclose(again.data.amplitudes.shifts, tried.amplitudes.shifts, atol=1e-4)
    inner = np.s_[:, 1:, 1:]  # the first row and column have no counterpart
    np.testing.assert_array_equal(again.data.amplitudes[:][inner], tried.amplitudes[:][inner])


def test_a_network_is_shown_patterns_in_the_middle():
    data, _ = simulated()
    whole = np.tile(np.array([3, -2], np.float32), (81, 1)) + 0.3
    moved = replace(data, amplitudes=Patterns(np.roll(data.amplitudes[:], (3, -2), (1, 2)), shifts=whole))
    groups = np.array([[0, 5], [7, 2]])
    np.testing.assert_array_equal(moved.normalised(groups), data.normalised(groups))


def test_a_near_field_has_no_shift():
    with pytest.raises(ConfigError, match=r"data\.pattern_shift=.*null with data\.physics=near_field"):
        DataConfig(file=("x",), physics="near_field", pattern_shift=((0.0, 0.1), (0.0, 0.0)))
