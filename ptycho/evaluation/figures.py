"""Arrays → Matplotlib figures. Nothing here touches files or pyplot's global state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ptycho.evaluation.charts import Losses, draw_correlations, draw_losses
from ptycho.evaluation.display import WRAPPED, ShownPhase, show_phase
from ptycho.evaluation.frc import Curve
from ptycho.evaluation.metrics import Region, phase
from ptycho.evaluation.scan_figures import Ends, show_channel, show_probe
from ptycho.evaluation.trust import FLAGS

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
