"""Tuning: spaces are read and checked, a study continues, bad trials end early, advice needs evidence."""

import numpy as np
import pytest
import yaml
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from ptycho.config import ConfigError
from ptycho.progress import Event
from ptycho_tune import study
from ptycho_tune.space import read_space
from ptycho_tune.study import Outcome


def test_ranges_and_choices():
    """Ranges over more than a factor of ten are drawn by their logarithm."""
    solver = {"regulariser": ["quadratic", "none"], "positions": [True, False], "flux": None}
    data = {"N": {"choices": [64, 96]}, "gain": {"low": 0.1, "high": 1.0}}
    wide = {"wide": [1e-3, 1.0], "stated": {"low": 1e-3, "high": 1.0, "log": False}}
    space = read_space({"probe": {"modes": [1, 4]}, "solver": solver, "data": data} | wide)
    assert space == {
        "probe.modes": IntDistribution(1, 4),
        "solver.regulariser": CategoricalDistribution(("quadratic", "none")),
        "solver.positions": CategoricalDistribution((True, False)),
        "data.N": CategoricalDistribution((64, 96)),
        "data.gain": FloatDistribution(0.1, 1.0),
        "wide": FloatDistribution(1e-3, 1.0, log=True),
        "stated": FloatDistribution(1e-3, 1.0),
    }


@pytest.mark.parametrize("value", [3, [], [4, 1], [[1], [2]], {"low": 1}, {"low": 2, "high": 1}])
def test_nonsense_is_refused(value):
    with pytest.raises(ConfigError, match=r"tune.space.probe.modes=.*must be \[low,high\]"):
        read_space({"probe": {"modes": value}})


SPACE = read_space({"x": [0.0, 1.0], "kind": ["a", "b"]})


class Valley:
    """Twenty patterns of deviance (x − .3)² + 1, a tenth more for kind b; 1.2 per pattern by default."""

    def __init__(self, slope=1.0, defaults=1.2):
        self.calls, self._slope, self._defaults = [], slope, defaults
        noise = np.random.default_rng(0).uniform(-0.2, 0.2, 20)
        self._noise = noise - noise.mean()

    def __call__(self, settings, on_event):
        self.calls.append(dict(settings))
        value = self._defaults
        if settings:
            away = (settings["x"] - 0.3) ** 2 + 0.1 * (settings["kind"] == "b")
            value = 1 + self._slope * away
            for step in range(0, 60, 10):
                on_event(Event("step", "solver", {"step": step, "deviance_holdout": value + 1 / (1 + step)}))
        return Outcome(value + self._noise, 0.1)


def run(folder, objective, trials, **changes):
    made = study.open_study(folder, {"seed": 0} | changes, 0)
    study.run_defaults(made, objective)
    study.run_trials(made, SPACE, objective, trials)
    return made


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    return run(folder, Valley(), 20), folder


def test_the_valley_is_found_and_bad_trials_end_early(tuned):
    best = study.best_of(tuned[0])
    assert abs(best.settings["x"] - 0.3) < 0.15 and best.settings["kind"] == "a"
    assert best.better and best.gain.gain == pytest.approx(1.2 - best.deviance)
    states = [trial.state.name for trial in tuned[0].trials]
    assert states.count("PRUNED") > 3 and states.count("COMPLETE") > 5 and len(states) == 20


def test_the_same_command_goes_on_after_a_trial_that_fails_and_another_is_refused(tmp_path, caplog):
    valley, again, failed = Valley(), Valley(), []

    def objective(settings, on_event):
        if len(valley.calls) == 2 and not failed:
            failed.append(settings)
            raise ConfigError("probe.modes=9: too many")
        return valley(settings, on_event)

    with caplog.at_level("INFO"):
        run(tmp_path, objective, 3)
        made = run(tmp_path, again, 5)
        run(tmp_path, again, 5)
    assert [trial.state.name for trial in made.trials].count("FAIL") == 1 == len(failed)
    assert len(valley.calls) == 3 and len(again.calls) <= 2 and {} not in again.calls
    assert "defaults: deviance 1.2000, 0.1 s" in caplog.messages
    assert "trial 2: probe.modes=9: too many" in caplog.messages
    assert caplog.messages[-1].startswith("trial 5 of 5: ")
    with pytest.raises(ConfigError, match="holds a study with another scan; choose another folder"):
        run(tmp_path, again, 5, scan="b")


def test_what_is_known_is_not_done_again_and_none_begins_after_the_time(tmp_path):
    made, objective = study.open_study(tmp_path, {}, 0), Valley()
    alone = read_space({"x": {"choices": [0.5]}, "kind": {"choices": ["a"]}})
    study.run_trials(made, alone, objective, 4)
    assert objective.calls == [{"x": 0.5, "kind": "a"}] and len(made.trials) == 4
    study.run_trials(made, alone, objective, 10, timeout_s=0.0)
    assert len(made.trials) == 4


@pytest.mark.filterwarnings("ignore:Heartbeat")
def test_processes_that_share_a_study_draw_other_settings(tmp_path):
    one, two = (study.open_study(tmp_path, {}, 0).ask(SPACE).params for _ in range(2))
    again = study.open_study(tmp_path / "again", {}, 0).ask(SPACE).params
    assert one == again != two


def test_a_run_takes_the_best_settings(tuned):
    made, folder = tuned
    lines = study.write_results(made, folder, ["data.file=x"])
    text = (folder / "tuned" / "best.yaml").read_text()
    assert text.startswith("# @package _global_\n")
    assert yaml.safe_load(text)["kind"] == "a"
    command = f"ptycho scan --config-dir={folder} +tuned=best data.file=x output_dir=…"
    assert lines[-1] == f"a run with the best settings: {command}"


def test_without_evidence_the_defaults_are_kept(tmp_path):
    made = run(tmp_path, Valley(slope=1e-9, defaults=1.0), 4)
    lines = study.write_results(made, tmp_path, [])
    assert "that is not more than twice its error: the defaults are kept" in lines
    assert yaml.safe_load((tmp_path / "tuned" / "best.yaml").read_text()) == {}
