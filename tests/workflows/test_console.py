"""The command ``ptycho``: all scripts by one name, fast help, existing keys in the help."""

import shlex

import pytest
from helpers.cli import ROOT
from helpers.configuration import composed
from hydra.errors import HydraException

from ptycho.command_line import console
from ptycho.command_line.config import explained


def test_every_program_is_a_script_and_every_script_a_program():
    scripts = {path.stem for path in (ROOT / "scripts").glob("*.py")}  # scripts/studies: names of others
    assert scripts == {program.script for program in console.PROGRAMS.values()} | {"write_conf"}


def test_a_command_that_there_is_not(capsys):
    assert console.main(["reconstruct"]) == 2
    assert "ptycho reconstruct: there is no such command; ptycho --help" in capsys.readouterr().err
    assert console.main(["scann"]) == 2
    assert "did you mean scan?" in capsys.readouterr().err


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
