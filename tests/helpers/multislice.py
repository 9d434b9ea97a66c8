"""A thick sample by loops in NumPy, in double precision: slices, and free space between them."""

from dataclasses import replace

import numpy as np

from helpers.likelihood import N, Scan, smooth_object
from helpers.reference import random_complex
from ptycho.config.waves import FreeSpace

WAVELENGTH, PIXEL, DISTANCE = 1e-10, (1e-8, 1.3e-8), 4e-6
BETWEEN = FreeSpace.of(DISTANCE, WAVELENGTH, PIXEL)


def spectrum(side):
    """``exp(2πi Δz (√(1/λ² − ν²) − 1/λ))``, ν in cycles per metre, in extended precision."""
    rows, cols = (np.fft.fftfreq(side).astype(np.longdouble) / length for length in PIXEL)
    squares = rows[:, None] ** 2 + cols**2
    turns = DISTANCE * (np.sqrt(np.longdouble(WAVELENGTH) ** -2 - squares) - 1 / np.longdouble(WAVELENGTH))
    return np.exp(2j * np.pi * turns.astype(float))


def thick_intensity(slices, modes, position):
    """``Σ_m |Ψ_m|²`` of one pattern, zero frequency at sample 0; one slice after the other."""
    side, total = modes.shape[-1], 0
    row, col = np.floor(np.add(position, 0.5)).astype(int)
    q = np.fft.fftfreq(side)
    ramp = np.exp(-2j * np.pi * np.add.outer((position[0] - row) * q, (position[1] - col) * q))
    for mode in modes:
        wave = np.fft.ifft2(np.fft.fft2(mode) * ramp)
        for k, one in enumerate(slices):
            if k:
                wave = np.fft.ifft2(spectrum(side) * np.fft.fft2(wave))
            wave = wave * one[row : row + side, col : col + side]
        total = total + np.abs(np.fft.fft2(wave) / side) ** 2
    return total


def thick_scan(slices=2, modes=2, count=4, photons=100.0):
    """``count²`` patterns of so many photons a pixel on an object of odd side, and its slices."""
    rng = np.random.default_rng(3)
    made = Scan.of(rng, photons * N**2, count=count)
    side = len(made.object) + 1 - len(made.object) % 2
    waves = made.modes[0] * (1 + 0.3 * random_complex(rng, (modes, N, N)))
    return replace(made, modes=waves), np.stack([smooth_object(rng, side) for _ in range(slices)])
