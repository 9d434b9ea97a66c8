"""Several processes fit the blocks of a scan: the image is the same with one, two and three."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ptycho.run import mpi

PROGRAM = """
import sys
from dataclasses import replace
from pathlib import Path
import numpy as np
sys.path.insert(0, "tests")
from ptycho.files.file_array import FileArray
from ptycho.scan.patterns import Patterns
from helpers.likelihood import Scan, likelihood_of
from ptycho.reconstruction.blocks import Blockwise, fit_in_blocks, serial
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective
from ptycho.run.mpi import run_on_all

def program(executor):
    scan = Scan.of(np.random.default_rng(1), 1e5, count=7, step=2.2)
    data = scan.dataset(np.random.default_rng(2))
    in_file = FileArray.temporary(Path(sys.argv[1]).parent, data.amplitudes.shape, np.float32)
    in_file[:] = data.amplitudes[:]
    data = replace(data, amplitudes=Patterns(in_file))  # as those of a run
    objective = Objective(likelihood_of(data), Prior("edge_preserving", 3.0))
    start = scan.rough(data.normalisation)
    found = fit_in_blocks(objective, start, OBJECT_ALONE, 4, Blockwise(20, executor or serial))
    np.save(sys.argv[1], found.estimate.object)
    return 0

sys.exit(run_on_all(program))
"""
ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("mpi4py")
MPIRUN = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
needs_mpi = pytest.mark.skipif(MPIRUN is None, reason="no mpiexec")


FAILS = """
import sys
from types import SimpleNamespace

class Task(float):
    def in_memory(self):
        return self

def solve_task(task, advance=None):
    if task < 0:
        raise Unfit("unfit", int(task))
    return Found(int(1 / task) * 1_000_000)  # more than is sent without being received

class Found(bytes):
    evaluations, estimate = 1, SimpleNamespace(positions=[])

class Unfit(Exception):  # cannot be unpickled
    def __init__(self, text, number):
        super().__init__(text)

sys.modules["ptycho.reconstruction.blocks"] = SimpleNamespace(solve_task=solve_task)
sys.modules["tensorflow"] = None  # which has no part in it, and takes long to start
sys.modules["ptycho.quiet_start"] = SimpleNamespace(start_tensorflow=lambda **options: None)
from ptycho.run.mpi import run_on_all

def sizes(executor, words):
    tasks = [lambda task=Task(task): task for task in words.split() if task != "taken"]
    for found in executor(tasks, lambda done: None):
        if "taken" in words:
            raise ValueError("who takes it fails")
        yield len(found)

def program(executor):
    for words in sys.argv[1:-1]:
        try:
            list(sizes(executor, words))
        except Exception as error:
            print(error, flush=True)
    print(*sizes(executor, sys.argv[-1]), flush=True)
    return 0

sys.exit(run_on_all(program))
"""


def start(processes, program, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [MPIRUN, "-n", str(processes), sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)


@needs_mpi
def test_two_processes_give_the_image_of_one(tmp_path, monkeypatch):
    done = start(2, PROGRAM, tmp_path / "two.npy")
    assert done.returncode == 0, done.stderr
    here = {"__name__": "here"}
    monkeypatch.setattr(sys, "argv", ["-c", str(tmp_path / "one.npy")])
    monkeypatch.setattr(sys, "exit", lambda code: None)
    exec(PROGRAM, here)
    images = [np.load(tmp_path / name) for name in ("one.npy", "two.npy")]
    np.testing.assert_allclose(images[1], images[0], rtol=1e-5, atol=1e-6)


@needs_mpi
def test_what_fails_ends_all_processes_unless_it_is_caught():
    """Others send results meanwhile; none of them is taken for a later result."""
    done = start(3, FAILS, "1 1 0", "1 1 1 taken", "1 -1 1", "0 1 1", "1 1 1 1")
    messages = ["ZeroDivisionError: float division by zero", "who takes it fails", "Unfit: unfit"]
    messages += ["float division by zero", "1000000 1000000 1000000 1000000"]
    assert (done.stdout.splitlines(), done.returncode) == (messages, 0), done.stderr
    done = start(3, FAILS, "0 1 1")
    assert done.returncode != 0 and "float division by zero" in done.stderr


@needs_mpi
def test_a_process_that_cannot_begin_is_an_error():
    broken = FAILS.replace("lambda **options: None", "lambda **options: 1 / 0")
    done = start(2, broken, "1 1")
    assert done.returncode != 0 and "division by zero" in done.stderr


def test_without_mpi_the_program_runs_as_it_is(monkeypatch):
    for name in mpi.STARTERS:
        monkeypatch.delenv(name, raising=False)
    assert mpi.run_on_all(lambda executor: 7 if executor is None else 0) == 7
