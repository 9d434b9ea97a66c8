"""The run folder: atomic, strict, careful with files that it did not write."""

import hashlib
import json
import os
import shutil

import numpy as np
import pytest
from helpers.cli import files

from ptycho.config import ConfigError
from ptycho.files.atomic import WriteError
from ptycho.files.lock import locked
from ptycho.run.folder import RunFolder, check_free
from ptycho.run.record import check_files, read_record


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


# ---- writing


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(folder):
    folder.text("metrics.json", "old")

    def save(file):
        file.write(b"half of the n")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        folder.write("metrics.json", save)
    with pytest.raises(KeyboardInterrupt):
        folder.write("pinn/weights.npz", save)
    assert (folder.path / "metrics.json").read_text() == "old"
    assert set(files(folder.path)) == {"files.json", "metrics.json", "pinn/"}


def test_arrays_hold_no_pickle(folder):
    arrays = {"object": np.arange(6).reshape(2, 3) * 1j, "mask": np.array([True, False])}
    digest = folder.arrays("recons/pinn/recon.npz", arrays)
    path = folder.path / "recons/pinn/recon.npz"
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        folder.arrays("recons/pinn/recon.npz", {"object": np.array([None])})
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    with np.load(path, allow_pickle=False) as loaded:
        assert set(loaded.files) == {"object", "mask"}
        np.testing.assert_array_equal(loaded["object"], arrays["object"])


def test_a_run_knows_its_own_array_files(folder):
    """It accepts its files as written, but no other file, not even a valid one of the same name."""
    for name in ("a.npz", "b.npz", "gone.npz"):
        folder.arrays(name, {"object": np.arange(6.0)})
    with (folder.path / "b.npz").open("wb") as file:
        np.savez(file, object=np.arange(7.0))
    (folder.path / "gone.npz").unlink()
    (folder.path / "c.npz").write_bytes((folder.path / "a.npz").read_bytes())
    again = RunFolder(folder.path, resumed=True)
    held = {name: again.holds(name) for name in ("a.npz", "b.npz", "c.npz", "gone.npz")}
    assert held == {"a.npz": True, "b.npz": False, "c.npz": False, "gone.npz": False}
    again.arrays("b.npz", {"object": np.arange(3.0)})
    assert set(read_record(folder.path)) == {"files.json", "a.npz", "b.npz", "gone.npz"}


# ---- folders


PATHS = ["config.yaml", "datasets/N64/gs1/val.npz", "pinn/history.csv", "recons/pinn/recon.npz", "run.log"]


@pytest.mark.parametrize("name", [*PATHS, "card.md", "product.h5"])
def test_a_folder_that_holds_a_run_is_refused(tmp_path, name):
    RunFolder(tmp_path).text(name, "x")
    before, first = files(tmp_path), name.split("/")[0]
    for use in (RunFolder, lambda path: check_free(path, overwrite=False)):
        with pytest.raises(ConfigError, match=rf"output_dir={tmp_path}: holds another run \(.*{first}"):
            use(tmp_path)
    assert files(tmp_path) == before


def test_what_is_killed_and_temporary_is_removed_and_nothing_else(tmp_path):
    stay = [".mine.tmp", "mine/.mine.npz.1.tmp", "pinn/.mine.tmp", "config.yaml"]
    stay += ["pinn/checkpoints/epoch00001-step0000000.npz"]
    go = [".metrics.json.17.tmp", "pinn/.weights.npz.17.tmp", "pinn/checkpoints/.epoch00001.npz.17.tmp"]
    for name in stay + go:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    RunFolder(tmp_path, resumed=True)
    assert set(files(tmp_path)) == {*stay, "files.json"}


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "broken").symlink_to("nowhere")
    before = files(tmp_path)
    names = ("file", "file/a/b", "x" * 300, "loop", "loop/a", "broken", "broken/a")
    for path in (tmp_path / name for name in names):
        with pytest.raises(ConfigError, match=rf"output_dir={path}: cannot be written"):
            RunFolder(path)
        with pytest.raises(ConfigError, match="cannot be written"), locked(path):
            pass
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("stands", "message"),
    [("pinn", "must be a folder"), ("pinn/weights.npz/", "must be a file, not a folder")],
)
def test_a_file_where_a_folder_must_be_and_the_reverse_are_refused(tmp_path, stands, message):
    """By the check before a run is resumed, and by the write."""
    folder, path = RunFolder(tmp_path), tmp_path / stands
    folder.text("pinn/weights.npz", "x")
    check_files(tmp_path)
    shutil.rmtree(tmp_path / "pinn")
    path.mkdir(parents=True) if stands.endswith("/") else path.touch()
    with pytest.raises(ConfigError, match=rf"^{path}: {message}; remove it"):
        check_files(tmp_path)
    with pytest.raises(WriteError, match=rf"^{tmp_path}/pinn/weights.npz: cannot be written \((File|Is a d)"):
        folder.text("pinn/weights.npz", "x")


# ---- links


@pytest.fixture
def victim(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/thesis.txt").write_text("mine")
    (tmp_path / "home/.a.7.tmp").write_text("mine, too")
    return tmp_path / "home"


@pytest.mark.parametrize("resumed", [True, False])
@pytest.mark.parametrize(
    ("name", "leads_to"),
    [
        (".replaced", "home"),
        (".discarded", "home"),
        ("run.log", "home/thesis.txt"),
        ("visuals", "home"),
        ("pinn/checkpoints", "home"),
        ("live", "home"),
        ("blocks", "nowhere"),
    ],
)
def test_no_link_in_a_run_is_followed_out_of_it(tmp_path, victim, name, leads_to, resumed):
    run = RunFolder(tmp_path / "run").path
    link = run / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / leads_to)
    before = files(victim)
    message = rf"{name}: is a link that leads out of the run's folder|{name}, which no run of this program"
    with pytest.raises(ConfigError, match=message):
        RunFolder(run, overwrite=True, resumed=resumed)
    assert files(victim) == before and link.is_symlink()


def test_a_lock_or_temporary_file_that_is_a_link_is_not_written_through(tmp_path, victim):
    run = tmp_path / "run"
    run.mkdir()
    for name in (".lock", f".files.json.{os.getpid()}.tmp", f".metrics.json.{os.getpid()}.tmp"):
        (run / name).symlink_to(victim / "thesis.txt")
    with locked(run):
        RunFolder(run).json("metrics.json", {"a": 1})
    assert (victim / "thesis.txt").read_text() == "mine"
    assert json.loads((run / "metrics.json").read_text()) == {"a": 1}
