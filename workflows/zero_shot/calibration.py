"""How well the flag ``outside_training`` tells wrong reconstructions from right ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from ptycho.evaluation.trust import DISAGREEMENT, EXCESS, excess, outside_training

WRONG, RIGHT = 0.8, 0.95  # amplitude SSIM below which a reconstruction is wrong, above which it is right


@dataclass(frozen=True)
class Point:
    """A reconstruction: what the flag looks at, and the amplitude SSIM that it cannot see."""

    excess: float
    disagreement: float
    ssim: float
    flagged: bool


def point_of(row: Mapping[str, Any]) -> Point | None:
    """That of a method's row; None where there is no R-factor."""
    if row["r_factor"] is None:
        return None
    known = row["r_factor"], row["r_noise"]
    apart = row.get("disagreement")
    return Point(excess(*known), apart or 0.0, row["ssim"][0] or 0.0, outside_training(*known, apart))


def in_words(points: Sequence[Point]) -> str:
    wrong = [point for point in points if point.ssim < WRONG]
    right = [point for point in points if point.ssim > RIGHT]
    return (
        f"`outside_training` is raised for {sum(p.flagged for p in wrong)} of {len(wrong)} reconstructions "
        f"that are wrong (amplitude SSIM below {WRONG:g}), and for {sum(p.flagged for p in right)} of "
        f"{len(right)} that are right (above {RIGHT:g}); limits: √(R² − R_noise²) {EXCESS:g}, disagreement "
        f"{DISAGREEMENT:g}."
    )


def drawn(points: Sequence[Point]) -> Figure:
    """Every reconstruction by what the flag looks at; its limits; colours by the SSIM."""
    figure = Figure(figsize=(5.6, 4.4), layout="constrained")
    ax = figure.subplots()
    kinds = {
        f"wrong, SSIM < {WRONG:g}": ("C3", "v", lambda p: p.ssim < WRONG),
        "between": ("0.6", "o", lambda p: WRONG <= p.ssim <= RIGHT),
        f"right, SSIM > {RIGHT:g}": ("C0", "^", lambda p: p.ssim > RIGHT),
    }
    for label, (colour, marker, belongs) in kinds.items():
        some = [point for point in points if belongs(point)]
        x, y = [point.excess for point in some], [point.disagreement for point in some]
        ax.scatter(x, y, c=colour, marker=marker, label=label, edgecolors="black", linewidths=0.4)
    ax.axvline(EXCESS, color="0.3", linestyle="--", linewidth=1)
    ax.axhline(DISAGREEMENT, color="0.3", linestyle="--", linewidth=1)
    ax.set(xlabel="√(R² − R of photon noise²)", ylabel="disagreement of overlapping regions")
    ax.legend(fontsize="small")
    ax.grid(alpha=0.3)
    return figure
