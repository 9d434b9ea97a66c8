"""Wavelengths of photons and electrons. Everywhere else a wave is known by its photon energy, ``E = h·c/λ``.

photons      λ = h·c / E
electrons    λ = h·c / √(eV (eV + 2 m c²)) = h / √(2 m e V (1 + eV / 2 m c²))    accelerated by V
"""

from __future__ import annotations

import math

from scipy import constants

HC_EV_M = constants.h * constants.c / constants.e
ELECTRON_REST_EV = constants.m_e * constants.c**2 / constants.e


def wavelength_m(energy_eV: float) -> float:
    """Of photons, in metres."""
    return HC_EV_M / energy_eV


def photon_energy_eV(wavelength: float) -> float:
    """Of photons with a wavelength in metres."""
    return HC_EV_M / wavelength


def electron_wavelength_m(electrons_keV: float) -> float:
    """Of electrons with a kinetic energy, in metres; relativistic."""
    kinetic = 1e3 * electrons_keV
    return HC_EV_M / math.sqrt(kinetic * (kinetic + 2 * ELECTRON_REST_EV))
