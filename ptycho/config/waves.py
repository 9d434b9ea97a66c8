"""Wavelengths of photons and electrons. Everywhere else a wave is known by its photon energy, ``E = h·c/λ``.

photons      λ = h·c / E
electrons    λ = h·c / √(eV (eV + 2 m c²)) = h / √(2 m e V (1 + eV / 2 m c²))    accelerated by V
"""

from __future__ import annotations

import math

HC_EV_M = 1.239841984e-6  # Planck's constant times the speed of light, eV·m
ELECTRON_REST_EV = 510998.95  # m c²


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
