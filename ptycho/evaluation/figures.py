"""Arrays → Matplotlib figures. Nothing here touches files or pyplot's global state."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ptycho.evaluation.frc import Curve
from ptycho.evaluation.metrics import Region, phase
from ptycho.evaluation.trust import FLAGS

AMPLITUDE_MAP, PHASE_MAP, ERROR_MAP = "gray", "viridis", "RdBu_r"
NOTHING = "#d9c9a8"  # where no pattern is: in none of the maps
MIN_PHASE_RANGE = 0.1  # rad; a flat phase is not blown up to show rounding


def _show(
    figure: Figure, axes: Axes, image: np.ndarray, cmap: str, limits: tuple[float, float], label: str
) -> None:
    axes.set_facecolor(NOTHING)
    shown = axes.imshow(image, cmap=cmap, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    figure.colorbar(shown, ax=axes, fraction=0.046, pad=0.03, label=label)
    axes.set_xticks([])
    axes.set_yticks([])


def phase_limits(*images: np.ndarray) -> tuple[float, float]:
    """Symmetric limits in rad that hold 99.8 % of the phases of complex images."""
    angles = np.concatenate([np.abs(phase(image)).ravel() for image in images])
    bound = max(float(np.quantile(angles, 0.998)), MIN_PHASE_RANGE)
    return -min(bound, np.pi), min(bound, np.pi)


def compare(
    truth: np.ndarray,
    recons: dict[str, np.ndarray],
    scores: dict[str, dict],
    probe: np.ndarray,
    covered: Mapping[str, np.ndarray] | None = None,
) -> Figure:
    """Truth, every reconstruction and the probe: amplitude above, phase below, shared colour limits.

    Args:
        truth: complex ``(h, w)``, the scored region.
        recons: name → aligned complex ``(h, w)``.
        scores: name → what :func:`ptycho.evaluation.metrics.score` gave for it; its SSIM goes into the title,
            in red with its alarms if it has failed.
        probe: complex ``(N, N)``.
        covered: name → bool ``(h, w)``, what of a reconstruction is drawn; without it, all.
    """
    columns = {"truth": truth} | recons
    figure = Figure(figsize=(3.6 * (len(columns) + 1), 7), layout="constrained")
    axes = figure.subplots(2, len(columns) + 1)
    amplitude_limits, angle_limits = (0.0, float(np.abs(truth).max())), phase_limits(truth)
    for column, (name, image) in enumerate(columns.items()):
        part = (covered or {}).get(name)
        shown = _drawn(np.abs(image), part), _drawn(phase(image), part)
        _show(figure, axes[0, column], shown[0], AMPLITUDE_MAP, amplitude_limits, "amplitude")
        _show(figure, axes[1, column], shown[1], PHASE_MAP, angle_limits, "phase / rad")
        colour = "red" if _raised(scores.get(name)) else "black"
        axes[0, column].set_title(_title(name, scores.get(name), 0), color=colour)
        axes[1, column].set_title(_title(name, scores.get(name), 1), color=colour)
    _show(figure, axes[0, -1], np.abs(probe), "viridis", (0, float(np.abs(probe).max())), "amplitude")
    visible = np.where(np.abs(probe) > 0.02 * np.abs(probe).max(), np.angle(probe), np.nan)
    _show(figure, axes[1, -1], visible, "twilight", (-np.pi, np.pi), "phase / rad")
    axes[1, -1].set_facecolor("white")
    axes[0, -1].set_title("probe, amplitude")
    axes[1, -1].set_title("probe, phase")
    return figure


def _title(name: str, scores: dict | None, channel: int) -> str:
    kind = ("amplitude", "phase")[channel]
    if scores is None:
        return f"{name}, {kind}"
    value = scores["ssim"][channel]
    text = f"{name}, {kind}: SSIM {'none' if value is None else format(value, '.4f')}"
    alarms = _raised(scores)
    return "\n! ".join([text, *alarms])  # a line each: columns are narrow


def _raised(scores: dict | None) -> list[str]:
    """The flags that a user is told of."""
    return [] if scores is None else [flag for flag in scores["flags"] if flag in FLAGS]


def _drawn(channel: np.ndarray, covered: np.ndarray | None) -> np.ndarray:
    """A real image, left out (NaN) where it is not covered."""
    return channel if covered is None else np.where(covered, channel, np.nan)


def amp_phase(name: str, image: np.ndarray, region: Region, covered: np.ndarray | None = None) -> Figure:
    """A whole reconstruction ``(M, M)``, as stitched, where it is covered; the scored region is outlined."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    inside = region.crop(image)
    amplitudes = np.abs(inside)
    top = float(amplitudes.max()) or 1.0
    _show(figure, axes[0], _drawn(np.abs(image), covered), AMPLITUDE_MAP, (0, top), "amplitude")
    _show(figure, axes[1], _drawn(phase(image), covered), PHASE_MAP, phase_limits(inside), "phase / rad")
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
    """Signed amplitude and wrapped phase error of an aligned reconstruction ``(h, w)``, where covered."""
    errors = (np.abs(aligned) - np.abs(truth), np.angle(np.exp(1j * (phase(aligned) - phase(truth)))))
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, error, label in zip(axes, errors, ("amplitude error", "phase error / rad"), strict=True):
        counted = error if covered is None or not covered.any() else error[covered]
        bound = max(float(np.quantile(np.abs(counted), 0.998)), 1e-3)
        _show(figure, ax, _drawn(error, covered), ERROR_MAP, (-bound, bound), label)
        ax.set_title(f"{name}: {label}, RMS {np.sqrt(np.mean(counted**2)):.2g}")
    return figure


def frc_curves(curves: dict[str, tuple[Curve | None, Curve | None]]) -> Figure:
    """Fourier ring correlation of amplitude and phase for every reconstruction, with both thresholds."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    for column, (ax, kind) in enumerate(zip(figure.subplots(1, 2), ("amplitude", "phase"), strict=True)):
        for name, pair in curves.items():
            curve = pair[column]
            if curve is not None:
                ax.plot(*curve, label=name)
        for value, style in ((0.5, "--"), (1 / 7, ":")):
            ax.axhline(value, color="gray", linestyle=style, linewidth=1)
        if not ax.get_legend_handles_labels()[0]:
            ax.text(0.5, 0.75, "not defined: a constant image", ha="center", transform=ax.transAxes)
        else:
            ax.legend()
        ax.set(
            title=f"{kind}",
            xlabel="spatial frequency / Nyquist",
            ylabel="FRC",
            xlim=(0, 1),
            ylim=(-0.1, 1.05),
        )
    return figure


def history(histories: dict[str, list[dict[str, float]]]) -> Figure:
    """Training and validation loss against the epoch, one panel for each model."""
    figure = Figure(figsize=(5 * max(len(histories), 1), 3.8), layout="constrained")
    panels = figure.subplots(1, max(len(histories), 1), squeeze=False)[0]
    for ax, (name, rows) in zip(panels, histories.items(), strict=False):
        epochs = [row["epoch"] for row in rows]
        for key, label in (("loss", "training"), ("val_loss", "validation")):
            ax.semilogy(epochs, [row[key] for row in rows], "o-", markersize=3, label=label)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set(title=name, xlabel="epoch", ylabel="loss")
        ax.legend()
    return figure
