"""The intensity of one photon: told where patterns are photon counts times a number, and nowhere else."""

import re
from dataclasses import replace

import numpy as np
import pytest
from helpers.scans import raw_scan
from scipy.ndimage import gaussian_filter

from ptycho.config import ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.preparation.dataset import make_dataset
from ptycho.preparation.photon_gain import noise_ratios, photon_gain, quantum
from ptycho.preparation.prepare import interpret

N, J = 64, 40
GOOD = np.ones((N, N), bool)
WIDTHS = (3.0, 5.0, 8.0)  # of Gaussian probes, in pixels of 64


def means(photons, width=5.0, seed=0, curvature=0.0):
    """Speckle patterns ``(J, N, N)`` of a phase object under a Gaussian probe: photons expected."""
    rng = np.random.default_rng(seed)
    axis = np.arange(N) - N // 2
    square = axis[:, None] ** 2 + axis**2
    probe = np.exp(-square / (2 * width**2) + 1j * curvature * square)
    phase = 15 * gaussian_filter(rng.normal(size=(4 * N, 4 * N)), 2)
    patterns = []
    for row, col in rng.integers(0, 3 * N, (J, 2)):
        wave = probe * np.exp(1j * phase[row : row + N, col : col + N])
        patterns.append(np.fft.fftshift(np.abs(np.fft.fft2(wave)) ** 2))
    return np.array([photons * p / p.sum() for p in patterns])


def counts(photons, width=5.0, seed=0):
    return np.random.default_rng(seed + 1).poisson(means(photons, width, seed)).astype(float)


def stored(intensities, dtype=np.float32):
    return intensities.astype(dtype).astype(float)


@pytest.mark.parametrize("photons", [3e3, 1e6])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("gain", [0.37, 1234.5])
def test_scaled_counts(photons, width, gain):
    found = photon_gain(stored(gain * counts(photons, width)), GOOD)
    assert found.value == pytest.approx(gain, rel=1e-6)
    assert f"multiples of {gain:.6g}" in found.why and "photon noise" in found.why


def test_roots_of_counts_and_normalised_amplitudes():
    n = counts(2e4)
    roots = np.square(stored(np.sqrt(n)))
    assert photon_gain(roots, GOOD).value == pytest.approx(1, rel=1e-6)
    scale = np.float32(0.5 / np.sqrt(n.max()))
    normalised = np.square(stored(np.sqrt(n).astype(np.float32) * scale))
    assert photon_gain(normalised, GOOD).value == pytest.approx(float(scale) ** 2, rel=1e-6)
    own = np.square(stored(np.sqrt(n / n.max(axis=(1, 2), keepdims=True))))
    assert photon_gain(own, GOOD).value is None  # a scale of each frame's own


def test_some_pixels_may_be_interpolated_and_bad_ones_hold_anything():
    intensities = 0.37 * counts(1e5)
    intensities[3, 10, 10:30] *= np.linspace(0.91, 1.13, 20)
    good = GOOD.copy()
    good[40:44] = False
    intensities[:, 40:44] = np.random.default_rng(0).uniform(0, 50, (J, 4, N))
    intensities[0, 41, 3] = np.nan
    assert photon_gain(intensities, good).value == pytest.approx(0.37, rel=1e-6)


def test_the_mean_of_several_exposures_has_its_photons():
    """Four exposures: their sum is counts, a quarter of it has a quarter photon as its quantum."""
    rng = np.random.default_rng(3)
    mean = rng.poisson(means(3e3), (4, J, N, N)).mean(axis=0)
    assert photon_gain(stored(mean), GOOD).value == pytest.approx(0.25, rel=1e-6)


@pytest.mark.parametrize("curvature", [0.0, 0.05])
@pytest.mark.parametrize("photons", [3e2, 3e4, 1e8])
@pytest.mark.parametrize("width", [3.0, 14.0])
def test_patterns_without_noise_have_no_photons(photons, width, curvature):
    """As they are, and written in steps of one, of a hundredth, of seven."""
    mean = means(photons, width, curvature=curvature)
    written = [
        mean,
        np.rint(mean),
        np.floor(mean),
        np.ceil(mean),
        np.round(mean, 2),
        0.37 * np.rint(mean / 7),
    ]
    for intensities in written:
        assert photon_gain(stored(intensities), GOOD).value is None


@pytest.mark.parametrize("photons", [1e3, 1e6])
@pytest.mark.parametrize("width", [3.0, 8.0])
def test_read_noise_leaves_the_gain_open(photons, width):
    rng, n = np.random.default_rng(7), counts(photons, width)
    noise = rng.normal(size=n.shape)
    assert photon_gain(stored(0.37 * n + 0.1 * noise), GOOD).value is None
    assert photon_gain(stored(np.abs(0.37 * n + 0.1 * noise)), GOOD).value is None
    for steps, sigma in ((10, 2.0), (5, 1.2), (3, 1.0), (2, 1.0)):  # of a converter, to a photon
        converted = 0.1 * np.maximum(np.rint(steps * n + sigma * noise), 0)
        assert photon_gain(stored(converted), GOOD).value is None


@pytest.mark.parametrize("photons", [3e3, 1e5])
@pytest.mark.parametrize("spread", [0.01, 0.05])
def test_counts_divided_by_a_flat_field(photons, spread):
    """Photons that pixels of uneven sensitivity count, over that sensitivity, in units of 1234.5."""
    rng = np.random.default_rng(4)
    flat = 1 + spread * rng.normal(size=(N, N))
    n = rng.poisson(flat * means(photons)).astype(float)
    found = photon_gain(stored(1234.5 * n / flat), GOOD)
    assert found.value == pytest.approx(1234.5 * np.mean(1 / flat), rel=0.1 * spread)
    assert "a step of each pixel's own" in found.why and "data.keys.flat" in found.why
    said = float(re.search(r"± ([\d.]+) %", found.why)[1])
    assert said == pytest.approx(100 * spread, rel=0.1)


@pytest.mark.parametrize("photons", [3e3, 1e5])
def test_uneven_pixels_alone_are_no_photons(photons):
    """Without noise; less a dark field, down to zero; with read noise; scaled frame by frame; arbitrary."""
    rng = np.random.default_rng(5)
    flat, dark = 1 + 0.05 * rng.normal(size=(N, N)), rng.uniform(0, 1, (N, N))
    n = rng.poisson(flat * means(photons)).astype(float)
    read = n + 0.1 * rng.normal(size=n.shape)
    others = (means(photons) / flat, np.maximum(n - dark, 0) / flat, np.maximum(read, 0) / flat)
    for intensities in (*others, n / flat * rng.uniform(0.9, 1.1, (J, 1, 1)), rng.random(n.shape) * (n > 0)):
        assert photon_gain(stored(intensities), GOOD).value is None


def test_a_scan_of_counts_over_a_flat_field_is_one_of_counts():
    rng = np.random.default_rng(6)
    flat = 1 + 0.03 * rng.normal(size=(N, N))
    intensities = (rng.poisson(flat * means(1e4)) / flat).astype(np.float32)
    raw = raw_scan(intensities, rng.uniform(0, 30, (J, 2)), domain="intensity")
    scan = interpret(raw, DataConfig(file=("x",)))
    told = next(one for one in scan.findings if one.what == "photon gain")
    assert scan.counts and float(told.value) == pytest.approx(1, abs=0.01) and "data.keys.flat" in told.why
    blind = replace(raw, flat=np.where(np.arange(N) < 3, 0.0, 1.0) * np.ones((N, 1)))
    assert not interpret(blind, DataConfig(file=("x",))).detector.good[:, :3].any()


def test_interpolated_counts_are_none():
    n = counts(1e5)
    between = (n + np.roll(n, 1, axis=2)) / 2
    twice = np.repeat(np.repeat(n[:, :32, :32], 2, axis=1), 2, axis=2)
    for intensities in (between, twice):
        assert photon_gain(intensities, GOOD).value is None


def test_little_data_tells_nothing():
    for n in (np.zeros((3, N, N)), counts(1e4)[:1, :20, :20], np.ones((3, N, N)), counts(1e4)[:, :2]):
        assert photon_gain(n, np.ones(n.shape[1:], bool)).value is None


def test_the_quantum_is_the_largest_common_one():
    assert quantum(np.repeat(np.arange(20.0, 60.0, 2), 100)) == pytest.approx(2)
    assert quantum(np.repeat(0.3 * np.array([6.0, 10, 15, 21, 35, 14]), 300)) == pytest.approx(0.3)
    assert quantum(np.random.default_rng(0).uniform(0, 100, 5000)) is None


def test_the_noise_of_photons_is_one_and_of_steps_their_number():
    n = np.random.default_rng(0).poisson(np.geomspace(0.5, 200, J)[:, None, None], (J, N, N))
    np.testing.assert_allclose(noise_ratios(n, GOOD), 1, atol=0.08)
    np.testing.assert_allclose(noise_ratios(4 * n, GOOD)[-3:], 4, rtol=0.1)
    smooth = np.full((J, N, N), 3.0) * np.arange(1, J + 1)[:, None, None]
    assert max(noise_ratios(smooth, GOOD)) == 0


# ---- in a scan


def raw(frames, domain, **changes):
    rows, cols = np.divmod(np.arange(J), 8)
    positions = np.stack([4.0 * rows, 4.0 * cols], axis=1)
    probe = np.exp(-(np.hypot(*np.ogrid[-32:32, -32:32]) ** 2) / 50).astype(np.complex64)[None]
    return raw_scan(frames, positions, **({"domain": domain, "probe": probe} | changes))


def interpreted(scan, **stated):
    return interpret(scan, DataConfig(file="scan", N=N, hot_pixels=False, **stated))


def gain_of(scan):
    return next(finding for finding in scan.findings if finding.what == "photon gain")


@pytest.mark.parametrize("domain", ["intensity", "amplitude"])
def test_a_gain_that_is_clear_makes_counts_of_intensities(domain, tmp_path):
    n = counts(1e5)
    frames = (0.37 * n if domain == "intensity" else np.sqrt(0.37 * n)).astype(np.float32)
    scan = interpreted(raw(frames, domain))
    assert scan.counts and scan.detector.gain == pytest.approx(0.37, rel=1e-6)
    assert gain_of(scan).value == "0.37" and "set data.gain=… to change it" in gain_of(scan).why
    np.testing.assert_allclose(scan.patterns(slice(0, 3)) ** 2, n[:3], rtol=1e-5)
    _, data, _ = make_dataset(scan, ScanRunConfig(data=DataConfig(file="scan", N=N)), tmp_path)
    assert data.counts


@pytest.mark.parametrize("changes", [{}, {"dark": np.ones((N, N))}, {"flat": np.ones((N, N))}])
def test_a_gain_that_is_not_clear_is_asked_for(changes, tmp_path):
    frames = (0.37 * counts(1e5) if changes else means(1e5)).astype(np.float32)
    scan = interpreted(raw(frames, "intensity", **changes))
    assert not scan.counts and scan.detector.gain == 1
    assert gain_of(scan).value == "unknown"
    assert "patterns are not taken as counts; set data.gain=… if they are" in gain_of(scan).why
    _, data, _ = make_dataset(scan, ScanRunConfig(data=DataConfig(file="scan", N=N)), tmp_path)
    assert not data.counts


def test_a_stated_gain_stands_and_counts_have_none_to_be_found():
    n = counts(1e5)
    scan = interpreted(raw((0.37 * n).astype(np.float32), "intensity"), gain=0.74)
    assert scan.counts and scan.detector.gain == 0.74 and gain_of(scan).why == "data.gain"
    scan = interpreted(raw(n.astype(np.uint16), "counts"))
    assert scan.counts and scan.detector.gain == 1
    assert not any(finding.what == "photon gain" for finding in scan.findings)
