"""Mistakes of a user: one line on stderr, exit code 2, nothing written."""

import json
import re
from functools import partial

import numpy as np
import pytest
from helpers.cli import SCRIPT, SEVERAL, files, fresh

from ptycho.config import RunConfig, ScanRunConfig
from ptycho.run.folder import RunFolder


@pytest.fixture
def command(in_process, tmp_path):
    folder = tmp_path / "cwd"
    folder.mkdir()
    return partial(in_process, SCRIPT, blocked=("workflows.reconstruct.grid_lines",), cwd=folder)


@pytest.fixture
def refused(command, tmp_path):
    """``refused(*overrides)`` asserts the properties of every mistake, and returns the line."""

    def run(*overrides, **environment):
        before = files(tmp_path)
        code, out, err = command(*overrides, **environment)
        assert (code, out) == (2, ""), err
        assert re.fullmatch(r"error: .+\n", err), err
        assert files(tmp_path) == before
        return err.removeprefix("error: ").rstrip()

    return run


OUT = "output_dir=out"
MISTAKES = [
    # unknown keys, values and options; syntax
    (["hydra.run.dir=foo"], r"hydra\.run\.dir=foo: is not where a run goes; set output_dir=foo"),
    (["hydra/launcher=submitit_slurm"], r"launcher=submitit_slurm: all jobs run in this process; start"),
    (["-m", "hydra/sweeper=optuna"], r"hydra/sweeper=optuna: all jobs are planned before .* use ptycho tune"),
    (["experiment=none"], r"experiment=none: must be one of few_pinn, gs1_curved, .*, sparse_scan"),
    (["nimgs_train=1e6"], r"memory: needs about 3.32 TB while it simulates, and .* 2.46 TB: lower"),
    (["probe=npz", "probe.file=missing.npz"], r"probe.file=missing.npz: no such file"),
    # sweeps: no job starts if one is wrong
    (["-m", "gridsize=2,0"], r"gridsize=0: must be an integer from 1 to 64"),
]


@pytest.mark.parametrize("overrides, message", MISTAKES, ids=lambda value: " ".join(value) if value else "")
def test_mistake(refused, overrides, message):
    assert re.search(message, refused(*overrides, OUT))


def test_another_backend_of_keras(refused, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert refused(OUT) == "KERAS_BACKEND=jax: must be tensorflow, or unset: the networks are written for it"


# ---- probe files


def test_pickles_in_probe_files_are_not_read(refused, tmp_path):
    np.savez(tmp_path / "array.npz", probeGuess=np.full((64, 64), None))
    assert "holds Python objects" in refused("probe=npz", f"probe.file={tmp_path / 'array.npz'}", OUT)


# ---- output folders


def test_a_sweep_is_refused_for_the_folder_of_a_later_job(refused, tmp_path):
    assert "output_dir=" in refused("output_dir=")
    RunFolder(tmp_path / "sweep" / "1_seed=1").text("run.log", "")
    line = refused("-m", "seed=0,1", f"output_dir={tmp_path}/sweep")
    assert "1_seed=1: holds another run (files.json, run.log)" in line


# ---- help, tracebacks, speed


def test_mistakes_are_answered_before_tensorflow_is_imported(tmp_path):
    held, cwd = tmp_path / "held", tmp_path / "cwd"
    for folder in (held, cwd):
        folder.mkdir()
    (held / "metrics.json").write_text("{}")
    grid_lines = ("N=65", "probe=npz probe.file=no.npz", f"output_dir={held}", "-m seed=0,-1", "probe=laser")
    lines = [f"grid_lines_workflow {words}" for words in grid_lines]
    lines += ["run_exported model=a.onnx data=no.npz", "tune data.file=none.cxi tune.space.probe.modes=[0,4]"]
    done = fresh(cwd, "-c", SEVERAL, *lines, "sample")
    ends = [line for line in done.stdout.splitlines() if line.startswith("exit")]
    assert ends == ["exit 2 False"] * len(lines) + ["exit 0 False"]
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == len(lines) and "Traceback" not in done.stderr
    assert errors[-2:] == [
        "error: model=a.onnx: no such file",
        "error: probe.modes=0: must be an integer from 1 to 8, or null",
    ]
    assert json.loads((held / "metrics.json").read_text()) == {}
    assert "200 patterns" in done.stdout and [path.name for path in cwd.iterdir()] == ["sample.cxi"]


# ---- resume=


def interrupted(path, **changes):
    RunFolder(path).config(RunConfig(output_dir=str(path), **changes))
    return path


def test_a_folder_that_cannot_be_resumed(refused, tmp_path):
    assert "no config.yaml in it" in refused(f"resume={tmp_path / 'none'}")
    assert "no config.yaml in it" in refused("resume=a=b,c d(e)")
    assert refused("resume=") == "resume=: must be the folder of the run to resume"
    run = interrupted(tmp_path / "0_gridsize=1,seed=0")
    (run / "config.yaml").write_text("N: [64")
    assert "config.yaml: is damaged" in refused(f"resume={run}")
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot be read (Too many levels" in refused(f"resume={tmp_path / 'loop'}")
    assert "cannot be read (Not a directory)" in refused(f"resume={run / 'config.yaml'}")


def test_a_run_of_another_workflow_cannot_be_resumed(refused, tmp_path):
    RunFolder(tmp_path / "scan").config(ScanRunConfig())
    assert "is a run of the scan workflow" in refused(f"resume={tmp_path / 'scan'}")


def test_resume_excludes_overwriting_sweeps_and_changes(refused, tmp_path):
    run = interrupted(tmp_path / "0_gridsize=1,seed=0", nepochs=3)
    assert "resume" in (line := refused(f"resume={run}", "overwrite=true")) and "drop one of them" in line
    assert "a sweep is continued by its own command" in refused("-m", f"resume={run}", "seed=0,1")
    assert "resum=x: unknown key" in refused("resum=x")
