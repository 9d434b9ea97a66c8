"""The probe of an electron microscope, from the aperture and the aberrations of its lenses.

    P = F⁻¹[ A(q) exp(−iχ(q)) ],   A(q) = 1 where λ|q| ≤ α, else 0
    χ = πλ [Δf + f₂ cos 2(θ − θ₂)] |q|² + ½ π C_s λ³ |q|⁴

q in cycles per metre, θ from the rows' axis to the columns'. Waves are ``exp(+ikz)``, so that a positive Δf
is overfocus: the crossover lies before the sample, which sees a diverging wave, as with ``defocus_um`` of a
zone plate. Where Δf is counted positive for underfocus, its sign is the other one.

Source: Kirkland, Advanced Computing in Electron Microscopy, 2.2 and 3.2, whose Δf is the negative.
"""

from __future__ import annotations

import numpy as np

from ptycho.config import AberratedProbe, ConfigError
from ptycho.scan.probe import PADDING, focused


def electron_probe(
    settings: AberratedProbe, N: int, pixel_m: tuple[float, float], wavelength_m: float
) -> np.ndarray:
    """Return the probe ``(N, N)`` complex128, centred at ``N//2``, of any scale.

    Computed on a window ``PADDING`` times wider and cropped; the energy that is lost so is logged.

    Args:
        pixel_m: pitch (row, col) of the object's pixels in metres.
        wavelength_m: λ.

    Raises:
        ConfigError: the aperture does not fit on the detector, or holds nothing.
    """
    alpha, most = settings.semi_angle_mrad, 1e3 * wavelength_m / (2 * max(pixel_m))
    if alpha > most:
        raise ConfigError(
            f"probe.semi_angle_mrad={alpha:g}: must be at most {most:.4g}, which is where the patterns end"
        )
    window = PADDING * N
    axis = (np.arange(window) - window // 2) / window
    rows, cols = axis[:, None] / pixel_m[0], axis[None, :] / pixel_m[1]
    far = np.where(wavelength_m * np.hypot(rows, cols) <= 1e-3 * alpha, 1.0, 0.0)
    return focused(far * np.exp(-1j * aberration(settings, rows, cols, wavelength_m)), N, "electron")


def aberration(
    settings: AberratedProbe, rows: np.ndarray, cols: np.ndarray, wavelength_m: float
) -> np.ndarray:
    """Return χ ``(n, n)`` in radians at frequencies ``rows (n, 1)``, ``cols (1, n)`` in cycles per metre."""
    square, angle = rows**2 + cols**2, np.arctan2(cols, rows) - np.deg2rad(settings.astigmatism_deg)
    focus = 1e-9 * (settings.defocus_nm + settings.astigmatism_nm * np.cos(2 * angle))
    sphere = 0.5 * np.pi * 1e-3 * settings.cs_mm * wavelength_m**3 * square**2
    return np.pi * wavelength_m * focus * square + sphere
