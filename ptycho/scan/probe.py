"""Probes: the illumination in the sample plane, ``(N, N)`` complex64, centred at ``N//2``, maximum one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.fft

from ptycho.config import ConfigError, FileProbe, IdealDiskProbe, ProbeConfig, ZonePlateProbe
from ptycho.config.waves import HC_EV_M
from ptycho.files.npz import read_all
from ptycho.files.reading import FileError

log = logging.getLogger(__name__)

KEY = "probeGuess"  # of a probe in a file
HC_KEV_NM = 1e6 * HC_EV_M  # Planck's constant times the speed of light, keV·nm
ZONE_PLATE_WINDOW_NM = 640.0  # field of view when no pixel size is given: 10 nm pixels at N = 64
PADDING = 4  # the zone-plate wave is computed on a window this many times wider than N


def make_probe(config: ProbeConfig, N: int) -> np.ndarray:
    """Return the probe that ``config`` describes, ``(N, N)`` complex64, masked if specified; peak 1."""
    if config.kind not in PROBES:
        raise ConfigError(
            f"probe={config.kind}: only a measured scan has it; must be one of {', '.join(PROBES)}"
        )
    probe = masked(PROBES[config.kind](config, N), config)
    peak = np.abs(probe).max()
    if not peak > 0:
        raise ConfigError("probe: zero everywhere; the probe must carry energy inside its mask")
    return (probe / peak).astype(np.complex64)


def masked(probe: np.ndarray, config: ProbeConfig) -> np.ndarray:
    """Return a probe, or its modes ``(…, N, N)``, that is zero outside the mask, if one is specified."""
    inside = probe_mask(config, probe.shape[-1])
    return probe if inside is None else probe * inside


def probe_mask(config: ProbeConfig, N: int) -> np.ndarray | None:
    """Return the disk ``probe.mask_diameter_px``, ``(N, N)`` bool; None: no mask is specified."""
    diameter = config.mask_diameter_px
    return None if diameter is None else radius(N) <= diameter / 2


def centred_axes(N: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows ``(N, 1)`` and columns ``(1, N)`` from sample ``N//2``, in pixels, float64."""
    axis = np.arange(N, dtype=float) - N // 2
    return axis[:, None], axis[None, :]


def radius(N: int) -> np.ndarray:
    """Return the distance from sample ``N//2`` in pixels, ``(N, N)``."""
    return np.hypot(*centred_axes(N))


def orthogonal_modes(modes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the same partially coherent probe in orthogonal modes, strongest first; and U, ``(K, K)``.

    ``P'_k = Σ_m U_km P_m`` leaves ``Σ_m P_m(x) P̄_m(y)`` as it is.
    """
    flat = modes.reshape(len(modes), -1)
    values, vectors = np.linalg.eigh((flat @ flat.conj().T).astype(np.complex128))
    unitary = vectors[:, np.argsort(-values)].conj().T
    return np.tensordot(unitary, modes, 1).astype(np.complex64), unitary


def ideal_disk(config: IdealDiskProbe, N: int) -> np.ndarray:
    """Return :func:`smooth_disk` ``(N, N)`` with anti-aliased edge, flat phase; lengths scale with N/64."""
    scale = N / 64
    return smooth_disk(N, config.diameter_px64 * scale, config.smoothing_px64 * scale)


def smooth_disk(N: int, diameter_px: float, edge_px: float) -> np.ndarray:
    """Return an anti-aliased disk, smoothed by a Gaussian of σ ``edge_px``; ``(N, N)`` complex128."""
    from scipy.ndimage import gaussian_filter

    return gaussian_filter(np.clip(diameter_px / 2 - radius(N) + 0.5, 0, 1), edge_px).astype(complex)


def zone_plate(config: ZonePlateProbe, N: int) -> np.ndarray:
    """Return the first-order focus of a Fresnel zone plate at ``defocus_um`` behind the focal plane.

    The zone plate of diameter D and outermost zone width Δr has the numerical aperture λ/(2Δr), so its
    pupil is the annulus of spatial frequencies ``ν_stop ≤ |ν| ≤ ν_max = 1/(2Δr)``, with
    ``ν_stop = ν_max · D_stop/D``. Free-space propagation by z (Fresnel, waves exp(+ikz)) multiplies it by
    ``exp(−iπλz|ν|²)``:

        P(x) = F⁻¹[ annulus(ν) · exp(−iπλz|ν|²) ].

    Positive z: the sample is downstream of the focus and sees a diverging wave. Computed on a window
    ``PADDING`` times wider and cropped to N; the energy that the crop loses is logged.
    Source: Goodman, Introduction to Fourier Optics, 4.2 and 5.1; Attwood, Soft X-Rays, chapter 9.
    """
    return focused(zone_plate_far_field(config, N, PADDING * N), N, "zone-plate")


def focused(far: np.ndarray, N: int, optic: str) -> np.ndarray:
    """Return :func:`central_wave` of a far field ``(n, n)``, and log the energy that the crop loses."""
    probe = central_wave(far, N)
    lost = 1 - np.sum(np.abs(probe) ** 2) / np.mean(np.abs(far) ** 2)  # Σ|P|² = Σ|far|²/n² (Parseval)
    log.info("%s probe: %.2f %% of its energy falls outside the %d-pixel window", optic, 100 * lost, N)
    return probe


def central_wave(far: np.ndarray, N: int) -> np.ndarray:
    """Return the central ``(N, N)`` of ``F⁻¹ far``, of a far field ``(n, n)`` with ν = 0 at n//2, n ≥ N."""
    wave = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(far)))
    start = (len(far) - N) // 2
    return wave[start : start + N, start : start + N]


def zone_plate_far_field(config: ZonePlateProbe, N: int, window: int) -> np.ndarray:
    """Return the pupil of :func:`zone_plate` with its defocus, ``(window, window)``, centred at
    ``window//2``.
    """
    wavelength_nm = HC_KEV_NM / config.energy_keV
    pixel_nm = config.pixel_size_nm or ZONE_PLATE_WINDOW_NM / N
    nu_max = 1 / (2 * config.outermost_zone_width_nm)
    if nu_max >= 1 / (2 * pixel_nm):
        raise ConfigError(
            f"probe.outermost_zone_width_nm={config.outermost_zone_width_nm:g}: must be larger than the "
            f"pixel size ({pixel_nm:g} nm), or the pupil does not fit on the detector"
        )
    nu = radius(window) / (window * pixel_nm)
    stop = nu_max * config.central_stop_diameter_um / config.zone_plate_diameter_um
    annulus = (nu <= nu_max) & (nu >= stop)
    if not annulus.any():
        raise ConfigError(
            f"probe.central_stop_diameter_um={config.central_stop_diameter_um:g}: leaves no open pupil at "
            "this sampling; must be clearly smaller than "
            f"probe.zone_plate_diameter_um={config.zone_plate_diameter_um:g}"
        )
    return annulus * np.exp(-1j * np.pi * wavelength_nm * 1e3 * config.defocus_um * nu**2)


def fresnel_number(config: ProbeConfig, N: int) -> float:
    """Return λ̄ of one micrometre, wavelength · 1 µm / pixel²; without units, the default zone plate's."""
    plate = config if isinstance(config, ZonePlateProbe) else ZonePlateProbe()
    return 1e3 * HC_KEV_NM / plate.energy_keV / (plate.pixel_size_nm or ZONE_PLATE_WINDOW_NM / N) ** 2


def file_probe(config: FileProbe, N: int) -> np.ndarray:
    """Return the probe in ``config.file`` (key ``probeGuess``), ``(N, N)`` as ``config.resize`` says."""
    probe = load_probe(config.file)
    side = probe.shape[0]
    if side == N:
        return probe
    if config.resize == "interpolate":
        return interpolated(probe[None], N, side / N, "nearest")[0]
    if side > N:
        raise ConfigError(
            f"probe.resize={config.resize}: the probe in {config.file} is {side} × {side}, larger than "
            f"N={N}; use probe.resize=interpolate"
        )
    if config.resize == "pad":
        return padded(probe, N)
    amplitude = padded(np.abs(probe), N, "edge" if config.resize == "pad_extrapolate" else "constant")
    return amplitude * np.exp(1j * _quadratic_phase(probe, N))


def load_probe(path: str) -> np.ndarray:
    """Read ``probeGuess`` from an NPZ file and check it: ``(n, n)`` complex128, finite, not zero."""
    try:
        probe = read_all(path, {KEY: "cfiu"})[KEY]
    except FileError as error:
        raise ConfigError(f"probe.file={path}: {error}; it must be an .npz with key {KEY}") from error
    name = f"probe.file={path}: probeGuess"
    if probe.ndim != 2 or probe.shape[0] != probe.shape[1] or probe.shape[0] < 8:
        raise ConfigError(f"{name} has shape {probe.shape}; must be (n, n) with n >= 8")
    probe = probe.astype(complex)
    if not np.all(np.isfinite(probe)):
        raise ConfigError(f"{name} holds NaN or infinity; must be finite")
    if not np.any(probe):
        raise ConfigError(f"{name} is zero everywhere; must carry energy")
    return probe


def interpolated(probe: np.ndarray, N: int, step: float, beyond: str = "constant") -> np.ndarray:
    """Return modes ``(K, N, N)`` of ``probe (K, h, w)`` by cubic splines, ``step`` of its pixels apart.

    ``beyond``: what lies beyond it, as of :func:`scipy.ndimage.map_coordinates`.
    """
    from scipy.ndimage import map_coordinates

    axes = [side // 2 + (np.arange(N) - N // 2) * step for side in probe.shape[-2:]]
    grid = np.meshgrid(*axes, indexing="ij")
    return np.stack([map_coordinates(mode, grid, order=3, mode=beyond) for mode in probe])


def padded(images: np.ndarray, N: int, beyond: Literal["constant", "edge"] = "constant") -> np.ndarray:
    """Pad ``(…, n, n)`` to ``(…, N, N)`` by zeros or the values at the edge; ``n//2`` becomes ``N//2``."""
    n = images.shape[-1]
    before = N // 2 - n // 2
    return np.pad(images, [(0, 0)] * (images.ndim - 2) + [(before, N - n - before)] * 2, beyond)


def _quadratic_phase(probe: np.ndarray, N: int) -> np.ndarray:
    """``c0 + c1·ρ²`` fitted to the unwrapped phase, weighted by intensity, on the N × N grid."""
    from skimage.restoration import unwrap_phase

    n = probe.shape[0]
    weight = np.abs(probe).ravel()
    phase = unwrap_phase(np.angle(probe)).ravel()
    basis = np.stack([np.ones(n * n), radius(n).ravel() ** 2], axis=1)
    coefficients, *_ = np.linalg.lstsq(basis * weight[:, None], phase * weight, rcond=None)
    return coefficients[0] + coefficients[1] * radius(N) ** 2


PROBES: dict[str, Callable[[Any, int], np.ndarray]] = {
    "ideal_disk": ideal_disk,
    "zone_plate": zone_plate,
    "npz": file_probe,
}
"""Kind to function: (its settings, N) → complex ``(N, N)`` of any scale, centred at ``N//2``."""


def energy_diameter(probe: np.ndarray, fraction: float = 0.9) -> float:
    """Return the diameter in pixels of a centred circle with ``fraction`` of the energy of ``(…, N, N)``."""
    distance = radius(probe.shape[-1]).ravel()
    order = np.argsort(distance, kind="stable")
    energy = np.cumsum(intensity_of(probe).ravel()[order])
    return 2.0 * float(np.interp(fraction * energy[-1], energy, distance[order]))


def intensity_of(probe: np.ndarray) -> np.ndarray:
    """Return ``Σ_m |P_m|²`` of a probe ``(N, N)`` or ``(K, N, N)``: ``(N, N)``."""
    return (np.abs(probe) ** 2).reshape(-1, *probe.shape[-2:]).sum(axis=0)


def intensity_at_edge(probe: np.ndarray) -> float:
    """Return the mean intensity of a probe ``(…, N, N)`` in the outermost ``N/32`` pixels, over that in all.

    The window of a far field is λz/p wide, p the detector's pitch: what is wider comes in again on the other
    side, and its speckles are narrower than a pixel.
    """
    intensity = intensity_of(probe)
    N = len(intensity)
    width = max(1, N // 32)
    edge = np.ones((N, N), bool)
    edge[width:-width, width:-width] = False
    return float(intensity[edge].mean() / max(intensity.mean(), 1e-30))


def probe_support(probe: np.ndarray, negligible: float = 1e-6) -> int:
    """Return the even side of the central square outside which a probe ``(…, N, N)`` is negligible.

    ``negligible``: amplitude over the largest one.
    """
    N = probe.shape[-1]
    inside = np.abs(probe) > negligible * np.abs(probe).max()
    rows, cols = np.nonzero(inside.reshape(-1, N, N).any(axis=0))
    index = np.concatenate([rows, cols])
    return 2 * max(N // 2 - int(index.min()), int(index.max()) - N // 2 + 1)


def far_field(waves: np.ndarray) -> np.ndarray:
    """Return ``F ψ`` of waves ``(…, H, W)``, unitary; the zero frequency at ``(H//2, W//2)``."""
    axes = (-2, -1)
    return np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(waves, axes=axes), norm="ortho"), axes=axes)


def waves_of(far: np.ndarray) -> np.ndarray:
    """Return the waves ``(…, H, W)`` complex64 of a :func:`far_field`."""
    axes = (-2, -1)
    waves = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(far, axes=axes), norm="ortho"), axes=axes)
    return waves.astype(np.complex64)


def probe_widths(probe: np.ndarray, finer: int = 4, most: int = 2048) -> tuple[float, float]:
    """Return the width of ``probe (…, N, N)`` in pixels, and of its far field in cycles per pixel.

    Both are diameters of the centred circle that holds 90 % of the energy. The far field is sampled ``finer``
    than by the detector, with ``most`` samples a side, so that its width varies smoothly with the probe.
    """
    N = probe.shape[-1]
    window = N * max(1, min(finer, most // N))
    modes = padded(probe.reshape(-1, N, N), window)
    return energy_diameter(probe), energy_diameter(far_field(modes)) / window


def is_far_from(probe: np.ndarray, trained: np.ndarray, ratio: float = 1.25) -> bool:
    """Return whether a width of ``probe (…, N, N)`` differs by more than ``ratio`` from that of training.

    Beyond it, a network is not known to serve another probe than its own.
    """
    pairs = zip(probe_widths(probe), probe_widths(trained), strict=True)
    return any(not 1 / ratio <= ours / theirs <= ratio for ours, theirs in pairs)


def described_widths(probe: np.ndarray) -> str:
    """Return the widths of a probe ``(…, N, N)`` in the sample plane and in the far field, in words."""
    return "{:.1f} pixels across, {:.2g} cycles/pixel in the far field".format(*probe_widths(probe))


@dataclass(frozen=True, eq=False)
class ProbeSupport:
    """A region, and the orthogonal projection on the waves that are zero outside it.

    Π P = M P,  or  Π P = F⁻¹ M F P  in the far field

    Attributes:
        region: M, ``(N, N)`` bool; in the far field the zero frequency is at ``[0, 0]``.
        far_field: it is a region of the far field.
    """

    region: np.ndarray
    far_field: bool = False

    def project(self, modes: np.ndarray) -> np.ndarray:
        """Return the projection of ``(K, N, N)`` complex64, of the same shape and dtype."""
        if not self.far_field:
            return modes * self.region
        return scipy.fft.ifft2(scipy.fft.fft2(modes) * self.region)


def specified_support(config: ProbeConfig, N: int) -> ProbeSupport | None:
    """Return the disk ``probe.mask_diameter_px`` in the sample plane; None: none is specified."""
    disk = probe_mask(config, N)
    return None if disk is None else ProbeSupport(disk)


def pupil_of(modes: np.ndarray, share: float = 0.01, blur: float = 1.5, margin: int = 2) -> ProbeSupport:
    """Return the pupil of an optic by the far field of the probe ``(K, N, N)`` that it makes.

    It is where Σ_m |F P_m|² is above a ``share`` of its 99th percentile, after a Gaussian blur of σ
    ``blur`` pixels, and so many pixels (``margin``) around. Noise that was fitted is spread over the whole
    far field; what an optic lets through is not.
    """
    from scipy.ndimage import binary_dilation, gaussian_filter

    intensity = np.sum(np.abs(scipy.fft.fft2(modes)) ** 2, axis=0)
    smooth = gaussian_filter(intensity, blur, mode="wrap")
    inside = np.pad(smooth > share * np.percentile(smooth, 99), margin, mode="wrap")
    grown = binary_dilation(inside, iterations=margin)
    return ProbeSupport(grown[margin:-margin, margin:-margin], far_field=True)
