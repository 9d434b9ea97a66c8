"""Run folders of a study → spreads over the seeds, verdicts on targets, comparisons."""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptycho.evaluation.metrics import COLLAPSED as NO_AMPLITUDE
from ptycho.evaluation.metrics import COLLAPSED_PHASE
from ptycho.evaluation.trust import FLAGS
from workflows.study.definition import AT_LEAST, Cell, Claim, Comparison, Study
from workflows.study.plan import ABSENT, INCOMPLETE, StudyRun

REFERENCES = ("constant", "truth_blurred_1px")
COLLAPSED = (NO_AMPLITUDE, COLLAPSED_PHASE)
Scores = dict[str, float | None]


@dataclass(frozen=True)
class Spread:
    """Median, smallest and largest of the values that are there, and how many are missing."""

    median: float
    low: float
    high: float
    missing: int = 0


def spread(values: Sequence[float | None]) -> Spread | None:
    """The spread of some values; None if there is none."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    return Spread(statistics.median(there), min(there), max(there), len(values) - len(there))


@dataclass(frozen=True)
class RunResult:
    """What one complete run gave.

    Attributes:
        machine: where it ran.
        rows: scores by row of the table: the stitchings, then the reference images.
        flags: alarms of the judged stitching.
        histories: epochs and validation losses of every model of the run.
    """

    seed: int
    machine: str
    rows: dict[str, Scores]
    flags: tuple[str, ...]
    histories: dict[str, list[tuple[float, float]]]


@dataclass(frozen=True)
class CellResult:
    """The complete runs of a cell; ``failed`` runs were begun and are not complete, ``nan`` by NaN."""

    cell: Cell
    runs: tuple[RunResult, ...] = ()
    failed: int = 0
    nan: int = 0
    notes: tuple[str, ...] = field(default=())

    def values(self, row: str, score: str) -> list[float | None]:
        return [run.rows.get(row, {}).get(score) for run in self.runs]

    def spread(self, row: str, score: str) -> Spread | None:
        return spread(self.values(row, score))

    def flagged(self, flags: Sequence[str]) -> int:
        """Complete runs with any of these flags."""
        return sum(any(flag in run.flags for flag in flags) for run in self.runs)


def collect(study: Study, runs: Sequence[StudyRun]) -> list[CellResult]:
    """The results of the cells of a study, in its order, from the folders of its runs."""
    return [
        _cell_result(cell, [run for run in runs if run.cell == cell], study.stitching) for cell in study.cells
    ]


def _cell_result(cell: Cell, runs: Sequence[StudyRun], stitching: Sequence[str]) -> CellResult:
    states = [(run, run.state()) for run in runs]
    complete = [run for run, state in states if state not in (ABSENT, INCOMPLETE)]
    broken = [run for run, state in states if state == INCOMPLETE]
    differing = [(run, run.differences()) for run in complete]
    return CellResult(
        cell,
        tuple(_run_result(run, stitching) for run in complete),
        len(broken),
        sum(_diverged(run) for run in broken),
        tuple(
            f"{run.name} ran with another configuration ({'; '.join(keys)})"
            for run, keys in differing
            if keys
        ),
    )


def _run_result(run: StudyRun, stitching: Sequence[str]) -> RunResult:
    metrics, manifest = (_json(run.path / name) for name in ("metrics.json", "manifest.json"))
    name = run.cell.model
    model, training = metrics[name], manifest["training"][name]
    costs = {
        "seconds": training["steps_s"],
        "compile_s": training["compile_s"],
        "simulation_s": manifest["timings_s"].get("simulation"),
        "parameters": _json(run.path / name / "model.json")["parameters"],
    }
    stitched = model["stitching"]
    rows = {method: _scores(stitched[method]) | costs for method in stitching if method in stitched}
    rows |= {reference: _scores(metrics[reference]) for reference in REFERENCES}
    histories = {trained: _history(run.path / trained / "history.csv") for trained in manifest["training"]}
    flags = tuple(flag for flag in stitched[stitching[0]]["flags"] if flag in FLAGS)
    return RunResult(run.seed, _machine(manifest), rows, flags, histories)


def _machine(manifest: dict[str, Any]) -> str:
    versions = manifest["versions"]
    return (
        f"{manifest['platform']}, {manifest['cpu_count']} CPUs, {manifest['device']}, "
        f"TensorFlow {versions['tensorflow']}"
    )


def _scores(row: dict[str, Any]) -> Scores:
    return {
        "amplitude": row["ssim"][0],
        "phase": row["ssim"][1],
        "phase_rmse_rad": row["phase_rmse_rad"],
        "frc50": row["frc50"][0],
    }


def _history(path: Path) -> list[tuple[float, float]]:
    with path.open(newline="") as file:
        return [(float(row["epoch"]), float(row["val_loss"])) for row in csv.DictReader(file)]


def _diverged(run: StudyRun) -> bool:
    """Whether an incomplete run stopped because its loss was not finite."""
    path = run.path / run.cell.model / "model.json"
    return path.exists() and _json(path)["stopped"] is not None


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


@dataclass(frozen=True)
class Verdict:
    """One limit of a target against what was ``found``; ``met`` is None where nothing has run."""

    score: str
    limit: float
    found: float | None
    met: bool | None


def verdicts(result: CellResult, judged: str) -> list[Verdict]:
    """The verdict on every limit of a cell's target; a run that failed or has no score misses it.

    Scores are judged by their median over the seeds, seconds by their smallest: what else a machine does
    can only add to a time.
    """
    found = []
    for score, limit in result.cell.target.limits().items():
        over_seeds = result.spread(judged, score)
        if over_seeds is None:
            met = False if result.failed or result.runs else None
            found.append(Verdict(score, limit, None, met))
            continue
        value = over_seeds.low if score == "seconds" else over_seeds.median
        within = value >= limit if score in AT_LEAST else value <= limit
        found.append(Verdict(score, limit, value, within and not over_seeds.missing and not result.failed))
    return found


def claim_difference(claim: Claim, results: Sequence[CellResult], judged: str) -> Spread | None:
    """``score(cell) − score(minus)`` over the seeds that both have; None if there is none."""
    by_name = {result.cell.name: result for result in results}
    first, second = (
        {run.seed: run.rows[judged][claim.score] for run in by_name[name].runs}
        for name in (claim.cell, claim.minus)
    )
    pairs = [(first[seed], second[seed]) for seed in first if seed in second]
    return spread([a - b if a is not None and b is not None else None for a, b in pairs])


def holds(comparison: Comparison, results: Sequence[CellResult], judged: str) -> bool | None:
    """Whether any claim holds; None where neither that nor the contrary is known yet."""
    answers = []
    for claim in comparison.any:
        difference = claim_difference(claim, results, judged)
        answers.append(
            None if difference is None else difference.median >= claim.at_least and not difference.missing
        )
    return True if True in answers else None if None in answers else False
