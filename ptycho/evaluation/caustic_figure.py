"""The caustic of a probe → Matplotlib figure: two cuts along the beam, and the width of each plane."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm

from ptycho.evaluation.caustic import Caustic, waist_text
from ptycho.evaluation.lengths import length_text
from ptycho.evaluation.scan_figures import ShownFigure


def draw_caustic(caustic: Caustic, title: str, faint: float = 0.01) -> ShownFigure:
    """Draw intensity over distance and row (y–z), distance and column (x–z), and the width over distance.

    Args:
        faint: share of the largest intensity; the pictures end where a cut is nowhere above it.
    """
    figure = ShownFigure(figsize=(16, 4.6), layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=(1, 1, 0.8))
    scale, unit = _unit(float(np.abs(caustic.distance_m).max()))
    z, distance = scale * caustic.distance_m, caustic.waist_m[0]
    cuts = (
        ("column (x)", caustic.col_cut, caustic.pixel_m[1]),
        ("row (y)", caustic.row_cut, caustic.pixel_m[0]),
    )
    top = max(float(caustic.row_cut.max()), float(caustic.col_cut.max()), 1e-30)
    for ax, (name, cut, pitch) in zip(axes, cuts, strict=False):
        axis = (np.arange(cut.shape[1]) - cut.shape[1] // 2) * pitch
        across, across_unit = _unit(float(np.abs(axis).max()))
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
        _mark(ax, scale * distance)
    figure.colorbar(shown, ax=axes[1], fraction=0.046, label="intensity / largest, square-root scale")
    across, across_unit = _unit(float(caustic.fwhm_m.max()))
    axes[2].plot(z, across * caustic.fwhm_m, color="tab:blue")
    axes[2].set(ylim=(0, None), xlim=(z[0], z[-1]), ylabel=f"width (FWHM) / {across_unit}")
    _mark(axes[2], scale * distance)
    facts = caustic.facts()
    at_sample = length_text(1e9 * (facts["fwhm_at_sample_m"] or 0.0))
    axes[2].set_title(f"waist: {waist_text(facts)}\nprobe at the sample: {at_sample} wide", fontsize="medium")
    for ax in axes:
        ax.set_xlabel(f"distance from the sample along the beam / {unit}")
    axes[2].legend(loc="upper center", fontsize="small")
    figure.suptitle(title)
    return figure


def _mark(axes: Axes, waist: float) -> None:
    """Draw where the sample is, and the narrowest plane."""
    axes.axvline(0, color="tab:green", linestyle="--", linewidth=1.2, label="sample")
    if np.isfinite(waist):
        axes.axvline(waist, color="tab:cyan", linestyle=":", linewidth=1.5, label="narrowest plane")


def _unit(metres: float) -> tuple[float, str]:
    """Return what a length in metres is multiplied by, and the unit in which it is no long number."""
    for limit, scale, unit in ((1e-9, 1e10, "Å"), (1e-6, 1e9, "nm"), (1e-3, 1e6, "µm")):
        if metres < limit:
            return scale, unit
    return 1e3, "mm"
