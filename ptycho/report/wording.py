"""Scores and flags in plain words: a verdict, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ptycho.evaluation.trust import FLAGS
from ptycho.report.gather import FINISHED, GRID_LINES, RUNNING, RunRecord

GOOD, WEAK, BAD, OPEN = "good", "weak", "bad", "open"


@dataclass(frozen=True)
class Advice:
    """A flag that was raised: what it means, and what to do; ``wrong``: the image is likely wrong."""

    flag: str
    means: str
    remedy: str
    wrong: bool


@dataclass(frozen=True)
class Verdict:
    """Trust in an image: a level for its colour, one sentence, and what leads to it."""

    level: str
    sentence: str
    reasons: tuple[Advice, ...] = ()


def advice_of(row: Mapping[str, Any], words: Callable[[str], str] = str) -> tuple[Advice, ...]:
    """Return the flags of a reconstruction, those that say that it is wrong first; none of single scores.

    ``words``: as of :class:`RunRecord`.
    """
    raised = row.get("flags")
    known = [name for name in raised if str(name) in FLAGS] if isinstance(raised, list) else []
    every = [Advice(name, FLAGS[name].means, words(FLAGS[name].remedy), FLAGS[name].wrong) for name in known]
    return tuple(sorted(every, key=lambda one: not one.wrong))


def verdict_of(record: RunRecord) -> Verdict:
    """Return what is to be thought of the product of a run."""
    if record.state != FINISHED:
        going = "The run is still going on" if record.state == RUNNING else "The run did not end"
        there = "what it has written so far is shown" if record.recons else "it has stored no image yet"
        return Verdict(OPEN, f"{going}: no result was assessed, and {there}.")
    row = record.row
    if not row:
        return Verdict(OPEN, "The run's scores cannot be read: the image is shown without an assessment.")
    reasons = advice_of(row, record.words)
    if any(one.wrong for one in reasons):
        return Verdict(
            BAD, "The image is likely wrong. Do not use it before the following problems are solved.", reasons
        )
    if reasons:
        return Verdict(WEAK, "The image can be used with the reservations that follow.", reasons)
    if record.kind == GRID_LINES:
        return Verdict(GOOD, "No failure was found: the image has contrast and covers the scored region.")
    return Verdict(GOOD, "No problem was found: object and probe explain the measured patterns.")


def score_text(value: Any) -> str:
    """Return a score in a cell: four digits, pairs side by side, nothing for what is not there."""
    if value is None or isinstance(value, bool | Mapping):
        return ""
    if isinstance(value, list):
        return " / ".join(score_text(one) or "–" for one in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
