"""Optional parts: a command whose part is not installed says how to install it."""

import subprocess
import sys

import pytest
from helpers.cli import ROOT

from ptycho.command_line import console

WITHOUT = """
import runpy, sys
from ptycho.command_line import console

found = console.find_spec
console.find_spec = lambda name: None if name in console.PARTS else found(name)
sys.argv = [sys.argv[1], "--help"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("script", "folder"),
    [
        ("live", "extras/live"),
        ("replay", "extras/live"),
        ("export_model", "extras/export"),
        ("run_exported", "extras/export"),
    ],
)
def test_a_command_without_its_part(script, folder):
    words = [sys.executable, "-c", WITHOUT, str(ROOT / f"scripts/{script}.py")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and f"pip install -c constraints.txt -e {folder}" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_part_is_a_package_in_its_folder():
    for package, folder in console.PARTS.items():
        assert (ROOT / folder / package / "__init__.py").is_file()
        assert (ROOT / folder / "pyproject.toml").is_file()
    assert len(list(ROOT.glob("extras/*/pyproject.toml"))) == len(console.PARTS)
