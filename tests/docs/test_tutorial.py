"""The pages: the site builds without a broken link, and the tutorial's commands do what the page says."""

import contextlib
import io
import re
import shlex
import subprocess
import sys

import jupytext
import nbformat
import pytest
from helpers.cli import ROOT

from ptycho.command_line.console import PROGRAMS, folder_of

TUTORIAL = ROOT / "docs" / "tutorial.md"
GIVEN = ("probe.learn=false", "solver.flux=false", "solver.background=false", "solver.slices=1")
GIVEN += ("solver.regulariser=edge_preserving", "solver.regularisation_weight=1", "solver.error_map=false")
SMALLER = {"simulate": ("N=32",), "scan": (*GIVEN, "xla.compile=false")}


def test_the_site_builds_and_has_no_broken_link(tmp_path):
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "reference.html").read_text()
    assert "more steps would gain nothing" not in reference  # of a value that is not in the interface
    assert all(f'id="ptycho.{name}' in reference for name in ("api.scan.open_scan", "load_model"))
    assert not re.search(r'(src|href)="(https?:)?//(?!github)[^"]*\.(js|css|woff)', reference)


def test_every_page_is_in_the_menu():
    listed = (ROOT / "mkdocs.yml").read_text()
    assert all(page.name in listed for page in (ROOT / "docs").rglob("*.md"))


def test_the_notebook_is_the_page():
    """``jupytext --to ipynb docs/tutorial.md`` writes it."""
    page, notebook = jupytext.read(TUTORIAL), nbformat.read(TUTORIAL.with_suffix(".ipynb"), 4)
    written, stored = ([(cell.cell_type, cell.source) for cell in one.cells] for one in (page, notebook))
    assert written == stored


@pytest.fixture(scope="module")
def followed(tmp_path_factory, in_process_once, read_rightly_once):
    """The folder in which all cells ran, on a smaller scan with fewer decisions, and the output of the cells.

    They run in this process, because one per command would load and compile the same functions again.
    """
    place, printed = tmp_path_factory.mktemp("user"), []
    for cell in nbformat.read(TUTORIAL.with_suffix(".ipynb"), 4).cells:
        if cell.cell_type != "code":
            continue
        magic, _, command = cell.source.partition("\n")
        if magic == "%%bash":
            ptycho, name, *words = shlex.split(command)
            script = folder_of("scripts") / f"{PROGRAMS[name].script}.py"
            words += SMALLER.get(name, ())
            code, out, err = in_process_once(script, *words, cwd=place)
            assert (ptycho, code) == ("ptycho", 0), f"{command}: {err}"
            printed += out, err
        else:
            with contextlib.chdir(place), contextlib.redirect_stdout(io.StringIO()) as out:
                exec(cell.source, {})
            printed.append(out.getvalue())
    return place / "tutorial", "".join(printed)


def test_the_tutorial_holds(followed):
    folder, printed = followed
    expected = {"scan.cxi", "scan.png", "run", "fixed", "compare.html", "compare.csv"}
    assert {path.name for path in folder.iterdir()} == expected
    assert (folder / "run" / "report.html").stat().st_size > 50_000
    assert "FAIL" not in printed and "Traceback" not in printed
