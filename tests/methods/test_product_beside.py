"""A product in HDF5 with patterns in NPZ, in metres and in pixels; our own product needs no keys."""

import h5py
import numpy as np
import pytest
from helpers.scans import SMALL, H, W, pinn, raw_scan, save_npz, tike

from ptycho.config import ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.exports import product
from ptycho.exports.exported_scan import ExportedScan, product_of
from ptycho.preparation.dataset import make_dataset
from ptycho.preparation.prepare import interpret
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import open_scan
from ptycho.scan.reconstruction import Reconstruction

PLACES = np.array([[0.0, 0.0], [3.0, 7.5], [6.0, 1.0], [2.0, 2.0], [9.0, 4.0], [1.0, 8.0], [5.0, 5.0]])
DX = 2e-8


def written(path, **changes):
    """Write our product of seven patterns of 12 × 12 on an object of 40 × 30, without the patterns."""
    values = {
        "positions": PLACES,
        "probe": np.ones((1, 12, 12), np.complex64),
        "object": np.ones((40, 30), np.complex64),
        "pixel_m": (DX, DX),
        "energy_eV": 8000.0,
        "distance_m": 1.5,
    }
    product.write(path, ExportedScan(**(values | changes)))
    return path


def patterns_of(kind, path):
    """Write the made-up counts into an NPZ file, with meaningless positions that its format requires."""
    arrays = {"ptychodus": {"patterns": SMALL.counts, "bad_pixels": SMALL.bad}}
    arrays |= {"ptychopinn": pinn(), "tike": tike()}
    return save_npz(path, **arrays[kind])


@pytest.mark.parametrize("kind", ["ptychodus", "ptychopinn", "tike"])
def test_patterns_in_npz(kind, tmp_path):
    """The middle of the first patch, (6, 6), is at (−14, −9) pixels from that of the object, (20, 15)."""
    numbers = np.array([6, 0, 2, 5, 1, 9, 4])  # there is no pattern 9
    path = written(tmp_path / "p.h5", numbers=numbers, detector_pixel_m=(75e-6, 55e-6))
    beside = patterns_of(kind, tmp_path / "patterns.npz")
    scan = open_scan(path, ReadOptions(patterns_file=str(beside)))
    kept = [0, 1, 2, 4, 5, 6]
    expected = PLACES[[np.flatnonzero(numbers == k)[0] for k in kept]] - [14, 9]
    np.testing.assert_allclose(scan.positions / DX, expected, atol=1e-9)
    counts = np.fft.ifftshift(SMALL.counts, axes=(1, 2)) if kind == "tike" else SMALL.counts
    np.testing.assert_array_equal(scan.patterns.read(slice(0, 6)), counts[kept])
    assert (scan.format, scan.domain, scan.unit) == ("ptychodus", "counts", "m")
    assert scan.zero_frequency == ("corner" if kind == "tike" else "centre")
    assert (scan.energy_eV, scan.distance_m, scan.detector_pixel_m) == (8000, 1.5, (75e-6, 55e-6))
    assert scan.probe.shape == (1, 12, 12) and scan.object.shape == (40, 30)
    assert any("1 of 7 patterns and 1 of 7 positions are excluded" in line for line in scan.warnings)


@pytest.mark.parametrize("stated", [None, "px"])
@pytest.mark.parametrize("kind", ["npz", "hdf5"])
def test_a_product_in_pixels_has_no_metres(kind, stated, tmp_path):
    path = written(tmp_path / "p.h5", pixel_m=None, energy_eV=None, distance_m=None)
    if kind == "npz":
        beside = patterns_of("ptychodus", tmp_path / "patterns.npz")
    else:
        beside = tmp_path / "patterns.h5"
        with h5py.File(beside, "w") as file:
            file["entry/data/data"] = SMALL.counts
    scan = open_scan(path, ReadOptions(patterns_file=str(beside), unit=stated))
    assert scan.unit == "px" and scan.probe_pixel_m is None and scan.object_pixel_m is None
    assert scan.detector_pixel_m is None and scan.energy_eV is None
    np.testing.assert_allclose(scan.positions, PLACES - [14, 9])


def test_pixels_of_a_cut_pattern_become_those_of_the_detector(tmp_path):
    """A pattern that spans 4 of 9 × 12 detector pixels has an object pixel 9/4 and 12/4 as large."""
    path = written(tmp_path / "p.h5", pixel_m=None, detector_side=4)
    beside = patterns_of("ptychodus", tmp_path / "patterns.npz")
    scan = open_scan(path, ReadOptions(patterns_file=str(beside)))
    assert (H, W) == (9, 12)
    np.testing.assert_allclose(scan.positions, (PLACES - [14, 9]) * [9 / 4, 3])


COUNT, SIDE = 30, 40


def run_product(path, unit, **stated):
    """Return the product of a run on thirty patterns of 40 × 40, the fifth of them dark, with keys."""
    rng, square = np.random.default_rng(4), np.square(np.arange(SIDE) - SIDE // 2)
    mean = 300 * np.exp(-(square[:, None] + square) / 30)
    frames = rng.poisson(mean * rng.uniform(0.6, 1.4, (COUNT, 1, 1))).astype(np.uint16)
    frames[4] = 0
    places = np.random.default_rng(5).uniform(0, 20, (COUNT, 2))
    positions = places * (1e-7 if unit == "m" else 1)
    raw = raw_scan(frames, positions, unit=unit, probe=np.ones((1, 16, 16), np.complex64))
    config = DataConfig(file="scan", N=16, hot_pixels=False, **stated)
    scan = interpret(raw, config)
    scan, data, _ = make_dataset(scan, ScanRunConfig(data=config), path.parent)
    shape = 1, data.object_size, data.object_size
    made = Reconstruction(np.ones(shape, np.complex64), np.ones(shape, bool))
    product.write(path, product_of(scan, data, made))
    beside = save_npz(path.with_name("patterns.npz"), patterns=frames, indexes=np.arange(COUNT))
    return scan, beside


@pytest.mark.parametrize(
    ("unit", "stated"),
    [
        ("m", {"energy_eV": 8000.0, "distance_m": 2.0, "detector_pixel_m": 75e-6}),
        ("m", {"energy_eV": 8000.0, "distance_m": 2.0, "detector_pixel_m": 75e-6, "bin": 2}),
        ("px", {}),
        ("px", {"bin": 2}),
    ],
)
def test_our_product_beside_the_patterns_needs_no_keys(unit, stated, tmp_path):
    """Cut to 16 and binned as before, positions and object pixel are those of the run."""
    scan, beside = run_product(tmp_path / "product.h5", unit, **stated)
    options = ReadOptions(patterns_file=str(beside))
    raw = open_scan(tmp_path / "product.h5", options)
    again = interpret(raw, DataConfig(file="-", N=16, bin=stated.get("bin", 1), hot_pixels=False))
    assert again.pixel.metres == (None if unit == "px" else pytest.approx(scan.pixel.metres))
    np.testing.assert_allclose(np.diff(again.positions, axis=0), np.diff(scan.positions, axis=0), atol=1e-4)
    np.testing.assert_array_equal(again.patterns(slice(0, None)), scan.patterns(slice(0, None)))
    assert raw.detector_pixel_m == (None if unit == "px" else pytest.approx((75e-6, 75e-6)))
