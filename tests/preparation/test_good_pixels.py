"""Excluded pixels and frames: drawn defects, marks, and intensity that resembles one."""

import logging

import numpy as np
import pytest
from helpers.cli import ROOT
from helpers.scans import finding_on, raw_scan

from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.preparation.dataset import make_dataset
from ptycho.preparation.pixels import dark_gaps, saturates
from ptycho.preparation.prepare import interpret
from ptycho.readers.table import open_raw

H, W, J = 41, 48, 40
MANY = 100  # more frames than are inspected
CENTRE = (H // 2, W // 2)
ROWS, COLS = np.indices((H, W)) - np.array(CENTRE)[:, None, None]
SPOT = np.exp(-(ROWS**2 + 1.3 * COLS**2) / 40)


def counts(photons=300.0, seed=0, count=J):
    """Return the photons of some frames: a spot in the middle, of varying intensity."""
    intensity = photons * SPOT * np.random.default_rng(seed).uniform(0.6, 1.4, (count, 1, 1))
    return np.random.default_rng(seed + 1).poisson(intensity).astype(float)


def raw(frames, domain="counts", zero="centre", **changes):
    positions = 3.0 * np.stack(np.divmod(np.arange(len(frames)), 8), axis=1)
    return raw_scan(frames, positions, domain=domain, zero_frequency=zero, **changes)


def config(**changes):
    return DataConfig(file="scan", **({"N": 32} | changes))


def read(frames, **changes):
    return interpret(raw(frames), config(**changes))


def bad(frames, scan=None, **changes):
    found = interpret(scan or raw(frames), config(**changes))
    return np.argwhere(~found.detector.good).tolist()


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("zero", ["centre", None, "corner"])
def test_a_beam_of_one_pixel_stays(steady, zero):
    """Most of the intensity in the zero frequency, with or without changes over the scan."""
    frames = counts(3.0)
    strength = 3e3 if steady else np.random.default_rng(5).exponential(3e3, J)
    frames[:, CENTRE[0], CENTRE[1]] = np.random.default_rng(4).poisson(strength, J)
    frames = np.fft.ifftshift(frames, axes=(1, 2)) if zero == "corner" else frames
    assert bad(frames, raw(frames, zero=zero)) == []


def test_the_spots_of_a_lattice_stay():
    """Orders of a crystal under a wide probe: one pixel each, as bright in all frames, in pairs."""
    frames = counts(3.0)
    for row, col in ((8, 5), (-8, -5), (3, -11), (-3, 11)):
        frames[:, CENTRE[0] + row, CENTRE[1] + col] = np.random.default_rng(row + 9).poisson(400, J)
    assert bad(frames) == []


@pytest.mark.shared
@pytest.mark.parametrize("name", ["lily_4", "cameraman_3"])
def test_a_public_benchmark_keeps_its_intensity_and_its_frames(name, tmp_path, caplog):
    """Up to four fifths of the photons lie in the zero frequency; up to a sixth of the frames are dark."""
    path = ROOT.parent / f"shared/data/ptychoep/ep_{name}_s0_pub.npz"
    data = DataConfig(file=str(path), domain="amplitude")
    scan = interpret(open_raw(data), data)
    assert scan.detector.good.all() and not scan.warnings
    _, dataset, found = make_dataset(scan, ScanRunConfig(data=data), tmp_path)
    assert len(dataset.amplitudes) == scan.raw.patterns.shape[0] and not caplog.messages
    assert not any(finding.what == "frames dropped" for finding in found)


@pytest.mark.parametrize("zero", ["centre", None, "corner"])
def test_hot_and_dead_pixels_are_found_and_no_others(zero):
    """Hot: one in a dark, one in a bright region; dead: in a bright region; dark in the dark is no sign."""
    frames, rng = counts(), np.random.default_rng(7)
    frames[:, 5, 40] = rng.poisson(60, J)
    frames[:, CENTRE[0] + 3, CENTRE[1] + 5] += rng.poisson(4000, J)
    frames[:, CENTRE[0], CENTRE[1] - 3] = 0
    frames[:, 3, 3] = 0
    frames = np.fft.ifftshift(frames, axes=(1, 2)) if zero == "corner" else frames
    scan = interpret(raw(frames, zero=zero), config())
    masked = np.zeros((H, W), bool)
    masked[5, 40] = masked[CENTRE[0] + 3, CENTRE[1] + 5] = masked[CENTRE[0], CENTRE[1] - 3] = True
    masked = np.fft.ifftshift(masked) if zero == "corner" else masked
    np.testing.assert_array_equal(~scan.detector.good, masked)
    assert "2 hot in the data, " in str(finding_on(scan, "bad pixels"))
    assert bad(frames, raw(frames, zero=zero), hot_pixels=False) == []


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_read_noise_is_noise(dtype, tmp_path):
    """σ = 2 about counts, in float and rounded: every pixel stays, and the likelihood is not Poisson's."""
    noise = np.random.default_rng(3).normal(0, 2, (J, H, W))
    frames = counts() + noise if dtype == np.float32 else np.rint(counts() + noise)
    scan = interpret(raw(frames.astype(dtype)), config())
    assert scan.detector.good.all() and not scan.counts and not scan.warnings
    assert float(str(finding_on(scan, "read noise")).split("≈ ")[1].split()[0]) == pytest.approx(2, rel=0.25)
    assert scan.limits.lowest == pytest.approx(-20, rel=0.25)  # ten standard deviations: no noise
    assert "Gaussian" in str(finding_on(scan, "photon gain"))
    _, data, _ = make_dataset(scan, ScanRunConfig(data=config()), tmp_path)
    assert data.good is None and not data.counts and np.asarray(data.amplitudes).min() == 0
    assert interpret(raw(frames.astype(dtype)), config(gain=1.0)).counts
    assert len(bad(frames.astype(dtype), negative="bad")) > 0.5 * H * W


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
@pytest.mark.parametrize("number", [-2, -1e6])
@pytest.mark.parametrize("every", [1, 8])
def test_marks_below_zero_are_bad_pixels(dtype, number, every):
    frames = counts().astype(dtype)
    frames[::every, :, 30:32] = number
    scan = interpret(raw(frames), config())
    expected = np.zeros((H, W), bool)
    expected[:, 30:32] = True
    np.testing.assert_array_equal(~scan.detector.good, expected)
    assert scan.counts and f"{2 * H} below zero" in str(finding_on(scan, "bad pixels"))


def kept(frames, tmp_path, **changes):
    data = config(**changes)
    return make_dataset(interpret(raw(frames), data), ScanRunConfig(data=data), tmp_path)[1:]


def test_a_frame_behind_an_opaque_part_of_the_sample_stays(tmp_path, caplog):
    frames = counts() + np.random.default_rng(8).poisson(0.02, (J, H, W))
    rng = np.random.default_rng(9)
    frames[7], frames[20] = rng.poisson(3 * SPOT), rng.poisson(0.05, (H, W))
    caplog.set_level(logging.WARNING)
    data, found = kept(frames, tmp_path)
    assert len(data.amplitudes) == J - 1
    finding = finding_on(found, "frames dropped")
    assert finding.value == "1 of 40" and "no beam in 20, " in finding.why
    assert "% of the intensity; data.dark_frames=0 keeps" in finding.why
    assert len([line for line in caplog.messages if "frames dropped" in line]) == 1  # 2.5 % of them
    assert len(kept(frames, tmp_path, dark_frames=0.0)[0].amplitudes) == J


@pytest.mark.parametrize(
    ("dtype", "mark"),
    [("u2", 65534), ("u4", 2**32 - 2), ("i4", 2**31 - 1), ("f4", 2**32 - 1), ("u8", 2**64 - 1)],
)
def test_a_wide_gap_of_marks(dtype, mark):
    frames = counts(count=MANY).astype(dtype)
    gap = np.zeros((H, W), bool)
    gap[30:34] = gap[:, 20:24] = True
    frames[:, gap] = np.array(mark).astype(dtype)
    scan = read(frames)
    np.testing.assert_array_equal(~scan.detector.good, gap)
    assert scan.mean.max() < 800 and not scan.warnings


def test_a_count_of_65535_in_some_frames_is_one():
    frames = counts(count=MANY).astype("u4")
    frames[::20, 20, 24] = 65535
    assert read(frames, hot_pixels=False).detector.good.all()


def test_a_gap_of_zeros_wider_than_two_pixels():
    gap = np.zeros((H, W), bool)
    gap[14:18] = gap[:, 27:31] = True
    frames = counts(count=MANY)
    frames[:, gap] = 0
    np.testing.assert_array_equal(~read(frames).detector.good, gap)
    assert read(frames, hot_pixels=False).detector.good.all()
    block = np.zeros((H, W), bool)
    block[18:22, 22:26] = True
    np.testing.assert_array_equal(dark_gaps(np.where(block, 0, counts()), np.ones((H, W), bool)), block)


def test_a_round_beam_stop_is_a_gap_and_a_hole_of_the_pupil_is_none():
    rows, cols = np.ogrid[:H, :W]
    distance, good = np.hypot(rows - CENTRE[0], cols - CENTRE[1]), np.ones((H, W), bool)
    stop, frames = distance < 3.3, counts(100.0)
    np.testing.assert_array_equal(dark_gaps(np.where(stop, 0, frames), good), stop)
    assert not dark_gaps(np.where(stop | (distance > 9), 0, frames), good).any()


@pytest.mark.parametrize("stated", [False, True])
def test_every_frame_counts_for_saturation(stated, tmp_path):
    """A saturated pixel of a frame that was not inspected does not count there; the log names the frame."""
    frames = counts(count=MANY).astype("i4")
    frames[2, 19:21, 23:26] = 5000
    key, of_file = (None, 5000.0) if stated else (5000, None)
    scan = interpret(raw(frames, saturation=of_file), config(saturation=key))
    assert scan.detector.good.all()
    _, data, found = make_dataset(scan, ScanRunConfig(data=config()), tmp_path)
    lacking = data.amplitudes[:] < 0
    assert data.good is None and np.count_nonzero(lacking[2]) == np.count_nonzero(lacking) == 6
    np.testing.assert_allclose(data.amplitudes[:][lacking], -np.sqrt(5000), rtol=1e-6)
    text = str(finding_on(found, "not measured"))
    share = 6 * 5000 / np.square(data.amplitudes[:], dtype=float).sum()
    assert f"6 saturated, from 5000 on; about {100 * share:.2g} % of" in text and "frames 2;" in text


def saturation_of(frames, domain, **keys):
    """The number from which on none counts, and whether there is a warning of it."""
    scan = interpret(raw(frames, domain), config(**keys))
    return scan.limits.saturation, any("the detector saturates" in text for text in scan.warnings)


@pytest.mark.parametrize("domain", ["counts", "amplitude"])
@pytest.mark.parametrize("top", [63, 16383, 39001])
def test_numbers_at_which_intensity_is_cut_do_not_count(domain, top, tmp_path):
    frames = counts(400 if top == 63 else 3e4, count=64)
    whole = np.sqrt(frames) if domain == "amplitude" else frames
    assert saturation_of(whole, domain) == (np.inf, False)
    saturated = frames >= top
    assert 3 < saturated.any(axis=0).sum() < frames[0].size / 2
    cut = np.sqrt(np.minimum(frames, top)) if domain == "amplitude" else np.minimum(frames, top)
    assert saturation_of(cut, domain) == (cut.max(), True)
    assert saturation_of(cut, domain, saturation=2 * cut.max()) == (2 * cut.max(), False)
    keys = config(N=48)
    _, data, found = make_dataset(interpret(raw(cut, domain), keys), ScanRunConfig(data=keys), tmp_path)
    lacking = (data.amplitudes[:] < 0) | ~data.good  # what every frame lacks is bad
    beyond = (48 - H) * 48  # pixels of the pattern that are not on the detector
    np.testing.assert_array_equal(lacking.sum(axis=(1, 2)), saturated.sum(axis=(1, 2)) + beyond)
    assert np.count_nonzero(~data.good) == np.count_nonzero(saturated.all(axis=0)) + beyond
    intensity = np.minimum(frames, top).sum(axis=0)
    hidden = intensity[saturated.mean(axis=0) > 0.9].sum() / intensity.sum()
    flagged = "intensity_unmeasured" in finding_on(found, "not measured").flags
    assert flagged == (hidden > 0.25) == (top == 63)


def test_a_hot_pixel_above_it_does_not_hide_the_saturation():
    frames = np.minimum(counts(3e4, count=64), 16000)
    frames[:, 5, 40] = np.random.default_rng(7).normal(3e4, 3e3, 64).round()
    found = interpret(raw(frames), config())
    assert np.argwhere(~found.detector.good).tolist() == [[5, 40]] and found.limits.saturation == 16000


def test_what_marks_hide_is_guessed_by_the_other_frames(tmp_path):
    """The mean of the frames that have measured the pixel, times the brightness of this one."""
    strength = np.array([1.0, 2.0, 3.0, 2.0])
    frames = (np.round(1000 * SPOT) * strength[:, None, None]).astype("u2")
    whole = read(frames, N=48).copied(tmp_path)[1][:]
    frames[2, 20, 24] = frames[3, 22, 23] = 65535
    scan, copy = read(frames, N=48).copied(tmp_path)
    lacking = copy[:] < 0
    assert np.argwhere(lacking)[:, 0].tolist() == [2, 3] and scan.detector.good.all()
    ratios = [np.mean(strength[others]) / 2 for others in ([0, 1, 3], [0, 1, 2])]  # the mean frame is 2
    np.testing.assert_allclose(copy[:][lacking] ** 2 / whole[lacking] ** 2, ratios, rtol=0.01)


def without_noise():
    """Frames in vacuum are equal, and two of their pixels are the brightest."""
    vacuum = counts(3e4)[:1]
    vacuum[0, [5, 9], 8] = 1.2 * vacuum.max()
    return np.concatenate([np.tile(vacuum, (40, 1, 1)), counts(2e4, count=24)])


@pytest.mark.parametrize(
    "frames",
    [
        np.zeros((J, H, W)),
        counts(3e4, count=64),
        np.minimum(counts(30), 9),
        np.round(counts(3e4) / 4096),
        255.0 * (counts(0.1) > 0),
        100 * np.minimum(counts(300), 20),  # 100 are a photon: of so few, no number is rare
        without_noise(),
    ],
)
def test_other_largest_numbers_are_no_saturation(frames):
    assert not saturates(frames, np.ones((H, W), bool))


@pytest.mark.parametrize("mark", [np.nan, 2**32 - 1])
@pytest.mark.parametrize("lost", [[2], [0, 2, 50]])
def test_lost_frames_are_all_named_at_once(tmp_path, mark, lost):
    frames = counts(count=MANY)
    frames[lost] = mark
    match = rf"{H * W} of the pixels .*data\.drop=\[{','.join(map(str, lost))}\]"
    with pytest.raises(ConfigError, match=match):
        read(frames).copied(tmp_path)
    scan, copy = read(frames, drop=tuple(lost)).copied(tmp_path)
    assert len(copy) == MANY - len(lost) and scan.detector.good.all()


def test_a_flat_field_of_zero_is_a_bad_pixel():
    flat = np.full((H, W), 2.0)
    flat[5, 6], flat[7, 8] = 0, 3.0
    scan = interpret(raw(counts(), flat=flat), config())
    assert np.argwhere(~scan.detector.good).tolist() == [[5, 6]]
    assert any("divided by a flat field" in str(finding) for finding in scan.findings)
