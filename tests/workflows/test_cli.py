"""Mistakes as a user meets them: one line on stderr, exit code 2, nothing written."""

import json
import os
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers.cli import SCRIPT, SEVERAL, files, fresh

from ptycho.config import RunConfig, ScanRunConfig
from ptycho.config.backend import require_tensorflow
from ptycho.run.folder import RunFolder


@pytest.fixture
def command(in_process, tmp_path):
    """``command(*overrides)`` runs the script; nothing here may get as far as a run."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    return partial(in_process, SCRIPT, blocked=("workflows.reconstruct.grid_lines",), cwd=folder)


@pytest.fixture
def refused(command, tmp_path):
    """``refused(*overrides)`` asserts what holds for every mistake, and returns the line."""

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
    (["-m", "hydra/sweeper=optuna"], r"hydra/sweeper=optuna: all jobs are planned before .* use ptycho tune"),
    (["+nn=3"], r"nn=3: unknown key; known are N, "),
    (["probe.energy_keV=8"], r"probe.energy_keV=8: unknown key; only probe=zone_plate has it"),
    (["probe=laser"], r"probe=laser: must be one of aberrated, from_file, ideal_disk, npz, run, zone_plate"),
    (["experiment=none"], r"experiment=none: must be one of few_pinn, gs1_curved, .*, sparse_scan"),
    (["probe=3"], r"must be a string"),
    (["seed=[1"], r"seed=\[1: must be key=value"),
    (["gridsize=1,2"], r"gridsize=1,2.*--multirun"),
    (["seed=${nothing}"], r"nothing"),
    # numbers
    (["N=65"], r"N=65: must be a power of two from 32 to 512"),
    (["N="], r"N='': must be a power of two"),
    (["nphotons=1e400"], r"nphotons=inf: must be a finite number from 1"),
    (["batch_size=3000"], r"batch_size=3000: must be at most the number of training groups, 2048"),
    # more than any machine can do, or than this one
    (["nimgs_train=1e12"], r"nimgs_train=1000000000000: must be an integer from 1 to 1000000"),
    (
        ["nimgs_train=1e6"],
        r"memory: needs about 3.32 TB while it simulates, and .* the objects, 2.46 TB: lower",
    ),
    (["-m", "nimgs_test=1,1000000"], r"memory: needs about .* TB .* the test patterns"),
    # probes
    (["probe=npz", "probe.file=missing.npz"], r"probe.file=missing.npz: no such file"),
    (
        ["probe=zone_plate", "probe.outermost_zone_width_nm=5"],
        r"probe.outermost_zone_width_nm=5: must be larger than the pixel size \(10 nm\)",
    ),
    # switches
    # sweeps: no job starts if one is wrong
    (["-m", "gridsize=2,0"], r"gridsize=0: must be an integer from 1 to 64"),
    (["-m", "N=64,128", "size=100"], r"size=100: must be at least .* = 132"),
]


@pytest.mark.parametrize("overrides, message", MISTAKES, ids=lambda value: " ".join(value) if value else "")
def test_mistake(refused, overrides, message):
    assert re.search(message, refused(*overrides, OUT))


def test_the_default_output_folder_is_not_made_either(refused):
    refused("N=65")
    refused("-m", "N=64,65")


SWITCHES = [
    (
        {"USE_XLA_COMPILE": "on"},
        [],
        r"USE_XLA_COMPILE=on: must be one of 1, true, yes, 0, false, no, or empty",
    ),
    ({"USE_XLA_COMPILE": "0"}, ["xla.compile=true"], r"USE_XLA_COMPILE=0 contradicts xla.compile=true"),
]


@pytest.mark.parametrize("environment, overrides, message", SWITCHES, ids=str)
def test_switch(refused, environment, overrides, message):
    assert re.search(message, refused(*overrides, OUT, **environment))


@pytest.mark.parametrize("backend", ["jax", "torch", "none"])
def test_another_backend_of_keras(refused, monkeypatch, backend):
    monkeypatch.setenv("KERAS_BACKEND", backend)
    line = f"KERAS_BACKEND={backend}: must be tensorflow, or unset: the networks are written for it"
    assert refused(OUT) == line == refused("N=65", OUT)


def test_the_backend_of_keras_is_set_before_a_file_of_the_user_can_say_otherwise(monkeypatch):
    for given in ({}, {"KERAS_BACKEND": ""}, {"KERAS_BACKEND": "tensorflow"}):
        environment = dict(given)
        require_tensorflow(environment)
        assert environment == {"KERAS_BACKEND": "tensorflow"}


# ---- probe files


class Trap:
    """Leaves a file behind if it is ever unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def disk(side=64):
    return np.ones((side, side), complex)


PROBE_FILES = [
    (
        "shape",
        {"probeGuess": np.ones((64, 32), complex)},
        r"probeGuess has shape \(64, 32\); must be \(n, n\)",
    ),
    ("zeros", {"probeGuess": 0 * disk()}, r"probeGuess is zero everywhere; must carry energy"),
    ("text", {"probeGuess": np.full((64, 64), "a")}, r"probeGuess \(64, 64\) has dtype <U1; must be complex"),
    ("key", {"probe": disk()}, r"has no key probeGuess \(it has probe\)"),
]


@pytest.mark.parametrize("name, arrays, message", PROBE_FILES, ids=lambda value: value if value else "")
def test_probe_file(refused, tmp_path, name, arrays, message):
    path = tmp_path / f"{name}.npz"
    np.savez(path, **arrays)
    line = refused("probe=npz", f"probe.file={path}", OUT)
    assert line.startswith(f"probe.file={path}: ") and re.search(message, line)


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04 torn"], ids=repr)
def test_unreadable_probe_file(refused, tmp_path, content):
    (tmp_path / "torn.npz").write_bytes(content)
    line = refused("probe=npz", f"probe.file={tmp_path / 'torn.npz'}", OUT)
    assert re.search(r"not a readable .npz \(it is .*\); it must be an .npz with key probeGuess", line)


def test_probe_file_that_is_a_folder_a_plain_array_or_a_loop(refused, tmp_path):
    np.save(tmp_path / "plain.npy", disk())
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path, tmp_path / "plain.npy", tmp_path / "loop"):
        assert "must be an .npz with key probeGuess" in refused("probe=npz", f"probe.file={path}", OUT)


def test_pickles_in_probe_files_are_not_executed(refused, tmp_path):
    trap = np.empty((64, 64), object)
    trap[:] = Trap(tmp_path / "sprung")
    np.savez(tmp_path / "array.npz", probeGuess=trap)
    np.save(tmp_path / "bare.npy", trap)
    (tmp_path / "bare.npy").rename(tmp_path / "bare.npz")
    for name, why in {"array.npz": "holds Python objects", "bare.npz": "not a readable .npz"}.items():
        assert why in refused("probe=npz", f"probe.file={tmp_path / name}", OUT)
    assert not (tmp_path / "sprung").exists()


def test_probe_larger_than_the_window_needs_interpolation(refused, tmp_path):
    np.savez(tmp_path / "big.npz", probeGuess=disk(80))
    line = refused("probe=npz", f"probe.file={tmp_path / 'big.npz'}", "probe.resize=pad", OUT)
    assert re.search(r"probe.resize=pad: .* 80 × 80, larger than N=64; use probe.resize=interpolate", line)


# ---- output folders


def test_a_folder_that_holds_a_run_is_refused_and_left_alone(refused, tmp_path):
    run = tmp_path / "run"
    folder = RunFolder(run)
    folder.json("metrics.json", {})
    folder.json("pinn/model.json", {})
    line = refused(f"output_dir={run}")
    assert line == (
        f"output_dir={run}: holds another run (files.json, metrics.json, pinn); "
        "choose another folder, or overwrite=true to replace it"
    )


def test_a_mistake_leaves_the_run_that_was_to_be_overwritten(refused, tmp_path):
    run = tmp_path / "run"
    RunFolder(run).json("metrics.json", {})
    assert "N=65" in refused(f"output_dir={run}", "overwrite=true", "N=65")
    assert "no such file" in refused(f"output_dir={run}", "overwrite=true", "probe=npz", "probe.file=no.npz")


def test_a_sweep_is_refused_for_the_folder_of_a_later_job(refused, tmp_path):
    RunFolder(tmp_path / "sweep" / "1_seed=1").text("run.log", "")
    assert "1_seed=1: holds another run (files.json, run.log)" in refused(
        "-m", "seed=0,1", f"output_dir={tmp_path}/sweep"
    )


def test_a_folder_that_cannot_be_written(refused, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / name for name in ("file", "file/below", "long" * 100, "loop", "loop/below")):
        assert refused(f"output_dir={path}").startswith(f"output_dir={path}: cannot be written (")
    assert "cannot be written (" in refused("-m", "seed=0,1", f"output_dir={tmp_path / 'file' / 'below'}")
    for nothing in ("null", "", "''"):
        assert "output_dir=" in refused(f"output_dir={nothing}")


# ---- help, tracebacks, speed


def test_help(command, tmp_path):
    code, out, err = command("--help")
    assert (code, err) == (0, "")
    for text in (
        "probe: aberrated, from_file, ideal_disk, npz, run, zone_plate",
        "model: custom, fno, unet, unrolled, unrolled_fast, unrolled_fine",
        "experiment: few_pinn, gs1_curved, ",
        "gridsize       2",
        "USE_XLA_COMPILE",
        "HYDRA_FULL_ERROR=1",
        "scripts/grid_lines_workflow.py -m",
    ):
        assert text in out
    assert files(tmp_path) == {"cwd/": ""}


def test_traceback_on_demand(command, tmp_path):
    code, _, err = command("N=65", HYDRA_FULL_ERROR="1")
    assert code == 2
    assert "Traceback (most recent call last)" in err and "ptycho/config/schema.py" in err
    assert err.endswith("\nerror: N=65: must be a power of two from 32 to 512\n")
    code, _, err = command("probe=laser", HYDRA_FULL_ERROR="1")
    assert code == 2 and "Traceback" in err and files(tmp_path) == {"cwd/": ""}


def test_mistakes_are_answered_before_tensorflow_is_imported(tmp_path):
    held = tmp_path / "held"
    held.mkdir()
    (held / "metrics.json").write_text("{}")
    lines = [
        "N=65",
        "probe=npz probe.file=no.npz",
        f"output_dir={held}",
        "nn=1",
        "-m seed=0,-1",
        "probe=laser",
    ]
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    done = fresh(cwd, "-c", SEVERAL, *lines)
    assert done.stdout.splitlines() == ["exit 2 False"] * len(lines)
    assert len(done.stderr.splitlines()) == len(lines) and "Traceback" not in done.stderr
    assert json.loads((held / "metrics.json").read_text()) == {} and not list(Path(cwd).iterdir())


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


def test_a_run_in_whose_folders_files_stand(refused, tmp_path):
    run = interrupted(tmp_path / "run")
    (run / "pinn").touch()
    assert (
        refused(f"resume={run}") == f"{run}/pinn: must be a folder; remove it, and its files are made again"
    )
    (run / "pinn").unlink()
    (run / "metrics.json").mkdir()
    assert f"{run}/metrics.json: must be a file, not a folder" in refused(f"resume={run}")


def test_a_run_of_another_workflow_or_too_large_for_the_machine_cannot_be_resumed(refused, tmp_path):
    RunFolder(tmp_path / "scan").config(ScanRunConfig())
    assert "is a run of the scan workflow" in refused(f"resume={tmp_path / 'scan'}")
    large = interrupted(tmp_path / "large", nimgs_train=10**6)
    assert "memory: needs about 3.32 TB" in refused(f"resume={large}")


def test_resume_excludes_overwriting_sweeps_and_changes(refused, tmp_path):
    run = interrupted(tmp_path / "0_gridsize=1,seed=0", nepochs=3)
    assert "resume" in (line := refused(f"resume={run}", "overwrite=true")) and "drop one of them" in line
    assert "remove -m" in refused("-m", f"resume={run}", "seed=0,1")
    assert "remove nepochs=4" in refused(f"resume={run}", "nepochs=4")
    assert "xla.compile: true -> false" in refused(f"resume={run}", USE_XLA_COMPILE="0")
    assert "resum=x: unknown key" in refused("resum=x")


def test_a_finished_run_says_so(command, tmp_path):
    run = interrupted(tmp_path / "run")
    for name in ("metrics.json", "manifest.json"):
        (run / name).write_text('{"a": 1}')
    before = files(tmp_path)
    code, out, err = command(f"resume={run}")
    assert (code, out) == (0, "") and f"{run}: is finished; nothing is left to do" in err
    assert files(tmp_path) == before
