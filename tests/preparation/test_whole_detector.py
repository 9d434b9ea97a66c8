"""Patterns hold all that the detector measured, for any size and any zero frequency."""

import numpy as np
import pytest
from helpers.scans import METRES, raw_scan

from ptycho.config import ConfigError, ScanRunConfig, UNetModel, UnrolledModel
from ptycho.config.data import DataConfig
from ptycho.preparation.dataset import make_dataset
from ptycho.preparation.prepare import interpret
from ptycho.preparation.window import finer_pixels, whole_detector
from ptycho.run import scan_plan

J = 12


def raw(shape, centre=None, **changes):
    """Return different frames with a spot at the specified ``centre``."""
    rng = np.random.default_rng(0)
    rows, cols = np.indices(shape)
    middle = (shape[0] // 2, shape[1] // 2) if centre is None else centre
    spot = 90 * np.exp(-((rows - middle[0]) ** 2 + (cols - middle[1]) ** 2) / 30)
    frames = (1 + rng.poisson(spot * rng.uniform(0.7, 1.3, (J, 1, 1)))).astype(np.uint16)
    grid = np.stack(np.divmod(np.arange(J), 4), axis=1).astype(float)
    return raw_scan(frames, 2e-7 * grid, **(METRES | {"zero_frequency": middle} | changes))


def config(**changes):
    return DataConfig(file="scan", **({"hot_pixels": False} | changes))


@pytest.mark.parametrize(
    ("shape", "centre", "b", "N"),
    [
        ((62, 62), (31, 31), 1, 62),  # 2·31: no fast transform, but exact
        ((64, 64), (31, 32), 1, 66),  # from −31 to 32: 33 on either side
        ((64, 64), (31, 30), 1, 70),  # 68 = 4·17 has no fast transform
        ((100, 100), (49, 50), 1, 108),  # 102 = 6·17, 104 = 8·13, 106 = 2·53
        ((9, 12), (4, 6), 1, 16),
    ],
)
def test_the_smallest_window_with_the_whole_detector(shape, centre, b, N):
    window = whole_detector(np.ones(shape), centre, b)
    assert window.N == N and window.warning is None
    assert str(shape[0]) in window.why


@pytest.mark.parametrize(
    ("edge", "ratio", "warned"), [(0.5, 4, True), (0.5, 1.5, False), (0.05, 4, False), (0.5, 1, False)]
)
def test_intensity_that_falls_off_to_the_edge_asks_for_finer_pixels(edge, ratio, warned):
    """The mean pattern has ``edge`` photons at the rim, and ``ratio`` times as many six pixels inside.

    Intensity that is equal further inside is a background; very little is harmless.
    """
    rows, cols = np.indices((48, 64))
    mean = edge * ratio ** (np.minimum(np.minimum(rows, 47 - rows), np.minimum(cols, 63 - cols)) / 6)
    found = finer_pixels(mean, np.ones(mean.shape, bool), 64)
    assert (found is not None) == warned
    if warned:
        assert found.value == "0.5 photons in a pixel" and "data.N=90" in found.why


@pytest.mark.parametrize(("shape", "centre"), [((33, 33), None), ((31, 24), (17, 11))])
def test_every_pixel_that_was_measured_is_in_the_pattern(tmp_path, shape, centre):
    source = raw(shape, centre)
    scan = interpret(source, config())
    counts = source.patterns.array
    amplitudes = scan.patterns(np.arange(J))
    sums = np.square(amplitudes, dtype=float).sum(axis=(1, 2))
    np.testing.assert_allclose(sums, counts.sum(axis=(1, 2)), rtol=1e-6)
    assert scan.detector.good_pixels.sum() == shape[0] * shape[1] < scan.N**2
    assert not amplitudes[:, ~scan.detector.good_pixels].any()
    middle = (shape[0] // 2, shape[1] // 2) if centre is None else centre
    np.testing.assert_allclose(amplitudes[:, scan.N // 2, scan.N // 2] ** 2, counts[:, *middle], rtol=1e-6)
    _, data, _ = make_dataset(scan, ScanRunConfig(data=config()), tmp_path)
    assert (data.normalised(np.arange(J))[:, ~data.good] == -1).all()


@pytest.mark.parametrize("probed", [True, False])
def test_a_probe_as_large_as_the_frame_says_that_the_middle_is_the_centre(probed):
    """The beam is seen at (31, 32) of 64 × 64."""
    probe = np.ones((1, 64, 64), np.complex64) if probed else None
    scan = interpret(raw((64, 64), (31, 32), zero_frequency=None, probe=probe), config())
    side = 64 if probed else 66
    assert side == scan.N
    assert any("as in the probe of the file" in finding.why for finding in scan.findings) == probed


@pytest.mark.parametrize(("N", "fitting"), [(100, "data.N=96 or data.N=104"), (18, "data.N=16 or data.N=20")])
def test_a_network_that_cannot_take_such_patterns_names_sides_that_it_can(monkeypatch, N, fitting):
    source = raw((N, N), (N // 2, N // 2))
    monkeypatch.setattr(scan_plan, "open_raw", lambda section: source)
    with pytest.raises(ConfigError, match=rf"model=unet: cannot take patterns of {N} × {N}.*{fitting}"):
        scan_plan.plan(ScanRunConfig(data=config(), model=UNetModel()))
    scan_plan.plan(ScanRunConfig(data=config(), model=UnrolledModel(), nepochs=1))
    scan_plan.plan(ScanRunConfig(data=config()))
