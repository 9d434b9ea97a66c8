"""What a study leaves: a table, and the best settings as a file that a run takes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from optuna import Study

from ptycho.files.atomic import write_text
from ptycho.run.folder import csv_text
from ptycho_tune.space import nested
from ptycho_tune.study import DEFAULTS, DEVIANCE, SECONDS, STUDY, Best, best_of

TABLE, GROUP, OPTION = "trials.csv", "tuned", "best"
KEPT = "# No settings were better by more than twice the error: the defaults are kept.\n{}\n"


def write_results(study: Study, folder: Path, scan_words: list[str]) -> list[str]:
    """Write ``trials.csv`` and ``tuned/best.yaml``; return the lines to print."""
    write_text(folder / TABLE, csv_text(rows_of(study)))
    best = best_of(study)
    if best is None:
        return ["no trial has come to an end", f"table: {folder / TABLE}"]
    gain = f"{best.gain.gain:.5f} ± {best.gain.error:.5f}"
    head = (
        "# @package _global_\n"
        f"# Deviance of the held-out patterns {best.deviance:.5f}, {gain} below that of the defaults.\n"
    )
    text = yaml.safe_dump(nested(best.settings)) if best.better else KEPT
    write_text(folder / GROUP / f"{OPTION}.yaml", head + text)
    command = ["ptycho", "scan", f"--config-dir={folder}", f"+{GROUP}={OPTION}", *scan_words]
    return [
        *verdict(best, float(np.mean(study.user_attrs[DEFAULTS][DEVIANCE]))),
        f"table: {folder / TABLE}; pictures: optuna-dashboard sqlite:///{folder / STUDY}",
        f"a run with the best settings: {shlex.join(command)} output_dir=…",
    ]


def verdict(best: Best, defaults: float) -> list[str]:
    """Return the best settings, and whether they are clearly better than the defaults."""
    settings = ", ".join(f"{key}={_word(value)}" for key, value in best.settings.items())
    better = "better than the defaults; the best of many looks a little better than it is"
    return [
        f"defaults: deviance {defaults:.4f} per pixel of the held-out patterns",
        f"best:     deviance {best.deviance:.4f}: {settings}",
        f"gain:     {best.gain.gain:.4f} ± {best.gain.error:.4f}, pattern by pattern",
        better if best.better else "that is not more than twice its error: the defaults are kept",
    ]


def rows_of(study: Study) -> list[dict[str, Any]]:
    """Return the rows of the table: all trials, the defaults first."""
    held = study.user_attrs.get(DEFAULTS, {DEVIANCE: np.nan, SECONDS: np.nan})
    first = {"trial": DEFAULTS, "state": "complete", "deviance": np.mean(held[DEVIANCE])}
    rows = [first | {"seconds": round(held[SECONDS], 2)}]
    for trial in study.get_trials(deepcopy=False):
        seconds = trial.duration.total_seconds() if trial.duration else ""
        row = {"trial": trial.number + 1, "state": trial.state.name.lower(), "deviance": trial.value}
        rows.append(row | {"seconds": seconds} | {key: _word(value) for key, value in trial.params.items()})
    return rows


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
