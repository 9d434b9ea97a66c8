"""Wavelengths of photons and electrons, and how far a near field is from its object.

Everywhere else a wave is known by its photon energy, ``E = h·c/λ``.

photons      λ = h·c / E
electrons    λ = h·c / √(eV (eV + 2 m c²)) = h / √(2 m e V (1 + eV / 2 m c²))    accelerated by V
near field   H(q) = exp(−iπ Σ_i F_i q_i²),   F_i = λ z / dx_i²,   q in cycles per pixel, i: row, col
slices       H(q) = exp(2πi (Δz/λ) [√(1 − s) − 1]),   s = Σ_i (λ q_i / dx_i)²
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import constants

HC_EV_M = constants.h * constants.c / constants.e
ELECTRON_REST_EV = constants.m_e * constants.c**2 / constants.e


def wavelength_m(energy_eV: float) -> float:
    """Return the wavelength ``hc/E`` of photons of an energy in eV, in metres."""
    return HC_EV_M / energy_eV


def photon_energy_eV(wavelength: float) -> float:
    """Return the energy ``hc/λ`` in eV of photons with a wavelength in metres."""
    return HC_EV_M / wavelength


def conjugate_pitch_m(
    energy_eV: float | None,
    distance_m: float | None,
    pitch_m: tuple[float, float] | None,
    sides: tuple[int, ...],
) -> tuple[float, float] | None:
    """Return ``λz/(N·p)``, (row, col): the object's pixel of a detector's pitch p, or the detector's of it.

    None: a length is unknown.
    """
    if energy_eV is None or distance_m is None or pitch_m is None:
        return None
    length = wavelength_m(energy_eV) * distance_m
    return length / (sides[0] * pitch_m[0]), length / (sides[1] * pitch_m[1])


def electron_wavelength_m(electrons_keV: float) -> float:
    """Return the relativistic wavelength, in metres, of electrons with a kinetic energy in keV."""
    kinetic = 1e3 * electrons_keV
    return HC_EV_M / math.sqrt(kinetic * (kinetic + 2 * ELECTRON_REST_EV))


@dataclass(frozen=True)
class Fresnel:
    """Free space between an object and a detector that is near: ``λ z / dx²`` along rows and columns.

    A wave of q cycles per pixel arrives ``F q`` pixels aside. Waves are exp(+ikz), z along the beam; the
    constant phase exp(ikz) is left out. Source: Goodman, Introduction to Fourier Optics, 4.2.
    """

    row: float
    col: float

    def transfer(self, side: int) -> np.ndarray:
        """Return ``H(q)``, ``(side, side)`` complex128 of modulus one, zero frequency at sample 0."""
        rows, cols = (np.exp(-1j * np.pi * number * np.fft.fftfreq(side) ** 2) for number in self.numbers)
        return rows[:, None] * cols[None, :]

    def propagated(self, waves: np.ndarray) -> np.ndarray:
        """Return ``F⁻¹[H F ψ]`` of waves ``(…, N, N)`` in a window that goes on periodically; complex128."""
        return np.fft.ifft2(self.transfer(waves.shape[-1]) * np.fft.fft2(waves))

    @property
    def numbers(self) -> tuple[float, float]:
        """Fresnel numbers ``λz/dx²`` along (rows, columns)."""
        return self.row, self.col

    @property
    def reversed(self) -> Fresnel:
        """From the detector back to the object."""
        return Fresnel(-self.row, -self.col)

    @property
    def transposed(self) -> Fresnel:
        """Numbers of transposed waves: rows and columns exchanged."""
        return Fresnel(self.col, self.row)

    def aliases(self, side: int) -> bool:
        """Return whether ``H`` turns by more than π between two samples of a window: ``|F| > N``."""
        return max(map(abs, self.numbers)) > side


@dataclass(frozen=True)
class FreeSpace:
    """Free space between two slices of a thick sample, by the angular spectrum, which is exact.

    Waves are exp(+ikz), z along the beam; the constant phase exp(ikz) is left out. Waves of ``s > 1`` decay.
    Source: Goodman, Introduction to Fourier Optics, 3.10; multislice: Cowley & Moodie, Acta Cryst. 10 (1957)
    609; in ptychography: Maiden, Humphry & Rodenburg, J. Opt. Soc. Am. A 29 (2012) 1606.

    Attributes:
        length: Δz/λ.
        row, col: λ/dx, of the object's pixels.
    """

    length: float
    row: float
    col: float

    @classmethod
    def of(cls, distance_m: float, wavelength: float, pixel_m: tuple[float, float]) -> FreeSpace:
        """Return that of a distance Δz, a wavelength and a pixel (row, col), all in metres."""
        return cls(distance_m / wavelength, wavelength / pixel_m[0], wavelength / pixel_m[1])

    @property
    def fresnel(self) -> float:
        """``F = λ Δz / dx²``: a wave of q cycles per pixel arrives about F q pixels aside."""
        return self.length * self.row * self.col

    def transfer(self, side: int) -> np.ndarray:
        """Return ``H(q)``, ``(side, side)`` complex128, zero frequency at sample 0."""
        q = np.fft.fftfreq(side)
        s = np.add.outer((self.row * q) ** 2, (self.col * q) ** 2).astype(complex)
        return np.exp(-2j * np.pi * self.length * s / (1 + np.sqrt(1 - s)))  # √(1 − s) − 1, not cancelled
