"""The wheel: it holds all that a run needs, and the command works without a checkout."""

import os
import re
import subprocess
import sys
import zipfile

import pytest
from helpers.cli import ROOT

NAME = "ptycho_workflows"  # others have a package named workflows


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(place)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(place / "site")
    return place / "site"


def call(unpacked, cwd, *words, absent=""):
    program = f"import sys; sys.argv[0] = 'ptycho'; sys.modules[{absent!r}] = None; import ptycho_workflows; "
    program += "from ptycho.__main__ import main; "
    program += f" assert ptycho_workflows.__file__.startswith({str(unpacked)!r}); sys.exit(main())"
    environment = os.environ | {"PYTHONPATH": str(unpacked), "PYTHONSAFEPATH": "1"}
    words = [sys.executable, "-c", program, *words]
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)


def test_all_that_the_packages_hold_is_inside(unpacked):
    for name in ("conf", "scripts"):
        mine = {path.relative_to(ROOT / name) for path in (ROOT / name).rglob("*.*") if path.suffix != ".pyc"}
        theirs = (unpacked / NAME / name).rglob("*.*")
        assert mine == {path.relative_to(unpacked / NAME / name) for path in theirs}
    for pattern in ("ptycho/pretrained/**/*.npz", "ptycho/py.typed"):
        names = {path.relative_to(ROOT) for path in ROOT.glob(pattern) if path.suffix != ".pyc"}
        assert names and all((unpacked / name).is_file() for name in names)
    assert {path.name for path in unpacked.iterdir() if path.suffix != ".dist-info"} == {"ptycho", NAME}


def test_nothing_imports_the_name_of_a_checkout(unpacked):
    texts = {path: path.read_text() for path in (unpacked / NAME).rglob("*.py")}
    assert len(texts) > 25
    checkout = re.compile(r"^\s*(from|import) workflows\b", re.M)
    assert not [path for path, text in texts.items() if checkout.search(text)]


def test_its_name_is_installed(unpacked):
    (entries,) = unpacked.glob("*.dist-info/entry_points.txt")
    assert "ptycho = ptycho.__main__:main" in entries.read_text().splitlines()


def test_the_command_works_outside_of_a_checkout(unpacked, tmp_path):
    done = call(unpacked, tmp_path, "scan", "--cfg", "job", "data.file=a.cxi")
    assert done.returncode == 0 and "regulariser: learned" in done.stdout
    assert call(unpacked, tmp_path, "inspect", "--help").stdout.startswith("What is in a measured scan?")
    done = call(unpacked, tmp_path, "tune", "--help", absent="ptycho_tune")
    assert done.returncode == 2 and "pip install -c constraints.txt -e extras/tune in" in done.stderr
