"""Tuning: spaces are read and checked, a study goes on, bad trials end early, advice needs evidence."""

import subprocess
import sys

import numpy as np
import pytest
import yaml
from helpers.cli import ROOT

from ptycho.config import ConfigError
from ptycho.progress import Event
from ptycho.scan.comparison import Comparison
from workflows.tune import results, study
from workflows.tune.space import Dimension, read_space
from workflows.tune.study import Limits, Outcome


class TestSpace:
    def test_ranges_and_choices(self):
        space = read_space(
            {
                "probe": {"modes": [1, 4]},
                "solver": {
                    "regulariser": ["edge_preserving", "none"],
                    "positions": [True, False],
                    "flux": None,
                },
                "data": {"N": {"choices": [64, 96]}, "gain": {"low": 0.1, "high": 1.0}},
            }
        )
        assert space == (
            Dimension("probe.modes", low=1, high=4),
            Dimension("solver.regulariser", choices=("edge_preserving", "none")),
            Dimension("solver.positions", choices=(True, False)),
            Dimension("data.N", choices=(64, 96)),
            Dimension("data.gain", low=0.1, high=1.0),
        )
        assert space[0].whole and not space[-1].whole

    def test_wide_ranges_are_drawn_by_their_logarithm(self):
        (wide,) = read_space({"strength": [1e-3, 1.0]})
        (stated,) = read_space({"strength": {"low": 1e-3, "high": 1.0, "log": False}})
        assert wide.log and not stated.log

    @pytest.mark.parametrize(
        "value",
        [3, "edge_preserving", [], [4, 1], [[1], [2]], {"low": 1}, {"low": 2, "high": 1}, {"choices": []}],
    )
    def test_nonsense_is_refused(self, value):
        with pytest.raises(ConfigError, match=r"tune.space.probe.modes=.*must be \[low,high\]"):
            read_space({"probe": {"modes": value}})


SPACE = read_space({"x": [0.0, 1.0], "kind": ["a", "b"]})


class Valley:
    """Twenty patterns whose deviance is (x − .3)² + 1, of kind b a tenth more; defaults: a pattern's 1.2."""

    def __init__(self, slope=1.0, defaults=1.2):
        self.calls, self._slope, self._defaults = [], slope, defaults
        noise = np.random.default_rng(0).uniform(-0.2, 0.2, 20)
        self._noise = noise - noise.mean()

    def __call__(self, settings, on_event):
        self.calls.append(dict(settings))
        value = self._defaults
        if settings:
            value = (
                1 + self._slope * (settings["x"] - 0.3) ** 2 + 0.1 * self._slope * (settings["kind"] == "b")
            )
            for step in range(0, 60, 10):
                on_event(Event("step", "solver", {"step": step, "deviance_holdout": value + 1 / (1 + step)}))
        return Outcome(value + self._noise, 0.1)


def run(folder, objective, trials, tell=lambda line: None):
    made = study.open_study(folder, 0)
    study.run_defaults(made, objective, tell)
    study.run_trials(made, SPACE, objective, Limits(trials, None), tell)
    return made


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    valley, lines = Valley(), []
    return run(folder, valley, 20, lines.append), valley, folder, lines


def test_the_valley_is_found(tuned):
    best = study.best_of(tuned[0])
    assert abs(best.settings["x"] - 0.3) < 0.15 and best.settings["kind"] == "a"
    assert best.better and best.gain.gain == pytest.approx(1.2 - best.deviance)


def test_bad_trials_end_early(tuned):
    states = [trial.state.name for trial in tuned[0].trials]
    assert states.count("PRUNED") > 3 and states.count("COMPLETE") > 5
    assert tuned[3][0] == "defaults: deviance 1.2000, 0.1 s"
    assert "trial 20 of 20: " in tuned[3][-1]


def test_the_same_command_goes_on(tuned, tmp_path):
    first, second = Valley(), Valley()
    run(tmp_path, first, 3)
    held = run(tmp_path, second, 5)
    assert len(first.calls) == 4 and len(second.calls) <= 2  # the defaults are not tried again
    assert {} not in second.calls and len(study.finished(held)) == 5


def test_what_is_known_is_not_done_again(tmp_path):
    made, objective = study.open_study(tmp_path, 0), Valley()
    alone = read_space({"x": {"choices": [0.5]}, "kind": {"choices": ["a"]}})
    study.run_trials(made, alone, objective, Limits(4, None), lambda line: None)
    assert objective.calls == [{"x": 0.5, "kind": "a"}]


def test_a_trial_that_fails_does_not_end_the_study(tmp_path):
    valley, failed = Valley(), []

    def objective(settings, on_event):
        if len(valley.calls) == 2 and not failed:
            failed.append(settings)
            raise ConfigError("probe.modes=9: too many")
        return valley(settings, on_event)

    made = run(tmp_path, objective, 4)
    assert [trial.state.name for trial in made.trials].count("FAIL") == 1 == len(failed)
    assert len(study.finished(made)) == 4


def test_a_study_in_which_all_fails_ends(tmp_path):
    def objective(settings, on_event):
        if settings:
            raise ConfigError("no")
        return Outcome(np.ones(3), 0.0)

    with pytest.raises(ConfigError, match="10 trials in a row have failed; the last: no"):
        run(tmp_path, objective, 6)


def test_failures_that_are_not_in_a_row_do_not_end_a_study(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "MOST_FAILURES", 2)
    valley, calls = Valley(), []

    def objective(settings, on_event):
        calls.append(settings)
        if len(calls) % 2 == 0:
            raise ConfigError("no")
        return valley(settings, on_event)

    assert len(study.finished(run(tmp_path, objective, 3))) == 3 and len(calls) > 5


def test_no_trial_begins_after_the_deadline(tmp_path):
    made, objective = study.open_study(tmp_path, 0), Valley()
    study.run_trials(made, SPACE, objective, Limits(10, 0.0), lambda line: None)
    assert objective.calls == []


def test_another_study_is_refused(tmp_path):
    study.check_same(tmp_path, {"scan": {"data": "a"}, "seed": 0})
    study.check_same(tmp_path, {"scan": {"data": "a"}, "seed": 0})
    with pytest.raises(ConfigError, match="holds a study with another scan; choose another folder"):
        study.check_same(tmp_path, {"scan": {"data": "b"}, "seed": 0})


@pytest.mark.parametrize("error, better", [(0.05, True), (0.08, False)])
def test_the_best_of_many_needs_two_standard_errors(error, better):
    assert study.Best({}, 1.0, Comparison(0.12, error)).better == better


class TestResults:
    def test_a_run_takes_the_best_settings(self, tuned):
        made, _, folder, _ = tuned
        lines = results.write_results(made, folder, ["data.file=x"])
        text = (folder / "tuned" / "best.yaml").read_text()
        assert text.startswith("# @package _global_\n")
        assert yaml.safe_load(text)["kind"] == "a"
        command = f"ptycho scan --config-dir={folder} +tuned=best data.file=x output_dir=…"
        assert lines[-1] == f"a run with the best settings: {command}"
        assert (folder / "tune.png").read_bytes()[:4] == b"\x89PNG"

    def test_without_evidence_the_defaults_are_kept(self, tmp_path):
        made = run(tmp_path, Valley(slope=1e-9, defaults=1.0), 4)
        lines = results.write_results(made, tmp_path, [])
        assert "that is not more than twice its error: the defaults are kept" in lines
        assert yaml.safe_load((tmp_path / "tuned" / "best.yaml").read_text()) == {}


def test_a_mistake_is_answered_before_tensorflow_is_imported(tmp_path):
    program = f"""
import runpy, sys
sys.argv = ["tune.py", "data.file={tmp_path}/none.cxi", "tune.space.probe.modes=[0,4]"]
try:
    runpy.run_path({str(ROOT / "scripts" / "tune.py")!r}, run_name="__main__")
except SystemExit as stop:
    print(stop.code, "tensorflow" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == (
        "2 False\n",
        "error: probe.modes=0: must be an integer from 1 to 8, or null\n",
    )
