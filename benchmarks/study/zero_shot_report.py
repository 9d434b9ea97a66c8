"""Scores of a network on simulated scans → a summary, a table a panel, and a picture of the flags."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from benchmarks.study.framework import Store
from benchmarks.tables import markdown
from ptycho.evaluation import trust

WRONG, RIGHT = 0.8, 0.95  # amplitude SSIM below which a reconstruction is wrong, above which it is right
ALONE = "zero_shot"  # the method whose flags are shown
CAPTION = (
    "Every scan is simulated: the network's probe and positions are the true ones, counts are Poisson's. "
    "SSIM of amplitude / phase, aligned by one complex scale and one phase plane, in a rectangle inside the "
    "hull of the probes' centres. R/noise: r_factor over what photon noise alone would give. Seconds on the "
    "machine as it was, without compilation. `zero_shot`: the network alone; `refined`: then corrected by a "
    "few passes of the solver."
)


@dataclass(frozen=True, eq=False)
class Row:
    """A ``Scan`` of :mod:`benchmarks.study.zero_shot`, and its stored results by method, or None."""

    scan: Any
    results: dict[str, Any]

    def ssim(self, method: str) -> tuple[float, float] | None:
        """Return the SSIM of amplitude and phase; 0 for an object without a score; None: not measured."""
        result = self.results.get(method)
        return None if result is None else (result["ssim"][0] or 0.0, result["ssim"][1] or 0.0)

    def misfit(self, method: str) -> float | None:
        """Return the R-factor over that of photon noise."""
        result = self.results.get(method)
        if result is None or not result["r_factor"] or not result["r_noise"]:
            return None
        return result["r_factor"] / result["r_noise"]


def write(panels: Mapping[str, Sequence[Row]], held_out: Sequence[str], store: Store) -> str:
    """Return the report as Markdown; the picture is written into the store.

    Args:
        panels: rows of each panel, by title.
        held_out: groups of the summary, values of ``Scan.held_out``.
    """
    rows = list({row.scan.name: row for some in panels.values() for row in some}.values())
    methods = [*dict.fromkeys(name for row in rows for name, result in row.results.items() if result)]
    parts = [CAPTION]
    for group in held_out:
        some = [row for row in rows if row.scan.held_out == group]
        if lines := [line for name in methods if (line := format_summary(name, some))]:
            parts += [f"## All scans, {group}", markdown(lines)]
    for title, some in panels.items():
        parts += [f"## {title}", markdown([format_row(row, methods) for row in some])]
    points = read_points(row.results.get(ALONE) for row in rows)
    store.figure("flag.png", draw_flags(points))
    parts += ["## The flags", describe_flags(points), "![The measures of the flags](flag.png)"]
    return "\n\n".join(parts)


# ---- tables


def format_summary(method: str, rows: Sequence[Row]) -> dict[str, str]:
    """Return median and worst scores of a method over its measured scans; empty if there are none."""
    done = {row: ssim for row in rows if (ssim := row.ssim(method)) is not None}
    if not done:
        return {}
    columns = dict(zip(("A", "φ"), zip(*done.values(), strict=True), strict=True))
    misfits = [value for row in done if (value := row.misfit(method)) is not None] or [np.nan]
    seconds = [row.results[method]["seconds"] for row in done]
    line = {"method": f"`{method}`", "scans": f"{len(done)}"}
    for key, values in columns.items():
        line |= {f"{key} median": f"{statistics.median(values):.4f}", f"{key} worst": f"{min(values):.4f}"}
    return line | {
        "R/noise median": f"{statistics.median(misfits):.3f}",
        "R/noise worst": f"{max(misfits):.3f}",
        "seconds median": f"{statistics.median(seconds):.1f}",
        "worst scan": min(done, key=lambda row: min(done[row])).scan.name,
    }


def format_row(row: Row, methods: Sequence[str]) -> dict[str, str]:
    """Return a row of the table: the scan, and SSIM, R/noise and seconds of every method."""
    pairs = {name: row.ssim(name) for name in methods}
    misfits = [row.misfit(name) for name in methods]
    seconds = [(row.results.get(name) or {}).get("seconds") for name in methods]
    return {
        **row.scan.parts,
        "photons": f"{row.scan.settings.photons:g}",
        "N": f"{row.scan.settings.N}",
        **{
            f"{name} A / φ": "not done" if pair is None else f"{pair[0]:.3f} / {pair[1]:.4f}"
            for name, pair in pairs.items()
        },
        "R/noise": ", ".join("–" if value is None else f"{value:.2f}" for value in misfits),
        "seconds": ", ".join("–" if value is None else f"{value:.1f}" for value in seconds),
    }


# ---- flags


class Point(NamedTuple):
    """A reconstruction: measures of the flags, the amplitude SSIM (which they do not use), and two flags."""

    excess: float
    disagreement: float
    noise_share: float
    ssim: float
    outside: bool
    in_noise: bool


def read_points(results: Iterable[Any]) -> list[Point]:
    """Return the measures of the flags for the reconstructions with an R-factor."""
    points = []
    for result in results:
        if result is not None and result["r_factor"] is not None:
            fit = result["r_factor"], result["r_noise"]
            apart, share = result["disagreement"], result["noise_share"]
            noisy = share is not None and not share <= trust.LIMITS.noise_share
            flags = trust.outside_training(*fit, apart), noisy
            ssim = result["ssim"][0] or 0.0
            points.append(Point(trust.excess(*fit), apart or 0.0, share or 0.0, ssim, *flags))
    return points


def describe_flags(points: Sequence[Point]) -> str:
    """Return a text on how well the flags separate wrong reconstructions from right ones."""
    wrong = [point for point in points if point.ssim < WRONG]
    right = [point for point in points if point.ssim > RIGHT]
    some = [f"{sum(p.outside or p.in_noise for p in points)} of {len(points)}" for points in (wrong, right)]
    return (
        f"A flag is raised for {some[0]} reconstructions that are wrong (amplitude SSIM below {WRONG:g}): "
        f"`outside_training` for {sum(p.outside for p in wrong)}, `amplitude_in_noise` for "
        f"{sum(p.in_noise for p in wrong)}; and for {some[1]} that are right (above {RIGHT:g}). Limits: "
        f"√(R² − R_noise²) {trust.LIMITS.excess:g}, disagreement {trust.LIMITS.disagreement:g}, share of "
        f"noise {trust.LIMITS.noise_share:g}."
    )


def draw_flags(points: Sequence[Point]) -> Figure:
    """Draw every reconstruction by the measures of the flags, with their limits; colours by SSIM."""
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
    for ax, limit in ((left, trust.LIMITS.noise_share), (right, trust.LIMITS.disagreement)):
        ax.axhline(trust.LIMITS.excess, color="0.3", linestyle="--", linewidth=1)
        ax.axvline(limit, color="0.3", linestyle="--", linewidth=1)
        ax.grid(alpha=0.3)
    left.set(xscale="log", xlabel="noise_share", ylabel="√(R² − R of photon noise²)")
    right.set(xlabel="disagreement of overlapping regions")
    left.legend(fontsize="small")
    return figure
