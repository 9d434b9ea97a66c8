"""Many scans by one command: a pattern, a list or a sweep, runs here or by submitit, one table of all."""

import contextlib
import csv
import json
import os
import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from helpers.cli import ROOT, files

import workflows.reconstruct.scan
from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.run.folder import RunFolder
from ptycho.run.mpi import STARTERS
from ptycho.run.scan_table import row_of
from ptycho.training.interrupt import Stopped, StopRequest
from workflows.command_line import cluster
from workflows.command_line.cluster import Command, Launcher, read_launcher
from workflows.command_line.training_job import Job, Means, Progress
from workflows.reconstruct.scan_pattern import match, name_scans, split

SCRIPT = ROOT / "scripts/scan_workflow.py"
QUICK = (
    *("solver.steps=2", "solver.regulariser=none", "solver.error_map=false", "probe.learn=false"),
    *(
        "solver.slices=1",
        "solver.positions=false",
        "solver.flux=false",
        "solver.background=false",
        "xla.compile=false",
    ),
)


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

    path = tmp_path_factory.mktemp("scan") / "scan.h5"
    simulate_scan(SimulateConfig(output=str(path), N=32, n_positions=9, path="jittered"))
    return path


@pytest.fixture
def night(scan, tmp_path):
    folder = tmp_path / "scans"
    folder.mkdir()
    for name in ("s10.h5", "s1.h5"):
        shutil.copy(scan, folder / name)
    (folder / "s2.h5").write_bytes(scan.read_bytes()[:2000])
    return folder


@pytest.fixture
def started(monkeypatch):
    """Runs write their last files and do nothing else; the names of those that did, in their order."""
    names = []

    def run(config, scan, folder, stop=None, crew=None):
        names.append(config.data.name)
        folder.json("metrics.json", {"product": "solver", "solver": {"r_factor": 0.1, "flags": []}})
        folder.manifest({"scans": {config.data.name: {"patterns": 12, "N": 32}}})

    monkeypatch.setattr(workflows.reconstruct.scan, "run", run)
    return names


@pytest.fixture
def command(in_process, night):
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


def test_names_do_not_depend_on_other_scans(tmp_path):
    assert [*name_scans("n/*", ["n/a.h5"])] == ["a.h5"]
    assert [*name_scans("n/*.h5", ["n/a.h5"])] == ["a"]
    with pytest.raises(ConfigError, match=r"n/a/b-c.h5 and n/a-b/c.h5 would both be the run a-b-c"):
        name_scans("n/*/*.h5", ["n/a/b-c.h5", "n/a-b/c.h5"])


def asked(*file, **changes):
    return ScanRunConfig(data=DataConfig(file=file, **changes))


def test_what_is_no_pattern_is_one_run(tmp_path):
    touched(tmp_path, "s[1].h5")
    assert split(asked("a.h5")) == split(asked(f"{tmp_path}/s[1].h5")) == {}


def test_a_list_is_a_run_for_each_file():
    runs = split(asked("x/b.h5", "a.h5", "y/b.h5"))
    assert {name: run.data.path for name, run in runs.items()} == {
        "b_1": "x/b.h5",
        "a": "a.h5",
        "b_2": "y/b.h5",
    }
    with pytest.raises(ConfigError, match="two would be a run of the same name"):
        split(asked("x/b.h5", "y/b.h5", "b_1.h5"))


def test_one_network_is_not_trained_on_several_scans():
    with pytest.raises(ConfigError, match=r"nepochs=3, data.file=.*: a network is trained on one scan"):
        split(replace(asked("a.h5", "b.h5"), nepochs=3, models=("pinn",)))


def test_patterns_that_cannot_be(tmp_path):
    with pytest.raises(ConfigError, match=r"data\.file=.*\*\.h5: matches no scan in " + str(tmp_path)):
        split(asked(f"{tmp_path}/*.h5"))
    with pytest.raises(ConfigError, match=r"none/\*: matches nothing: there is no folder"):
        split(asked(f"{tmp_path}/none/*"))
    with pytest.raises(ConfigError, match="must be one pattern, or a list without patterns"):
        split(asked("a.h5", "b*.h5"))
    with pytest.raises(ConfigError, match=r"data\.positions_file: belongs to one scan"):
        split(asked("b*.h5", positions_file="p.csv"))


# ---- a night


def test_a_bad_file_does_not_stop_the_others(command, started, tmp_path):
    code, _, err = command()
    assert code == 2 and started == ["s1", "s10"]
    assert err.count("error:") == 1 and "error: scans/s2.h5: it is cut short" in err
    rows = table(tmp_path / "out")
    assert [(row["scan"], row["state"]) for row in rows] == [
        ("s1", "done"),
        ("s2", "failed"),
        ("s10", "done"),
    ]
    assert rows[0]["r_factor"] == "0.1" and rows[0]["folder"] == "out/s1" and rows[0]["N"] == "32"
    assert "it is cut short" in rows[1]["error"] and not (tmp_path / "out/s2").exists()
    assert (tmp_path / "out/scans.md").read_text() in "\n".join([*err.splitlines(), ""])


def test_a_mistake_that_concerns_all_stops_before(command, started, tmp_path):
    for mistake, words in (
        ("solver.step=3", "did you mean solver.steps"),
        ("holdout_fraction=2", "holdout_fraction=2.0: must be"),
        ("run=nothing", "nothing: holds no run"),
        ("solver.denoiser_weights=no.npz", "no.npz"),
    ):
        before = files(tmp_path)
        code, _, err = command(mistake)
        assert code == 2 and words in err and err.count("error:") == 1 and files(tmp_path) == before
    (tmp_path / "out").mkdir()
    (tmp_path / "out/scans.csv").write_text("mine")
    code, _, err = command()
    assert code == 2 and "holds scans.csv, which is no table of this program" in err and not started


def test_the_same_command_goes_on_with_the_night(command, started, night, scan, tmp_path):
    command()
    unfinished = tmp_path / "out/s1/metrics.json"
    unfinished.unlink()
    shutil.copy(scan, night / "s2.h5")
    shutil.copy(scan, night / "s3.h5")
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


def test_a_sweep_has_a_table_of_what_it_varies(in_process, started, scan, tmp_path):
    words = (f"data.file={scan}", *QUICK[1:], "solver.steps=3,4", "seed=1")
    code, _, err = in_process(SCRIPT, "-m", *words, f"output_dir={tmp_path / 'sweep'}")
    assert code == 0, err
    rows = table(tmp_path / "sweep")
    assert [row["solver.steps"] for row in rows] == ["3", "4"] and "seed" not in rows[0]
    assert [row["scan"] for row in rows] == ["scan", "scan"]
    assert all(os.path.isdir(row["folder"]) for row in rows)


# ---- the table


def test_a_row_is_what_the_files_of_a_run_say(tmp_path):
    one = {
        "solver": {
            "r_factor": 0.123456,
            "r_free": None,
            "deviance": 1.5,
            "flags": ["overfit", "no_contrast"],
        },
        "product": "solver",
        "pixel_m": [2e-8, 1e-8],
    }
    judged = {"frc50": 0.5, "frc50_m": 4e-8}
    facts = {"scans": {"a": {"patterns": 9, "N": 32}}, "timings_s": {"total": 7.25}}
    for name, value in (("metrics.json", one | {"half_scan_frc": judged}), ("manifest.json", facts)):
        assert row_of(tmp_path) == {}
        (tmp_path / name).write_text(json.dumps(value))
    assert row_of(tmp_path) == {
        **{"scan": "a", "patterns": 9, "N": 32, "pixel_nm": "20", "product": "solver", "r_factor": "0.1235"},
        **{"r_free": None, "deviance": "1.5", "frc_nm": "40", "flags": "overfit no_contrast"},
        "seconds": "7.25",
    }
    agree = {"frc50": None, "frc50_m": None}  # up to the pixel
    for more, lengths in (
        ({"half_scan_frc": agree}, ("20", "20")),
        ({"half_scan_frc": None, "pixel_m": None}, (None, None)),
    ):
        (tmp_path / "metrics.json").write_text(json.dumps(one | more))
        row = row_of(tmp_path)
        assert (row["frc_nm"], row["pixel_nm"]) == lengths


# ---- submitit


def test_the_launcher_has_its_settings_and_leaves_the_rest():
    given = ["-m", "seed=1,2", "hydra/launcher=submitit_slurm", "hydra.launcher.timeout_min=5", "resume=null"]
    launcher, others = read_launcher("scan", given)
    assert others == ["-m", "seed=1,2", "resume=null"] and launcher.name == "submitit_slurm"
    assert launcher.settings["timeout_min"] == 5 and launcher.settings["name"] == "scan"
    assert launcher.at_once(50) == 50
    assert read_launcher("scan", ["seed=1"]) == (None, ["seed=1"])
    with pytest.raises(ConfigError, match="tasks_per_node must be 1"):
        read_launcher("scan", ["hydra/launcher=submitit_local", "hydra.launcher.tasks_per_node=2"])


def test_a_command_gives_its_exit_code_and_does_not_take_itself_for_one_of_many(monkeypatch, tmp_path):
    """One that was asked to end gives none: Slurm may start it again."""
    monkeypatch.setenv("PMI_SIZE", "1")
    program = [sys.executable, "-c", "import os, sys; sys.exit(3 if 'PMI_SIZE' in os.environ else 4)"]
    job = Job(asked("a.h5"), tmp_path, ())
    assert (Command(program, job, single=True)(), Command(program, job, single=False)()) == (4, 3)
    with pytest.raises(SystemExit):
        Command([sys.executable, "-c", "import sys; sys.exit(143)"], job, single=True)()


def test_processes_that_mpi_did_not_start_are_told_so_before_any_work(monkeypatch, tmp_path, capsys):
    for name in STARTERS:
        monkeypatch.delenv(name, raising=False)
    command = Command(["/no/such/program"], Job(asked("a.h5"), tmp_path, ()), single=False)
    assert command() == 2 and "error: the processes of this job do not know" in capsys.readouterr().err


def test_a_job_is_started_and_in_the_queue_again_gone_on_with(monkeypatch, tmp_path):
    """A run of the same configuration that is to be replaced is not taken for the job's own."""
    config = replace(asked("a.h5"), overwrite=True)
    command = Command(["run"], Job(config, tmp_path, ("overwrite=true",)), single=True)
    RunFolder(tmp_path).config(config)
    assert command.words == ["run", "overwrite=true", f'output_dir="{tmp_path}"']
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert command.words == ["run", f"resume={tmp_path}"]


class Executor:
    """As submitit's: its jobs, an array, run until they are cancelled or are given exit codes."""

    def __init__(self):
        self.jobs = []

    def batch(self):
        return contextlib.nullcontext()

    def submit(self, command):
        self.jobs.append(SimpleNamespace(job_id=len(self.jobs), codes=[], lost=False, cancelled=False))
        job = self.jobs[-1]
        job.paths = SimpleNamespace(stderr="log")
        job.done, job.results = (lambda: bool(job.codes) or job.lost), lambda: job.codes
        job.exception, job.stderr = (lambda: job.lost or None), lambda: "noise\nerror: no light"
        job.cancel = lambda check: setattr(job, "cancelled", True)
        return job


@pytest.fixture
def submitted(monkeypatch, tmp_path):
    """``submitted(change)`` submits two jobs to Slurm; ``change(jobs)`` is called as time passes."""
    executor, jobs = Executor(), [Job(asked("a.h5"), tmp_path / name, (), scan=name) for name in "ab"]
    monkeypatch.setattr(Launcher, "executor", lambda *_: executor)
    stop, launcher = StopRequest(), Launcher("submitit_slurm", {"nodes": 1, "tasks_per_node": 1})
    progress = Progress(jobs, str)

    def follow(change):
        monkeypatch.setattr(cluster.time, "sleep", lambda _: change(executor.jobs, stop))
        return cluster.follow(launcher, jobs, Means(stop, "again", str), progress)

    return follow, executor, jobs, progress


def test_a_signal_cancels_the_jobs_and_the_way_on_is_told(submitted, tmp_path):
    follow, executor, jobs, _ = submitted
    with pytest.raises(Stopped):
        follow(lambda _, stop: setattr(stop, "signum", 2))
    assert [handle.cancelled for handle in executor.jobs] == [True, True]
    assert cluster.explain_cancelled(jobs, "again") == "the jobs are cancelled; resume with:\nagain"
    alone = Job(asked("a.h5"), tmp_path / "c", ("seed=1",))
    assert cluster.explain_cancelled([alone], "again").endswith(f"""seed=1 'output_dir="{tmp_path}/c"'""")


def test_the_worst_of_all_jobs_counts_also_of_one_that_leaves_no_result(submitted):
    follow, executor, jobs, progress = submitted

    def change(handles, _):
        handles[0].codes, handles[1].lost = [0, 3], True

    assert follow(change) == 3 and not any(handle.cancelled for handle in executor.jobs)
    assert [progress._states[job.path] for job in jobs] == [("failed", "no light")] * 2


PROGRAM = """
import json, pathlib, sys
folder = pathlib.Path(next(word.split('"')[1] for word in sys.argv if word.startswith("output_dir=")))
if folder.name == "s4":
    sys.exit("error: no light")
folder.mkdir()
for name in ("metrics.json", "manifest.json"):
    (folder / name).write_text(json.dumps({"product": "solver", "solver": {"r_factor": 0.25}}))
"""


def test_jobs_run_in_processes_of_their_own(command, started, night, tmp_path, monkeypatch, scan):
    (night / "s10.h5").unlink()
    command()
    for name in ("s3.h5", "s4.h5"):
        shutil.copy(scan, night / name)
    monkeypatch.setattr(cluster, "command", lambda: [sys.executable, "-c", PROGRAM])
    code, _, err = command("hydra/launcher=submitit_local", "hydra.launcher.cpus_per_task=1")
    assert code == 2 and started == ["s1"], err  # 2: of the file that is cut short
    assert "s3: submitted, as" in err and "s3: done" in err and "s4: failed (no light)" in err
    rows = {row["scan"]: row for row in table(tmp_path / "out")}
    states = {"s1": "done", "s2": "failed", "s3": "done", "s4": "failed"}
    assert {name: row["state"] for name, row in rows.items() if name} | states == states
    assert [row["r_factor"] for row in table(tmp_path / "out") if row["state"] == "done"] == ["0.1", "0.25"]
