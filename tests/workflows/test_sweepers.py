"""Sweepers of Hydra that choose the next jobs by what the first have given, as Optuna's does."""

import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.sweeper import Sweeper

from workflows.command_line.jobs import plan_and_perform
from workflows.command_line.training_jobs import objective


class Narrowing(Sweeper):
    """Tries the seeds 2 and 8, then the one beside the better of them."""

    __module__ = "hydra_plugins.narrowing"  # where Hydra wants its plugins to be

    def __init__(self, **unused):
        self.given = []

    def setup(self, *, hydra_context, task_function, config):
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments):
        def values(*seeds, first):
            done: list[JobReturn] = self.launcher.launch(
                [[*arguments, f"seed={seed}"] for seed in seeds], initial_job_idx=first
            )
            return {seed: job.return_value for seed, job in zip(seeds, done, strict=True)}

        found = values(2, 8, first=0)
        best = min(found, key=found.get)
        values(best + 1, first=2)


def test_each_job_is_done_before_the_next_is_chosen(monkeypatch):
    place = ModuleType(Narrowing.__module__)
    place.Narrowing = Narrowing
    monkeypatch.setitem(sys.modules, place.__name__, place)
    Plugins.instance().register(Narrowing)
    done = []

    def plan(composed):
        return [SimpleNamespace(path=Path(str(composed.seed)))]

    def perform(jobs):
        done.extend(int(job.path.name) for job in jobs)
        return 0

    words = ["-m", "hydra.sweeper._target_=hydra_plugins.narrowing.Narrowing", "hydra/launcher=basic"]
    code = plan_and_perform(
        "grid_lines", words, plan, perform, objective=lambda path: abs(int(path.name) - 7.0)
    )
    assert (code, done) == (0, [2, 8, 9])


def test_the_objective_of_a_scan_is_what_its_product_says_of_held_out_patterns(tmp_path):
    row = {"deviance": 9.0}
    for more, expected in (({}, 9.0), ({"deviance_holdout": 1.5}, 1.5)):
        metrics = {"product": "solver", "solver": row | more, "pinn": {"deviance": 2.0}}
        (tmp_path / "metrics.json").write_text(json.dumps(metrics))
        assert objective(tmp_path) == expected


def test_the_objective_of_grid_lines_is_the_best_validation_loss(tmp_path):
    (tmp_path / "metrics.json").write_text(json.dumps({"pinn": {"mae": [0.1, None]}}))
    assert math.isnan(objective(tmp_path))
    (tmp_path / "pinn").mkdir()
    (tmp_path / "pinn" / "history.csv").write_text("epoch,loss,val_loss\n1,3,0.5\n2,2,0.25\n3,1,0.75\n")
    assert objective(tmp_path) == pytest.approx(0.25)
