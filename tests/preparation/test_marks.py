"""Marker values in place of counts, by pixel and by frame, also in frames that are not inspected."""

import numpy as np
import pytest
from helpers.scans import raw_scan

from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.preparation.dataset import make_dataset
from ptycho.preparation.pixels import dark_gaps
from ptycho.preparation.prepare import interpret

H, W, J = 40, 48, 100
ROWS, COLS = np.indices((H, W)) - np.array([20, 24])[:, None, None]
SPOT = 400 * np.exp(-(ROWS**2 + 1.3 * COLS**2) / 60)


def counts():
    rng = np.random.default_rng(0)
    return rng.poisson(SPOT * rng.uniform(0.6, 1.4, (J, 1, 1))).astype(np.float64)


def scan_of(frames, **changes):
    positions = 3.0 * np.stack(np.divmod(np.arange(len(frames)), 10), axis=1)
    raw = raw_scan(frames, positions)
    return interpret(raw, DataConfig(file="scan", N=32, **changes))


@pytest.mark.parametrize(
    ("dtype", "mark"),
    [
        ("u2", 65534), ("u4", 2**32 - 2), ("i4", 2**31 - 1), ("f4", 2**32 - 1), ("u8", 2**64 - 1)
    ],
)  # fmt: skip
def test_a_wide_gap_of_marks(dtype, mark):
    frames = counts()
    frames = frames.astype(dtype)
    gap = np.zeros((H, W), bool)
    gap[30:34] = gap[:, 20:24] = True
    frames[:, gap] = np.array(mark).astype(dtype)
    scan = scan_of(frames)
    np.testing.assert_array_equal(~scan.detector.good, gap)
    assert scan.mean.max() < 800 and not scan.warnings


def test_a_count_of_65535_in_some_frames_is_one():
    frames = counts().astype("u4")
    frames[::20, 20, 24] = 65535
    assert scan_of(frames, hot_pixels=False).detector.good.all()


def test_a_gap_of_zeros_wider_than_two_pixels():
    gap = np.zeros((H, W), bool)
    gap[14:18] = gap[:, 27:31] = True
    frames = counts()
    frames[:, gap] = 0
    np.testing.assert_array_equal(~scan_of(frames).detector.good, gap)
    assert scan_of(frames, hot_pixels=False).detector.good.all()
    block = np.zeros((H, W), bool)
    block[18:22, 22:26] = True
    np.testing.assert_array_equal(dark_gaps(np.where(block, 0, counts()), np.ones((H, W), bool)), block)


def test_every_frame_counts_for_saturation(tmp_path):
    """A saturated pixel of one frame that was not inspected is bad in all, and the log names the frame."""
    frames = counts().astype("i4")
    frames[2, 19:21, 23:26] = 5000
    scan = scan_of(frames, saturation=5000)
    assert scan.detector.good.all()
    _, data, found = make_dataset(scan, ScanRunConfig(data=DataConfig(file="scan", N=32)), tmp_path)
    assert data.good is not None and np.count_nonzero(~data.good) == 6
    assert not data.amplitudes[:][:, ~data.good].any()
    text = next(str(finding) for finding in found if finding.what == "more bad pixels")
    assert "6 saturated (data.saturation=5000)" in text and "data.drop=[2]" in text


@pytest.mark.parametrize("mark", [np.nan, 2**32 - 1])
@pytest.mark.parametrize("lost", [[2], [0, 2, 50]])
def test_lost_frames_are_all_named_at_once(tmp_path, mark, lost):
    frames = counts()
    frames[lost] = mark
    match = rf"data\.drop=\[{','.join(map(str, lost))}\]"
    with pytest.raises(ConfigError, match=match):
        scan_of(frames).copied(tmp_path)
    scan, copy = scan_of(frames, drop=tuple(lost)).copied(tmp_path)
    assert len(copy) == J - len(lost) and scan.detector.good.all()


def test_a_flat_field_of_zero_is_a_bad_pixel():
    flat = np.full((H, W), 2.0)
    flat[5, 6], flat[7, 8] = 0, 3.0
    positions = 3.0 * np.stack(np.divmod(np.arange(J), 10), axis=1)
    raw = raw_scan(counts(), positions, flat=flat)
    scan = interpret(raw, DataConfig(file="scan", N=32))
    assert np.argwhere(~scan.detector.good).tolist() == [[5, 6]]
    assert any("divided by a flat field" in str(finding) for finding in scan.findings)
