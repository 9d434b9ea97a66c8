"""The study: successive trials, kept in SQLite so that the same command resumes, and shared by processes.

What it leaves is a table, and the best settings as a file that a run takes.
"""

from __future__ import annotations

import json
import logging
import shlex
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import yaml
from optuna import Study, Trial
from optuna.trial import FrozenTrial, TrialState

from ptycho.config import ConfigError
from ptycho.files.atomic import write_text
from ptycho.files.reading import parse_json
from ptycho.progress import Event, OnEvent
from ptycho.run.folder import csv_text
from ptycho.scan.comparison import DIFFERENT, Comparison, compare
from ptycho_tune.space import Space, nested, suggest

log = logging.getLogger(__name__)


STUDY = "study.db"
ASKED, DEFAULTS, DEVIANCE, SECONDS = "asked", "defaults", "deviance", "seconds"  # attributes
PROCESSES = "processes"  # that have opened the study so far
MISTAKES = (ArithmeticError, ValueError, RuntimeError)  # of a trial; the study goes on
ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


@dataclass(frozen=True, eq=False)
class Outcome:
    """``deviance``: of a pixel of each pattern that was held out, ``(J,)``, noise alone leaving about one."""

    deviance: np.ndarray
    seconds: float


Objective = Callable[[Mapping[str, Any], OnEvent], Outcome]


@dataclass(frozen=True, eq=False)
class Best:
    """The best trial against the defaults, by the same patterns; ``gain``: of the mean deviance."""

    settings: Mapping[str, Any]
    deviance: float
    gain: Comparison

    @property
    def better(self) -> bool:
        """By more than twice the error of the difference, as it is the best of many."""
        return self.gain.passes(DIFFERENT)


def open_study(folder: Path, asked: Mapping[str, Any], seed: int, first_trials: int = 5) -> Study:
    """Return the study of a folder, begun where there is none.

    Args:
        asked: what it is of; ConfigError: the folder holds one of another scan, space or seed.
        first_trials: which are drawn at random, and not ended early.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of the heartbeat
    folder.mkdir(parents=True, exist_ok=True)
    storage = optuna.storages.RDBStorage(
        f"sqlite:///{(folder / STUDY).resolve()}",
        engine_kwargs={"connect_args": {"timeout": 60}},
        heartbeat_interval=20,
        grace_period=90,  # seconds without a heartbeat after which a trial is lost
    )
    study = optuna.create_study(
        storage=storage,
        study_name="tune",
        load_if_exists=True,
        direction="minimize",
        pruner=optuna.pruners.MedianPruner(first_trials, n_warmup_steps=20),
    )
    wanted = parse_json(json.dumps(asked, default=str))
    held = study.user_attrs.get(ASKED, wanted)
    if others := sorted(key for key in {*held, *wanted} if held.get(key) != wanted.get(key)):
        raise ConfigError(
            f"output_dir={folder}: holds a study with another {', '.join(others)}; choose another folder"
        )
    study.set_user_attr(ASKED, wanted)
    number = study.user_attrs.get(PROCESSES, 0)  # each process draws other settings
    study.set_user_attr(PROCESSES, number + 1)
    study.sampler = optuna.samplers.TPESampler(
        n_startup_trials=first_trials, seed=seed + number, multivariate=True, constant_liar=True
    )
    return study


def trials_in(study: Study, *states: TrialState) -> list[FrozenTrial]:
    """Return the trials of a study that are in some states."""
    return study.get_trials(deepcopy=False, states=states)


def run_defaults(study: Study, objective: Objective) -> None:
    """Reconstruct with the defaults, if that was not done; the result is the same in every process."""
    if DEFAULTS in study.user_attrs:
        return
    outcome = objective({}, lambda event: None)
    study.set_user_attr(DEFAULTS, {DEVIANCE: outcome.deviance.tolist(), SECONDS: outcome.seconds})
    log.info("defaults: deviance %.4f, %.1f s", outcome.deviance.mean(), outcome.seconds)


def run_trials(
    study: Study, space: Space, objective: Objective, trials: int, timeout_s: float | None = None
) -> None:
    """Reconstruct with settings of the space until so many ``trials`` have ended, or the time has."""

    def attempt(trial: Trial) -> float:
        settings = {key: suggest(trial, key, values) for key, values in space.items()}
        try:
            outcome = _known(study, settings) or objective(settings, lambda event: _prune(trial, event))
        except MISTAKES as error:
            log.warning("trial %d: %s", trial.number + 1, error)
            raise
        trial.set_user_attr(DEVIANCE, outcome.deviance.tolist())
        return float(outcome.deviance.mean())

    def log_trial(_: Study, trial: FrozenTrial) -> None:
        settings = ", ".join(f"{key}={value}" for key, value in trial.params.items())
        value = "–" if trial.value is None else f"{trial.value:.4f}"
        state = trial.state.name.lower()
        log.info("trial %d of %d: %s, deviance %s: %s", trial.number + 1, trials, state, value, settings)

    enough = optuna.study.MaxTrialsCallback(trials, states=ENDED)
    if len(trials_in(study, *ENDED)) < trials:
        study.optimize(attempt, timeout=timeout_s, catch=MISTAKES, callbacks=[log_trial, enough])


def _known(study: Study, settings: Mapping[str, Any]) -> Outcome | None:
    """Return what the same settings have given before."""
    same = (trial for trial in trials_in(study, TrialState.COMPLETE) if trial.params == settings)
    return next((Outcome(np.array(trial.user_attrs[DEVIANCE]), 0.0) for trial in same), None)


def _prune(trial: Trial, event: Event) -> None:
    """End a trial that is worse than the median of the others at the same step."""
    if event.kind != "step" or "deviance_holdout" not in event.values:
        return
    trial.report(event.values["deviance_holdout"], int(event.values["step"]))
    if trial.should_prune():
        raise optuna.TrialPruned


def best_of(study: Study) -> Best | None:
    """Return the best complete trial against the defaults; None: there is none."""
    if not trials_in(study, TrialState.COMPLETE):
        return None
    best = study.best_trial
    gain = compare(np.array(best.user_attrs[DEVIANCE]), np.array(study.user_attrs[DEFAULTS][DEVIANCE]))
    return Best(best.params, float(best.value or np.nan), gain)


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
