"""The caustic of a probe: the wave around the sample by the exact angular spectrum, its waist, a figure.

======== ==================================================================================================
``P``    probe in the sample plane, ``(N, N)``; ``z`` along the beam from the sample, waves are exp(+ikz)
``I_z``  ``|F⁻¹[H_z F P]|²``, H_z of :class:`ptycho.config.waves.FreeSpace`, in a periodic window
``A_z``  ``(Σ I_z)² / Σ I_z²`` in square metres; ``π w²`` of a Gaussian beam with the 1/e² radius w
width    ``√(2 ln 2 A/π)``: the full width at half maximum of the Gaussian beam with the same A
``NA``   sine of half the angle of the cone that holds a share of the power; depth of field ``λ/NA²``
======== ==================================================================================================

For a Gaussian beam ``A_z = π w₀² (1 + (z − z₀)²/z_R²)``, so a parabola through three planes gives its waist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.ticker import EngFormatter, MaxNLocator
from scipy import fft

from ptycho.config.waves import FreeSpace
from ptycho.evaluation.display import length_text
from ptycho.evaluation.scan_figures import ShownFigure

Pair = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Caustic:
    """Two cuts through the wave around the sample, and its width.

    Attributes:
        distance_m: ``(n,)``, z from the sample, ascending.
        row_cut, col_cut: ``(n, N)``, intensity along the row and the column axis through the brightest point
            of the narrowest plane.
        fwhm_m: ``(n,)``, width of each plane.
        pixel_m: pitch along rows and columns.
        facts: for ``metrics.json``: distance and width of the waist (None: none is in reach), width at the
            sample, depth of field, and wavelength.
    """

    distance_m: np.ndarray
    row_cut: np.ndarray
    col_cut: np.ndarray
    fwhm_m: np.ndarray
    pixel_m: Pair
    facts: dict[str, float | None]


def waist_text(facts: Mapping[str, float | None], near: float = 0.05) -> str:
    """Return width and place of the waist in words, from :attr:`Caustic.facts`.

    Args:
        near: depths of field; closer to the sample it is in its plane.
    """
    distance, width = facts["distance_m"], facts["fwhm_m"]
    if distance is None or width is None:
        return "not in reach"
    place = f"{length_text(1e9 * abs(distance))} {'behind' if distance > 0 else 'before'} the sample"
    if abs(distance) < near * (facts["depth_of_field_m"] or 0.0):
        place = "at the sample"
    return f"{length_text(1e9 * width)} wide, {place}"


def caustic(
    probe: np.ndarray, wavelength_m: float, pixel_m: Pair, planes: int | None = None, energy: float = 0.9
) -> Caustic:
    """Propagate a probe through its focus.

    The range is symmetric about the sample. It contains the waist and three depths of field, and ends where
    the cone of the beam fills the window, because a periodic window is wrong beyond that.

    Args:
        probe: complex ``(N, N)``, not zero; its middle at ``N//2``.
        wavelength_m, pixel_m: wavelength, and pitch along rows and columns, in metres.
        planes: an odd number; None: 101, or 41 of large windows.
        energy: share of the power in the cone of ``NA``.
    """
    N = len(probe)
    planes = planes or (101 if N <= 256 else 41)
    travelling = np.abs(FreeSpace.of(wavelength_m, wavelength_m, pixel_m).transfer(N)) > 1 - 1e-6
    spectrum = np.where(travelling, fft.fft2(fft.ifftshift(probe.astype(complex))), 0)
    NA = wavelength_m * _cone(np.square(np.abs(spectrum)), pixel_m, energy)
    depth, reach = wavelength_m / NA**2, N * min(pixel_m) / (2 * NA)

    def waves(half: float) -> Iterator[tuple[float, np.ndarray]]:
        back, step = (
            FreeSpace.of(z, wavelength_m, pixel_m).transfer(N) for z in (half, 2 * half / (planes - 1))
        )
        wave = spectrum * back.conj()
        for z in np.linspace(-half, half, planes):
            yield float(z), np.square(np.abs(fft.fftshift(fft.ifft2(wave))))
            wave *= step

    _, rough, brightest = min((_area(part), z, int(part.argmax())) for z, part in waves(reach))
    row, col = np.unravel_index(brightest, probe.shape)
    half = min(reach, max(3 * depth, 1.3 * abs(rough)))
    cuts = [(z, part[:, col].copy(), part[row].copy(), _area(part)) for z, part in waves(half)]
    distances, row_cut, col_cut, areas = (np.array(part) for part in zip(*cuts, strict=True))
    place, least = _vertex(distances, areas)
    widths = np.sqrt(2 * np.log(2) / np.pi * np.prod(pixel_m) * np.array([least, *areas]))
    waist = {"distance_m": place, "fwhm_m": float(widths[0])} if np.isfinite(place) else {}
    facts: dict[str, float | None] = {"distance_m": None, "fwhm_m": None} | waist
    facts |= {"fwhm_at_sample_m": float(widths[1 + planes // 2]), "depth_of_field_m": depth}
    return Caustic(distances, row_cut, col_cut, widths[1:], pixel_m, facts | {"wavelength_m": wavelength_m})


def _area(intensity: np.ndarray) -> float:
    """``(Σ I)² / Σ I²`` in pixels."""
    return float(intensity.sum() ** 2 / np.sum(intensity**2))


def _vertex(places: np.ndarray, values: np.ndarray) -> Pair:
    """Return place and value of the vertex of a parabola through the least of values ``(n,)`` and two beside.

    NaN: the least is at an end, or values are equal.
    """
    k = int(np.argmin(values))
    if not 0 < k < len(values) - 1:
        return np.nan, np.nan
    a, b, c = np.polyfit([-1, 0, 1], values[k - 1 : k + 2], 2)
    if not a > 1e-9 * c:
        return np.nan, np.nan
    return float(places[k] - b / (2 * a) * (places[1] - places[0])), float(c - b**2 / (4 * a))


def _cone(power: np.ndarray, pixel_m: Pair, share: float) -> float:
    """Return the radius in cycles per metre, around the mean, that holds a share of a power ``(N, N)``."""
    rows, cols = (fft.fftfreq(len(power), pitch) for pitch in pixel_m)
    middle = [part @ power.sum(axis=axis) / power.sum() for part, axis in ((rows, 1), (cols, 0))]
    radius = np.hypot(*np.meshgrid(rows - middle[0], cols - middle[1], indexing="ij")).ravel()
    order = np.argsort(radius)
    held = float(np.interp(share * power.sum(), np.cumsum(power.ravel()[order]), radius[order]))
    return max(held, 0.5 / (len(power) * max(pixel_m)))


def draw_caustic(caustic: Caustic, title: str, faint: float = 0.01) -> ShownFigure:
    """Draw intensity over distance and row (y–z), distance and column (x–z), and the width over distance.

    Args:
        faint: share of the largest intensity; the pictures end where a cut is nowhere above it.
    """
    figure = ShownFigure(figsize=(16, 4.6), layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=(1, 1, 0.8))
    (row, col), z, facts = caustic.pixel_m, caustic.distance_m, caustic.facts
    top = max(float(caustic.row_cut.max()), float(caustic.col_cut.max()))
    cuts = ("column (x)", caustic.col_cut, col), ("row (y)", caustic.row_cut, row)
    for ax, (name, cut, pitch) in zip(axes, cuts, strict=False):
        axis = (np.arange(cut.shape[1]) - cut.shape[1] // 2) * pitch
        shown = ax.pcolormesh(z, axis, cut.T / top, norm=PowerNorm(0.5, 0, 1), cmap="magma")
        reach = 1.1 * np.abs(axis[(cut > faint * top).any(axis=0)]).max(initial=pitch)
        ax.set(ylim=(reach, -reach), ylabel=name, title=f"cut along the {name.split()[0]}s")
    figure.colorbar(shown, ax=axes[1], fraction=0.046, label="intensity / largest, square-root scale")
    axes[2].plot(z, caustic.fwhm_m, color="tab:blue")
    axes[2].set(ylim=(0, None), xlim=(z[0], z[-1]), ylabel="width (FWHM)")
    at_sample = length_text(1e9 * (facts["fwhm_at_sample_m"] or 0.0))
    waist = f"waist: {waist_text(facts)}\nprobe at the sample: {at_sample} wide"
    axes[2].set_title(waist, fontsize="medium")
    for ax in axes:
        ax.axvline(0, color="tab:green", linestyle="--", linewidth=1.2, label="sample")
        if facts["distance_m"] is not None:
            narrowest = {"color": "tab:cyan", "linestyle": ":", "label": "narrowest plane"}
            ax.axvline(facts["distance_m"], linewidth=1.5, **narrowest)
        ax.set_xlabel("distance from the sample along the beam")
        ax.xaxis.set_major_locator(MaxNLocator(4))
        for side in (ax.xaxis, ax.yaxis):
            side.set_major_formatter(EngFormatter("m"))
    axes[2].legend(loc="upper center", fontsize="small")
    figure.suptitle(title)
    return figure
