"""Whether patterns can be what they are taken for: amplitudes of counts, diffracted by the probe they come with.

The mean of the patterns of a scan, ⟨A²⟩, is the far field of the probe, |F P|², blurred by what the object
scatters. Both are compared after a Gaussian blur of N/32 pixels, by their correlation coefficient r. Measured
on simulated scans (flat and curved probes of every width, 10⁴ to 10⁹ photons, with and without a phase, N = 32
to 128), the limits below leave this room:

======================== ============================= ============================= =======
what                     of right patterns             of wrong ones                 limit
======================== ============================= ============================= =======
r                        0.93, from 16 patterns 0.98   at most 0.34 (noise)          0.7
r, shifted less as it is at most −0.94                 at least 0.94 (corner)        0.5
displacement             2 pixels, 1 from 16 patterns  what it is                    N/16
transmission ⟨|O|²⟩      at most 0.72                  —                             10
======================== ============================= ============================= =======
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.ndimage import gaussian_filter

from ptycho.scan.patterns import Statistics

BLUR = 1 / 32  # of N: standard deviation
LIKE = 0.7  # r of patterns that the probe explains
BETTER = 0.5  # by which r must be better for patterns whose zero frequency is in the corner
TELLING = 0.1  # 1 − r of a far field and its own mirror image that can be told apart
DISPLACED = 1 / 16  # of N
MAX_TRANSMISSION = 10.0

NOISE, DISPLACEMENT, ORIENTATION = "patterns_unlike_probe", "patterns_displaced", "patterns_mirrored"
MEANINGS = {
    NOISE: "the mean pattern does not resemble the far field of the probe: noise, a hot pixel, or another probe",
    DISPLACEMENT: "the mean pattern lies off the middle of the window, against the far field of the probe",
    ORIENTATION: "the mean pattern resembles the far field of the probe better when transposed or mirrored",
}


def contradictions(
    statistics: Statistics, probe: np.ndarray, photon_scale: float | None, name: str = "amplitudes"
) -> list[str]:
    """What the patterns cannot be, a line each.

    Args:
        statistics: of the amplitudes A.
        probe: P, ``(N, N)`` complex.
        photon_scale: s, where A² are photon counts; None where they are in units of their own.
        name: of the patterns in their file.
    """
    found = []
    if photon_scale is not None:
        found += _no_roots(statistics, name) or _too_bright(statistics, probe, photon_scale, name)
    mean, light = _blurred(statistics.mean_intensity), _blurred(far_field_intensity(probe))
    shifted = _correlation(np.fft.fftshift(mean), light)
    if shifted > LIKE and shifted - _correlation(mean, light) > BETTER:
        found.append(
            f"{name} has its zero frequency in the corner, sample 0; it must be at N//2 in the middle of the "
            "window: apply np.fft.fftshift to each pattern"
        )
    return found


def _no_roots(statistics: Statistics, name: str) -> list[str]:
    """Counts where their square roots should be: the root of most whole numbers is none."""
    if not (statistics.whole and statistics.largest >= 2):
        return []
    return [
        f"{name} holds whole numbers alone, up to {statistics.largest:g}: counts or intensities; it must hold "
        "their square roots"
    ]


def _too_bright(statistics: Statistics, probe: np.ndarray, s: float, name: str) -> list[str]:
    transmission = statistics.mean_energy / (s**2 * np.sum(np.abs(probe) ** 2, dtype=float))
    if transmission <= MAX_TRANSMISSION:
        return []
    return [
        f"{name} holds {transmission:.3g} times the light that photon_scale and the probe let expect: "
        "intensities instead of their square roots, a hot pixel, or another photon_scale"
    ]


def doubts(statistics: Statistics, probe: np.ndarray) -> dict[str, str]:
    """What makes the patterns doubtful: flags, each with a sentence of what was found."""
    mean, light = _blurred(statistics.mean_intensity), _blurred(far_field_intensity(probe))
    likeness, found = _correlation(mean, light), {}
    row, col = displacement(mean, light)
    moved_back = _correlation(np.roll(mean, (-row, -col), (0, 1)), light)
    if max(abs(row), abs(col)) > DISPLACED * len(probe) and moved_back > LIKE:
        found[DISPLACEMENT] = f"the patterns lie {row} rows and {col} columns off the far field of the probe"
    for what, turned in ORIENTATIONS.items():
        asymmetry = 1 - _correlation(turned(light), light)
        if asymmetry > TELLING and _correlation(turned(mean), light) - likeness > asymmetry / 2:
            found[ORIENTATION] = f"the patterns fit the far field of the probe better when {what}"
            break
    if likeness < LIKE and not found:
        found[NOISE] = f"the patterns do not resemble the far field of the probe (correlation {likeness:.2f})"
    return found


def far_field_intensity(probe: np.ndarray) -> np.ndarray:
    """``|F P|²``, zero frequency at N//2; ``(N, N)`` float64."""
    return np.abs(np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(probe.astype(complex))))) ** 2


def displacement(image: np.ndarray, reference: np.ndarray) -> tuple[int, int]:
    """(rows, columns) by which ``image`` must be shifted back, cyclically, to correlate best."""
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
    "the rows are reversed": _mirrored(0),
    "the columns are reversed": _mirrored(1),
    "turned by 180°": _mirrored(0, 1),
}


def _blurred(image: np.ndarray) -> np.ndarray:
    return gaussian_filter(image.astype(float), BLUR * len(image), mode="wrap")


def _correlation(one: np.ndarray, two: np.ndarray) -> float:
    """Pearson's r of two images; 0 where one is flat."""
    a, b = one - one.mean(), two - two.mean()
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.sum(a * b) / norm) if norm > 0 else 0.0
