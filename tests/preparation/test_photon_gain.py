"""The intensity of one photon: found only if patterns are photon counts times a number."""

import re

import numpy as np
import pytest
from helpers.scans import finding_on, raw_scan
from scipy.ndimage import gaussian_filter

from ptycho.config import ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.preparation.dataset import make_dataset
from ptycho.preparation.numbers import photon_gain, quantum
from ptycho.preparation.prepare import interpret

N, J = 64, 40
GOOD = np.ones((N, N), bool)


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
@pytest.mark.parametrize(("width", "gain"), [(3.0, 0.37), (8.0, 1234.5)])
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


@pytest.mark.parametrize("curvature", [0.0, 0.05])
@pytest.mark.parametrize("photons", [3e2, 1e8])
@pytest.mark.parametrize("width", [3.0, 14.0])
def test_patterns_without_noise_have_no_photons(photons, width, curvature):
    """The patterns are stored without rounding, and in steps of 1, 0.01 and 7."""
    mean = means(photons, width, curvature=curvature)
    for intensities in (mean, np.rint(mean), np.floor(mean), np.round(mean, 2), 0.37 * np.rint(mean / 7)):
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
    reported = float(re.search(r"± ([\d.]+) %", found.why)[1])
    assert reported == pytest.approx(100 * spread, rel=0.1)


def test_the_quantum_is_the_largest_common_one():
    assert quantum(np.repeat(np.arange(20.0, 60.0, 2), 100)) == pytest.approx(2)
    assert quantum(np.repeat(0.3 * np.array([6.0, 10, 15, 21, 35, 14]), 300)) == pytest.approx(0.3)
    assert quantum(np.random.default_rng(0).uniform(0, 100, 5000)) is None


def raw(frames, domain, **changes):
    rows, cols = np.divmod(np.arange(J), 8)
    positions = np.stack([4.0 * rows, 4.0 * cols], axis=1)
    probe = np.exp(-(np.hypot(*np.ogrid[-32:32, -32:32]) ** 2) / 50).astype(np.complex64)[None]
    return raw_scan(frames, positions, **({"domain": domain, "probe": probe} | changes))


def interpreted(scan, **stated):
    return interpret(scan, DataConfig(file="scan", N=N, hot_pixels=False, **stated))


@pytest.mark.parametrize("domain", ["intensity", "amplitude"])
def test_a_gain_that_is_clear_makes_counts_of_intensities(domain, tmp_path):
    n = counts(1e5)
    frames = (0.37 * n if domain == "intensity" else np.sqrt(0.37 * n)).astype(np.float32)
    scan = interpreted(raw(frames, domain))
    assert scan.counts and scan.detector.gain == pytest.approx(0.37, rel=1e-6)
    finding = finding_on(scan, "photon gain")
    assert finding.value == "0.37" and "set data.gain=… to change it" in finding.why
    np.testing.assert_allclose(scan.patterns(slice(0, 3)) ** 2, n[:3], rtol=1e-5)
    _, data, _ = make_dataset(scan, ScanRunConfig(data=DataConfig(file="scan", N=N)), tmp_path)
    assert data.counts


def test_marks_of_single_frames_do_not_hide_the_gain():
    frames = (0.37 * counts(1e5)).astype(np.float32)
    frames[np.random.default_rng(1).random(frames.shape) < 0.05] = 2**32 - 1
    scan = interpreted(raw(frames, "intensity"))
    assert scan.counts and scan.detector.gain == pytest.approx(0.37, rel=1e-6)
    assert float(re.search(r"largest of some ([\d.e+]+)", finding_on(scan, "patterns").why)[1]) < 1e6


@pytest.mark.parametrize("changes", [{}, {"dark": np.ones((N, N))}, {"flat": np.ones((N, N))}])
def test_an_uncertain_gain_must_be_specified(changes, tmp_path):
    frames = (0.37 * counts(1e5) if changes else means(1e5)).astype(np.float32)
    scan = interpreted(raw(frames, "intensity", **changes))
    assert not scan.counts and scan.detector.gain == 1
    finding = finding_on(scan, "photon gain")
    assert finding.value == "unknown" and "patterns are not taken as counts; set data.gain=…" in finding.why
    _, data, _ = make_dataset(scan, ScanRunConfig(data=DataConfig(file="scan", N=N)), tmp_path)
    assert not data.counts
