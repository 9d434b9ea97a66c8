"""Figures of a network on simulated scans: scores by kind, the worst objects, measures of the flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure, SubFigure

from benchmarks.study.ssim_scale import BEST, LABELS, TICKS, lost
from ptycho.evaluation.display import SEQUENTIAL, ShownPhase
from ptycho.evaluation.figures import AMPLITUDE_MAP, phase_limits
from ptycho.evaluation.metrics import CHANNELS, phase
from ptycho.evaluation.trust import LIMITS

LOSS_MAP = "cividis"  # bright is bad; readable for the colour-blind
DARK = 0.45  # fraction of the colour scale below which numbers are white
WRONG, RIGHT = 0.8, 0.95  # amplitude SSIM below which a reconstruction is wrong, above which it is right


class Point(NamedTuple):
    """A reconstruction: measures of the flags, the amplitude SSIM (which they do not use), and two flags."""

    excess: float
    disagreement: float
    noise_share: float
    ssim: float
    outside: bool
    in_noise: bool


def draw_heat_map(probes: Sequence[str], objects: Sequence[str], grids: Mapping[str, np.ndarray]) -> Figure:
    """Draw the SSIM of probes × objects, amplitude above and phase below, a column for every method.

    Args:
        grids: SSIM of amplitude and of phase ``(2, P, O)`` by method; NaN: not measured.
    """
    count = max(len(grids), 1)
    size = (2.2 + count * (0.8 + 0.62 * len(objects)), 2 * (1.5 + 0.36 * len(probes)))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(2, count, squeeze=False, sharex=True, sharey=True)
    norm = LogNorm(1 - BEST, 1 - TICKS[0])
    for column, (method, pair) in enumerate(grids.items()):
        for ax, grid, kind in zip(panels[:, column], pair, CHANNELS, strict=True):
            shown = ax.imshow(lost(grid), cmap=LOSS_MAP, norm=norm, aspect="auto")
            ax.set_title(f"{method}, {kind}", fontsize="medium")
            _write_numbers(ax, grid, norm)
    for ax in panels[:, 0]:
        ax.set_yticks(range(len(probes)), probes)
    for ax in panels[1]:
        ax.set_xticks(range(len(objects)), objects, rotation=40, ha="right")
    if grids:
        bar = figure.colorbar(shown, ax=panels, fraction=0.03, pad=0.01, label="SSIM, scale of log(1 − SSIM)")
        bar.set_ticks(LABELS[0], labels=LABELS[1])
        bar.minorticks_off()
    return figure


def _write_numbers(ax: Axes, grid: np.ndarray, norm: LogNorm) -> None:
    """Write the value into every field, white on dark and black on bright ones."""
    for (row, col), value in np.ndenumerate(grid):
        if np.isfinite(value):
            colour = "white" if norm(float(lost(value))) < DARK else "black"
            text = f"{value:.3f}".removeprefix("0")
            ax.text(col, row, text, ha="center", va="center", fontsize=8, color=colour)


def draw_flags(points: Sequence[Point]) -> Figure:
    """Draw every reconstruction by the measures of the flags, with their limits; colours by SSIM."""
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    kinds = {
        f"wrong, SSIM < {WRONG:g}": ("C3", "v", lambda p: p.ssim < WRONG),
        "between": ("0.6", "o", lambda p: WRONG <= p.ssim <= RIGHT),
        f"right, SSIM > {RIGHT:g}": ("C0", "^", lambda p: p.ssim > RIGHT),
    }
    for label, (colour, marker, belongs) in kinds.items():
        some = [point for point in points if belongs(point)]
        y = [point.excess for point in some]
        for ax, x in ((left, [p.noise_share for p in some]), (right, [p.disagreement for p in some])):
            ax.scatter(x, y, c=colour, marker=marker, label=label, edgecolors="black", linewidths=0.4)
    for ax, limit in ((left, LIMITS.noise_share), (right, LIMITS.disagreement)):
        ax.axhline(LIMITS.excess, color="0.3", linestyle="--", linewidth=1)
        ax.axvline(limit, color="0.3", linestyle="--", linewidth=1)
        ax.grid(alpha=0.3)
    left.set(xscale="log", xlabel="noise_share", ylabel="√(R² − R of photon noise²)")
    right.set(xlabel="disagreement of overlapping regions")
    left.legend(fontsize="small")
    return figure


def draw_gallery(lines: Sequence[str], images: Sequence[Mapping[str, np.ndarray]], method: str) -> Figure:
    """Draw a row for each reconstruction: amplitude and phase of truth and object, and the probe.

    Args:
        lines: title of each row.
        images: ``truth``, ``probe`` and the aligned ``object``, complex.
        method: name of the method of the object.
    """
    figure = Figure(figsize=(13, 0.4 + 2.75 * max(len(lines), 1)), layout="constrained")
    parts = figure.subfigures(max(len(lines), 1), 1, squeeze=False)[:, 0]
    for part, line, shown in zip(parts, lines, images, strict=False):
        part.suptitle(line, fontsize=9, x=0.01, ha="left")
        truth, image, probe = shown["truth"], shown["object"], np.abs(shown["probe"])
        bright = (float(np.abs(truth).min()), float(np.abs(truth).max()))
        angles, axes = phase_limits(ShownPhase(phase(truth))), part.subplots(1, 5)
        for ax, wave, title in zip(axes[:2], (truth, image), ("truth", method), strict=True):
            _show(part, ax, np.abs(wave), AMPLITUDE_MAP, bright, f"{title}, amplitude")
        for ax, wave, title in zip(axes[2:4], (truth, image), ("truth", method), strict=True):
            _show(part, ax, phase(wave), SEQUENTIAL, angles, f"{title}, phase / rad")
        _show(part, axes[4], probe, "magma", (0.0, float(probe.max())), "probe, amplitude")
    return figure


def _show(
    figure: SubFigure, ax: Axes, image: np.ndarray, cmap: str, limits: tuple[float, float], title: str
) -> None:
    shown = ax.imshow(image, cmap=cmap, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    figure.colorbar(shown, ax=ax, fraction=0.046, pad=0.02).ax.tick_params(labelsize=7)
    ax.set_title(title, fontsize=8)
    ax.set_xticks([])
    ax.set_yticks([])
