"""Imperfections of a scan: of probe, positions, coherence, detector and flux, a function each.

Some change what is *measured*: incoherent modes, flux, a detector that blurs, has gaps, adds counts and
saturates. The others change what is *recorded* of it: the initial probe and the nominal positions.

============ ==============================================================================================
``P``        probe ``(N, N)`` complex, centre at N//2; all modes in √photons
``ν``        spatial frequency (row, col) in cycles per pixel, ``(k − N//2)/N``
``ρ, θ``     ``|ν|`` in units of the pupil's edge, and its angle: the edge is the radius that holds
             0.99 of the far field's energy
``φ(ν)``     phase of the far field that the initial probe has and the true one lacks, rad
``r``        position (row, col) in pixels; ``r̄`` the mean of a scan's
``λ̄``        Fresnel number of one micrometre: wavelength · 1 µm / pixel², pixels² a cycle²
============ ==============================================================================================

Every function that draws has a stream of its own (:func:`stream`), so that one imperfection does not change
another. NumPy and SciPy alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from ptycho.config.imperfections import Imperfections
from ptycho.scan.probe import centred_axes, energy_diameter

STREAMS = ("aberrations", "blob", "position", "drift", "gap", "flux", "faults", "variation")
HOT = 10.0  # times the brightest expected count: what a hot pixel adds


def stream(seed: int, name: str) -> np.random.Generator:
    """Return the generator of one of ``STREAMS``; a scan's own streams are branches of its seed below 100."""
    return np.random.default_rng([seed, 100, 1 + STREAMS.index(name)])


# What is measured


def incoherent_modes(probe: np.ndarray, count: int, coherence: float) -> np.ndarray:
    """Return modes ``(count, N, N)`` of a probe of an extended source: orthogonal, with the probe's power.

    A source of some size moves the probe about, so that besides P there is some of ``∂P/∂col``, ``∂P/∂row``
    and ``∂²P/∂row∂col`` (derivatives of the trigonometric polynomial; made orthogonal in this order). The
    first mode is P with the share ``coherence`` of the power; of the others each has half as much as the one
    before. Source: Thibault & Menzel, Nature 494, 68 (2013), for the modes.
    """
    if count == 1:
        return probe[None]
    row, col = (2j * np.pi * nu for nu in frequencies(len(probe)))
    wanted = [probe, *(multiply_far_field(probe, factor) for factor in (col, row, row * col)[: count - 1])]
    columns, _ = np.linalg.qr(np.stack([mode.ravel() for mode in wanted], axis=1))
    basis = columns.T.reshape(count, *probe.shape)  # (K, N, N), orthonormal
    rest = 0.5 ** np.arange(count - 1)
    shares = np.concatenate([[coherence], (1 - coherence) * rest / rest.sum()])
    modes = np.sqrt(shares * np.sum(np.abs(probe) ** 2))[:, None, None] * basis
    modes[0] = math.sqrt(coherence) * probe  # without the sign that the basis has
    return modes


def draw_variation(probe: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Draw Q ``(N, N)``, the probe's change over a scan: its derivative by defocus, astigmatism and coma.

    ``Q = F⁻¹[iφ F P]``, φ with amounts and axes drawn, less what lies along P, with the norm ``share ‖P‖``.
    """
    rho, theta = _in_the_pupil(probe)
    turned = theta - rng.uniform(0, 2 * np.pi)
    terms = rho**2, rho**2 * np.cos(2 * turned), (3 * rho**3 - 2 * rho) * np.cos(turned)
    phase = sum(amount * term for amount, term in zip(rng.normal(size=3), terms, strict=True))
    wave = multiply_far_field(probe, 1j * phase)
    wave = wave - probe * (np.vdot(probe, wave) / np.vdot(probe, probe).real)
    return share * np.linalg.norm(probe) / np.linalg.norm(wave) * wave


def draw_flux(count: int, rms: float, rng: np.random.Generator) -> np.ndarray:
    """Return a factor of each dose, ``(count,)``: log-normal about one with standard deviation ``rms``."""
    sigma = math.sqrt(math.log1p(rms**2))
    return np.exp(sigma * rng.normal(size=count) - sigma**2 / 2)


def blur(intensities: np.ndarray, sigma: float) -> np.ndarray:
    """Blur ``(…, N, N)`` by a Gaussian point spread; what leaves at an edge comes back, none is lost."""
    return gaussian_filter(intensities, sigma, mode="reflect", axes=(-2, -1)) if sigma else intensities


def spread_and_scale(expected: np.ndarray, flux: np.ndarray | None, sigma: float) -> np.ndarray:
    """Return the expected patterns ``(n, N, N)`` behind the point spread, with the flux ``(n,)`` of each."""
    spread = blur(expected, sigma)
    return spread if flux is None else spread * flux[:, None, None]


def draw_gaps(N: int, gap_rows: int, gap_columns: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a mask ``(N, N)`` bool, False between modules: N/16 to N/4 from the centre, on either side."""
    good = np.ones((N, N), bool)
    starts = N // 2 + rng.integers(N // 16, N // 4, 2)
    mirrored = rng.random(2) < 0.5
    for axis, width in enumerate((gap_rows, gap_columns)):
        lines = np.arange(starts[axis], starts[axis] + width)
        np.moveaxis(good, axis, 0)[N - lines if mirrored[axis] else lines] = False
    return good


def draw_faults(N: int, bad: int, hot: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw which pixels work, and which shine, both ``(N, N)`` bool; no pixel does neither."""
    chosen = rng.choice(N * N, bad + hot, replace=False)
    marks = np.zeros((2, N * N), bool)
    marks[0, chosen[:bad]] = marks[1, chosen[bad:]] = True
    return ~marks[0].reshape(N, N), marks[1].reshape(N, N)


@dataclass(frozen=True, eq=False)
class Detector:
    """Counter of the photons."""

    good: np.ndarray  # ``(N, N)`` bool, pixels that work; the others read nothing
    glow: np.ndarray | float = 0.0  # ``(N, N)`` or a number: counts in every pattern, of pixels that shine
    background: float = 0.0  # counts per pixel, on average, from elsewhere
    saturation: int | None = None  # counts that no pixel exceeds; None: there is no limit

    def counts(
        self, expected: np.ndarray, rng: np.random.Generator, elsewhere: np.random.Generator | None
    ) -> np.ndarray:
        """Return photons counted where ``expected (n, N, N)`` is expected of the sample; int64.

        Background is drawn by ``elsewhere``: the photons of the sample are those without it.
        """
        photons = rng.poisson(expected + self.glow)
        if elsewhere is not None:
            photons += elsewhere.poisson(self.background, photons.shape)
        if self.saturation is not None:
            photons = np.minimum(photons, self.saturation)
        return np.where(self.good, photons, 0)


# Errors of the recorded probe and positions


def misstate_probe(probe: np.ndarray, settings: Imperfections, fresnel: float, seed: int) -> np.ndarray:
    """Return the probe ``(N, N)`` that a beamline would record, with its errors.

    Args:
        probe: the true one, or its first mode.
        fresnel: λ̄.
        seed: of the scan.
    """
    phase = defocus(len(probe), settings.defocus_um, fresnel)
    phase = phase + aberrations(probe, settings, stream(seed, "aberrations"))
    phase = phase + displacement(len(probe), settings.probe_shift_px)
    given = multiply_far_field(probe, np.exp(1j * phase)) if phase.any() else probe
    if settings.blob:
        given = add_blob(given, settings.blob, stream(seed, "blob"))
    return given if settings.probe_power == 1 else math.sqrt(settings.probe_power) * given


def defocus(N: int, distance_um: float, fresnel: float) -> np.ndarray:
    """Return ``φ = −π λ̄ z |ν|² (N, N)``: propagation by z, as in :func:`ptycho.scan.probe.zone_plate`."""
    row, col = frequencies(N)
    return -np.pi * fresnel * distance_um * (row**2 + col**2)


def aberrations(probe: np.ndarray, settings: Imperfections, rng: np.random.Generator) -> np.ndarray:
    """Return ``φ = 2π (a ρ² cos 2(θ − θ_a) + c (3ρ³ − 2ρ) cos(θ − θ_c))``, a, c in waves, directions drawn.

    Zernike's terms, ``(N, N)``; that of coma moves the probe little. Source: Born & Wolf, Principles of
    Optics, 9.2.
    """
    rho, theta = _in_the_pupil(probe)
    turned = rng.uniform(0, 2 * np.pi, 2)
    astigmatism = rho**2 * np.cos(2 * (theta - turned[0]))
    coma = (3 * rho**3 - 2 * rho) * np.cos(theta - turned[1])
    return 2 * np.pi * (settings.astigmatism_waves * astigmatism + settings.coma_waves * coma)


def pupil_edge(probe: np.ndarray, share: float = 0.99) -> float:
    """Return the radius, in cycles per pixel, with a ``share`` of the energy of ``F P (N, N)``."""
    return energy_diameter(np.fft.fftshift(np.fft.fft2(probe)), share) / 2 / len(probe)


def _in_the_pupil(probe: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ρ and θ of the frequencies of a probe, both ``(N, N)``."""
    row, col = frequencies(len(probe))
    return np.hypot(row, col) / pupil_edge(probe), np.arctan2(row, col)


def displacement(N: int, shift: tuple[float, ...]) -> np.ndarray:
    """Return ``φ = −2π ν·s``, ``(N, N)``: the probe moved by s (row, col)."""
    row, col = frequencies(N)
    return -2 * np.pi * (shift[0] * row + shift[1] * col)


def add_blob(probe: np.ndarray, strength: float, rng: np.random.Generator, size: float = 1 / 8) -> np.ndarray:
    """Return the probe ``(N, N)`` and a Gaussian of ``strength`` times its norm, half-way from its middle.

    The sum has the probe's power. ``size``: σ of the Gaussian over the probe's diameter.
    """
    N, diameter = len(probe), energy_diameter(probe)
    angle, phase = rng.uniform(0, 2 * np.pi, 2)
    rows, cols = centred_axes(N)
    rows, cols = rows - diameter / 4 * np.sin(angle), cols - diameter / 4 * np.cos(angle)
    blob = np.exp(-(rows**2 + cols**2) / (2 * (size * diameter) ** 2) + 1j * phase)
    norm = np.linalg.norm(probe)
    mixed = probe + strength * norm / np.linalg.norm(blob) * blob
    return norm / np.linalg.norm(mixed) * mixed


def record_positions(positions: np.ndarray, settings: Imperfections, width: int, seed: int) -> np.ndarray:
    """Return the positions ``(J, 2)`` that a beamline records for the true ones.

    Args:
        width: positions in a row of the scan, for the backlash.
        seed: of the scan.
    """
    count = len(positions)
    recorded = positions
    if settings.scale_error or settings.rotation_deg:
        recorded = scale_and_turn(positions, 1 + settings.scale_error, settings.rotation_deg)
    if settings.position_px:
        recorded = recorded + stream(seed, "position").normal(0, settings.position_px, (count, 2))
    if settings.drift_px:
        recorded = recorded + draw_drift(count, settings.drift_px, stream(seed, "drift"))
    if settings.backlash_px:
        recorded = recorded + backlash(count, width, settings.backlash_px)
    return recorded


def scale_and_turn(positions: np.ndarray, scale: float, angle_deg: float) -> np.ndarray:
    """Return ``r̄ + m R (r − r̄)``, ``(J, 2)``: a positive angle turns the row axis to the column axis."""
    middle, angle = positions.mean(axis=0), math.radians(angle_deg)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return middle + scale * (positions - middle) @ turn


def draw_drift(count: int, rms: float, rng: np.random.Generator, half_waves: int = 3) -> np.ndarray:
    """Return ``Σ_m a_m/m cos(π m t)``, ``(count, 2)``, t from 0 to 1 over the scan, m to ``half_waves``.

    Its mean is zero, its rms is given.
    """
    time = (np.arange(count) + 0.5) / count
    waves = np.arange(1, min(half_waves, count - 1) + 1)
    moved = np.cos(np.pi * np.outer(time, waves)) / waves @ rng.normal(size=(len(waves), 2))
    return rms * moved / np.sqrt(np.mean(moved**2, axis=0))


def backlash(count: int, width: int, amount: float) -> np.ndarray:
    """Return ``(count, 2)``: columns of every second row, ``width`` positions each, are off by ``amount``."""
    return np.outer(np.arange(count) // width % 2, (0.0, amount))


def multiply_far_field(probe: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Multiply the far field of a wave ``(…, N, N)`` by ``factor``, ``(N, N)`` with ν = 0 at N//2."""
    return np.fft.ifft2(np.fft.fft2(probe) * np.fft.ifftshift(factor))


def frequencies(N: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ν of rows ``(N, 1)`` and of columns ``(1, N)``."""
    rows, cols = centred_axes(N)
    return rows / N, cols / N
