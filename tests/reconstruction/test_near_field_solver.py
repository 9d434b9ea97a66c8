"""The solver in a near field: gradients by differences, a scan from its patterns alone, orientation."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import N, check_gradient, full_scan, likelihood_of

from ptycho import Scan as ApiScan
from ptycho.align.orientation import Orientation, better, orientations
from ptycho.config import ScanRunConfig
from ptycho.config.waves import Fresnel, wavelength_m
from ptycho.evaluation.alignment import in_frame
from ptycho.evaluation.metrics import align, relative_error
from ptycho.preparation.dataset import make_dataset
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.misfit import misfit, predictions
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.scan_likelihood import likelihood_of as photons_of
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.reconstruction.trial import TrialOptions
from ptycho.scan.reconstruction import illumination
from ptycho.simulation.near_field import simulate_near_field

WAY = Fresnel(7.0, 5.0)
PARTS = ("object", "modes", "positions", "flux", "background")
ENERGY, PITCH = 12e3, 5e-7
SIDE, NUMBER = 48, 30.0


@pytest.fixture(scope="module")
def scan():
    return full_scan(3)


def intensity_of(scan, way):
    """Return by NumPy: exit wave, shift back by the fraction of a pixel, free space; centre at sample 0."""
    found = []
    for position, flux in zip(scan.positions, scan.flux, strict=True):
        row, col = whole = np.floor(position + 0.5).astype(int)
        q, s = np.fft.fftfreq(N), position - whole
        ramp = np.exp(-2j * np.pi * np.add.outer(s[0] * q, s[1] * q))
        moved = np.fft.ifft2(np.fft.fft2(scan.modes) * ramp)
        waves = flux * moved * scan.object[row : row + N, col : col + N]
        back = way.propagated(np.fft.ifft2(np.fft.fft2(waves) * ramp.conj()))
        found.append(np.sum(np.abs(back) ** 2, axis=0) + np.fft.fftshift(scan.background))
    return np.fft.ifftshift(found, axes=(-2, -1))


@pytest.fixture(scope="module")
def data(scan):
    return scan.dataset(np.random.default_rng(5), intensity_of(scan, WAY), fresnel=WAY, exact=True)


def test_the_intensity_of_every_pattern(scan, data):
    """Modes and fractions of positions; the intensity is the same in fits and in scores."""
    plain = replace(scan, flux=np.ones(9), background=np.zeros((N, N)))
    f = data.normalisation
    expected = np.sqrt(intensity_of(plain, WAY)) * f
    found = np.concatenate([p for _, p in predictions(scan.object.astype(np.complex64), data, np.arange(9))])
    np.testing.assert_allclose(found, expected, atol=1e-4 * expected.max())
    deviance = likelihood_of(data, noise="gaussian").evaluate(plain.estimate(f)).deviance
    squared = misfit(scan.object.astype(np.complex64), data).squared
    np.testing.assert_allclose(deviance, 4 * squared / f**2, rtol=2e-3)


@pytest.mark.parametrize("part", PARTS)
def test_gradient_of_every_part(scan, data, part):
    check_gradient(likelihood_of(data), scan, data.normalisation, part)


def measured(patterns=36):
    """Return a scan behind a diffuser, simulated in a window twice as wide, and its measured patterns."""
    way = Fresnel(NUMBER, NUMBER)
    truth = simulate_near_field(SIDE, patterns, 8, way, 1e6)
    counts = np.concatenate([*truth.counts(np.random.default_rng(1))])
    lengths = {"energy_eV": ENERGY, "detector_pixel_m": PITCH}
    lengths["distance_m"] = NUMBER * PITCH**2 / wavelength_m(ENERGY)
    return truth, ApiScan.from_arrays(counts, truth.positions, counts=True, physics="near_field", **lengths)


def test_a_scan_from_its_patterns_alone(tmp_path):
    """Object and probe start from the mean pattern, propagated back; λz/dx² follows from lengths."""
    truth, scan = measured(49)
    _, data, _ = make_dataset(scan.geometry, ScanRunConfig(data=scan.data), tmp_path)
    assert data.fresnel.numbers == pytest.approx((NUMBER, NUMBER)) and scan.pixel_m == (PITCH, PITCH)
    assert data.N == 72 and data.good.sum() == SIDE**2
    objective = Objective(replace(photons_of(data), compile_xla=False), Prior("edge_preserving", 3.0))
    start = Estimate.of(data, np.ones((data.object_size,) * 2))
    alone = fit(objective, start, OBJECT_ALONE, 5).estimate
    found = fit(objective, alone, Refine(), 180).estimate.object
    illuminated = illumination(data)[0] > 0.5 * illumination(data).max()
    rows, cols = np.round(data.positions + (data.N - SIDE) / 2 - truth.positions).astype(int)[0]
    near = np.ones(found.shape, complex)
    near[rows : rows + len(truth.object), cols : cols + len(truth.object)] = truth.object
    known, there = in_frame(truth.object, align(found, near, illuminated).object, illuminated)
    error = relative_error(align(np.where(there, found, 0), known, there).object, known)
    assert there.sum() > 2000 and error < 0.05


def test_a_turned_detector_is_seen(tmp_path):
    """Positions relative to patterns: eight orientations, each with an equivalent one."""
    _, scan = measured()
    _, data, _ = make_dataset(scan.geometry, ScanRunConfig(data=scan.data), tmp_path)
    turned = Orientation(transpose=True).of(data)
    trials = orientations(turned, TrialOptions(patterns=20))
    assert len(trials) == 8 and {len(trial.hypothesis) for trial in trials} == {2}
    found = better(trials)
    assert found is not None
    assert found.hypothesis == (Orientation(transpose=True), Orientation(True, True, True, -1))
