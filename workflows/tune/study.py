"""The study: trials in turn, kept in SQLite so that the same command goes on, and shared by processes."""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.atomic import write_text
from ptycho.files.json_file import parse_json, read_json
from ptycho.progress import Event, OnEvent
from ptycho.scan.comparison import DIFFERENT, Comparison, compare
from workflows.tune.space import Dimension

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

log = logging.getLogger(__name__)
STUDY, SETTINGS = "study.db", "tune.json"
DEFAULTS, DEVIANCE, SECONDS = "defaults", "deviance", "seconds"
FIRST_TRIALS, FIRST_STEPS = 5, 20  # that are not ended early
MISTAKES = (ArithmeticError, ValueError, RuntimeError)  # of a trial; the study goes on
MOST_FAILURES = 10  # in a row
BEAT_S, LOST_S = 20, 90  # a trial whose process has not been heard of for so long is lost


@dataclass(frozen=True, eq=False)
class Outcome:
    """``deviance``: of a pixel of each pattern that was held out, ``(J,)``, noise alone leaving about one."""

    deviance: np.ndarray
    seconds: float


Objective = Callable[[Mapping[str, Any], OnEvent], Outcome]


@dataclass(frozen=True)
class Limits:
    """When no further trial begins: so many are done, or the clock (``time.monotonic``) says so."""

    trials: int
    deadline: float | None

    def reached(self, study: Study) -> bool:
        late = self.deadline is not None and time.monotonic() >= self.deadline
        return late or len(finished(study)) >= self.trials


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


def check_same(folder: Path, asked: Mapping[str, Any]) -> None:
    """Remember what a study is of; ConfigError: the folder holds one of another scan, space or seed."""
    path = folder / SETTINGS
    text = json.dumps(asked, indent=1, sort_keys=True, default=str)
    if not path.exists():
        write_text(path, text)
        return
    try:
        held, wanted = read_json(path), parse_json(text)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: is damaged ({error}); choose another folder") from error
    if others := sorted(key for key in {*held, *wanted} if held.get(key) != wanted.get(key)):
        raise ConfigError(
            f"output_dir={folder}: holds a study with another {', '.join(others)}; choose another folder"
        )


def open_study(folder: Path, seed: int) -> Study:
    """The study of a folder, begun where there is none."""
    import optuna
    from optuna.pruners import MedianPruner
    from optuna.samplers import TPESampler

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of the heartbeat
    storage = optuna.storages.RDBStorage(
        f"sqlite:///{(folder / STUDY).resolve()}",
        engine_kwargs={"connect_args": {"timeout": 60}},
        heartbeat_interval=BEAT_S,
        grace_period=LOST_S,
    )
    return optuna.create_study(
        storage=storage,
        study_name="tune",
        load_if_exists=True,
        direction="minimize",
        sampler=TPESampler(seed=seed, multivariate=True, n_startup_trials=FIRST_TRIALS, constant_liar=True),
        pruner=MedianPruner(FIRST_TRIALS, FIRST_STEPS),
    )


def finished(study: Study) -> list[FrozenTrial]:
    """Trials that have come to an end, or were ended because others were better at the same step."""
    return [one for one in study.get_trials(deepcopy=False) if one.state.name in ("COMPLETE", "PRUNED")]


def complete(study: Study) -> list[FrozenTrial]:
    return [trial for trial in finished(study) if trial.state.name == "COMPLETE"]


def run_defaults(study: Study, objective: Objective, tell: Callable[[str], object] = log.info) -> None:
    """Reconstruct with the defaults, if that was not done; it comes to the same whoever does it."""
    if DEFAULTS in study.user_attrs:
        return
    outcome = objective({}, lambda event: None)
    study.set_user_attr(DEFAULTS, {DEVIANCE: outcome.deviance.tolist(), SECONDS: outcome.seconds})
    tell(f"defaults: deviance {outcome.deviance.mean():.4f}, {outcome.seconds:.1f} s")


def run_trials(
    study: Study,
    space: tuple[Dimension, ...],
    objective: Objective,
    limits: Limits,
    tell: Callable[[str], object] = log.info,
) -> None:
    """Reconstruct with settings of the space until a limit is reached."""

    failures: list[Exception] = []

    def attempt(trial: Trial) -> float:
        settings = {dimension.key: dimension.suggest(trial) for dimension in space}
        try:
            outcome = _known(study, settings) or objective(settings, lambda event: _prune(trial, event))
        except MISTAKES as error:
            failures.append(error)
            raise
        trial.set_user_attr(DEVIANCE, outcome.deviance.tolist())
        trial.set_user_attr(SECONDS, outcome.seconds)
        return float(outcome.deviance.mean())

    def follow(_: Study, trial: FrozenTrial) -> None:
        if trial.state.name != "FAIL":
            failures.clear()
        tell(_line(trial, limits))
        if len(failures) >= MOST_FAILURES:
            raise ConfigError(f"{len(failures)} trials in a row have failed; the last: {failures[-1]}")

    while not limits.reached(study):
        study.optimize(attempt, n_trials=1, catch=MISTAKES, callbacks=[follow])


def _known(study: Study, settings: Mapping[str, Any]) -> Outcome | None:
    """What the same settings have given before."""
    for trial in complete(study):
        if trial.params == settings:
            return Outcome(np.array(trial.user_attrs[DEVIANCE]), float(trial.user_attrs[SECONDS]))
    return None


def _prune(trial: Trial, event: Event) -> None:
    """End a trial that is worse than the median of the others at the same step."""
    import optuna

    if event.kind != "step" or "deviance_holdout" not in event.values:
        return
    trial.report(event.values["deviance_holdout"], int(event.values["step"]))
    if trial.should_prune():
        raise optuna.TrialPruned


def _line(trial: FrozenTrial, limits: Limits) -> str:
    settings = ", ".join(f"{key}={value}" for key, value in trial.params.items())
    value = "–" if trial.value is None else f"{trial.value:.4f}"
    state = trial.state.name.lower()
    return f"trial {trial.number + 1} of {limits.trials}: {state}, deviance {value}: {settings}"


def best_of(study: Study) -> Best | None:
    """The best complete trial against the defaults; None: there is none."""
    done = complete(study)
    if not done:
        return None
    best = min(done, key=lambda trial: trial.value if trial.value is not None else np.inf)
    gain = compare(np.array(best.user_attrs[DEVIANCE]), np.array(study.user_attrs[DEFAULTS][DEVIANCE]))
    return Best(best.params, float(best.value or np.nan), gain)
