"""Curves and places of a scan → Matplotlib axes, for the pictures of a run and for its report alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ptycho.evaluation.frc import Curve
from ptycho.evaluation.scan_figures import ends_of

Losses = Sequence[Mapping[str, float]]  # rows with epoch, loss, val_loss


def draw_misfit(axes: Axes, places: np.ndarray, r_factors: np.ndarray, unit: str = "pixel") -> None:
    """Draw the R-factor ``(J,)`` of each pattern at its place ``(J, 2)`` (row, col)."""
    low, high = ends_of(r_factors)
    shown = axes.scatter(
        places[:, 1], places[:, 0], c=r_factors, vmin=low, vmax=high, s=14, cmap="inferno", plotnonfinite=True
    )
    axes.figure.colorbar(shown, ax=axes, fraction=0.046, label="R-factor")
    _as_on_the_sample(axes, unit)


def draw_shifts(axes: Axes, places: np.ndarray, shifts: np.ndarray, unit: str) -> None:
    """Draw shifts ``(J, 2)`` as arrows from ``places (J, 2)``, both (row, col) in ``unit``."""
    (rows, cols), (down, right) = places.T, shifts.T
    axes.plot(cols, rows, ".", color="0.6", markersize=3)
    axes.margins(0.12)  # arrows do not count for the limits
    axes.quiver(
        cols, rows, right, down, angles="xy", scale_units="xy", scale=1, color="tab:blue", width=0.003
    )
    _as_on_the_sample(axes, unit)


def _as_on_the_sample(axes: Axes, unit: str) -> None:
    axes.set(xlabel=f"column / {unit}", ylabel=f"row / {unit}", aspect="equal")
    axes.invert_yaxis()


def draw_detector(axes: Axes, by_pixel: np.ndarray) -> None:
    """Draw χ² of each detector pixel ``(N, N)``: about 1 where noise is all, less where it is dark."""
    shown = axes.imshow(by_pixel, vmin=0, vmax=max(2.0, float(np.quantile(by_pixel, 0.999))), cmap="inferno")
    axes.figure.colorbar(shown, ax=axes, fraction=0.046, label="mean χ²; noise alone: up to 1")
    axes.set(xlabel="column / pixel", ylabel="row / pixel")


def draw_correlations(axes: Axes, curves: Mapping[str, Curve]) -> None:
    """Draw ring correlations by name, with the thresholds 1/2 and 1/7."""
    for name, (frequency, correlation) in curves.items():
        axes.plot(frequency, correlation, label=name, linewidth=1.2)
    for value, style in ((0.5, "--"), (1 / 7, ":")):
        axes.axhline(value, color="gray", linestyle=style, linewidth=1)
    axes.set(xlabel="spatial frequency / Nyquist", ylabel="FRC", xlim=(0, 1), ylim=(-0.1, 1.05))
    if curves:
        axes.legend(loc="lower left", fontsize="small")


def draw_losses(axes: Axes, histories: Mapping[str, Losses]) -> None:
    """Draw the losses of trainings by name, over the epochs."""
    for name, rows in histories.items():
        for key, label in (("loss", "training"), ("val_loss", "validation")):
            epochs, values = ([row[column] for row in rows] for column in ("epoch", key))
            axes.semilogy(epochs, values, "o-", markersize=3, label=f"{name}, {label}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="epoch", ylabel="loss")
    axes.legend(fontsize="small")


def quality(
    positions: np.ndarray,
    r_factors: np.ndarray,
    halves: tuple[np.ndarray, dict[str, np.ndarray]] | None,
    histories: Mapping[str, Losses],
    by_pixel: np.ndarray | None = None,
) -> Figure:
    """Return R-factors ``(J,)`` of the patterns over the scan, and what else there is.

    That is the mean χ² of each detector pixel ``(N, N)``, ring correlation of halves (frequencies ``(K,)``
    and correlations by direction), and losses.
    """
    panels = 1 + (by_pixel is not None) + (halves is not None) + bool(histories)
    figure = Figure(figsize=(5.4 * panels, 4.6), layout="constrained")
    axes = iter(figure.subplots(1, panels, squeeze=False)[0])
    draw_misfit(ax := next(axes), positions, r_factors)
    ax.set_title("misfit of each pattern")
    if by_pixel is not None:
        draw_detector(ax := next(axes), by_pixel)
        ax.set_title("misfit of each detector pixel")
    if halves is not None:
        frequency, curves = halves
        draw_correlations(ax := next(axes), {name: (frequency, curve) for name, curve in curves.items()})
        ax.set_title("two half scans")
    if histories:
        draw_losses(ax := next(axes), histories)
        ax.set_title("losses")
    return figure
