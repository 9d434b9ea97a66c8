"""Figures of a measured scan and of its reconstruction: arrays → Matplotlib figure."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ptycho.evaluation.display import (
    ORIENTATION,
    WRAPPED,
    ShownPhase,
    hue,
    residues,
    scale_length,
    show_phase,
    shrink,
    wheel,
)
from ptycho.scan.ramp import levelled

Ends = tuple[float, float]
Pixel = tuple[float, float] | None  # (row, col) pitch of the object's pixels in metres, if it is known
NOTHING = "#d9c9a8"  # where nothing is known: in none of the colour maps


def draw_inspection(
    mean: np.ndarray,
    good: np.ndarray,
    centre: tuple[int, int],
    window: int,
    pattern: np.ndarray,
    positions: np.ndarray,
    probe: np.ndarray | None,
    title: str,
    pixel_m: Pixel,
) -> Figure:
    """Draw the mean frame with the window that is cut out, one pattern, the positions, and the probe if any.

    Args:
        mean, good: mean intensity and good pixels of the oriented frames, ``(H, W)``.
        centre, window: zero frequency (row, col), and side of the window, in pixels of the frame.
        pattern: one prepared pattern, intensity ``(N, N)``.
        positions: ``(J, 2)`` in object pixels, whose pitch is ``pixel_m``.
        probe: complex ``(N, N)``, the strongest mode.
    """
    columns, length = 3 + (probe is not None), "pixel"
    if pixel_m is not None:
        metres = positions * np.array(pixel_m)
        length, scale = ("nm", 1e9) if np.ptp(metres, axis=0).max() < 1e-7 else ("µm", 1e6)
        positions = scale * metres
    figure = ShownFigure(figsize=(4.4 * columns, 4.6), layout="constrained")
    axes = figure.subplots(1, columns)
    _logarithmic(figure, axes[0], np.where(good, mean, np.nan), "mean frame")
    axes[0].set_facecolor("tab:red")
    corner = (centre[1] - window / 2 - 0.5, centre[0] - window / 2 - 0.5)
    axes[0].add_patch(Rectangle(corner, window, window, fill=False, ec="tab:orange", lw=1.5))
    axes[0].plot(centre[1], centre[0], "+", color="tab:orange", markersize=10)
    axes[0].set_xlabel(f"{good.size - good.sum()} bad pixels in red; box: the window of the patterns")
    _logarithmic(figure, axes[1], pattern, f"one pattern, {len(pattern)} × {len(pattern)}")
    y, x = positions.T
    axes[2].plot(x, y, "-", color="0.8", lw=0.6)
    shown = axes[2].scatter(x, y, c=np.arange(len(x)), s=6, cmap="viridis")
    figure.colorbar(shown, ax=axes[2], fraction=0.046, label="pattern")
    axes[2].set(title=f"{len(x)} scan positions", xlabel=f"column / {length}", ylabel=f"row / {length}")
    axes[2].set_aspect("equal")
    axes[2].invert_yaxis()
    if probe is not None:
        show_probe(axes[3], probe, pixel_m)
        axes[3].set_title("probe")
    figure.suptitle(title)
    return figure


def _logarithmic(figure: Figure, axes: Axes, image: np.ndarray, title: str) -> None:
    top = float(np.nanmax(image)) if np.isfinite(image).any() else 1.0
    positive = image[image > 0]  # of few photons, a single one is not black
    low = max(top * 1e-6, min(float(positive.min()), top / 10)) if positive.size else 1e-3
    shown = axes.imshow(
        np.maximum(image, low), norm=LogNorm(low, max(top, low * 10)), cmap="magma", interpolation="nearest"
    )
    figure.colorbar(shown, ax=axes, fraction=0.046, label="intensity")
    axes.set_title(title)


@dataclass(frozen=True, eq=False)
class Picture:
    """Picture of a reconstruction: its well illuminated part, downsampled if it is large.

    Outside this part there is more noise than object; the files hold the whole covered region.

    Attributes:
        amplitude: ``(h, w)``, NaN where it is not shown.
        phase: the same in rad, levelled.
        grey: amplitudes that are black and white.
        colour: phases at the ends of the colour scale.
        pixels: object pixels along the side of a picture pixel.
        probe: complex ``(N, N)``, the strongest mode.
        residues: ``(n, 3)``, place (row, col) in picture pixels and charge of each residue of the phase,
            determined in object pixels.
    """

    amplitude: np.ndarray
    phase: ShownPhase
    grey: Ends
    colour: Ends
    pixels: int
    probe: np.ndarray
    residues: np.ndarray

    @classmethod
    def of(
        cls, image: np.ndarray, mask: np.ndarray, illuminated: np.ndarray, probe: np.ndarray, side: int = 1200
    ) -> Picture:
        """Return the picture of an object ``(M, M)``, complex.

        Args:
            mask: ``(M, M)`` bool, its covered part.
            illuminated: ``(M, M)`` bool, the well illuminated part, which is shown; of nothing, all that is
                covered.
            side: of the picture in pixels, at most.
        """
        shown = mask & illuminated if (mask & illuminated).any() else mask
        part = box_of(shown)
        level = levelled(image[part], shown[part])
        level[~shown[part]] = np.nan
        amplitude, pixels = shrink(np.abs(level), side)
        phase = show_phase(np.angle(shrink(level, side)[0]))
        marks = residues(np.angle(level))
        marks[:, :2] = (marks[:, :2] + 0.5) / pixels - 0.5
        return cls(amplitude, phase, ends_of(amplitude), phase_ends(phase), pixels, probe, marks)

    def in_scale_of(self, other: Picture) -> Picture:
        """Return the picture with the scales of another; a wrapped and an unwrapped phase keep their own."""
        alike = (self.phase.kind == WRAPPED) == (other.phase.kind == WRAPPED)
        return replace(self, grey=other.grey, colour=other.colour if alike else self.colour)

    @property
    def channels(self) -> tuple[tuple[np.ndarray, Ends, str, str], ...]:
        """Values ``(h, w)``, ends, colours and label of the amplitude and of the phase."""
        return (
            (self.amplitude, self.grey, "gray", "amplitude"),
            (self.phase.values, self.colour, self.phase.colours, self.phase.label),
        )


def phase_ends(phase: ShownPhase, least: float = 0.02) -> Ends:
    """Return the ends of the colours of a phase, ``least`` rad apart; of a wrapped one −π and π."""
    return (-np.pi, np.pi) if phase.kind == WRAPPED else ends_of(phase.values, least)


def ends_of(values: np.ndarray, least: float = 1e-6) -> Ends:
    """Return ends between which nearly all values ``(…)`` lie, at least so far apart."""
    finite = values[np.isfinite(values)]
    low, high = np.quantile(finite, (0.002, 0.998)) if finite.size else (0.0, 1.0)
    wider = max(least - (high - low), 0) / 2
    return float(low - wider), float(high + wider)


def box_of(mask: np.ndarray) -> tuple[slice, slice]:
    """Return the rows and columns of what a mask ``(H, W)`` holds; all, where it holds nothing."""
    rows, cols = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    return (slice(rows[0], rows[-1] + 1), slice(cols[0], cols[-1] + 1)) if len(rows) else np.s_[:, :]


class ShownFigure(Figure):
    """A figure that a notebook shows where it is the value of a cell, without pyplot."""

    def _repr_png_(self) -> bytes:
        """Return the figure as PNG for IPython, which uses Matplotlib's inline backend instead if it runs."""
        png = io.BytesIO()
        self.savefig(png, format="png", dpi=100)
        return png.getvalue()


def draw_reconstruction(picture: Picture, pixel_m: Pixel, title: str) -> Figure:
    """Draw amplitude and phase of the well illuminated part of an object, and the probe, with scale bars."""
    figure = ShownFigure(figsize=(15, 5.6), layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=(1, 1, 0.7))
    for ax, channel in zip(axes, picture.channels, strict=False):
        show_channel(figure, ax, channel, pixel_m, picture.pixels)
    show_probe(axes[2], picture.probe, pixel_m)
    mark_residues(axes[1], picture.residues)
    for ax, text in zip(axes, ("amplitude", "phase, its plane removed", "probe"), strict=True):
        ax.set_title(text)
    figure.suptitle(title)
    return figure


def side_by_side(pictures: dict[str, Picture], pixel_m: Pixel) -> Figure:
    """Draw amplitude, phase and probe of several reconstructions of one scan, a column each, by their titles.

    All amplitudes have one grey scale and all phases one colour scale: those of the last.
    """
    last = next(reversed(pictures.values()))
    figure = Figure(figsize=(4.6 * len(pictures), 13), layout="constrained")
    axes = figure.subplots(3, len(pictures), squeeze=False)
    for column, (title, picture) in zip(axes.T, pictures.items(), strict=True):
        for ax, channel in zip(column, picture.in_scale_of(last).channels, strict=False):
            show_channel(figure, ax, channel, pixel_m, picture.pixels)
        mark_residues(column[1], picture.residues)
        show_probe(column[2], picture.probe, pixel_m)
        column[0].set_title(title)
    for ax, label in zip(axes[:, 0], ("amplitude", "phase", "probe"), strict=True):
        ax.set_ylabel(label)
    return figure


def draw_slices(pictures: Sequence[Picture], pixel_m: Pixel, title: str, most: int = 4) -> Figure:
    """Draw the phase of each slice of a thick object, along the beam; at most so many in a row."""
    columns = min(len(pictures), most)
    rows = -(-len(pictures) // columns)
    figure = ShownFigure(figsize=(5 * columns, 5 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for k, (ax, picture) in enumerate(zip(axes, pictures, strict=False)):
        show_channel(figure, ax, picture.channels[1], pixel_m, picture.pixels)
        ax.set_title(f"slice {k}: phase, its plane removed")
    for ax in axes[len(pictures) :]:
        ax.set_axis_off()
    figure.suptitle(title)
    return figure


def draw_variation(
    probe: np.ndarray,
    opr_modes: np.ndarray,
    opr_weights: np.ndarray,
    pixel_m: Pixel,
    title: str,
    most: int = 6,
) -> Figure:
    """Draw the first probe mode in the first and the last pattern, the OPR modes, and their weights.

    Args:
        probe: P_0, ``(N, N)`` complex.
        opr_modes, opr_weights: V ``(K', N, N)`` and w ``(J, K')``, as in a beam.
        most: OPR modes that are shown.
    """
    power = np.sum(np.abs(opr_modes) ** 2, axis=(1, 2)) * np.mean(np.abs(opr_weights) ** 2, axis=0)
    shares = 100 * power / np.sum(np.abs(probe) ** 2)
    ends = (probe + np.tensordot(opr_weights[j], opr_modes, 1) for j in (0, -1))
    waves = dict(zip(("probe of the first pattern", "probe of the last pattern"), ends, strict=True))
    for k, mode in enumerate(opr_modes[:most]):
        waves[f"OPR mode {k + 1}: {shares[k]:.2g} % of the power"] = mode
    figure = ShownFigure(figsize=(4 * len(waves), 8), layout="constrained")
    grid = figure.add_gridspec(2, len(waves))
    for k, (name, wave) in enumerate(waves.items()):
        ax = figure.add_subplot(grid[0, k])
        show_probe(ax, wave, pixel_m)
        ax.set_title(name)
    ax = figure.add_subplot(grid[1, :])
    for k, (weights, share) in enumerate(zip(opr_weights.T[:most], np.sqrt(shares / 100), strict=False)):
        for part, style in ((weights.real, "-"), (weights.imag, ":")):
            ax.plot(share * part, style, color=f"C{k}", lw=1, label=f"OPR mode {k + 1}" * (style == "-"))
    ax.set(xlabel="pattern", ylabel="weight / norm of the probe", title="weights; dotted: imaginary part")
    ax.legend(frameon=False)
    figure.suptitle(title)
    return figure


def show_channel(
    figure: Figure, axes: Axes, channel: tuple[np.ndarray, Ends, str, str], pixel_m: Pixel, pixels: int = 1
) -> None:
    """Draw values of an object with colour bar, scale bar and a line on the orientation.

    Args:
        channel: values ``(h, w)``, ends, colours and label, as in :attr:`Picture.channels`.
        pixel_m, pixels: of the object, and how many of them along a side are one of the values.
    """
    values, (low, high), colours, label = channel
    shown = axes.imshow(values, cmap=colours, vmin=low, vmax=high, interpolation="nearest")
    figure.colorbar(shown, ax=axes, fraction=0.046, label=label)
    scale_bar(axes, values.shape, pixel_m, pixels)
    axes.set(xticks=[], yticks=[], facecolor=NOTHING)
    axes.set_xlabel(ORIENTATION, fontsize="small")


def mark_residues(axes: Axes, marks: np.ndarray) -> None:
    """Mark residues ``(n, 3)`` of :attr:`Picture.residues` by their charge; many of them by small marks."""
    if not len(marks):
        return
    size = float(np.clip(4000 / len(marks), 3, 24))
    for charge, face, edge in ((1, "white", "black"), (-1, "black", "white")):
        rows, cols = marks[np.sign(marks[:, 2]) == charge, :2].T
        axes.scatter(cols, rows, s=size, c=face, edgecolors=edge, linewidths=0.6)
    text = f"{len(marks)} residue{'s'[: len(marks) != 1]} (phase vortices): ○ +, ● −"
    axes.set_xlabel(f"{axes.get_xlabel()}\n{text}", fontsize="small")


def show_probe(axes: Axes, probe: np.ndarray, pixel_m: Pixel) -> None:
    """Draw a complex probe ``(N, N)``: lightness amplitude, hue phase; with their key and a scale bar."""
    axes.imshow(hue(probe), interpolation="nearest")
    scale_bar(axes, probe.shape, pixel_m)
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel("lightness: amplitude, hue: phase", fontsize="small")
    key = axes.inset_axes((0.78, 0.78, 0.17, 0.17))
    key.imshow(wheel(101))
    key.set_axis_off()
    for x, y, text in ((0.5, 1.16, "π/2"), (1.16, 0.5, "0"), (0.5, -0.16, "−π/2"), (-0.16, 0.5, "π")):
        key.text(x, y, text, transform=key.transAxes, color="white", ha="center", va="center", fontsize=7)


def draw_errors(
    amplitude: np.ndarray, phase: np.ndarray, illuminated: np.ndarray, pixel_m: Pixel, title: str
) -> Figure:
    """Draw the standard deviations ``(M, M)`` of amplitude and phase (rad), within ``illuminated (M, M)``."""
    part = box_of(illuminated)
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    labels = ("σ of the amplitude", "σ of the phase / rad")
    for ax, values, label in zip(figure.subplots(1, 2), (amplitude, phase), labels, strict=True):
        shown, pixels = shrink(np.where(illuminated[part], values[part], np.nan), 1200)
        show_channel(figure, ax, (shown, ends_of(shown), "magma", label), pixel_m, pixels)
        ax.set_title(label)
    figure.suptitle(title)
    return figure


def scale_bar(axes: Axes, shape: tuple[int, ...], pixel_m: Pixel, pixels: int = 1) -> None:
    """Draw a bar of a round length, about a fifth of the width.

    ``pixel_m``, ``pixels``: of the object, and how many of them along a side are one of the picture.
    """
    width, text = scale_length(pixels * shape[1], None if pixel_m is None else 1e9 * pixel_m[1])
    width, x, y = width / pixels, 0.04 * shape[1], 0.95 * shape[0]
    axes.add_patch(Rectangle((x, y), width, max(0.012 * shape[0], 1), fc="white", ec="black", lw=0.6))
    axes.text(x, y - 0.02 * shape[0], text, color="white", ha="left", va="bottom").set_bbox(
        {"fc": "black", "alpha": 0.4, "lw": 0, "pad": 1.5}
    )
