"""Figures of a study of zero-shot reconstruction: what fails where, and what the worst look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ptycho.evaluation.figures import AMPLITUDE_MAP, PHASE_MAP, phase_limits
from ptycho.evaluation.metrics import CHANNELS, phase
from workflows.study.figures import BEST, TICKS

LOSS_MAP = "cividis"  # light is bad; told apart by the colour-blind, too
DARK = 0.45  # of the colour scale, below which numbers are white
Grid = np.ndarray  # (rows, columns) of SSIM, NaN where there is none


def heat_map(rows: Sequence[str], columns: Sequence[str], grids: Mapping[str, tuple[Grid, Grid]]) -> Figure:
    """SSIM of probes × objects, amplitude above and phase below, a column for every method.

    Args:
        grids: method → SSIM of amplitude and of phase.
    """
    count = max(len(grids), 1)
    size = (2.2 + count * (0.8 + 0.62 * len(columns)), 2 * (1.5 + 0.36 * len(rows)))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(2, count, squeeze=False, sharex=True, sharey=True)
    norm = LogNorm(1 - BEST, 1 - TICKS[0])
    for column, (method, pair) in enumerate(grids.items()):
        for ax, grid, kind in zip(panels[:, column], pair, CHANNELS, strict=True):
            shown = ax.imshow(_lost(grid), cmap=LOSS_MAP, norm=norm, aspect="auto")
            ax.set_title(f"{method}, {kind}", fontsize="medium")
            _numbers(ax, grid, norm)
    for ax in panels[:, 0]:
        ax.set_yticks(range(len(rows)), rows)
    for ax in panels[1]:
        ax.set_xticks(range(len(columns)), columns, rotation=40, ha="right")
    if grids:
        bar = figure.colorbar(shown, ax=panels, fraction=0.03, pad=0.01, label="SSIM, scale of log(1 − SSIM)")
        bar.set_ticks([1 - tick for tick in TICKS], labels=[f"{tick:g}" for tick in TICKS])
        bar.minorticks_off()
    return figure


def _lost(grid: Grid) -> np.ndarray:
    return 1 - np.clip(grid, TICKS[0], BEST)


def _numbers(ax: Axes, grid: Grid, norm: LogNorm) -> None:
    """The value in every cell, white on dark and black on light."""
    for (row, col), value in np.ndenumerate(grid):
        if np.isfinite(value):
            dark = norm(float(_lost(value))) < DARK
            text = f"{value:.3f}".removeprefix("0")
            ax.text(col, row, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")


def gallery(lines: Sequence[str], images: Sequence[Mapping[str, np.ndarray]], method: str) -> Figure:
    """A row for each reconstruction: truth and ``method`` in amplitude and in phase, and the probe.

    Args:
        lines: what stands above each row.
        images: with ``truth``, ``probe`` and the method's aligned object, complex.
    """
    figure = Figure(figsize=(13, 0.4 + 2.75 * max(len(lines), 1)), layout="constrained")
    parts = figure.subfigures(max(len(lines), 1), 1, squeeze=False)[:, 0]
    for part, line, shown in zip(parts, lines, images, strict=False):
        part.suptitle(line, fontsize=9, x=0.01, ha="left")
        truth, recon, probe = shown["truth"], shown[method], shown["probe"]
        bright = (float(np.abs(truth).min()), float(np.abs(truth).max()))
        angles, axes = phase_limits(truth), part.subplots(1, 5)
        for ax, image, title in ((axes[0], truth, "truth"), (axes[1], recon, method)):
            _show(part, ax, np.abs(image), AMPLITUDE_MAP, bright, f"{title}, amplitude")
        for ax, image, title in ((axes[2], truth, "truth"), (axes[3], recon, method)):
            _show(part, ax, phase(image), PHASE_MAP, angles, f"{title}, phase / rad")
        _show(part, axes[4], np.abs(probe), "magma", (0.0, float(np.abs(probe).max())), "probe, amplitude")
    return figure


def _show(
    figure: Figure, ax: Axes, image: np.ndarray, cmap: str, limits: tuple[float, float], title: str
) -> None:
    shown = ax.imshow(image, cmap=cmap, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    figure.colorbar(shown, ax=ax, fraction=0.046, pad=0.02).ax.tick_params(labelsize=7)
    ax.set_title(title, fontsize=8)
    ax.set_xticks([])
    ax.set_yticks([])
