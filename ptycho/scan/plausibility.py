"""Check that patterns are amplitudes, diffracted by the probe that comes with them.

The mean of the patterns of a scan, ⟨A²⟩, is the far field of the probe, |F P|², blurred by what the object
scatters. Both are blurred (by N/32 pixels; for orientations by one) and compared by their correlation r.
Measured on simulated scans (flat and curved probes of every width, 10⁴ to 10⁹ photons, with and without a
phase, N = 32 to 128) of one pattern, and of 16 and more:

=============================== ========================= =========================== ==================
what                            of right patterns         of wrong ones               limit
=============================== ========================= =========================== ==================
r                               ≥ 0.93, of many 0.98      noise: ≤ 0.34               0.7
r gained by an fftshift         ≤ −0.94                   corner: ≥ 0.94              0.5
displacement in pixels          N/64, of many N/128       what it is                  N/32, at least 2
r gained by turning, a part of  ≤ −0.60, of many −0.88    turned: ≥ 0.60, many 0.88   0.25
1 − r of the turned far field
transmission ⟨|O|²⟩             ≤ 0.72                    intensities: > 10 or whole  10
=============================== ========================= =========================== ==================

Intensities in units of their own (files of the published program) look like amplitudes of another object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptycho.scan.patterns import Statistics
from ptycho.scan.probe import intensity_of


@dataclass(frozen=True)
class PlausibilityOptions:
    """Limits of the table above; r is a correlation."""

    blur: float = 1 / 32  # of N: standard deviation
    like: float = 0.7  # r of patterns that the probe explains
    better: float = 0.5  # r gained, where the zero frequency is in the corner
    asymmetric: float = 0.03  # 1 − r of a far field and its mirror image that can be distinguished
    turned: float = 0.25  # of that, where a pattern is turned
    displaced: float = 1 / 32  # of N
    transmission: float = 10.0  # ⟨|O|²⟩


NOISE, DISPLACEMENT, ORIENTATION = "patterns_unlike_probe", "patterns_displaced", "patterns_mirrored"


def contradictions(
    statistics: Statistics,
    probe: np.ndarray,
    photon_scale: float | None,
    name: str = "amplitudes",
    options: PlausibilityOptions = PlausibilityOptions(),
) -> list[str]:
    """Return why patterns cannot be what they are stored as, a line each.

    Args:
        statistics: of the amplitudes A.
        probe: P, ``(N, N)`` complex, or modes ``(K, N, N)``.
        photon_scale: s, where A² are photon counts; None where they are in units of their own.
        name: of the patterns in their file.
    """
    faults = too_large(statistics.largest, name)
    if faults or photon_scale is None:
        return faults or _in_the_corner(statistics, probe, name, options)
    power = photon_scale**2 * np.sum(np.abs(probe) ** 2, dtype=float)
    transmission = statistics.mean_energy / power
    if statistics.whole and statistics.largest >= 2:  # the root of most whole numbers is none
        faults = [
            f"{name} holds whole numbers alone, up to {statistics.largest:g}: counts or intensities; it must "
            "hold their square roots"
        ]
    elif not transmission <= options.transmission:
        faults = [
            f"{name} holds {transmission:.3g} times the intensity that photon_scale and the probe predict: "
            "intensities instead of their square roots, a hot pixel, or another photon_scale"
        ]
    return faults + _in_the_corner(statistics, probe, name, options)


def too_large(largest: float, name: str, most: float = 1e18) -> list[str]:
    """Return why amplitudes are refused whose square, summed over a pattern, may leave float32."""
    text = f"{name} reaches {largest:g}; must be at most {most:g}: amplitudes, √counts"
    return [text] if largest > most else []


def _in_the_corner(
    statistics: Statistics, probe: np.ndarray, name: str, options: PlausibilityOptions
) -> list[str]:
    mean, far = _compared(statistics, probe, options.blur * probe.shape[-1])
    shifted = _correlation(np.fft.fftshift(mean), far)
    if shifted < options.like or shifted - _correlation(mean, far) < options.better:
        return []
    return [
        f"{name} has its zero frequency in the corner, sample 0; it must be at N//2, the centre of the "
        "window: apply np.fft.fftshift to each pattern"
    ]


def doubts(
    statistics: Statistics, probe: np.ndarray, options: PlausibilityOptions = PlausibilityOptions()
) -> dict[str, str]:
    """Return why patterns of a probe ``(…, N, N)`` are doubtful: a flag, and the evidence in a sentence."""
    N = probe.shape[-1]
    mean, far = _compared(statistics, probe, options.blur * N)
    row, col = displacement(mean, far)
    likeness = _correlation(np.roll(mean, (-row, -col), (0, 1)), far)
    if likeness > options.like and max(abs(row), abs(col)) > max(2, options.displaced * N):
        return {DISPLACEMENT: f"the patterns lie {row} rows and {col} columns off the far field of the probe"}
    if better := _better_turned(statistics, probe, options):
        return {ORIENTATION: f"the patterns fit the far field of the probe better {better}"}
    likeness = _correlation(mean, far)
    if likeness < options.like:
        return {
            NOISE: f"the patterns do not resemble the far field of the probe (correlation {likeness:.2f})"
        }
    return {}


def likeness(statistics: Statistics, probe: np.ndarray) -> float:
    """Return the correlation of the mean pattern with the far field of a probe ``(…, N, N)``."""
    return _correlation(*_compared(statistics, probe, PlausibilityOptions.blur * probe.shape[-1]))


def _better_turned(statistics: Statistics, probe: np.ndarray, options: PlausibilityOptions) -> str | None:
    """Return the orientation in which the patterns fit clearly better, if the far field is asymmetric."""
    mean, far = _compared(statistics, probe, 1)
    gains, upright = {}, _correlation(mean, far)
    for name, turned in ORIENTATIONS.items():
        asymmetry, likeness = 1 - _correlation(turned(far), far), _correlation(turned(mean), far)
        enough = asymmetry > options.asymmetric and likeness > options.like
        if enough and likeness - upright > options.turned * asymmetry:
            gains[name] = likeness - upright
    return max(gains, key=lambda name: gains[name], default=None)


def _compared(statistics: Statistics, probe: np.ndarray, pixels: float) -> tuple[np.ndarray, np.ndarray]:
    """Return ⟨A²⟩ and |F P|², blurred by a Gaussian of so many ``pixels``."""
    far = np.fft.fftshift(intensity_of(np.fft.fft2(probe.astype(complex))))
    return _blurred(statistics.mean_intensity, pixels), _blurred(far, pixels)


def displacement(image: np.ndarray, reference: np.ndarray) -> tuple[int, int]:
    """Return (rows, columns) to shift ``image (N, N)`` back by, cyclically, so that it correlates best."""
    product = np.fft.fft2(image) * np.fft.fft2(reference).conj()
    best = np.unravel_index(np.argmax(np.fft.ifft2(product).real), image.shape)
    half = len(image) // 2
    row, col = (int((k + half) % len(image) - half) for k in best)
    return row, col


def _mirrored(*axes: int) -> Callable[[np.ndarray], np.ndarray]:
    """Reversed along ``axes`` about sample N//2."""

    def turned(image: np.ndarray) -> np.ndarray:
        return np.roll(np.flip(image, axes), [1 - len(image) % 2] * len(axes), axes)

    return turned


ORIENTATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "transposed": np.transpose,
    "with their rows reversed": _mirrored(0),
    "with their columns reversed": _mirrored(1),
    "rotated by 180°": _mirrored(0, 1),
}


def _blurred(image: np.ndarray, pixels: float) -> np.ndarray:
    """A periodic image convolved with a Gaussian of ``pixels``, cut at four of them."""
    from scipy.ndimage import gaussian_filter  # SciPy takes half a second

    return gaussian_filter(image, pixels, mode="wrap")


def _correlation(image: np.ndarray, other: np.ndarray) -> float:
    """Pearson's r of two images; 0 where one is flat."""
    a, b = image - image.mean(), other - other.mean()
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.sum(a * b) / norm) if norm > 0 else 0.0
