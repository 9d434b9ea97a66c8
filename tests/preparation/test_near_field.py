"""Lengths, window and probe of a near field by hand; scans that look like a near field, and others."""

import numpy as np
import pytest
from helpers.scans import METRES, finding_on, raw_scan
from scipy.ndimage import gaussian_filter

import ptycho
from ptycho.config import ConfigError, OwnProbe, ScanRunConfig, ZonePlateProbe
from ptycho.config.data import DataConfig
from ptycho.config.waves import photon_energy_eV
from ptycho.preparation.geometry import PixelSize
from ptycho.preparation.near_field import NearField, looks_like_near_field, probe_in_window
from ptycho.preparation.prepare import interpret
from ptycho.scan.optics import brought_back, measured_power

ENERGY = photon_energy_eV(1e-10)
H, W = 45, 52


def raw(**changes):
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(4), np.arange(5), indexing="ij"), -1).reshape(-1, 2)
    frames = rng.poisson(50.0 * rng.uniform(0.8, 1.2, (H, W)), (20, H, W)).astype(np.uint16)
    values = {"energy_eV": ENERGY, "distance_m": 0.1, "detector_pixel_m": (1e-6, 1e-6)}
    return raw_scan(frames, 8e-6 * grid, **(METRES | {"zero_frequency": "corner"} | values | changes))


def config(**changes):
    return DataConfig(file="scan", **({"physics": "near_field"} | changes))


def test_a_parallel_beam():
    """1 Å, 10 cm, 1 µm: λz/dx² = 10; the object's pixel is the detector's."""
    scan = interpret(raw(), config())
    assert scan.pixel.metres == (1e-6, 1e-6)
    assert scan.fresnel.numbers == pytest.approx((10, 10))
    np.testing.assert_allclose(np.ptp(scan.positions, axis=0), (24, 32))
    assert "parallel beam" in finding_on(scan, "physics").why
    assert "near field" in finding_on(scan, "object pixel").why


def test_a_beam_that_diverges():
    """5 cm behind the focus: M = 3, pixels of a third, λ z12/M / dx² = 10·9/3."""
    scan = interpret(raw(), config(source_distance_m=0.05))
    assert scan.near_field.magnification == pytest.approx(3)
    np.testing.assert_allclose(scan.pixel.metres, 1e-6 / 3)
    assert scan.fresnel.numbers == pytest.approx((30, 30))
    assert "magnified 3 times" in finding_on(scan, "physics").why


def test_the_window_is_the_detector_and_a_margin():
    """52 columns, 3 + 4 pixels on each side (F/4 and some), the next fast size; the middle in the middle."""
    scan = interpret(raw(), config(zero_frequency="5,7"))
    assert scan.near_field.margin == 7 and scan.N == 66
    assert scan.detector.centre == (H // 2, W // 2)
    assert "no meaning" in finding_on(scan, "middle").why
    assert "zero frequency" not in {f.what for f in scan.findings}
    good = scan.detector.good_pixels
    rows, cols = (np.flatnonzero(good.any(axis=axis)) for axis in (1, 0))
    assert (rows[0], len(rows), cols[0], len(cols)) == (33 - 22, H, 33 - 26, W)
    assert interpret(raw(), config(N=64)).N == 64


def test_what_is_missing_or_made_for_far_fields_is_named():
    with pytest.raises(ConfigError, match=r"data\.distance_m=, data\.detector_pixel_m="):
        interpret(raw(distance_m=None, detector_pixel_m=None), config())
    for probe, models, message in ((OwnProbe(), ("lsqml",), "lsqml"), (ZonePlateProbe(), (), "zone_plate")):
        with pytest.raises(ConfigError, match=f"data.physics=near_field.*{message}"):
            ScanRunConfig(data=config(), probe=probe, models=models)
    with pytest.raises(ConfigError, match=r"data\.physics=near_field"):
        config(physics=None, source_distance_m=0.1)


def test_a_transfer_function_that_aliases_is_reported():
    warnings = interpret(raw(distance_m=3.0), config()).warnings
    assert any("λz/dx² = 300" in line and "data.N=300" in line for line in warnings)
    assert not interpret(raw(), config()).warnings


def test_a_files_probe_goes_on_beyond_its_edge():
    near = NearField(ENERGY, 0.1, (1e-6, 1e-6))
    probe = np.arange(16.0).reshape(1, 4, 4) + 1j
    wide, _ = probe_in_window(probe, None, PixelSize(near.pixel_m), 8)
    np.testing.assert_allclose(wide[0], np.pad(probe[0], 2, mode="edge"), atol=1e-5)
    finer, how = probe_in_window(np.ones((2, 20, 20)), (5e-7, 5e-7), PixelSize(near.pixel_m), 8)
    assert finer.shape == (2, 8, 8) and "interpolated" in how


def test_the_mean_pattern_brought_back_gives_it_again():
    way = NearField(ENERGY, 0.1, (1e-6, 1e-6)).fresnel
    modulus = np.random.default_rng(1).uniform(1, 2, (20, 20))
    probe = brought_back(modulus, way)
    np.testing.assert_allclose(np.abs(way.propagated(probe)), modulus, rtol=1e-5)
    good = modulus > 1.5
    assert measured_power(probe, way, good) == pytest.approx(np.sum(modulus[good] ** 2), rel=1e-5)
    assert measured_power(probe, None, good) == pytest.approx(np.sum(modulus**2), rel=1e-5)


def test_intensity_to_the_edge_looks_like_a_near_field():
    warnings = interpret(raw(), config(physics=None)).warnings
    assert sum("data.physics=near_field" in line for line in warnings) == 1
    assert not interpret(raw(), config(physics="far_field")).warnings
    assert looks_like_near_field(np.zeros((H, W)), np.ones((H, W), bool)) is None


def test_far_fields_do_not_look_like_one():
    """A zone plate, and diffusers with grains down to less than a pixel in apertures of every width."""
    rng, N = np.random.default_rng(0), 64
    rows, cols = np.indices((N, N)) - N // 2
    probes = [None]
    for diameter in (0.2, 0.4, 0.6):
        for grain in (0.7, 1, 3):
            phase = gaussian_filter(rng.normal(size=(N, N)), grain)
            disk = gaussian_filter(1.0 * (np.hypot(rows, cols) < diameter * N / 2), 1)
            probes.append(disk * np.exp(3j * phase / phase.std()))
    for sample in ("lines", "blobs"):
        for probe in probes:
            scan = ptycho.simulate(N=N, n_positions=16, probe=probe, sample=sample, nphotons=1e5)
            assert not any("near field" in line for line in scan.warnings)


def test_arrays_of_a_near_field():
    rng = np.random.default_rng(2)
    patterns, places = rng.poisson(30, (9, 32, 32)), 6.0 * np.stack(np.divmod(np.arange(9), 3), 1)
    lengths = {"energy_eV": ENERGY, "distance_m": 0.2, "detector_pixel_m": 1e-6, "source_distance_m": 0.2}
    scan = ptycho.Scan.from_arrays(patterns, places, counts=True, physics="near_field", **lengths)
    assert scan.pixel_m == (5e-7, 5e-7) and scan.N > 32
    np.testing.assert_allclose(np.ptp(scan.positions, axis=0), 12)
    np.testing.assert_array_equal(scan.patterns(0).sum(), patterns[0].sum())
