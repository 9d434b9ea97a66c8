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
from dataclasses import asdict, dataclass

import numpy as np
from matplotlib.colors import PowerNorm
from scipy import fft

from ptycho.config.waves import FreeSpace
from ptycho.evaluation.display import length_text, unit_of
from ptycho.evaluation.scan_figures import ShownFigure

Pair = tuple[float, float]
PREFIX = "caustic_"


@dataclass(frozen=True)
class CausticOptions:
    """Range and sampling of the propagation of a probe."""

    depths: float = 3.0  # of field on each side of the sample, at least
    beyond: float = 1.3  # times the distance of the waist, at least
    planes: int = 101  # of the picture
    fewest: int = 41  # where planes are large
    pixels: int = 2**23  # of all planes together, beyond which there are fewer
    energy: float = 0.9  # share of the power in the cone of ``NA``
    cone: float = 3.0  # radii of this cone, beyond which spatial frequencies are left out


@dataclass(frozen=True, eq=False)
class Caustic:
    """Two cuts through the wave around the sample, and its width.

    Attributes:
        distance_m: ``(n,)``, z from the sample, ascending.
        row_cut, col_cut: ``(n, side)`` float32, intensity along the row and the column axis through the
            brightest point of the waist.
        fwhm_m: ``(n,)``, width of each plane.
        pixel_m: ``(2,)``, pitch along rows and columns.
        waist_m: ``(2,)``, distance and width of the narrowest plane; NaN: none is in reach.
        depth_m: depth of field.
    """

    distance_m: np.ndarray
    row_cut: np.ndarray
    col_cut: np.ndarray
    fwhm_m: np.ndarray
    pixel_m: np.ndarray
    waist_m: np.ndarray
    depth_m: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the attributes under names for a file: cuts ``(n, side)``, distances and widths ``(n,)``."""
        return {f"{PREFIX}{name}": value for name, value in asdict(self).items()}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Caustic | None:
        """Return what :meth:`arrays` gave, ``arrays (…)`` by name; None where it is not there, or not of the
        right shapes.
        """
        values = {name: arrays.get(f"{PREFIX}{name}") for name in cls.__dataclass_fields__}
        if any(value is None or value.dtype.kind != "f" for value in values.values()):
            return None
        caustic = cls(**values)  # type: ignore[arg-type]
        n, side = len(np.atleast_1d(caustic.distance_m)), np.shape(caustic.row_cut)[-1:]
        shapes = [value.shape for value in asdict(caustic).values()]
        fits = shapes == [(n,), (n, *side), (n, *side), (n,), (2,), (2,), ()] and n > 2 and side > (2,)
        finite = all(np.isfinite(value).all() for name, value in asdict(caustic).items() if name != "waist_m")
        return caustic if fits and finite and np.all(np.diff(caustic.distance_m) > 0) else None

    def facts(self) -> dict[str, float | None]:
        """Return distance and widths for ``metrics.json``; distance and width null: no waist is in reach."""
        at_sample = np.interp(0.0, self.distance_m, self.fwhm_m)
        distance, width = (float(value) if np.isfinite(value) else None for value in self.waist_m)
        facts = {"distance_m": distance, "fwhm_m": width, "fwhm_at_sample_m": float(at_sample)}
        return facts | {"depth_of_field_m": float(self.depth_m)}


def waist_text(facts: Mapping[str, float | None], near: float = 0.05) -> str:
    """Return width and place of the waist in words, from :meth:`Caustic.facts`.

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
    probe: np.ndarray, wavelength_m: float, pixel_m: Pair, options: CausticOptions | None = None
) -> Caustic:
    """Propagate a probe through its focus.

    The range is symmetric about the sample. It contains the waist and some depths of field, and ends where
    the cone of the beam fills the window, because a periodic window is wrong beyond that.

    Args:
        probe: complex ``(N, N)``, not zero; its middle at ``N//2``.
        wavelength_m, pixel_m: wavelength, and pitch along rows and columns, in metres.
    """
    options = options or CausticOptions()
    spectrum, radius = fft.fft2(fft.ifftshift(probe.astype(complex))), _cone(probe, pixel_m, options.energy)
    window = min(len(probe) * pitch for pitch in pixel_m)
    spectrum, pixel_m = _cropped(spectrum, pixel_m, options.cone * radius)
    side, NA = len(spectrum), wavelength_m * radius
    depth, reach = wavelength_m / NA**2, window / (2 * NA)
    planes = int(np.clip(options.pixels // side**2, options.fewest, options.planes)) // 2 * 2 + 1

    def waves(distances: np.ndarray) -> Iterator[np.ndarray]:
        first, step = (
            FreeSpace.of(z, wavelength_m, pixel_m).transfer(side)
            for z in (distances[0], distances[1] - distances[0])
        )
        travelling = np.abs(FreeSpace.of(wavelength_m, wavelength_m, pixel_m).transfer(side)) > 1 - 1e-6
        wave = np.where(travelling, spectrum * first, 0)
        step = np.where(travelling, step, 0)
        for _ in distances:
            yield np.square(np.abs(fft.fftshift(fft.ifft2(wave))))
            wave *= step

    coarse = np.linspace(-reach, reach, planes)
    rough = coarse[int(np.argmin([_area(intensity) for intensity in waves(coarse)]))]
    half = min(reach, max(options.depths * depth, options.beyond * abs(rough)))
    distances = np.linspace(-half, half, planes)
    intensity = next(waves(np.array([rough, 0.0])))
    row, col = np.unravel_index(int(intensity.argmax()), intensity.shape)
    cuts = [(part[:, col].copy(), part[row].copy(), _area(part)) for part in waves(distances)]
    row_cut, col_cut, areas = (np.array(part) for part in zip(*cuts, strict=True))
    place, least = _vertex(distances, areas)
    widths = np.sqrt(2 * np.log(2) / np.pi * np.prod(pixel_m) * np.array([least, *areas]))
    return Caustic(
        distances,
        row_cut.astype(np.float32),
        col_cut.astype(np.float32),
        widths[1:],
        np.array(pixel_m),
        np.array([place, widths[0]]),
        np.array(depth),
    )


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


def _frequencies(side: int, pixel_m: Pair) -> tuple[np.ndarray, np.ndarray]:
    """Of rows ``(side, 1)`` and columns ``(1, side)``, cycles per metre, zero frequency at sample 0."""
    rows, cols = (fft.fftfreq(side, pitch) for pitch in pixel_m)
    return rows[:, None], cols[None]


def _cone(probe: np.ndarray, pixel_m: Pair, share: float) -> float:
    """Radius in cycles per metre, around the mean, that holds a share of the power of a probe's spectrum."""
    power = np.square(np.abs(fft.fft2(probe.astype(complex))))
    rows, cols = _frequencies(len(probe), pixel_m)
    middle = [np.sum(part * power) / power.sum() for part in (rows, cols)]
    radius = np.hypot(rows - middle[0], cols - middle[1]).ravel()
    order = np.argsort(radius)
    least = 0.5 / (len(probe) * max(pixel_m))
    return max(float(np.interp(share * power.sum(), np.cumsum(power.ravel()[order]), radius[order])), least)


def _cropped(spectrum: np.ndarray, pixel_m: Pair, radius: float) -> tuple[np.ndarray, Pair]:
    """Crop a spectrum to a radius around its middle, and zero; return it and the pixel pitch in metres."""
    N, power = len(spectrum), np.square(np.abs(spectrum))
    frequencies = _frequencies(N, pixel_m)
    reach = [
        pitch * (radius + abs(np.sum(part * power) / power.sum()))
        for part, pitch in zip(frequencies, pixel_m, strict=True)
    ]
    half = int(np.ceil(N * max(reach)))
    if 2 * half + 1 >= N:
        return spectrum, pixel_m
    kept = np.r_[0 : half + 1, N - half : N]
    side = len(kept)
    return spectrum[np.ix_(kept, kept)] * (side / N) ** 2, (pixel_m[0] * N / side, pixel_m[1] * N / side)


def draw_caustic(caustic: Caustic, title: str, faint: float = 0.01) -> ShownFigure:
    """Draw intensity over distance and row (y–z), distance and column (x–z), and the width over distance.

    Args:
        faint: share of the largest intensity; the pictures end where a cut is nowhere above it.
    """
    figure = ShownFigure(figsize=(16, 4.6), layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=(1, 1, 0.8))
    scale, unit = _scale(caustic.distance_m)
    z, waist = scale * caustic.distance_m, scale * caustic.waist_m[0]
    row, col = caustic.pixel_m
    cuts = ("column (x)", caustic.col_cut, col), ("row (y)", caustic.row_cut, row)
    top = max(float(caustic.row_cut.max()), float(caustic.col_cut.max()), 1e-30)
    for ax, (name, cut, pitch) in zip(axes, cuts, strict=False):
        axis = (np.arange(cut.shape[1]) - cut.shape[1] // 2) * pitch
        across, across_unit = _scale(axis)
        low, high = across * (axis[[0, -1]] + np.array([-0.5, 0.5]) * pitch)
        half = (z[1] - z[0]) / 2
        shown = ax.imshow(
            cut.T / top,
            norm=PowerNorm(0.5, 0, 1),
            cmap="magma",
            aspect="auto",
            extent=(z[0] - half, z[-1] + half, high, low),
            interpolation="bilinear",
        )
        bright = np.abs(across * axis[(cut > faint * top).any(axis=0)])
        reach = 1.1 * float(bright.max(initial=across * pitch))
        ax.set(ylim=(min(reach, high), max(-reach, low)), ylabel=f"{name} / {across_unit}")
        ax.set_title(f"cut along the {name.split()[0]}s")
    figure.colorbar(shown, ax=axes[1], fraction=0.046, label="intensity / largest, square-root scale")
    across, across_unit = _scale(caustic.fwhm_m)
    axes[2].plot(z, across * caustic.fwhm_m, color="tab:blue")
    axes[2].set(ylim=(0, None), xlim=(z[0], z[-1]), ylabel=f"width (FWHM) / {across_unit}")
    facts = caustic.facts()
    at_sample = length_text(1e9 * (facts["fwhm_at_sample_m"] or 0.0))
    axes[2].set_title(f"waist: {waist_text(facts)}\nprobe at the sample: {at_sample} wide", fontsize="medium")
    for ax in axes:
        ax.axvline(0, color="tab:green", linestyle="--", linewidth=1.2, label="sample")
        if np.isfinite(waist):
            ax.axvline(waist, color="tab:cyan", linestyle=":", linewidth=1.5, label="narrowest plane")
        ax.set_xlabel(f"distance from the sample along the beam / {unit}")
    axes[2].legend(loc="upper center", fontsize="small")
    figure.suptitle(title)
    return figure


def _scale(metres: np.ndarray) -> tuple[float, str]:
    """Return what lengths in metres are multiplied by, and the unit, in which they are no long numbers."""
    size, unit = unit_of(1e9 * float(np.abs(metres).max()))
    return 1e9 / size, unit
