"""Probes from optics: a first guess from the mean pattern, and that of an electron microscope.

The guess has the far-field modulus of the mean pattern, with the phase of a simple optic:

    P = F⁻¹[ √⟨A²⟩(q) · exp(iφ(q)) ],   q in cycles per object pixel, zero at sample N//2

    lens      φ = c q²                       out of focus by c = −πλz, z in pixels; c = 0: in focus
    pinhole   φ = arg F[disk of diameter D]  right behind it: 0 and π on the rings of its diffraction

Of a near field the mean pattern goes back to the sample, ``P = F⁻¹[H̄ F √⟨A²⟩]``, without a number.

**What is assumed.** The mean over the scan is ``|F P|²`` blurred by what the object scatters. Its root is
taken for the modulus of F P itself, which is right as far as the object scatters weakly, or by angles that
are small against the features of F P. A strong phase object widens the pupil, and fills its dark parts; the
guess is then too narrow. Of the phase nothing is in the mean pattern: that the optic is one of the two,
without an aberration but astigmatism along rows and columns, is an assumption; the numbers are found by
:func:`ptycho.align.initial_probe.guess_probe`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.ndimage import distance_transform_edt

from ptycho.config import AberratedProbe, ConfigError
from ptycho.config.waves import Fresnel
from ptycho.scan.probe import PADDING, energy_diameter, far_field, focused, radius, waves_of


def pupil(mean_intensity: np.ndarray, good: np.ndarray | None = None) -> np.ndarray:
    """Return ``√⟨A²⟩`` of a mean intensity ``(N, N)``, float64; a bad pixel takes a near one's."""
    root = np.sqrt(np.maximum(mean_intensity, 0).astype(float))
    return root if good is None else fill_bad_pixels(root, good)


def fill_bad_pixels(image: np.ndarray, good: np.ndarray) -> np.ndarray:
    """Return an image ``(H, W)`` in which a bad pixel has the value of the nearest good one."""
    if good.all() or not good.any():
        return image
    nearest = distance_transform_edt(~good, return_distances=False, return_indices=True)
    return image[tuple(nearest)]


def lens(modulus: np.ndarray, curvature: float) -> np.ndarray:
    """Return the probe of a lens with pupil ``modulus (N, N)``: ``φ = c q²``, c in rad · pixel²; complex64.

    A ray through q arrives ``|c q|/π`` pixels from the axis.
    """
    return waves_of(modulus * np.exp(1j * curvature * frequency(len(modulus)) ** 2))


def pinhole(modulus: np.ndarray, log_diameter: float) -> np.ndarray:
    """Return the probe ``(N, N)`` complex64 right behind a pinhole, ``exp(log_diameter)`` pixels wide."""
    N = len(modulus)
    disk = np.clip(np.exp(log_diameter) / 2 - N * frequency(N) + 0.5, 0, 1)
    return waves_of(modulus * np.sign(far_field(disk).real))


def curved(probe: np.ndarray, curvature: float, astigmatism: float = 0.0) -> np.ndarray:
    """Return a probe whose far field gets the phase ``c q² + a (q_row² − q_col²)`` besides its own.

    Args:
        probe: ``(…, N, N)`` complex.
        curvature: c, in rad · pixel².
        astigmatism: a, likewise: c + a along the rows' axis, c − a along the columns'.

    Returns:
        ``(…, N, N)`` complex64.
    """
    N = probe.shape[-1]
    q = (np.arange(N) - N // 2) / N
    phase = (curvature + astigmatism) * q[:, None] ** 2 + (curvature - astigmatism) * q**2
    return waves_of(far_field(probe) * np.exp(1j * phase))


def curvature_of(probe: np.ndarray) -> float:
    """Return c of a probe ``(N, N)``: less that phase, it is the sharpest, ``max |F⁻¹[F P exp(−icq²)]|``."""
    numbers = _curvatures(np.abs(far_field(probe)))
    step = (numbers[1] - numbers[0]) / 8 if len(numbers) > 1 else 0.0

    def sharpness(number: float) -> float:
        return float(np.abs(curved(probe, -number)).max())

    best = max(numbers, key=sharpness)
    return float(max(best + step * np.arange(-8, 9), key=sharpness))


def frequency(N: int) -> np.ndarray:
    """Return ``|q|`` in cycles per pixel, ``(N, N)``, zero at sample ``N//2``."""
    return radius(N) / N


def _curvatures(modulus: np.ndarray, widest: float = 0.8, step_rad: float = 2.0) -> np.ndarray:
    """Return curvatures of both signs and zero, ``step_rad`` apart at the pupil's edge.

    The largest spreads the rays from there over a share ``widest`` of the window.
    """
    N = len(modulus)
    edge = max(energy_diameter(modulus), 1.0) / 2 / N  # a plane wave illuminates one pixel of the far field
    step = step_rad / edge**2
    most = int(np.pi * widest * N / 2 / edge / step)
    return step * np.arange(-most, most + 1)


class Optic(NamedTuple):
    """A family of probes with one number.

    Attributes:
        probe: ``(modulus (N, N), number) → (N, N)`` complex64, with the energy of the modulus.
        numbers: ``modulus → (K,)``, evenly spaced, from the least to the largest that are sensible.
        text: the number in words, for the log.
    """

    probe: Callable[[np.ndarray, float], np.ndarray]
    numbers: Callable[[np.ndarray], np.ndarray]
    text: Callable[[float], str]


def refocused(probe: np.ndarray, curvature: float, both_signs: bool = True) -> Optic:
    """Return the optic of a probe ``(N, N)`` of another curvature; of either sign, or of the sign of its own.

    ``curvature``: its own, as :func:`curvature_of` gives it.
    """

    def numbers(modulus: np.ndarray) -> np.ndarray:
        every = _curvatures(modulus)
        return every if both_signs else every[every * curvature >= 0]

    return Optic(
        lambda _, number: curved(probe, number - curvature), numbers, "the curvature {:.4g} rad·px²".format
    )


LENS = "lens"
OPTICS = {
    LENS: Optic(lens, _curvatures, "a lens of the curvature {:.4g} rad·px²".format),
    "pinhole": Optic(
        pinhole,
        lambda modulus: np.arange(np.log(3.0), np.log(0.8 * len(modulus)), 0.1),  # 3 pixels to 0.8 of all
        lambda log: f"phase steps as right behind a pinhole of {np.exp(log):.1f} pixels",
    ),
}


def brought_back(modulus: np.ndarray, fresnel: Fresnel) -> np.ndarray:
    """Return the probe ``(N, N)`` complex64 of a near field: a flat wave of ``modulus`` at the detector."""
    return fresnel.reversed.propagated(modulus).astype(np.complex64)


def measured_power(modes: np.ndarray, fresnel: Fresnel | None, good: np.ndarray | None) -> float:
    """Return ``Σ|P|²`` of modes ``(…, N, N)``; of a near field what of it arrives on pixels that are good."""
    if fresnel is None:
        return float(np.sum(np.abs(modes) ** 2, dtype=float))
    arriving = np.abs(fresnel.propagated(modes)) ** 2
    return float(np.sum(arriving if good is None else arriving * good))


def optics_of(fresnel: Fresnel | None) -> dict[str, Optic]:
    """Return what a probe may come from: in a far field :data:`OPTICS`, in a near one the mean pattern."""
    if fresnel is None:
        return OPTICS
    back = Optic(
        lambda modulus, _: brought_back(modulus, fresnel),
        lambda modulus: np.zeros(1),
        lambda _: "the root of the mean pattern, brought back to the sample",
    )
    return {"near field": back}


def electron_probe(
    settings: AberratedProbe, N: int, pixel_m: tuple[float, float], wavelength_m: float
) -> np.ndarray:
    """Return the probe of an electron microscope ``(N, N)`` complex128, centred at ``N//2``, of any scale.

        P = F⁻¹[ A(q) exp(−iχ(q)) ],   A(q) = 1 where λ|q| ≤ α, else 0
        χ = πλ [Δf + f₂ cos 2(θ − θ₂)] |q|² + ½ π C_s λ³ |q|⁴

    q in cycles per metre, θ from the rows' axis to the columns'. Waves are ``exp(+ikz)``, so that a positive
    Δf is overfocus: the crossover lies before the sample, which sees a diverging wave, as with
    ``defocus_um`` of a zone plate. Where Δf is counted positive for underfocus, its sign is the other one.
    Source: Kirkland, Advanced Computing in Electron Microscopy, 2.2 and 3.2, whose Δf is the negative.

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
