"""Scores of a network on simulated scans → a summary, a table a panel, and pictures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.study import zero_shot_figures as figures
from benchmarks.study.framework import Store
from benchmarks.tables import markdown
from ptycho.evaluation import trust

WORST = 10  # reconstructions that are drawn
WRONG, RIGHT = figures.WRONG, figures.RIGHT
ALONE = "zero_shot"  # the method whose flags and worst objects are shown
CAPTION = (
    "Every scan is simulated: the network's probe and positions are the true ones, counts are Poisson's. "
    "SSIM of amplitude / phase, aligned by one complex scale and one phase plane, in a rectangle inside the "
    "hull of the probes' centres. R/noise: r_factor over what photon noise alone would give. Seconds on the "
    "machine as it was, without compilation. `zero_shot`: the network alone; `refined`: then corrected by a "
    "few passes of the solver; `lsqml`: LSQ-ML of pty-chi, "
    "for about as long as `refined`."
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
    """Return the report as Markdown; the pictures are written into the store.

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
    largest = max(panels.values(), key=lambda some: len({tuple(_kinds(row)) for row in some}))
    store.figure("heat_map.png", figures.draw_heat_map(*list_kinds(largest), collect_grids(largest, methods)))
    store.figure("flag.png", figures.draw_flags(points))
    store.figure("worst.png", draw_worst(rows, store))
    parts += ["## The flags", describe_flags(points), "![The measures of the flags](flag.png)"]
    parts += ["![SSIM of probes and objects by method](heat_map.png)"]
    return "\n\n".join([*parts, "![The worst reconstructions without training](worst.png)"])


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


def read_points(results: Iterable[Any]) -> list[figures.Point]:
    """Return the measures of the flags for the reconstructions with an R-factor."""
    points = []
    for result in results:
        if result is not None and result["r_factor"] is not None:
            fit = result["r_factor"], result["r_noise"]
            apart, share = result["disagreement"], result["noise_share"]
            noisy = share is not None and not share <= trust.LIMITS.noise_share
            flags = trust.outside_training(*fit, apart), noisy
            ssim = result["ssim"][0] or 0.0
            points.append(figures.Point(trust.excess(*fit), apart or 0.0, share or 0.0, ssim, *flags))
    return points


def describe_flags(points: Sequence[figures.Point]) -> str:
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


# ---- pictures


def draw_worst(rows: Sequence[Row], store: Store) -> figures.Figure:
    """Draw the worst reconstructions by the network alone, each with possible causes."""
    done = [(min(ssim), row) for row in rows if (ssim := row.ssim(ALONE)) is not None]
    shown = [row for _, row in sorted(done, key=lambda pair: pair[0])[:WORST]]
    images = [dict(np.load(store.path / f"{row.scan.name}/{ALONE}.npz")) for row in shown]
    return figures.draw_gallery([describe_scan(row) for row in shown], images, ALONE)


def describe_scan(row: Row) -> str:
    """Return a line of possible causes of a bad score."""
    scan, parts, result = row.scan.settings, row.scan.parts, row.results[ALONE]
    (amplitude, phase), misfit = row.ssim(ALONE) or (0.0, 0.0), row.misfit(ALONE)
    facts = [
        f"{parts['object']} ({parts['material']}) under {parts['probe']}",
        f"{result['scan']['diameter_px']:.0f} of {scan.N} px",
        f"{parts['scan']}, overlap {scan.overlap:.0%}",
        f"{scan.photons:g} photons",
        f"phase range {result['scan']['phase_range_rad']:.2f} rad",
        f"R/noise {'–' if misfit is None else f'{misfit:.2f}'}",
        f"SSIM A {amplitude:.3f}, φ {phase:.3f}",
    ]
    return "; ".join([*facts, *(flag for flag in result["flags"] if flag in trust.FLAGS)])


def _kinds(row: Row) -> tuple[str, str]:
    return row.scan.parts["probe"], row.scan.parts["object"]


def list_kinds(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Return the names of probes and objects, in their order."""
    probes, objects = zip(*map(_kinds, rows), strict=True)
    return list(dict.fromkeys(probes)), list(dict.fromkeys(objects))


def collect_grids(rows: Sequence[Row], methods: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the SSIM of amplitude and phase ``(2, P, O)`` of probes and objects, by method: the worst."""
    probes, objects = list_kinds(rows)
    grids = {name: np.full((2, len(probes), len(objects)), np.nan) for name in methods}
    for name, grid in grids.items():
        for row in rows:
            probe, object_ = _kinds(row)
            place = np.s_[:, probes.index(probe), objects.index(object_)]
            grid[place] = np.fmin(grid[place], row.ssim(name) or (np.nan, np.nan))
    return grids
