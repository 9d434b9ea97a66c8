"""Arrays → Matplotlib figures; curves and places of a scan → axes, for a run and its report alike.

Nothing here touches files or pyplot's global state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from ptycho.evaluation.display import WRAPPED, ShownPhase, show_phase
from ptycho.evaluation.frc import Curve
from ptycho.evaluation.metrics import Region, phase
from ptycho.evaluation.scan_figures import Ends, ends_of, show_channel, show_probe
from ptycho.evaluation.trust import FLAGS

Losses = Sequence[Mapping[str, float]]  # rows with epoch, loss, val_loss


def draw_misfit(axes: Axes, places: np.ndarray, r_factors: np.ndarray, unit: str = "pixel") -> None:
    """Draw the R-factor ``(J,)`` of each pattern at its place ``(J, 2)`` (row, col)."""
    low, high = ends_of(r_factors)
    shown = axes.scatter(
        places[:, 1], places[:, 0], c=r_factors, vmin=low, vmax=high, s=14, cmap="inferno", plotnonfinite=True
    )
    axes.figure.colorbar(shown, ax=axes, fraction=0.046, label="R-factor")
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


AMPLITUDE_MAP, ERROR_MAP = "gray", "RdBu_r"


def phase_limits(shown: ShownPhase, least: float = 0.1) -> Ends:
    """Return symmetric limits, ``least`` rad or more, that hold 99.8 % of a phase; of a wrapped one ±π."""
    angles = np.abs(shown.values[np.isfinite(shown.values)])
    bound = max(float(np.quantile(angles, 0.998)), least) if angles.size else least
    return (-np.pi, np.pi) if shown.kind == WRAPPED else (-bound, bound)


def compare(
    truth: np.ndarray,
    recons: dict[str, np.ndarray],
    scores: dict[str, dict],
    probe: np.ndarray,
    covered: Mapping[str, np.ndarray] | None = None,
) -> Figure:
    """Draw truth, every reconstruction and the probe: amplitude above, phase below, shared colour limits.

    Args:
        truth: complex ``(h, w)``, the scored region.
        recons: name → aligned complex ``(h, w)``.
        scores: name → what :func:`ptycho.evaluation.metrics.score` gave for it; its SSIM goes into the title,
            in red with its alarms if it has failed.
        probe: complex ``(N, N)``.
        covered: name → bool ``(h, w)``, what of a reconstruction is drawn; without it, all.
    """
    columns, of_truth = {"truth": truth} | recons, show_phase(phase(truth))
    figure = Figure(figsize=(3.6 * (len(columns) + 1), 7), layout="constrained")
    axes = figure.subplots(2, len(columns) + 1)
    bright, angles = (0.0, float(np.abs(truth).max())), phase_limits(of_truth)
    for column, (name, image) in enumerate(columns.items()):
        part = (covered or {}).get(name)
        angle = of_truth if name == "truth" else of_truth.with_difference(_drawn(_apart(image, truth), part))
        amplitude = _drawn(np.abs(image), part)
        show_channel(figure, axes[0, column], (amplitude, bright, AMPLITUDE_MAP, "amplitude"), None)
        show_channel(figure, axes[1, column], (angle.values, angles, angle.colours, angle.label), None)
        ssim, alarms = [""] * 2, [flag for flag in scores.get(name, {}).get("flags", ()) if flag in FLAGS]
        if name in scores:
            ssim = [f": SSIM {'none' if value is None else f'{value:.4f}'}" for value in scores[name]["ssim"]]
        for ax, kind, text in zip(axes[:, column], ("amplitude", "phase"), ssim, strict=True):
            title = "\n! ".join([f"{name}, {kind}{text}", *alarms])  # a line each: columns are narrow
            ax.set_title(title, color="red" if alarms else "black")
    strength = np.abs(probe)
    key = (strength, (0.0, float(strength.max())), "viridis", "amplitude")
    show_channel(figure, axes[0, -1], key, None)
    show_probe(axes[1, -1], probe, None)
    axes[0, -1].set_title("probe, amplitude")
    axes[1, -1].set_title("probe, amplitude and phase")
    return figure


def _apart(image: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Phase of an image ``(h, w)`` less that of the truth, rad, in (−π, π]; NaN where it has none."""
    return np.where(image == 0, np.nan, np.angle(image * np.where(truth == 0, 1, truth.conj())))


def _drawn(channel: np.ndarray, covered: np.ndarray | None) -> np.ndarray:
    """A real image, left out (NaN) where it is not covered."""
    return channel if covered is None else np.where(covered, channel, np.nan)


def amp_phase(name: str, image: np.ndarray, region: Region, covered: np.ndarray | None = None) -> Figure:
    """Draw a whole reconstruction ``(M, M)``, as stitched, where covered; the scored region is outlined."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    amplitude, angle = _drawn(np.abs(image), covered), show_phase(_drawn(phase(image), covered))
    top = float(np.abs(region.crop(image)).max()) or 1.0
    angles = phase_limits(replace(angle, values=region.crop(angle.values)))
    show_channel(figure, axes[0], (amplitude, (0.0, top), AMPLITUDE_MAP, "amplitude"), None)
    show_channel(figure, axes[1], (angle.values, angles, angle.colours, angle.label), None)
    for ax, kind in zip(axes, ("amplitude", "phase"), strict=True):
        ax.set_title(f"{name}: {kind}, as stitched")
        ax.add_patch(
            Rectangle((region.left, region.top), region.width, region.height, fill=False, ec="tab:orange")
        )
    figure.supxlabel("box: scored region", fontsize="medium")
    return figure


def amp_phase_error(
    name: str, aligned: np.ndarray, truth: np.ndarray, covered: np.ndarray | None = None
) -> Figure:
    """Draw the amplitude and wrapped phase error of an aligned reconstruction ``(h, w)``, where covered."""
    errors = (np.abs(aligned) - np.abs(truth), np.angle(np.exp(1j * (phase(aligned) - phase(truth)))))
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, error, label in zip(axes, errors, ("amplitude error", "phase error / rad"), strict=True):
        counted = error if covered is None or not covered.any() else error[covered]
        bound = max(float(np.quantile(np.abs(counted), 0.998)), 1e-3)
        show_channel(figure, ax, (_drawn(error, covered), (-bound, bound), ERROR_MAP, label), None)
        ax.set_title(f"{name}: {label}, RMS {np.sqrt(np.mean(counted**2)):.2g}")
    return figure


def frc_curves(curves: dict[str, tuple[Curve | None, Curve | None]]) -> Figure:
    """Draw the FRC of amplitude and phase for every reconstruction, with both thresholds."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    for column, (ax, kind) in enumerate(zip(figure.subplots(1, 2), ("amplitude", "phase"), strict=True)):
        known = {name: curve for name, pair in curves.items() if (curve := pair[column]) is not None}
        draw_correlations(ax, known)
        ax.set_title(kind)
        if not known:
            ax.text(0.5, 0.75, "not defined: a constant image", ha="center", transform=ax.transAxes)
    return figure


def history(histories: Mapping[str, Losses]) -> Figure:
    """Draw training and validation loss against the epoch, one panel for each model."""
    figure = Figure(figsize=(5 * max(len(histories), 1), 3.8), layout="constrained")
    panels = figure.subplots(1, max(len(histories), 1), squeeze=False)[0]
    for ax, (name, rows) in zip(panels, histories.items(), strict=False):
        draw_losses(ax, {name: rows})
    return figure
