"""Own code that a key names: it is found and checked, but never imported if only a file names it."""

import sys

import pytest

from ptycho.command_line.config import check_programs
from ptycho.config import ConfigError, CustomModel, RunConfig, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.mapping import programs_in
from ptycho.config.own_code import DOORS, allow, load
from ptycho.config.sections import EpochsConfig
from ptycho.config.solver_config import SolverConfig
from ptycho.run.folder import RunFolder
from ptycho.run.network import read_network

EVIL = "import pathlib; pathlib.Path('ran').touch()\ndef run(**all): ...\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """``module(text)`` writes ``mine.py`` into the working directory, as a user has it there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)

    def write(text):
        (tmp_path / "mine.py").write_text(text)

    yield write
    sys.modules.pop("mine", None)


def loaded(key, path):
    allow([path])
    return load(key, path)


def test_a_function_of_the_working_directory_is_found(module):
    module("def double(predicted, measured, **rest):\n    return 2 * measured\n")
    assert loaded("loss", "mine:double")(predicted=0, measured=21) == 42


@pytest.mark.parametrize(
    "text, path, message",
    [
        ("1 / 0", "mine:f", r"^loss=mine:f: mine cannot be imported \(ZeroDivisionError: division by zero\)"),
        ("def twice(): ...", "mine:twise", r"has no twise; did you mean mine:twice\?$"),
        ("f = 3", "mine:f", r"^loss=mine:f: is no function"),
        ("def f(a, b): ...", "mine:f", r"takes \(a, b\); must be callable as \(predicted, measured, objects"),
    ],
)
def test_what_cannot_be_used_is_said_on_one_line(module, text, path, message):
    module(text)
    with pytest.raises(ConfigError, match=message) as caught:
        loaded("loss", path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "make, key",
    [
        (lambda: RunConfig(loss="mine.f"), "loss"),
        (lambda: SolverConfig(regulariser="mine"), "solver.regulariser"),
    ],
)
def test_what_is_no_import_path_is_refused_at_once(make, key):
    with pytest.raises(ConfigError, match=rf"^{key}=.*my_module:"):
        make()


# ---- whose code is run


def configured(key, path):
    """A run on a scan with an import path in one of its keys."""
    section, _, name = key.rpartition(".")
    sections = {
        "": lambda: {name: path},
        "model": lambda: {"model": CustomModel(target=path)},
        "data": lambda: {"data": DataConfig(file=("x",), format=path)},
        "solver": lambda: {"solver": SolverConfig(regulariser=path)},
        "train": lambda: {"train": EpochsConfig(callbacks=path)},
    }
    return ScanRunConfig(models=("pinn",), nepochs=1, **sections[section]())


@pytest.mark.parametrize("key", DOORS)
def test_code_that_a_file_names_is_refused_and_not_imported(module, tmp_path, key):
    path = f"mine:run_{key.replace('.', '_')}"
    module(EVIL)
    config = configured(key, path)
    with pytest.raises(ConfigError, match=rf"^{key}={path}: is a program .*add {key}={path}"):
        check_programs(programs_in(config), ["seed=1"], "a file")
    with pytest.raises(ConfigError, match=rf"^{key}={path}: is code that a file names"):
        load(key, path)
    assert not (tmp_path / "ran").exists()
    check_programs(programs_in(config), [f"{key}={path}"], "a file")  # now it is allowed
    with pytest.raises(ConfigError, match="has no run_"):
        load(key, path)
    assert (tmp_path / "ran").exists()


def test_the_network_of_a_run_is_not_built_by_code_that_the_run_names(module, tmp_path):
    module(EVIL)
    run = tmp_path / "run"
    RunFolder(run).config(RunConfig(model=CustomModel(target="mine:network")))
    (run / "pinn").mkdir()
    with pytest.raises(ConfigError, match=r"^model\.target=mine:network: .* trust=mine:network\)"):
        read_network(run, "pinn")
    assert not (tmp_path / "ran").exists()
    allow(["mine:network"])
    with pytest.raises(ConfigError, match=r"weights\.npz: no such file"):
        read_network(run, "pinn")
