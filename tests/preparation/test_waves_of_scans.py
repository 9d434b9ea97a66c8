"""The wavelength of a scan, specified as photon energy, electron energy or length."""

import pytest

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.config.waves import electron_wavelength_m, wavelength_m
from ptycho.preparation.geometry import object_pixel


@pytest.mark.parametrize(("keV", "picometres"), [(80, 4.1757), (200, 2.5079), (300, 1.9687)])
def test_electrons_have_the_wavelength_of_the_textbook(keV, picometres):
    """Williams & Carter, Transmission Electron Microscopy (2009), table 1.2: 4.18, 2.51 and 1.97 pm."""
    assert 1e12 * electron_wavelength_m(keV) == pytest.approx(picometres, abs=1e-4)


@pytest.mark.parametrize(
    ("stated", "picometres"),
    [({"energy_eV": 1e6}, 1.23984), ({"wavelength_m": 633e-9}, 633e3), ({"electrons_keV": 300}, 1.9687)],
)
def test_each_states_the_wavelength(stated, picometres):
    energy = DataConfig(file="a", **stated).stated_quantities()["energy_eV"]
    assert 1e12 * wavelength_m(energy) == pytest.approx(picometres, rel=1e-4)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"energy_eV": 8e3, "electrons_keV": 3e2}, "data.electrons_keV=300.0: each sets the wavelength"),
        ({"wavelength_m": 0.15}, "data.wavelength_m=0.15: must be a finite number from 1.24e-12 to 0.0001 m"),
    ],
)
def test_two_waves_and_impossible_ones_are_refused(stated, message):
    with pytest.raises(ConfigError, match=message):
        DataConfig(file="a", **stated)


def test_pixels_of_a_detector_may_be_specified_as_angles():
    """λ/(N·α): 80 keV are 4.1757 pm, 64 pixels of 1.25 mrad span 80 mrad: 0.522 Å, to 40 mrad."""
    asked = DataConfig(file="x", electrons_keV=80.0, detector_pixel_mrad=1.25)
    quantities = asked.stated_quantities()
    lengths = [quantities[key] for key in ("energy_eV", "distance_m", "detector_pixel_m")]
    pixel = object_pixel(*lengths, 64)
    assert pixel.metres[0] == pytest.approx(5.2196e-11, rel=1e-4) and pixel.text == "0.522 Å"
    with pytest.raises(ConfigError, match=r"data.distance_m=2.0, data.detector_pixel_mrad=1.25: the angle"):
        DataConfig(file="x", detector_pixel_mrad=1.25, distance_m=2.0)
