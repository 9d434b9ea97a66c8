"""What a study leaves: a table, a picture, and the best settings as a file that a run takes."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from ptycho.files.atomic import write_atomically, write_text
from workflows.tune.space import nested
from workflows.tune.study import DEFAULTS, DEVIANCE, SECONDS, Best, best_of, complete

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from optuna import Study

TABLE, PICTURE, GROUP, OPTION = "trials.csv", "tune.png", "tuned", "best"


def write_results(study: Study, folder: Path, scan_words: list[str]) -> list[str]:
    """Write ``trials.csv``, ``tune.png`` and ``tuned/best.yaml``; what to tell, a line each."""
    write_text(folder / TABLE, table(study))
    best = best_of(study)
    if best is None:
        return ["no trial has come to an end", f"table: {folder / TABLE}"]
    figure = draw(study)
    write_atomically(folder / PICTURE, lambda file: figure.savefig(file, format="png", dpi=110))
    settings = best.settings if best.better else {}
    write_text(folder / GROUP / f"{OPTION}.yaml", settings_text(settings, best))
    command = ["ptycho", "scan", f"--config-dir={folder}", f"+{GROUP}={OPTION}", *scan_words]
    return [
        *verdict(best, float(np.mean(study.user_attrs[DEFAULTS][DEVIANCE]))),
        f"table: {folder / TABLE}   picture: {folder / PICTURE}",
        f"a run with the best settings: {shlex.join(command)} output_dir=…",
    ]


def verdict(best: Best, defaults: float) -> list[str]:
    """The best settings, and whether they are clearly better than the defaults."""
    said = ", ".join(f"{key}={_word(value)}" for key, value in best.settings.items())
    better = "better than the defaults; the best of many looks a little better than it is"
    return [
        f"defaults: deviance {defaults:.4f} per pixel of the held-out patterns",
        f"best:     deviance {best.deviance:.4f}: {said}",
        f"gain:     {best.gain.gain:.4f} ± {best.gain.error:.4f}, pattern by pattern",
        better if best.better else "that is not more than twice its error: the defaults are kept",
    ]


def settings_text(settings: Mapping[str, Any], best: Best) -> str:
    """An option of a group of Hydra's."""
    head = (
        "# @package _global_\n"
        f"# Deviance of the held-out patterns {best.deviance:.5f}, "
        f"{best.gain.gain:.5f} ± {best.gain.error:.5f} below that of the defaults.\n"
    )
    kept = "# No settings were better by more than twice the error: the defaults are kept.\n{}\n"
    return head + (yaml.safe_dump(nested(settings)) if settings else kept)


def table(study: Study) -> str:
    """All trials as CSV, the defaults first."""
    trials = study.get_trials(deepcopy=False)
    keys = list(dict.fromkeys(key for trial in trials for key in trial.params))
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["trial", "state", "deviance", "seconds", *keys])
    held = study.user_attrs.get(DEFAULTS)
    if held:
        rows.writerow([DEFAULTS, "complete", np.mean(held[DEVIANCE]), round(held[SECONDS], 2)])
    for trial in trials:
        seconds = trial.duration.total_seconds() if trial.duration else ""
        values = [_word(trial.params[key]) if key in trial.params else "" for key in keys]
        rows.writerow([trial.number + 1, trial.state.name.lower(), trial.value, seconds, *values])
    return file.getvalue()


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def draw(study: Study) -> Figure:
    """Deviance of each trial with the best so far and the defaults, and how much each key matters."""
    from matplotlib.figure import Figure
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    done = complete(study)
    number, value = np.array([[trial.number + 1, trial.value] for trial in done]).T
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(number, value, "o", label="a trial")
    left.step(number, np.minimum.accumulate(value), where="post", label="the best so far")
    left.axhline(np.mean(study.user_attrs[DEFAULTS][DEVIANCE]), color="k", ls="--", label="defaults")
    spread = np.quantile(value, 0.75) - value.min()
    left.set_ylim(value.min() - 0.1 * spread - 1e-6, value.min() + 3 * spread + 1e-5)
    left.set(xlabel="trial", ylabel="deviance per held-out pixel", title="trials")
    left.legend()
    try:  # how much of the differences among good trials each key tells
        weights = (
            get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()) if len(done) > 3 else {}
        )
    except (ValueError, RuntimeError):  # all trials are alike
        weights = {}
    right.barh(list(weights)[::-1], list(weights.values())[::-1])
    right.set(xlabel="share of the differences", title="importance of the keys", xlim=(0, 1))
    return figure
