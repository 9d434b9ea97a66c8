"""A simulated measurement of a sample with finer pixels than the detector resolves, its counts, and lines."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.multislice import BETWEEN, thick_intensity, thick_scan
from scipy.ndimage import gaussian_filter
from scipy.spatial import cKDTree

from ptycho.simulation import measured_like as module
from ptycho.simulation.measured_like import (
    MeasuredLike,
    ScanSettings,
    line_amplitude,
    simulate_measured_like,
)


def scan_of(sample, probe, positions, q=2, **changes):
    N = len(probe)
    good, hot = np.ones((N, N), bool), np.zeros((N, N), bool)
    made = MeasuredLike(sample, probe, np.asarray(positions, float), q, 1e4, good, hot)
    return replace(made, **changes)


@pytest.mark.parametrize(("N", "q", "M"), [(8, 2, 13), (6, 3, 11), (5, 2, 9)])
def test_between_pixels_the_pattern_is_the_sum_over_the_fine_sample(N, q, M):
    """By brute force: the probe is a trigonometric polynomial at its position, a far-field sample a sum."""
    rng = np.random.default_rng(N)
    sample, probe = (rng.normal(size=(s, s)) + 1j * rng.normal(size=(s, s)) for s in (q * M, N))
    position = np.array([2.3, 1.85])
    k, coarse, fine = np.arange(N) - N // 2, np.arange(N), np.arange(q * N)
    spectrum = sum(
        probe[a, b] * np.outer(np.exp(-2j * np.pi * k * a / N), np.exp(-2j * np.pi * k * b / N))
        for a in coarse
        for b in coarse
    )
    whole = np.rint(q * position).astype(int)
    shift = position - whole / q  # in coarse pixels
    rows, cols = (np.exp(2j * np.pi * np.outer(fine / q - s, k) / N) for s in shift)
    moved = rows @ spectrum @ cols.T / N**2
    wave = moved * sample[whole[0] : whole[0] + q * N, whole[1] : whole[1] + q * N]
    back = np.exp(-2j * np.pi * np.outer(k, fine) / (q * N))
    far = back @ wave @ back.T / (q**2 * N)
    seen = scan_of(sample, probe, [position], q).intensities(position[None])[0]
    np.testing.assert_allclose(seen, np.abs(far) ** 2, rtol=1e-9)


def test_slices_by_loops():
    """At the pixels of the object; at finer pixels, slices without a distance are their product."""
    scan, slices = thick_scan(modes=1)
    made = scan_of(slices, scan.modes[0], scan.positions, 1, between=BETWEEN)
    expected = [thick_intensity(slices, scan.modes, r) for r in scan.positions]
    found = np.fft.ifftshift(made.intensities(made.positions), axes=(1, 2))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9 * np.max(expected))
    fine = np.kron(slices, np.ones((2, 2)))
    thin = scan_of(fine.prod(axis=0), scan.modes[0], scan.positions)
    thick = scan_of(fine, scan.modes[0], scan.positions, between=replace(BETWEEN, length=0.0))
    np.testing.assert_allclose(thick.intensities(made.positions), thin.intensities(made.positions), rtol=1e-9)
    np.testing.assert_allclose(thick.object, thin.object, rtol=1e-9)


SETTINGS = ScanSettings(N=32, n_positions=60, nphotons=5e5, seed=3)


@pytest.fixture(scope="module")
def made():
    grid = np.arange(32) - 16
    probe = np.exp(-(grid[:, None] ** 2 + grid**2) / 60 * (1 - 0.8j))
    return simulate_measured_like(SETTINGS, probe)


def counts(made, stream=0):
    return np.concatenate([*made.counts(np.random.default_rng(stream))])


def test_counts_are_those_of_poisson_around_the_expected_ones(made):
    n, expected = counts(made), made.scale * made.intensities(made.positions)
    assert n.dtype == np.uint32 and n.shape == (60, 32, 32)
    assert expected.sum(axis=(1, 2)).mean() == pytest.approx(5e5)  # of 60 ≤ 64 patterns
    assert n.sum(axis=(1, 2)).mean() == pytest.approx(5e5, abs=5 * np.sqrt(5e5 / 60))
    bright = expected > 20
    z = (n[bright] - expected[bright]) / np.sqrt(expected[bright])
    assert bright.sum() > 5000
    assert abs(z.mean()) < 5 / np.sqrt(z.size) and abs(z.var() - 1) < 5 * np.sqrt(2 / z.size)


def test_a_seed_gives_the_same_scan_however_it_is_cut_into_chunks(made):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    again = simulate_measured_like(SETTINGS, made.probe)
    np.testing.assert_array_equal(again.sample, made.sample)
    np.testing.assert_array_equal(again.positions, made.positions)
    whole = counts(made)
    blocks = list(made.counts(np.random.default_rng(0), most=7 * 64**2))
    assert [len(block) for block in blocks] == [7] * 8 + [4]
    np.testing.assert_array_equal(np.concatenate(blocks), whole)
    other = simulate_measured_like(replace(SETTINGS, seed=4), made.probe)
    assert not np.array_equal(other.sample, made.sample[: len(other.sample), : len(other.sample)])
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("path", module.PATHS)
def test_positions_are_irregular_and_as_dense_as_specified(path):
    rng = np.random.default_rng(1)
    places = module.PATHS[path](2000, 4.0, rng)
    nearest = cKDTree(places).query(places, k=2)[0][:, 1]
    assert places.shape == (2000, 2) and nearest.min() > 1.0 and 2.4 < np.median(nearest) < 4.2
    middle = places - (places.max(axis=0) + places.min(axis=0)) / 2
    inner = np.abs(middle).max(axis=1) < 50
    assert inner.sum() == pytest.approx(100**2 / 4.0**2, rel=0.05)
    assert np.abs(places - np.rint(places)).max() > 0.4


def test_canvas_is_cropped_to_its_centre_rows_before_columns():
    class ShortLine:
        """A vertical segment, rows 30–50 of column 55 on the canvas of 80: rows 10–30, column 35."""

        @staticmethod
        def integers(low, high, shape):
            return np.array([[30, 55, 50, 55]])

    canvas = np.zeros((80, 80))
    canvas[30:51, 55] = 1
    blurred = sum(w * gaussian_filter(canvas, s) for s, w in ((1, 1), (5, 2), (10, 5)))[20:60, 20:60]
    amplitude = line_amplitude(40, 1, ShortLine)
    np.testing.assert_allclose(amplitude, blurred / blurred.max(), atol=1e-12)
    assert np.unravel_index(amplitude.argmax(), amplitude.shape) == (20, 35)
