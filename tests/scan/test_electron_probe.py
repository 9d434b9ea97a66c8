"""The electron probe against that of a zone plate, formulas by hand, and refused values."""

from types import SimpleNamespace

import numpy as np
import pytest

from ptycho.config import AberratedProbe, ConfigError, ZonePlateProbe
from ptycho.preparation.dataset import choose_probe
from ptycho.preparation.geometry import PixelSize
from ptycho.scan.optics import aberration, electron_probe
from ptycho.scan.probe import HC_KEV_NM, zone_plate

WAVELENGTH = 4.1757e-12  # of 80 keV


def test_overfocus_is_a_sample_behind_the_focus():
    """It is equal to a zone plate without stop, aperture λ/(2Δr): 2.58 mrad at 8 keV and 30 nm."""
    plate = ZonePlateProbe(pixel_size_nm=10.0, central_stop_diameter_um=0.0, defocus_um=30.0)
    wavelength = 1e-9 * HC_KEV_NM / 8
    ours = AberratedProbe(semi_angle_mrad=1e12 * wavelength / 60, defocus_nm=30e3)
    found, wanted = electron_probe(ours, 64, (1e-8, 1e-8), wavelength), zone_plate(plate, 64)
    np.testing.assert_allclose(found, wanted, atol=1e-3 * np.abs(wanted).max())
    beyond, other = (
        electron_probe(AberratedProbe(semi_angle_mrad=2.0, defocus_nm=focus), 64, (1e-8, 1e-8), wavelength)
        for focus in (-30e3, 30e3)
    )
    inner = np.s_[1:, 1:]
    np.testing.assert_allclose(beyond[inner], other[::-1, ::-1][:-1, :-1].conj(), atol=1e-6)


def test_aberrations_by_hand():
    """At 20 mrad: πΔf α²/λ = π · 5e-8 · 4e-4 / λ = 15.05; ½π C_s α⁴/λ of 1 mm: 60.19; along the axes ± f₂."""
    q = 0.02 / WAVELENGTH
    at = [(np.array(row), np.array(col)) for row, col in ((q, 0), (0, q), (q / 2**0.5, q / 2**0.5))]
    defocus = AberratedProbe(defocus_nm=50.0)
    np.testing.assert_allclose([aberration(defocus, *one, WAVELENGTH) for one in at], 15.047, rtol=1e-3)
    sphere = AberratedProbe(cs_mm=1.0)
    np.testing.assert_allclose([aberration(sphere, *one, WAVELENGTH) for one in at], 60.19, rtol=1e-3)
    two = AberratedProbe(astigmatism_nm=50.0)
    values = [float(aberration(two, *one, WAVELENGTH)) for one in at]
    np.testing.assert_allclose(values, [15.047, -15.047, 0], rtol=1e-3, atol=1e-9)
    turned = AberratedProbe(astigmatism_nm=50.0, astigmatism_deg=45.0)
    assert float(aberration(turned, *at[2], WAVELENGTH)) == pytest.approx(15.047, rel=1e-3)


def scan(pixel=(5e-11, 5e-11), energy_eV=297e3):
    missing = () if pixel else ("data.distance_m", "data.detector_pixel_m")
    return SimpleNamespace(N=32, pixel=PixelSize(pixel, missing), raw=SimpleNamespace(energy_eV=energy_eV))


def test_a_probe_that_cannot_be_made_is_refused_before_work():
    modes, why = choose_probe(scan(), AberratedProbe(), None)
    assert modes.shape == (1, 32, 32) and why == "probe=aberrated"
    with pytest.raises(ConfigError, match=r"probe=aberrated: .*set data.distance_m=, data.detector_pixel_m="):
        choose_probe(scan(None), AberratedProbe(), None)
    with pytest.raises(ConfigError, match=r"semi_angle_mrad=50: must be at most 41.7"):
        electron_probe(AberratedProbe(semi_angle_mrad=50.0), 32, (5e-11, 5e-11), WAVELENGTH)
