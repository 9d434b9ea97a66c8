"""A run that is replaced: which files are removed, when, and how they are restored."""

import json
import os
import shutil

import pytest
from helpers.cli import ROOT, SCRIPT, TINY, TINY_UNROLLED, files

from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.files.atomic import WriteError
from ptycho.run.folder import RunFolder, check_free
from ptycho.run.record import own_files
from ptycho.run.replacing import mend, put_back, waits
from ptycho_report.page import index_page

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


def test_the_old_run_waits_for_the_first_result_and_other_files_stay(run, before):
    new = RunFolder(run, overwrite=True)
    new.text("config.yaml", "new")
    new.text("pinn/weights.npz", "new")
    assert waits(run) and mine(files(run)) == mine(before)
    assert {name: files(run / ".replaced")[name] for name in OLD} == {name: before[name] for name in OLD}
    new.text("recons/pinn/recon.npz", "new")
    found = files(run)
    assert set(found) == {*MINE, "files.json", "config.yaml", "pinn/weights.npz", "recons/pinn/recon.npz"}
    assert mine(found) == mine(before)


@pytest.mark.parametrize("error", [ConfigError, RuntimeError, WriteError])
def test_a_run_that_fails_gives_back_what_it_was_to_replace(run, before, error):
    new = RunFolder(run, overwrite=True)
    with pytest.raises(error), new.replacing():
        new.text("pinn/weights.npz", "new")
        raise error
    assert files(run) == before


def test_the_page_that_was_made_of_a_run_goes_with_it_and_comes_back(run):
    page = index_page("of the old run", [], {})
    (run / "report.html").write_text(page)
    new = RunFolder(run, overwrite=True)
    assert not (run / "report.html").exists()
    with pytest.raises(RuntimeError), new.replacing():
        (run / "report.html").write_text(page.replace("old", "new"))
        raise RuntimeError
    assert (run / "report.html").read_text() == page
    RunFolder(run, overwrite=True).text("metrics.json", "new")
    assert not list(run.rglob("report.html"))


def test_where_the_disk_was_full_both_stay_and_the_new_one_can_go_on(run, before, caplog):
    new = RunFolder(run, overwrite=True)
    with pytest.raises(WriteError), new.replacing():
        new.text("config.yaml", "new")
        raise WriteError
    assert waits(run) and f"is kept in {run / '.replaced'} until there is a new result" in caplog.text
    with pytest.raises(ConfigError, match=r"holds another run \(config.yaml, files.json\); .* is kept in"):
        RunFolder(run)
    again = RunFolder(run, resumed=True)
    assert waits(run)
    again.text("metrics.json", "new")
    assert not (run / ".replaced").exists() and mine(files(run)) == mine(before)


def test_a_folder_that_cannot_be_moved_aside_is_left_as_it_was(run, before, monkeypatch):
    rename = os.rename

    def refuse(path, target):
        if path.name == "recons" and ".replaced" in str(target):
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(ConfigError, match=r"cannot be written \(Permission denied\)"):
        RunFolder(run, overwrite=True)
    assert files(run) == before


class Killed(BaseException):
    """The process ended here."""


class Fuse:
    """Allows a number of changes of a folder, and ends the process at the next one."""

    def __init__(self, patch, left):
        self.left = left
        for name in ("rename", "replace", "unlink"):
            patch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, function):
        def change(*arguments, **settings):
            if self.left <= 0:
                raise Killed
            self.left -= 1
            return function(*arguments, **settings)

        return change


def test_the_old_run_survives_a_kill_at_any_moment(run, tmp_path, monkeypatch):
    (run / "report.html").write_text(index_page("of the old run", [], {}))
    before, ended = files(run), 0
    for k in range(200):
        copy = shutil.copytree(run, tmp_path / f"{k}" / "run")
        with monkeypatch.context() as patch:
            Fuse(patch, k)
            try:
                new = RunFolder(copy, overwrite=True)
                with pytest.raises(RuntimeError), new.replacing():
                    new.text("config.yaml", "new")
                    new.text("pinn/weights.npz", "new")
                    raise RuntimeError
            except Killed:
                ended += 1
            else:
                break
        check_free(copy, overwrite=True)
        mend(copy)
        put_back(copy)
        found = {name: digest for name, digest in files(copy).items() if not name.endswith(".tmp")}
        assert found == before, k
    assert ended > 20 and files(copy) == before


@pytest.mark.parametrize("name", ["config.yaml", "recons/gt/recon.npz"])
@pytest.mark.parametrize("record", [None, {"name": "of another program"}, {"config.txt": ""}])
def test_files_in_the_places_of_a_run_that_no_run_wrote_are_never_replaced(tmp_path, name, record):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    if record is not None:
        (tmp_path / "files.json").write_text(json.dumps(record))
    before = files(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(ConfigError, match=r"holds .*, which no run of") as error:
            RunFolder(tmp_path, overwrite)
        assert name in str(error.value) or "files.json" in str(error.value)
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
    assert set(files(tmp_path / "run")) == {"files.json", "metrics.json", "pinn/", "recons/pinn/", "visuals/"}


LINES = (*TINY, *TINY_UNROLLED, "models=[pinn]", "xla.compile=false")


@pytest.fixture(scope="module")
def small_scans(tmp_path_factory):
    from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

    folder = tmp_path_factory.mktemp("scans")
    for count in (2, 6):
        simulate_scan(SimulateConfig(output=str(folder / f"{count}.h5"), N=32, n_positions=count))
    return folder


def test_refusals_come_before_the_run_is_touched(run, before, small_scans, in_process):
    scan = ROOT / "scripts/scan_workflow.py"
    for script, *words in ((scan, f"data.file={small_scans / '2.h5'}"), (SCRIPT, *LINES, "batch_size=10000")):
        code, _, error = in_process(script, *words, f"output_dir={run}", "overwrite=true")
        assert code == 2 and error.count("error:") == 1 and files(run) == before, error


@pytest.mark.parametrize("name", ["metrics.json", "recons/pinn/recon.npz"])
def test_no_program_replaces_a_file_of_a_run(run, before, name, small_scans, tmp_path, in_process):
    target, measured = f"output={run / name}", tmp_path / "measured"
    RunFolder(measured).config(ScanRunConfig(data=DataConfig(file=("a.h5",))))
    for script, *words in (
        ("export_scan", f"run={measured}", "format=npz"),
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
