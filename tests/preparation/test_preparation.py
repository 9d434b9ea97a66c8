"""From detector frames, metres and a file's probe to a dataset: against frames and numbers made by hand."""

import numpy as np
import pytest
from helpers import reference
from helpers.scans import METRES, raw_scan

from ptycho.config import ConfigError, RunProbe, ScanRunConfig, ZonePlateProbe
from ptycho.config.data import DataConfig
from ptycho.preparation.dataset import make_dataset, map_positions, probe_of_run
from ptycho.preparation.detector import Detector
from ptycho.preparation.geometry import object_pixel, resampled_probe
from ptycho.preparation.marks import Limits
from ptycho.preparation.numbers import SampleOptions
from ptycho.preparation.prepare import interpret

H, W, J = 45, 52, 60
NO_LIMITS = Limits(np.dtype(float))


def beam(centre, seed=0, count=J, photons=400.0):
    """Counts of a broad spot around ``centre`` on a detector of H × W, differing from frame to frame."""
    rng = np.random.default_rng(seed)
    rows, cols = np.indices((H, W))
    spot = np.exp(-((rows - centre[0]) ** 2 + 1.5 * (cols - centre[1]) ** 2) / 60)
    return rng.poisson(photons * spot * rng.uniform(0.7, 1.3, (count, 1, 1))).astype(np.uint16)


def raw(frames=None, centre=(22, 26), **changes):
    frames = beam(centre) if frames is None else frames
    grid = np.stack(np.meshgrid(np.arange(6), np.arange(10), indexing="ij"), -1).reshape(-1, 2)[: len(frames)]
    axis = np.arange(32) - 16
    probe = np.exp(-(axis[:, None] ** 2 + axis**2) / 40).astype(np.complex64)
    values = METRES | {"zero_frequency": None, "probe": probe[None]}
    return raw_scan(frames, 1e-7 * grid.astype(float), **(values | changes))


def config(**changes):
    return DataConfig(file="scan", **({"N": 32} | changes))


def plain(**changes):
    turned = {"corner": False, "transpose": False, "flip_rows": False, "flip_cols": False}
    values = {"centre": (22, 26), "N": 8, "bin": 1, "good": np.ones((H, W), bool), "dark": None, "flat": None}
    return Detector(**(turned | values | {"domain": "counts", "gain": 1.0} | changes))


def test_a_frame_is_cut_around_its_centre_and_its_counts_become_amplitudes():
    frame = np.arange(H * W).reshape(1, H, W)
    found = plain().amplitudes(frame, NO_LIMITS)
    assert found.shape == (1, 8, 8)
    assert found[0, 4, 4] == np.float32(np.sqrt(22 * W + 26))
    assert found[0, 0, 0] == np.float32(np.sqrt(18 * W + 22))


def test_binning_sums_counts_and_bad_pixels_and_keeps_the_centre_in_the_middle_pixel():
    frame = np.zeros((1, H, W))
    frame[0, 22:24, 26:28] = [[1, 2], [3, 10]]
    found = plain(N=6, bin=2).amplitudes(frame, NO_LIMITS)
    assert found[0, 3, 3] == 4 and np.count_nonzero(found) == 1
    assert np.square(found.astype(float)).sum() == 16
    mask = np.ones((H, W), bool)
    mask[23, 27] = False
    good = plain(N=6, bin=2, good=mask).good_pixels
    assert (~good).sum() == 1 and not good[3, 3]


@pytest.mark.parametrize("bin_", [1, 2])
def test_numbers_beyond_the_limits_are_negative_and_what_is_known_of_them(bin_):
    """A saturated number stands for itself, a mark and an error for nothing; bad pixels stay zero."""
    frame = np.full((2, H, W), 4, np.uint16)
    frame[0, 22, 26], frame[0, 20, 26], frame[0, 22, 24] = 900, 65535, 1
    frame[0, 20, 24] = 900  # of a bad pixel
    good = np.ones((H, W), bool)
    good[20, 24] = False
    limits = Limits(frame.dtype, lowest=2, saturation=900)
    found = plain(bin=bin_, good=good).amplitudes(frame, limits)
    others = 4 * (bin_**2 - 1)
    places = [(4, 4), (4 - 2 // bin_, 4), (4, 4 - 2 // bin_), (4 - 2 // bin_, 4 - 2 // bin_)]
    expected = [-np.sqrt(900 + others), -np.sqrt(others), -np.sqrt(others), np.sqrt(others)]
    np.testing.assert_allclose([found[0][place] for place in places], expected, atol=1e-15, rtol=1e-6)
    assert np.count_nonzero(found < 0) == 3
    assert (found[1] > 0).sum() == found[1].size - (bin_ == 1)


def test_dark_and_flat_and_gain():
    frame = np.full((1, H, W), 50.0)
    dark, flat = np.full((H, W), 10.0), np.full((H, W), 0.5)
    found = plain(dark=dark, flat=flat, gain=20.0, domain="intensity").amplitudes(frame, NO_LIMITS)
    np.testing.assert_allclose(found, 2.0)  # √((50 − 10)/0.5/20)
    half = plain(domain="amplitude").amplitudes(np.full((1, H, W), 300, np.float16), NO_LIMITS)
    np.testing.assert_array_equal(half, np.full((1, 8, 8), 300, np.float32))  # the square is no float16


def test_the_pixel_size_is_lambda_z_over_N_p():
    """8 keV is 0.155 nm; over 2 m and 128 pixels of 75 µm that is 32.28 nm. Binning changes nothing."""
    pixel = object_pixel(8000.0, 2.0, (75e-6, 75e-6), 128)
    assert pixel.metres[0] == pytest.approx(32.287e-9, rel=1e-4)
    scan = interpret(raw(), config(N=16, bin=2))
    assert scan.pixel.metres[0] == pytest.approx(0.1549802e-9 * 2 / (32 * 75e-6), rel=1e-5)


def test_positions_are_turned_from_rows_to_columns():
    """By hand: 90° turn a step down into one to the right, and one to the right into one up."""
    plain, turned = interpret(raw(), config()), interpret(raw(), config(rotation_deg=90.0))
    step = 1e-7 / plain.pixel.metres[0]
    np.testing.assert_allclose(turned.positions[10] - turned.positions[0], [0, step], atol=1e-9)
    np.testing.assert_allclose(turned.positions[1] - turned.positions[0], [-step, 0], atol=1e-9)
    assert turned.positions.min() == 1 and turned.positions.max() + 32 < turned.object_size
    assert any("rotated by 90°" in finding.why for finding in turned.findings)


def test_positions_are_sheared_after_they_are_turned():
    """(row, col) = (0, 1) is rotated to (−1, 0), and then sheared to (−2, −3)."""
    affine = [[2.0, 5.0], [3.0, 7.0]]
    found = interpret(raw(), config(rotation_deg=90.0, scan_affine=affine))
    step = 1e-7 / found.pixel.metres[0]
    np.testing.assert_allclose(found.positions[1] - found.positions[0], [-2 * step, -3 * step], rtol=1e-6)
    assert any("data.scan_affine" in finding.why for finding in found.findings)


def test_a_mask_file(tmp_path):
    bad = np.zeros((H, W), bool)
    bad[10, 10:13] = True
    np.save(tmp_path / "mask.npy", bad)
    np.savez(tmp_path / "mask.npz", mask=bad.astype(np.uint8), other=np.zeros(3))
    for name in ("mask.npy", "mask.npz"):
        scan = interpret(raw(), config(mask_file=str(tmp_path / name)))
        assert (~scan.detector.good).sum() == 3


def test_a_users_word_stands_above_the_files():
    with pytest.raises(ConfigError, match=r"data\.domain=counts, intensity or amplitude"):
        interpret(raw(domain=None), config())
    with pytest.raises(ConfigError, match="finite and invertible"):
        config(scan_affine=[[1.0, 2.0], [2.0, 4.0]])
    scan = interpret(raw(domain=None), config(domain="intensity", energy_eV=16000.0, zero_frequency="20,27"))
    assert scan.detector.domain == "intensity" and scan.detector.centre == (20, 27)
    assert scan.pixel.metres[0] == pytest.approx(interpret(raw(), config()).pixel.metres[0] / 2)
    turned = interpret(raw(), config(position_sign=-1))
    np.testing.assert_allclose(turned.positions[0] - turned.positions[1], [0, 1e-7 / turned.pixel.metres[0]])


def test_a_probe_is_resampled_by_its_far_field():
    """Cutting the detector to half keeps the window: the same beam on half as many samples."""
    axis = np.arange(64) - 32
    fine = np.exp(-(axis[:, None] ** 2 + 1.4 * axis**2) / 120 + 0.01j * axis**2)[None]
    coarse, _ = resampled_probe(fine, None, object_pixel(None, None, None, 32), 32)
    np.testing.assert_allclose(coarse[0], fine[0, ::2, ::2], atol=2e-3)


@pytest.fixture
def dataset(tmp_path):
    frames = beam((22, 26))
    frames[7] = 0
    scan = interpret(raw(frames), config())
    return make_dataset(scan, ScanRunConfig(data=config(), group_size=3), tmp_path)[1:]


def test_the_dataset_of_a_scan(dataset):
    data, found = dataset
    assert len(data.amplitudes) == J - 1  # the dark frame is gone
    assert any("dark" in finding.why for finding in found)
    assert data.exact and data.counts and data.good is None
    energy = np.mean(np.sum(np.square(np.asarray(data.amplitudes), dtype=float), axis=(1, 2)))
    assert np.sum(np.abs(data.probe) ** 2) == pytest.approx(energy, rel=1e-5)
    assert (data.groups[:, 0] == np.arange(J - 1)).all() and data.group_size == 3


def test_positions_that_are_mapped_have_groups_and_a_lattice_of_their_own(tmp_path):
    settings = ScanRunConfig(data=config(), group_size=4, tiles=True)
    scan, data, _ = make_dataset(interpret(raw(), config()), settings, tmp_path)
    _, mapped = map_positions(scan, data, 2 * np.eye(2))
    assert mapped.group_size == 4 and mapped.object_size > data.object_size
    assert [mapped.tiling.height, mapped.tiling.width] == [2 * data.tiling.height, 2 * data.tiling.width]


def test_a_scan_keeps_the_frames_that_are_used_alone(tmp_path):
    frames = beam((22, 26))
    frames[[0, 7]] = 0
    before = interpret(raw(frames), config())
    scan, data, _ = make_dataset(before, ScanRunConfig(data=config()), tmp_path)
    kept = np.setdiff1d(np.arange(J), [0, 7])
    assert scan.frames.tolist() == kept.tolist()
    shifts = np.concatenate([before.positions[kept] - scan.positions, scan.positions - data.positions])
    np.testing.assert_allclose(shifts, np.round(shifts), atol=1e-5)


def test_patterns_are_read_in_blocks(tmp_path):
    scan = interpret(raw(), config())
    scan.raw.patterns.most = 0
    copy = scan.copied(tmp_path, block_bytes=4 * H * W * 8)[1]
    assert scan.raw.patterns.most == 4 and copy.shape == (J, 32, 32)
    np.testing.assert_array_equal(copy[:], scan.patterns(np.arange(J)))


def test_what_is_not_finite_is_found_when_all_are_read(tmp_path):
    frames = beam((22, 26)).astype(float)
    frames[7, 22, 26] = np.nan
    with pytest.raises(ConfigError, match=r"NaN or infinity in frame 7; .*data\.drop=\[7\]"):
        interpret(raw(frames, domain="counts"), config(), SampleOptions(frames=4)).copied(tmp_path)
    assert len(interpret(raw(frames, domain="counts"), config(drop=(7,))).copied(tmp_path)[1]) == J - 1


def test_a_scan_without_a_probe_begins_with_the_pupil_in_focus(tmp_path):
    scan = interpret(raw(probe=None), config())
    _, data, found = make_dataset(scan, ScanRunConfig(data=config()), tmp_path)
    assert any("estimated from the patterns" in finding.why for finding in found)
    assert np.abs(data.probe[0, 16, 16]) == np.abs(data.probe).max()
    _, given, _ = make_dataset(scan, ScanRunConfig(data=config(), probe=ZonePlateProbe()), tmp_path)
    assert given.probe.shape == (1, 32, 32)


def stored_probe(folder, modes, name="pinn"):
    (folder / "recons" / name).mkdir(parents=True)
    np.savez(folder / "recons" / name / "recon.npz", probe=modes, object=np.ones((1, 4, 4), np.complex64))
    return folder


def test_the_probe_of_an_earlier_run(tmp_path):
    """The probe of its product is used: all modes, at the power of this scan."""
    rng = np.random.default_rng(1)
    modes = reference.random_complex(rng, (2, 32, 32)).astype(np.complex64)
    run = stored_probe(stored_probe(tmp_path / "run", modes[::-1], "refined"), modes, "solver")
    settings = ScanRunConfig(data=config(), run=str(run), probe=RunProbe())
    _, data, _ = make_dataset(interpret(raw(), config()), settings, tmp_path)
    scale = data.probe[0, 0, 0] / modes[0, 0, 0]
    np.testing.assert_allclose(data.probe, scale * modes, rtol=1e-4)
    assert np.sum(np.abs(data.probe) ** 2) == pytest.approx(data.amplitudes.statistics.mean_energy, rel=1e-4)


def test_the_probe_of_an_earlier_run_that_does_not_fit(tmp_path):
    with pytest.raises(ConfigError, match=r"probe=run: is that of the run which run=… names; set run"):
        ScanRunConfig(data=config(), probe=RunProbe())
    with pytest.raises(ConfigError, match=r"probe=run: .* holds no reconstruction of a measured scan"):
        probe_of_run(tmp_path, 32)
    run = stored_probe(tmp_path / "run", np.ones((1, 16, 16), np.complex64))
    with pytest.raises(ConfigError, match=r"shape \(1, 16, 16\) in .*: must be modes \(K, 32, 32\)"):
        probe_of_run(run, 32)
