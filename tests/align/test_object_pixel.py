"""Finer object pixels are selected where the object is finer than those of the detector, and only then."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.large_patterns import far_of, wave

import ptycho
from ptycho.align import object_pixel
from ptycho.align.aligned import RunContext, read
from ptycho.align.geometry import Alternative
from ptycho.align.object_pixel import PixelTrial, may_be_finer, refine_pixel, try_finer_pixels
from ptycho.config import OwnProbe, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.preparation.start import FINER_PIXELS
from ptycho.preparation.window import AT_EDGE
from ptycho.reconstruction.estimate import Refine
from ptycho.scan.comparison import Comparison
from ptycho.scan.finding import Finding

N, FINE, ACROSS = 20, 28, 6  # FINE: what 1.4 times N is
PHOTONS = 1e6


def probe(side):
    """The same wave on ``side × side`` pixels of one window: a Gaussian of 1/5, slightly convergent."""
    axis = (np.arange(side) - side // 2) / side
    rho = axis[:, None] ** 2 + axis**2
    return np.exp(-rho / (2 * 0.1**2) + 20j * rho)


def scan(highest, seed=3):
    """Counts by NumPy, of an object on the finer pixels; ``highest``: its frequencies, cycles per pixel."""
    places = 7 * np.stack(np.mgrid[:ACROSS, :ACROSS], -1).reshape(-1, 2)  # 5 pixels of the detector
    object_ = 1 + 0.7 * wave(FINE + places.max() + 1, highest, seed)
    low = (FINE - N) // 2
    patterns = np.stack(
        [
            np.abs(far_of(probe(FINE) * object_[r : r + FINE, c : c + FINE]))[low:-low, low:-low] ** 2
            for r, c in places
        ]
    )
    counts = np.random.default_rng(seed).poisson(PHOTONS * patterns / patterns.sum((1, 2)).mean())
    return ptycho.Scan.from_arrays(counts, places * (N / FINE), probe(N), counts=True)


@pytest.fixture
def aligned(tmp_path):
    def run(given, **changes):
        config = replace(ScanRunConfig(data=replace(given.data, N=None)), **changes)
        return read(given.geometry, config, RunContext(tmp_path))

    return run


@pytest.mark.parametrize(("highest", "finer"), [(0.5, True), (0.12, False)])
def test_an_object_that_is_finer_than_its_pixels(aligned, highest, finer):
    """With .12 cycles per fine pixel the waves reach 3 samples beyond the probe's 5; the detector has 10."""
    trial = try_finer_pixels(aligned(scan(highest)).data, FINE, Refine(), 0)
    assert trial.gain.passes(object_pixel.PixelOptions().rule) == finer
    assert 0 < trial.deviance < 5 and trial.held_out == "photons"


@pytest.fixture
def chosen(monkeypatch):
    """Replace the trial by a gain."""

    def set_gain(gain):
        trial = PixelTrial(Comparison(gain, 0.01), 1.5, "patterns")
        monkeypatch.setattr(object_pixel, "try_finer_pixels", lambda *arguments: trial)

    return set_gain


def test_the_scan_is_read_with_its_map_and_probe(aligned, chosen, tmp_path):
    chosen(0.1)
    other = Alternative(np.eye(2), probe(N).astype(np.complex64), False, Finding("a", "b"), Finding("c", "d"))
    before = aligned(scan(0.5))
    before = before.mapped(np.diag([1.25, 1.0]), np.roll(before.data.probe[0], 2, 0))
    after = refine_pixel(replace(before, alternative=other), RunContext(tmp_path))
    assert after.config.data.N == after.data.N == FINE
    assert after.decisions[-1].what == FINER_PIXELS and after.decisions[-1].value == f"data.N={FINE}"
    assert "1.5000 → 1.3573 ± 0.0136" in after.decisions[-1].why
    for positions in (after.data.positions, after.scan.positions):
        steps = np.diff(before.data.positions, axis=0) * FINE / N
        np.testing.assert_allclose(np.diff(positions, axis=0), steps, atol=1e-4)
    assert after.data.good.sum() == N**2
    low = (FINE - N) // 2
    np.testing.assert_array_equal(after.data.amplitudes[:][:, low:-low, low:-low], before.data.amplitudes[:])
    rolled = far_of(after.data.probe[0])[low:-low, low:-low]
    np.testing.assert_allclose(rolled, far_of(before.data.probe[0]), atol=1e-3 * np.abs(rolled).max())
    assert after.alternative.probe.shape == (FINE, FINE)


def test_without_a_clear_gain_nothing_changes(aligned, chosen, tmp_path):
    chosen(0.005)
    before = aligned(scan(0.5))
    after = refine_pixel(before, RunContext(tmp_path))
    assert after.data is before.data and after.decisions[-1].value == "not used"


def test_only_an_open_far_field_with_intensity_at_the_edge_is_tried(aligned):
    given = aligned(scan(0.5))
    there = Finding(AT_EDGE, "1 photons in a pixel")
    bright = replace(given, scan=replace(given.scan, decisions=(there,)))
    assert may_be_finer(bright) and not may_be_finer(given)
    for changes in (
        {"models": ("lsqml",)},
        {"data": DataConfig(file=("x",), N=N)},
        {"probe": OwnProbe(mask_diameter_px=9.0)},
    ):
        assert not may_be_finer(replace(bright, config=replace(bright.config, **changes)))
