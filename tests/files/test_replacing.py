"""A run that is replaced: what gives way, and what stays."""

import json
import os

import pytest
from helpers.cli import ROOT, SCRIPT, TINY, TINY_UNROLLED, files

from ptycho.config import ConfigError
from ptycho.report.page import index_page
from ptycho.run.folder import OutputFolder, RunFolder
from ptycho.run.record import own_files

OLD = (
    "config.yaml",
    "metrics.json",
    "pinn/history.csv",
    "recons/pinn/recon.npz",
    "run.log",
    "visuals/quality.png",
)
MINE = ("notes.txt", "pictures/family.jpg")


def write_run(path, content="old", names=OLD):
    run = RunFolder(path)
    for name in names:
        run.text(name, f"{content} {name}")
    return path


@pytest.fixture
def run(tmp_path):
    """A run, and files of the user's between its own."""
    path = write_run(tmp_path / "run")
    for name in MINE:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(f"mine {name}")
    return path


@pytest.fixture
def before(run):
    return files(run)


def mine(found):
    return {name: digest for name, digest in found.items() if name in MINE}


# ---- what is replaced, and when


def test_everything_that_is_written_is_listed(run):
    assert set(own_files(run)) == {*OLD, "files.json"}
    record = json.loads((run / "files.json").read_text())
    assert set(record) == {*OLD, "files.json"} and not any(record.values())


def test_the_old_run_gives_way_and_strangers_stay(run, before):
    RunFolder(run, overwrite=True).text("config.yaml", "new")
    found = files(run)
    assert set(found) == {*MINE, "files.json", "config.yaml"} and mine(found) == mine(before)


def test_the_page_that_was_made_of_a_run_goes_with_it(run):
    (run / "report.html").write_text(index_page("of the old run", [], {}))
    RunFolder(run, overwrite=True)
    assert not list(run.rglob("report.html"))


def test_a_page_of_the_users_stays(run):
    (run / "report.html").write_text("<!DOCTYPE html>mine")
    RunFolder(run, overwrite=True).text("metrics.json", "new")
    assert (run / "report.html").read_text() == "<!DOCTYPE html>mine"


def test_a_run_that_was_half_removed_is_a_run_still(run, monkeypatch):
    """``files.json`` goes last, so that the next one knows what is left."""
    unlink = os.unlink

    def refuse(path, **settings):
        if path.name == "run.log":
            raise PermissionError(13, "Permission denied")
        unlink(path, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.raises(ConfigError, match=r"cannot be written \(Permission denied\)"):
            RunFolder(run, overwrite=True)
    assert {"run.log", "files.json", *MINE} <= set(files(run)) and not (run / "config.yaml").exists()
    with pytest.raises(ConfigError, match="holds another run"):
        RunFolder(run)
    RunFolder(run, overwrite=True)
    assert set(files(run)) == {*MINE, "files.json"}


# ---- strangers


@pytest.mark.parametrize("name", ["config.yaml", "run.log", "visuals/history.png", "recons/gt/recon.npz"])
@pytest.mark.parametrize("record", [None, {"name": "of another program"}, {"config.txt": ""}])
def test_files_in_the_places_of_a_run_that_no_run_wrote_are_never_replaced(tmp_path, name, record):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    if record is not None:
        (tmp_path / "files.json").write_text(json.dumps(record))
    before = files(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(
            ConfigError, match=r"holds .*, which no run of .* or choose another folder"
        ) as error:
            RunFolder(tmp_path, overwrite)
        assert name in str(error.value) or "files.json" in str(error.value)
    with pytest.raises(ConfigError, match="no run of this program"):
        OutputFolder(tmp_path)
    assert files(tmp_path) == before


def test_files_of_others_in_the_folders_of_a_run_are_never_replaced(run):
    (run / "visuals/family.jpg").write_text("mine")
    (run / "pinn/checkpoints").mkdir()
    (run / "pinn/checkpoints/epoch00001-step0000002.npz").write_text("of its own training")
    before = files(run)
    with pytest.raises(ConfigError, match=r"holds visuals/family\.jpg, which no run of this program"):
        RunFolder(run, overwrite=True)
    assert files(run) == before
    (run / "visuals/family.jpg").unlink()
    RunFolder(run, overwrite=True).text("metrics.json", "new")
    assert set(files(run)) == {*MINE, "files.json", "metrics.json"}


def test_a_record_leads_to_nothing_outside_of_its_folder(tmp_path):
    write_run(tmp_path / "run")
    (tmp_path / "precious").write_text("mine")
    names = ["files.json", "../precious", str(tmp_path / "precious"), "visuals", "a\0b", "x" * 300]
    (tmp_path / "run" / "files.json").write_text(json.dumps(dict.fromkeys(names, "")))
    assert own_files(tmp_path / "run") == ["files.json"]
    for name in OLD:
        (tmp_path / "run" / name).unlink()
    RunFolder(tmp_path / "run", overwrite=True).text("metrics.json", "new")
    assert (tmp_path / "precious").read_text() == "mine"
    assert set(files(tmp_path / "run")) == {"files.json", "metrics.json"}


# ---- as a user meets it

LINES = (*TINY, *TINY_UNROLLED, "models=[pinn]", "xla.compile=false")


@pytest.fixture(scope="module")
def small_scans(tmp_path_factory):
    from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

    folder = tmp_path_factory.mktemp("scans")
    for count in (2, 6):
        simulate_scan(SimulateConfig(output=str(folder / f"{count}.h5"), N=32, n_positions=count))
    return folder


def test_refusals_come_before_the_run_is_touched(run, before, small_scans, in_process):
    scan, other = ROOT / "scripts/scan_workflow.py", small_scans / "6.h5"
    for script, *words in (
        (scan, f"data.file={small_scans / '2.h5'}"),
        (scan, f"data.file={other}", f"data.mask_file={run / 'recons/pinn/recon.npz'}"),
        (scan, f"data.file={run / 'metrics.json'}"),
        (SCRIPT, *LINES, "batch_size=10000"),
    ):
        code, _, error = in_process(script, *words, f"output_dir={run}", "overwrite=true")
        assert code == 2 and error.count("error:") == 1 and files(run) == before, error


def test_a_run_takes_the_place_of_another(run, before, in_process):
    code, _, error = in_process(SCRIPT, *LINES, f"output_dir={run}", "overwrite=true")
    assert code == 0, error
    found = files(run)
    assert mine(found) == mine(before)
    assert {*own_files(run), "report.html"} == set(found) - set(MINE)  # a page that is made of the run


@pytest.mark.parametrize("name", ["metrics.json", "recons/pinn/recon.npz", "visuals/quality.png"])
def test_no_program_replaces_a_file_of_a_run(run, before, name, small_scans, trained_run, in_process):
    target = f"output={run / name}"
    for script, *words in (
        ("export_scan", f"run={trained_run}", "format=npz"),
        ("simulate_scan", "n_positions=4", "N=32", "format=npz"),
    ):
        words = (*words, target, "overwrite=true")
        code, _, error = in_process(ROOT / f"scripts/{script}.py", *words)
        assert code == 2 and f"is a file of the run in {run}; choose another file" in error, error
    code, _, error = in_process(ROOT / "scripts/inspect_scan.py", small_scans / "6.h5", target)
    assert code == 2 and f"is a file of the run in {run}; choose another file" in error, error
    words = ("model=x.tflite", "data=x.npz", f"output_dir={run / 'recons/pinn'}", "overwrite=true")
    code, _, error = in_process(ROOT / "scripts/run_exported.py", *words)
    assert code == 2 and f"is a file of the run in {run}" in error, error
    assert files(run) == before


def test_an_inspection_does_not_draw_over_the_scan(small_scans, in_process):
    scan, before = small_scans / "6.h5", files(small_scans)
    code, _, error = in_process(ROOT / "scripts/inspect_scan.py", scan, f"output={scan}")
    assert code == 2 and "is the input file; choose another file" in error and files(small_scans) == before
