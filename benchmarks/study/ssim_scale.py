"""An axis of SSIM on a scale of log(1 − SSIM), which separates values close to 1."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes

TICKS = (0.3, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
BEST = 0.9995  # SSIM at the end; a constant phase scores 1 exactly
LABELS = ([1 - tick for tick in TICKS], [f"{tick:g}" for tick in TICKS])


def lost(ssim: Any) -> Any:
    """Return the coordinate of an SSIM on the axis, ``1 − SSIM``, clipped to its range."""
    return 1 - np.clip(ssim, TICKS[0], BEST)


def scale(ax: Axes, which: Literal["x", "y"]) -> None:
    """Make an axis one of SSIM; better is right, or up."""
    limits = (1 - TICKS[0], (1 - BEST) * 0.8)
    if which == "x":
        ax.set(xlim=limits, xscale="log")
        ax.set_xticks(*LABELS, rotation=60)
    else:
        ax.set(ylim=limits, yscale="log")
        ax.set_yticks(*LABELS)
    ax.minorticks_off()
