"""Results of the study of grid lines → a table, differences, and a picture."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import pydantic
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.study.framework import STRICT, Store
from benchmarks.tables import markdown

TICKS = (0.3, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
BEST = 0.9995  # SSIM at the end of an axis; a constant phase scores 1 exactly
REFERENCES = ("constant", "truth_blurred_1px")  # rows of every metrics.json

SCORES = {  # heading, format
    "amplitude": ("A", ".4f"),
    "phase": ("φ", ".4f"),
    "phase_rmse_rad": ("φ RMSE / rad", ".4f"),
    "frc50": ("frc50 of A", ".3f"),
}
COSTS = {
    "seconds": ("training / s", ".1f"),
    "compile_s": ("compile / s", ".1f"),
    "simulation_s": ("simulation / s", ".1f"),
    "parameters": ("parameters", ",.0f"),
}
CAPTION = (
    "Median over the seeds (smallest–largest). A, φ: SSIM of amplitude and phase by the stitching `{first}`; "
    "{others}: A by others; `constant`, `truth_blurred_1px`: A of a flat image, and of the truth "
    "blurred by one pixel. Training: time of the steps, without compilation and simulation. {machines}."
)


@pydantic.dataclasses.dataclass(frozen=True, config=STRICT)
class Published:
    """SSIM of amplitude and phase from the literature, and its source."""

    source: str
    amplitude: float | None = None
    phase: float | None = None

    @property
    def text(self) -> str:
        pair = ("–" if value is None else f"{value:g}" for value in (self.amplitude, self.phase))
        return f"{' / '.join(pair)} ({self.source})"


@pydantic.dataclasses.dataclass(frozen=True, config=STRICT)
class Experiment:
    """The name of ``conf/experiment/<name>.yaml``, and the model in the table."""

    name: str
    title: str
    model: Literal["pinn", "baseline"] = "pinn"
    published: Published | None = None


@pydantic.dataclasses.dataclass(frozen=True, config=STRICT)
class Difference:
    """``A(cell) − A(minus)``."""

    title: str
    cell: str
    minus: str


class Spread(NamedTuple):
    """Median, smallest and largest of some values."""

    median: float
    low: float
    high: float

    def text(self, style: str) -> str:
        median, low, high = (format(value, style) for value in self)
        return median if low == high else f"{median} ({low}–{high})"


def spread_of(values: Sequence[float | None]) -> Spread | None:
    """Return the spread of the values that are not None; None if there are none."""
    there = [value for value in values if value is not None]
    return Spread(statistics.median(there), min(there), max(there)) if there else None


def format_spread(values: Spread | None, style: str) -> str:
    return "–" if values is None else values.text(style)


@dataclass(frozen=True)
class Results:
    """An experiment, and the stored results of its cells, None for a missing one."""

    experiment: Experiment
    by_cell: Mapping[str, Any]

    @cached_property
    def done(self) -> list[Any]:
        return [result for result in self.by_cell.values() if result is not None]

    def score(self, row: str, score: str) -> Spread | None:
        return spread_of([result["rows"].get(row, {}).get(score) for result in self.done])

    def amplitudes(self, row: str) -> dict[int, float | None]:
        """Return the amplitude SSIM of a row by seed."""
        return {
            int(name.rpartition("seed")[2]): result["rows"][row]["amplitude"]
            for name, result in self.by_cell.items()
            if result is not None
        }


def write(
    results: Sequence[Results], stitching: Sequence[str], differences: Sequence[Difference], store: Store
) -> str:
    """Return the report as Markdown; the pictures are written into the store."""
    first = stitching[0]
    machines = dict.fromkeys(result["machine"] for one in results for result in one.done)
    others = ", ".join(f"`{name}`" for name in stitching[1:])
    ran = "; ".join(machines) or "Nothing has run"
    parts = [CAPTION.format(first=first, others=others, machines=ran)]
    parts.append(markdown([format_row(one, stitching) for one in results]))
    by_name = {one.experiment.name: one for one in results}
    shown = [one for one in differences if {one.cell, one.minus} <= by_name.keys()]
    if shown:
        parts.append(markdown([format_difference(one, by_name, first) for one in shown]))
    store.figure("comparison.png", draw_comparison(results, first))
    return "\n\n".join([*parts, "![Published values and ours](comparison.png)"])


def format_row(one: Results, stitching: Sequence[str]) -> dict[str, str]:
    """Return an experiment as a row of the table."""
    first, others = stitching[0], (*stitching[1:], *REFERENCES)
    published = one.experiment.published
    row = {"cell": f"**{one.experiment.name}**: {one.experiment.title}"}
    row["runs"] = f"{len(one.done)} of {len(one.by_cell)}"
    row |= {heading: format_spread(one.score(first, key), style) for key, (heading, style) in SCORES.items()}
    row |= {f"`{other}`": format_spread(one.score(other, "amplitude"), ".4f") for other in others}
    for key, (heading, style) in COSTS.items():
        row[heading] = format_spread(spread_of([result["costs"][key] for result in one.done]), style)
    row["published A / φ"] = "" if published is None else published.text
    flags = (flag for result in one.done for flag in result["rows"][first]["flags"])
    row["flags"] = ", ".join(dict.fromkeys(flags))
    return row


def format_difference(one: Difference, results: Mapping[str, Results], row: str) -> dict[str, str]:
    """Return a difference over the seeds of both experiments, as a row of the table."""
    this, minus = (results[name].amplitudes(row) for name in (one.cell, one.minus))
    pairs = [(this[seed], minus[seed]) for seed in this if seed in minus]
    found = spread_of([a - b if a is not None and b is not None else None for a, b in pairs])
    return {"of": one.title, "A": f"{one.cell} − {one.minus}", "difference": format_spread(found, ".4f")}


def draw_comparison(results: Sequence[Results], first: str) -> Figure:
    """Draw the SSIM of every experiment, in a panel for amplitude and one for phase.

    Filled marker: our median, with smallest to largest, by the ``first`` stitching. Hollow marker: published.
    """
    figure = Figure(figsize=(11, 2.0 + 0.34 * len(results)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for ax, score in zip(panels, ("amplitude", "phase"), strict=True):
        for level, one in enumerate(results):
            _draw_marks(ax, one, first, score, level)
        ax.set(xlim=(1 - TICKS[0], (1 - BEST) * 0.8), xscale="log", xlabel="SSIM", title=score)
        ax.set_xticks([1 - tick for tick in TICKS], [f"{tick:g}" for tick in TICKS], rotation=60)
        ax.minorticks_off()
        ax.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(range(len(results)), [one.experiment.name for one in results])
    panels[0].invert_yaxis()
    panels[0].plot([], [], "o-", color="tab:blue", label="ours: median, min–max")
    panels[0].plot([], [], "o", color="black", fillstyle="none", label="published")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_marks(ax: Axes, one: Results, first: str, score: str, level: int) -> None:
    ours = one.score(first, score)
    published = getattr(one.experiment.published, score, None)
    if ours is not None:
        ax.plot([lost(ours.low), lost(ours.high)], [level, level], color="tab:blue", linewidth=2)
        ax.plot(lost(ours.median), level, "o", color="tab:blue")
    if published is not None:
        ax.plot(lost(published), level, "o", color="black", fillstyle="none")


def lost(ssim: float) -> float:
    """Return the coordinate of an SSIM on a logarithmic axis, ``1 − SSIM``, clipped to its range."""
    return 1 - min(max(ssim, TICKS[0]), BEST)
