"""Optional parts: a command whose part is not installed says how to install it."""

import sys

import pytest
from helpers.cli import ROOT, fresh

from ptycho import installed
from ptycho.command_line import console
from ptycho.config import ConfigError
from ptycho.config.mapping import from_mapping
from ptycho.run.scan_plan import check_settings

WITHOUT = """
import runpy, sys
sys.modules[sys.argv[1]] = None
sys.argv = [sys.argv[2], "--help"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
COMMANDS = [program for program in console.PROGRAMS.values() if program.part]


@pytest.mark.parametrize("program", COMMANDS, ids=lambda program: program.script)
def test_a_command_without_its_part(program):
    done = fresh(ROOT, "-c", WITHOUT, program.part, ROOT / f"scripts/{program.script}.py")
    assert done.returncode == 2
    assert f"pip install -c constraints.txt -e {installed.PARTS[program.part]}" in done.stderr
    assert "Traceback" not in done.stderr


def test_lsqml_without_its_part_is_refused_before_any_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "ptycho_lsqml", None)
    config = from_mapping({"data": {"file": "x"}, "models": ["lsqml"]})
    with pytest.raises(ConfigError, match=r"^lsqml: .*: pip install -c constraints.txt -e extras/lsqml .*$"):
        check_settings(config)
