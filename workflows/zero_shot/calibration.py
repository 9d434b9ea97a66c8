"""How well the flags tell wrong reconstructions of the network from right ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from ptycho.evaluation.trust import (
    DISAGREEMENT,
    EXCESS,
    NOISE_SHARE,
    amplitude_in_noise,
    excess,
    outside_training,
)

WRONG, RIGHT = 0.8, 0.95  # amplitude SSIM below which a reconstruction is wrong, above which it is right


@dataclass(frozen=True)
class Point:
    """A reconstruction: what the flags look at, and the amplitude SSIM that they cannot see."""

    excess: float
    disagreement: float
    noise_share: float
    ssim: float
    outside: bool
    in_noise: bool

    @property
    def flagged(self) -> bool:
        return self.outside or self.in_noise


def point_of(row: Mapping[str, Any]) -> Point | None:
    """That of a method's row; None where there is no R-factor."""
    if row["r_factor"] is None:
        return None
    known = row["r_factor"], row["r_noise"]
    apart, share = row.get("disagreement"), row.get("noise_share")
    flags = outside_training(*known, apart), amplitude_in_noise(share)
    return Point(excess(*known), apart or 0.0, share or 0.0, row["ssim"][0] or 0.0, *flags)


def in_words(points: Sequence[Point]) -> str:
    wrong = [point for point in points if point.ssim < WRONG]
    right = [point for point in points if point.ssim > RIGHT]
    return (
        f"A flag is raised for {sum(p.flagged for p in wrong)} of {len(wrong)} reconstructions that are "
        f"wrong (amplitude SSIM below {WRONG:g}): `outside_training` for {sum(p.outside for p in wrong)}, "
        f"`amplitude_in_noise` for {sum(p.in_noise for p in wrong)}; and for {sum(p.flagged for p in right)} "
        f"of {len(right)} that are right (above {RIGHT:g}). Limits: √(R² − R_noise²) {EXCESS:g}, "
        f"disagreement {DISAGREEMENT:g}, share of noise {NOISE_SHARE:g}."
    )


def drawn(points: Sequence[Point]) -> Figure:
    """Every reconstruction by what the flags look at; their limits; colours by the SSIM."""
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
    for ax, limit in ((left, NOISE_SHARE), (right, DISAGREEMENT)):
        ax.axhline(EXCESS, color="0.3", linestyle="--", linewidth=1)
        ax.axvline(limit, color="0.3", linestyle="--", linewidth=1)
        ax.grid(alpha=0.3)
    left.set(xscale="log", xlabel="noise_share", ylabel="√(R² − R of photon noise²)")
    right.set(xlabel="disagreement of overlapping regions")
    left.legend(fontsize="small")
    return figure
