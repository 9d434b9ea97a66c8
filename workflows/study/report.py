"""Results of a study → ``results.md``, ``results.csv``, ``results.json``, ``spread.md`` and two figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ptycho.run.folder import OutputFolder
from workflows.study import figures
from workflows.study.definition import AT_LEAST, SCORES, Comparison, Study
from workflows.study.results import (
    COLLAPSED,
    REFERENCES,
    CellResult,
    Spread,
    claim_difference,
    holds,
    verdicts,
)

COSTS = ("seconds", "compile_s", "simulation_s", "parameters")
HEADINGS = {
    "amplitude": "amplitude SSIM",
    "phase": "phase SSIM",
    "phase_rmse_rad": "phase RMSE / rad",
    "frc50": "frc50 amplitude",
    "seconds": "training / s",
    "compile_s": "compile / s",
    "simulation_s": "simulation / s",
    "parameters": "parameters",
}
FORMATS = {"frc50": ".3f", "seconds": ".1f", "compile_s": ".1f", "simulation_s": ".1f", "parameters": ",.0f"}
SHORT = {"amplitude": "A", "phase": "φ", "phase_rmse_rad": "φ RMSE", "seconds": "training"}


def write_report(folder: OutputFolder, study: Study, results: Sequence[CellResult], command: str) -> None:
    """Write every table and figure of a study into its folder."""
    judged = study.stitching[0]
    folder.text("results.md", results_markdown(study, results, command))
    folder.table("results.csv", table_rows(study, results))
    folder.json("results.json", as_json(study, results, command))
    folder.text("spread.md", spread_markdown(results, judged, command))
    folder.figure("comparison.png", figures.comparison(results, judged))
    folder.figure("validation_loss.png", figures.validation_losses(results))


# ---- the table


def results_markdown(study: Study, results: Sequence[CellResult], command: str) -> str:
    """Caption, command, the table, the comparisons, and what to know about the runs."""
    headings = ["cell", "row", "runs", *HEADINGS.values(), "published A / φ", "target", "met"]
    parts = [
        _caption(study, results),
        f"    {command}",
        table(headings, [line for result in results for line in _cell_lines(study, result)]),
    ]
    if study.comparisons:
        lines = [line for entry in study.comparisons for line in _comparison_lines(study, entry, results)]
        parts.append(table(["comparison", "claim", "difference", "holds"], lines))
    parts += ["![Published values and ours](comparison.png)", "![Validation losses](validation_loss.png)"]
    notes = [f"- {note}" for result in results for note in _notes(result)]
    return "\n\n".join([*parts, "\n".join(notes)] if notes else parts) + "\n"


def _caption(study: Study, results: Sequence[CellResult]) -> str:
    machines = list(dict.fromkeys(run.machine for result in results for run in result.runs))
    return (
        f"Median over the seeds (smallest–largest). Rows {', '.join(f'`{m}`' for m in study.stitching)}: the "
        f"reconstruction by each stitching; targets are judged on `{study.stitching[0]}`. `constant` and "
        "`truth_blurred_1px`: what a flat image and the truth blurred by one pixel score. Training: time of "
        "the steps, without compilation and simulation, judged by its smallest. "
        f"{'; '.join(machines) or 'Nothing has run'}."
    )


def _cell_lines(study: Study, result: CellResult) -> list[list[str]]:
    """The lines of one cell; what belongs to the cell as a whole is on the first."""
    rows = _rows(study, result)
    scores = [[_cell_text(result.spread(row, score), score) for score in SCORES] for row in rows]
    costs = [_cell_text(result.spread(rows[0], cost), cost) for cost in COSTS]
    count = f"{len(result.runs)}" + (f", {result.failed} failed" if result.failed else "")
    begin, end = [f"**{result.cell.name}**: {result.cell.title}"], [*costs, *_goal_texts(study, result)]
    lines = [[*begin, rows[0], count, *scores[0], *end]]
    for row, texts in zip(rows[1:], scores[1:], strict=True):
        lines.append(["", row, "", *texts, *[""] * len(end)])
    return lines


def _rows(study: Study, result: CellResult) -> list[str]:
    """The rows of a cell: the stitchings that all its runs have, and the references."""
    return [row for row in (*study.stitching, *REFERENCES) if all(row in run.rows for run in result.runs)]


def _goal_texts(study: Study, result: CellResult) -> list[str]:
    """Published values, target, and whether it is met."""
    published, limits = result.cell.published, result.cell.target.limits().items()
    values = f"{_plain(published.amplitude)} / {_plain(published.phase)} ({published.source})"
    target = ", ".join(f"{SHORT.get(k, k)} {'≥' if k in AT_LEAST else '≤'} {limit:g}" for k, limit in limits)
    found = verdicts(result, study.stitching[0])
    missed = [SHORT.get(verdict.score, verdict.score) for verdict in found if verdict.met is False]
    met = "✓" if found and all(verdict.met for verdict in found) else ""
    return [values if published.source else "", target, f"miss: {', '.join(missed)}" if missed else met]


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _cell_text(values: Spread | None, score: str) -> str:
    if values is None:
        return "–"
    style = FORMATS.get(score, ".4f")
    texts = [format(value, style) for value in (values.median, values.low, values.high)]
    return texts[0] if texts[1] == texts[2] else f"{texts[0]} ({texts[1]}–{texts[2]})"


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def _comparison_lines(study: Study, entry: Comparison, results: Sequence[CellResult]) -> list[list[str]]:
    judged = study.stitching[0]
    answer = {True: "✓", False: "miss", None: ""}[holds(entry, results, judged)]
    lines = []
    for number, claim in enumerate(entry.any):
        text = f"{SHORT.get(claim.score, claim.score)}: {claim.cell} − {claim.minus} ≥ {claim.at_least:g}"
        difference = _cell_text(claim_difference(claim, results, judged), claim.score)
        lines.append([entry.title if number == 0 else "or", text, difference, answer if number == 0 else ""])
    return lines


def _notes(result: CellResult) -> list[str]:
    """What a reader must know: runs that failed, flags, runs of another configuration."""
    name = result.cell.name
    alarms = list(dict.fromkeys(flag for run in result.runs for flag in run.flags))
    found = [f"{name}: {result.failed} of its runs are not complete"] if result.failed else []
    found += [f"{name}: {', '.join(alarms)}"] if alarms else []
    return found + list(result.notes)


# ---- for machines


def table_rows(study: Study, results: Sequence[CellResult]) -> list[dict[str, Any]]:
    """One flat row for every cell and row of the table, with median, smallest and largest of each score."""
    rows = []
    for result in results:
        for row in _rows(study, result):
            values: dict[str, Any] = {"cell": result.cell.name, "row": row, "runs": len(result.runs)}
            for score in HEADINGS:
                found = result.spread(row, score)
                for part in ("median", "low", "high"):
                    values[f"{score}_{part}"] = None if found is None else getattr(found, part)
            rows.append(values)
    return rows


def as_json(study: Study, results: Sequence[CellResult], command: str) -> dict[str, Any]:
    """Everything in the tables, and the values of every seed."""
    judged = study.stitching[0]
    return {
        "command": command,
        "judged": judged,
        "cells": {result.cell.name: _cell_json(study, result) for result in results},
        "comparisons": [
            {
                "title": entry.title,
                "holds": holds(entry, results, judged),
                "claims": [
                    asdict(claim) | {"difference": _spread_json(claim_difference(claim, results, judged))}
                    for claim in entry.any
                ],
            }
            for entry in study.comparisons
        ],
    }


def _cell_json(study: Study, result: CellResult) -> dict[str, Any]:
    return {
        **asdict(result.cell),
        "seeds": [run.seed for run in result.runs],
        "failed": result.failed,
        "rows": {
            row: {score: _values_json(result, row, score) for score in HEADINGS}
            for row in _rows(study, result)
        },
        "verdicts": [asdict(verdict) for verdict in verdicts(result, study.stitching[0])],
        "notes": _notes(result),
    }


def _values_json(result: CellResult, row: str, score: str) -> dict[str, Any]:
    return {"values": result.values(row, score), "spread": _spread_json(result.spread(row, score))}


def _spread_json(values: Spread | None) -> dict[str, Any] | None:
    return None if values is None else asdict(values)


# ---- robustness


def spread_markdown(results: Sequence[CellResult], judged: str, command: str) -> str:
    """How far the runs of a cell differ, and how many failed: NaN, or an image without contrast."""
    scores = (*SCORES, "seconds")
    headings = ["cell", "runs", "failed", "NaN", "collapsed"]
    headings += [f"{HEADINGS[s]}: {part}" for s in scores for part in ("median", "min", "max")]
    rows = []
    for result in results:
        counts = (
            len(result.runs) + result.failed,
            result.failed,
            result.nan + result.flagged(("nan",)),
            result.flagged(COLLAPSED),
        )
        rows.append([result.cell.name, *map(str, counts)])
        for score in scores:
            found, style = result.spread(judged, score), FORMATS.get(score, ".4f")
            parts = (found.median, found.low, found.high) if found else (None,) * 3
            rows[-1] += ["–" if part is None else format(part, style) for part in parts]
    caption = f"Spread over the seeds, `{judged}` stitching. `failed`: begun and not complete."
    return "\n\n".join([caption, f"    {command}", table(headings, rows)]) + "\n"
