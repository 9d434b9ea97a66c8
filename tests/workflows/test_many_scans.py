"""Many scans by one command: a pattern, a list or a sweep, one table of all; several processes share them."""

import csv
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from helpers.cli import ROOT, files
from helpers.quick import NOTHING_SELECTED, words_of

import workflows.reconstruct.scan
from ptycho.command_line.training_jobs import Job, explain_going_on
from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.report.entries import COLUMNS, check_table, row_of, write_table
from ptycho.run.folder import RunFolder
from workflows.reconstruct.scan_pattern import match, name_scans, split

SCRIPT = ROOT / "scripts/scan_workflow.py"
QUICK = ("solver.steps=2", *words_of(NOTHING_SELECTED), "probe.learn=false", "xla.compile=false")


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

    path = tmp_path_factory.mktemp("scan") / "scan.h5"
    simulate_scan(SimulateConfig(output=str(path), N=32, n_positions=9, path="jittered"))
    return path


@pytest.fixture
def batch(scan, tmp_path):
    folder = tmp_path / "scans"
    folder.mkdir()
    for name in ("s10.h5", "s1.h5"):
        shutil.copy(scan, folder / name)
    (folder / "s2.h5").write_bytes(scan.read_bytes()[:2000])
    return folder


@pytest.fixture
def started(monkeypatch):
    """Runs that only write their last files; their names in order."""
    names = []

    def run(config, folder, stop=None, executor=None):
        names.append(config.data.name)
        folder.text("recons/solver/recon.npz", "")
        folder.json("metrics.json", {"product": "solver", "solver": {"r_factor": 0.1, "flags": []}})
        folder.manifest({"scans": {config.data.name: {"patterns": 12, "N": 32}}})

    monkeypatch.setattr(workflows.reconstruct.scan, "run", run)
    return names


@pytest.fixture
def command(in_process, batch):
    def run(*overrides):
        return in_process(SCRIPT, "data.file=scans/*.h5", "output_dir=out", *QUICK, *overrides)

    return run


def table(folder):
    with (folder / "scans.csv").open() as file:
        return list(csv.DictReader(file))


# ---- patterns


def touched(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_matches_are_in_natural_order(tmp_path):
    touched(tmp_path, "s10.h5", "s9.h5", "s100.h5", "s1.npz", "deep/s2.h5")
    assert match(f"{tmp_path}/*.h5") == [f"{tmp_path}/{name}.h5" for name in ("s9", "s10", "s100")]
    deep = match(f"{tmp_path}/**/*.h5")
    assert name_scans(f"{tmp_path}/**/*.h5", deep) == {
        "deep-s2": f"{tmp_path}/deep/s2.h5",
        **{name: f"{tmp_path}/{name}.h5" for name in ("s9", "s10", "s100")},
    }


def test_a_folder_is_a_scan_unless_others_that_match_lie_in_it(tmp_path):
    touched(tmp_path, "tiffs/1.tif", "more/s1.h5")
    assert match(f"{tmp_path}/*") == [f"{tmp_path}/more", f"{tmp_path}/tiffs"]
    assert match(f"{tmp_path}/**") == [f"{tmp_path}/more/s1.h5", f"{tmp_path}/tiffs/1.tif"]


def test_files_that_runs_have_written_are_no_scans(tmp_path):
    touched(tmp_path, "s1.h5", "out/s1/product.h5")
    (tmp_path / "out/s1/files.json").write_text('{"files.json": "", "product.h5": ""}')
    assert match(f"{tmp_path}/**/*.h5") == [f"{tmp_path}/s1.h5"]


def test_two_scans_have_two_names():
    with pytest.raises(ConfigError, match=r"n/a/b-c.h5 and n/a-b/c.h5 would both be the run a-b-c"):
        name_scans("n/*/*.h5", ["n/a/b-c.h5", "n/a-b/c.h5"])


def asked(*file, **changes):
    return ScanRunConfig(data=DataConfig(file=file, **changes))


def test_a_list_is_a_run_for_each_file():
    files = {name: run.data.path for name, run in split(asked("x/b.h5", "a.h5", "y/b.h5")).items()}
    assert files == {"b_1": "x/b.h5", "a": "a.h5", "b_2": "y/b.h5"}
    with pytest.raises(ConfigError, match=r"x/b\.h5 and b_1\.h5 would both be the run b_1"):
        split(asked("x/b.h5", "y/b.h5", "b_1.h5"))


def test_patterns_that_cannot_be(tmp_path):
    with pytest.raises(ConfigError, match=r"data\.file=.*\*\.h5: matches no scan in " + str(tmp_path)):
        split(asked(f"{tmp_path}/*.h5"))
    with pytest.raises(ConfigError, match=r"none/\*: matches nothing: there is no folder"):
        split(asked(f"{tmp_path}/none/*"))
    with pytest.raises(ConfigError, match="must be one pattern, or a list without patterns"):
        split(asked("a.h5", "b*.h5"))
    with pytest.raises(ConfigError, match=r"data\.positions_file: belongs to one scan"):
        split(asked("b*.h5", positions_file="p.csv"))


# ---- a batch of scans


def test_a_bad_file_does_not_stop_the_others(command, started, tmp_path):
    code, _, err = command()
    assert code == 2 and started == ["s1", "s10"]
    assert err.count("error:") == 1 and "error: scans/s2.h5: it is cut short" in err
    rows = table(tmp_path / "out")
    assert [f"{row['scan']} {row['state']}" for row in rows] == ["s1 done", "s2 failed", "s10 done"]
    assert rows[0]["r_factor"] == "0.1" and rows[0]["folder"] == "out/s1" and rows[0]["N"] == "32"
    assert "it is cut short" in rows[1]["error"] and not (tmp_path / "out/s2").exists()
    assert (tmp_path / "out/scans.md").read_text() in "\n".join([*err.splitlines(), ""])


def test_a_mistake_that_concerns_all_stops_before(command, started, tmp_path):
    for mistake, words in (("solver.step=3", "did you mean solver.steps"), ("run=nothing", "holds no run")):
        before = files(tmp_path)
        code, _, err = command(mistake)
        assert code == 2 and words in err and err.count("error:") == 1 and files(tmp_path) == before
    (tmp_path / "out").mkdir()
    (tmp_path / "out/scans.csv").write_text("mine")
    code, _, err = command()
    assert code == 2 and "holds scans.csv, which is no table of this program" in err and not started


def test_the_same_command_continues_the_batch(command, started, batch, scan, tmp_path):
    command()
    unfinished = tmp_path / "out/s1/metrics.json"
    unfinished.unlink()
    shutil.copy(scan, batch / "s2.h5")
    shutil.copy(scan, batch / "s3.h5")
    started.clear()
    code, _, err = command()
    assert code == 0 and started == ["s1", "s2", "s3"], err
    assert "out/s10: is finished; nothing is left to do" in err and unfinished.exists()
    assert [row["state"] for row in table(tmp_path / "out")] == ["done"] * 4
    started.clear()
    code, _, err = command("solver.steps=3")
    assert code == 2 and not started
    assert "another configuration (solver.steps: 2 -> 3); choose another folder, or overwrite=true" in err
    assert command("solver.steps=3", "overwrite=true")[0] == 0 and started == ["s1", "s2", "s3", "s10"]
    assert command("solver.steps=3")[0] == 0 and len(started) == 4


def test_the_same_command_continues_a_sweep_and_its_table(in_process, started, scan, tmp_path):
    folder = tmp_path / "sweep"
    words = ("-m", f"data.file={scan}", *QUICK[1:], "solver.steps=3,4", "seed=1", f"output_dir={folder}")
    for again, count in ((), 2), ((), 0), (("overwrite=true",), 2), ((), 0):  # of a run that replaced another
        started.clear()
        code, _, err = in_process(SCRIPT, *words, *again)
        assert code == 0 and len(started) == count, err
        assert err.count("is finished; nothing is left to do") == 2 - count
    rows = table(folder)
    assert [(row["scan"], row["solver.steps"]) for row in rows] == [("scan", "3"), ("scan", "4")]
    assert "seed" not in rows[0] and all(os.path.isdir(row["folder"]) for row in rows)
    (unfinished,) = folder.glob("1_*/metrics.json")
    unfinished.unlink()
    assert in_process(SCRIPT, *words)[0] == 0 and len(started) == 1 and unfinished.exists()


def test_a_stopped_sweep_that_replaces_another_names_a_command_for_each_job_that_is_left(tmp_path):
    config, words = replace(asked("a.h5"), overwrite=True), ("-m", "seed=0,1,2", "overwrite=true")
    jobs = [
        Job(config, tmp_path / str(seed), (f"seed={seed}", words[-1]), together=tmp_path) for seed in range(3)
    ]
    RunFolder(jobs[1].path).config(config)  # the first is done, the second has begun
    _, *commands = [shlex.split(line) for line in explain_going_on(jobs[1:], words).splitlines()]
    assert [command[-1] for command in commands] == [f"resume={jobs[1].path}", f'output_dir="{jobs[2].path}"']
    assert "overwrite=true" in commands[1] and "seed=2" in commands[1]
    jobs = [replace(job, config=replace(config, overwrite=False)) for job in jobs]
    kept, made = ([*words, "output_dir=x"], words[:2])
    assert shlex.split(explain_going_on(jobs, kept).splitlines()[1])[-4:] == kept
    assert shlex.split(explain_going_on(jobs, made).splitlines()[1])[-1] == f"output_dir={tmp_path}"


# ---- the table


@pytest.mark.parametrize(
    ("pixel_m", "frc", "lengths"),
    [
        ([2e-8, 1e-8], {"frc50": 0.5, "frc50_m": 4e-8}, ("20", "40")),
        ([2e-8, 1e-8], {"frc50": None, "frc50_m": None}, ("20", "20")),  # the halves agree up to the pixel
        (None, None, ("", "")),
    ],
)
def test_a_row_is_what_the_files_of_a_run_say(tmp_path, pixel_m, frc, lengths):
    folder = RunFolder(tmp_path)
    folder.config(asked("scans/a.h5"))
    folder.text("recons/solver/recon.npz", "")
    scores = {"r_factor": 0.123456, "r_free": None, "flags": ["overfit", "no_contrast"]}
    metrics = {"solver": scores, "product": "solver", "pixel_m": pixel_m, "half_scan_frc": frc}
    folder.json("metrics.json", metrics)
    assert row_of(tmp_path) == {}  # no manifest yet
    facts = {"scans": {"a": {"patterns": 123456, "N": 32}}, "timings_s": {"total": 7.25}}
    folder.json("manifest.json", facts)
    row = {"patterns": "123456", "N": "32", "product": "solver", "r_factor": "0.1235", "r_free": ""}
    row |= {"pixel_nm": lengths[0], "frc_nm": lengths[1], "flags": "overfit no_contrast", "seconds": "7.25"}
    assert row_of(tmp_path) == row | {"deviance_holdout": ""}


def test_a_table_is_readable_and_known_again(tmp_path):
    text = write_table(tmp_path, [{"scan": "a", "seed": "1", "error": "x|y"}, {"scan": "bc", "N": 32}])
    head, rule, first, _ = text.splitlines()
    cells = [cell.strip() for cell in head.strip("| ").split("|")]
    assert cells == [*COLUMNS[:2], "seed", *COLUMNS[2:]] and set(rule) == set("|- ")
    assert first.startswith("| a    |") and "| x\\|y " in first
    assert [row["N"] for row in table(tmp_path)] == ["", "32"]
    check_table(tmp_path)


# ---- several processes


def test_several_processes_share_the_scans_of_a_pattern(command, started, batch, tmp_path, monkeypatch):
    """One scan is held by another process, and a second one is ended by it after this process has planned."""
    (batch / "s2.h5").unlink()
    shutil.copy(batch / "s1.h5", batch / "s3.h5")
    run = workflows.reconstruct.scan.run

    def run_beside_another(config, folder, *others, **keys):
        run(config, folder, *others, **keys)
        if config.data.name == "s1":
            other = RunFolder(tmp_path / "out/s10")
            scan = replace(config, data=replace(config.data, file=("scans/s10.h5",)), output_dir="out/s10")
            other.config(scan)
            run(scan, other)

    monkeypatch.setattr(workflows.reconstruct.scan, "run", run_beside_another)
    (tmp_path / "out/s3").mkdir(parents=True)
    words = [sys.executable, "-c", HOLD, str(tmp_path / "out/s3/.lock")]
    holding = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert holding.stdout.readline() == b"held\n"
    code, _, err = command()
    holding.kill()
    holding.communicate()
    assert code == 0 and started == ["s1", "s10"], err
    assert "out/s3: another process works on it" in err and "out/s10: is finished" in err
    states = {row["scan"]: row["state"] for row in table(tmp_path / "out")}
    assert states == {"s1": "done", "s10": "done", "s3": "waiting"}
    started.clear()
    assert command()[0] == 0 and started == ["s3"]


HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""
