"""The pages: the site builds without a broken link, and the tutorial's commands do what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest
from helpers.cli import ROOT
from nbclient import NotebookClient

TUTORIAL = ROOT / "docs" / "tutorial.md"


def test_the_site_builds_and_has_no_broken_link(tmp_path):
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "reference.html").read_text()
    assert "more steps would gain nothing" not in reference  # of a value that is not part of the door
    assert all(f'id="ptycho.{name}' in reference for name in ("api.scan.open_scan", "load_model"))
    assert not re.search(r'(src|href)="(https?:)?//(?!github)[^"]*\.(js|css|woff)', reference)


def test_every_page_is_in_the_menu():
    listed = (ROOT / "mkdocs.yml").read_text()
    assert all(page.name in listed for page in (ROOT / "docs").glob("*.md"))


def test_the_notebook_is_the_page():
    """``jupytext --to ipynb docs/tutorial.md`` writes it."""
    page, notebook = jupytext.read(TUTORIAL), nbformat.read(TUTORIAL.with_suffix(".ipynb"), 4)
    assert [(cell.cell_type, cell.source) for cell in page.cells] == [
        (cell.cell_type, cell.source) for cell in notebook.cells
    ]


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The folder in which every cell was run as it stands, and what the cells have said."""
    place = tmp_path_factory.mktemp("user")
    notebook = nbformat.read(TUTORIAL.with_suffix(".ipynb"), 4)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    client = NotebookClient(notebook, timeout=400, resources={"metadata": {"path": str(place)}})
    client.execute(env=environment)
    said = [output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])]
    return place / "tutorial", "".join(said)


def test_the_tutorial_holds(followed):
    folder, said = followed
    assert {path.name for path in folder.iterdir()} == {
        *("scan.cxi", "scan.png", "run", "fixed", "compare.html", "compare.csv")
    }
    assert (folder / "run" / "report.html").stat().st_size > 50_000
    assert "FAIL" not in said and "Traceback" not in said


def test_what_it_says_of_the_scan_is_so(followed):
    said = followed[1]
    assert re.search(r"solver: positions: found \(deviance", said)
    assert "complex64" in said and "'positions'" in said
    assert re.search(r"r_factor \S+  r_free \S+  \(photon noise alone", said)
