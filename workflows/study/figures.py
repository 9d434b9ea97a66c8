"""Figures of a study: our scores beside the published ones, and the validation losses of all runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from workflows.study.results import CellResult

TICKS = (0.3, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
BEST = 0.9995  # SSIM at the right edge; a constant phase scores 1 exactly
COLUMNS = 4
REFINED = "refined"  # the stitching that has a mark of its own


def comparison(results: Sequence[CellResult], judged: str) -> Figure:
    """A panel for amplitude and one for phase: SSIM of every cell on a logarithmic scale of ``1 − SSIM``.

    Filled: our median with smallest to largest, by the ``judged`` stitching. Diamond: the median by the
    refined one. Hollow: published. Tick: target.
    """
    figure = Figure(figsize=(11, 2.0 + 0.34 * len(results)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for ax, score in zip(panels, ("amplitude", "phase"), strict=True):
        for level, result in enumerate(results):
            _cell_marks(ax, result, judged, score, level)
        ax.set_xscale("log")
        ax.set_xlim(1 - TICKS[0], (1 - BEST) * 0.8)
        ax.set_xticks([1 - tick for tick in TICKS], [f"{tick:g}" for tick in TICKS], rotation=60)
        ax.minorticks_off()
        ax.set(xlabel="SSIM", title=score)
        ax.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(range(len(results)), [result.cell.name for result in results])
    panels[0].invert_yaxis()
    _legend(figure, panels[0], any(result.spread(REFINED, "amplitude") for result in results))
    return figure


def _cell_marks(ax: Axes, result: CellResult, judged: str, score: str, level: int) -> None:
    ours = result.spread(judged, score)
    if ours is not None:
        ax.plot([_place(ours.low), _place(ours.high)], [level, level], color="tab:blue", linewidth=2)
        ax.plot(_place(ours.median), level, "o", color="tab:blue")
    refined = result.spread(REFINED, score)
    if refined is not None:
        ax.plot(_place(refined.median), level, "d", color="tab:green", markersize=5)
    published, target = (getattr(part, score) for part in (result.cell.published, result.cell.target))
    if published is not None:
        ax.plot(_place(published), level, "o", color="black", fillstyle="none")
    if target is not None:
        ax.plot(_place(target), level, "|", color="tab:orange", markersize=14, markeredgewidth=2)


def _place(ssim: float) -> float:
    """Position on the axis, ``1 − SSIM``, kept inside the panel."""
    return 1 - min(max(ssim, TICKS[0]), BEST)


def _legend(figure: Figure, ax: Axes, refined: bool) -> None:
    """The marks, drawn at no place."""
    ax.plot([], [], "o-", color="tab:blue", label="ours: median, min–max")
    if refined:
        ax.plot([], [], "d", color="tab:green", markersize=5, label="the same, refined stitching")
    ax.plot([], [], "o", color="black", fillstyle="none", label="published")
    ax.plot([], [], "|", color="tab:orange", markersize=14, markeredgewidth=2, linestyle="", label="target")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4)


def validation_losses(results: Sequence[CellResult]) -> Figure:
    """Validation loss against the epoch: a panel for each cell, colours are models, lines runs."""
    columns = min(COLUMNS, len(results))
    rows = math.ceil(len(results) / columns)
    figure = Figure(figsize=(0.6 + 3.4 * columns, 0.6 + 2.4 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, result in zip(panels, results, strict=False):
        for run in result.runs:
            for colour, (name, history) in enumerate(sorted(run.histories.items(), reverse=True)):
                epochs, losses = zip(*history, strict=True)
                label = name if run is result.runs[0] else None
                ax.plot(epochs, losses, ".-", color=f"C{colour}", alpha=0.7, linewidth=1, label=label)
        ax.set_title(result.cell.name, fontsize=9)
        if result.runs:
            ax.set_yscale("log")
            ax.xaxis.get_major_locator().set_params(integer=True)
            ax.legend(fontsize=7)
    for ax in panels[len(results) :]:
        ax.set_axis_off()
    figure.supxlabel("epoch")
    figure.supylabel("validation loss")
    return figure
