"""The command ``ptycho``: all scripts by one name, fast help, existing keys in the help."""

import shlex
import sys

import pytest
import yaml
from helpers.cli import ROOT
from helpers.configuration import composed
from hydra.errors import HydraException
from omegaconf import OmegaConf

from ptycho.command_line import console
from ptycho.command_line.config import explained
from ptycho.command_line.training_jobs import format_command


def test_every_program_is_a_script_and_every_script_a_program():
    scripts = {path.stem for path in (ROOT / "scripts").glob("*.py")}  # scripts/studies: names of others
    assert scripts == {program.script for program in console.PROGRAMS.values()} | {"write_conf"}


def test_a_command_that_there_is_not(capsys):
    assert console.main(["reconstruct"]) == 2
    assert "ptycho reconstruct: there is no such command; ptycho --help" in capsys.readouterr().err
    assert console.main(["scann"]) == 2
    assert "did you mean scan?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "original, expected",
    [
        (["python", "/somewhere/bin/ptycho", "scan", "a=1"], "ptycho scan resume=x"),
        (["python", "-u", "ptycho", "scan"], "ptycho scan resume=x"),
        (["python", "scripts/scan_workflow.py", "ptycho", "scan"], None),
        (["python"], None),
    ],
)
def test_commands_are_shown_as_they_were_typed(original, expected, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", original)
    monkeypatch.setattr(sys, "argv", ["scripts/scan_workflow.py"])
    assert format_command("resume=x") == (expected or f"{sys.executable} scripts/scan_workflow.py resume=x")


@pytest.mark.parametrize("name, script", [("grid_lines", "grid_lines_workflow"), ("scan", "scan_workflow")])
def test_keys_in_the_help_have_the_defaults_that_it_says(name, script):
    defaults = composed(name=name)
    docstring = (ROOT / f"scripts/{script}.py").read_text().partition("their defaults:\n\n")[2]
    rows = docstring.split("\n\n")[0].splitlines()
    assert len(rows) == 9
    for key, default, *_ in map(str.split, rows):
        value = OmegaConf.select(defaults, key, throw_on_missing=True)
        if OmegaConf.is_dict(value):
            assert value.get("kind", default) == default
        else:
            value = OmegaConf.to_container(value) if OmegaConf.is_list(value) else value
            assert yaml.safe_load(default.replace(",", ", ")) == value or float(default) == float(value)


# ---- names of files with special characters: the error shows quotes, and Hydra reads the quoted names


def file_of(override):
    return composed(override, name="scan").data.file


@pytest.mark.parametrize("name", ["a(1).cxi", "a=b.cxi", "ü b[1]/a,b.cxi", "it's.cxi"])
def test_the_quotes_that_are_shown_work(name):
    with pytest.raises(HydraException) as caught:
        file_of(f"data.file={name}")
    message = explained(caught.value)
    assert message.startswith(f"data.file={name}: must be key=value, with quotes") and "\n" not in message
    shown = message.split("characters: ")[1].rsplit(" (", 1)[0]
    (override,) = shlex.split(shown)
    assert file_of(override) == name


def test_lists_and_commas():
    with pytest.raises(HydraException) as caught:
        file_of("data.file=[ü.cxi,b.cxi]")
    assert "\"data.file=['ü.cxi','b.cxi']\"" in explained(caught.value)
    ambiguous = HydraException("Ambiguous value for argument 'data.file=a,b.cxi'\n1. To use it as a list")
    assert "\"data.file='a,b.cxi'\"" in explained(ambiguous)
