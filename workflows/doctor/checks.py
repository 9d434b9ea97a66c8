"""Is this machine fit? Each check gives a line, and a remedy where there is one to give.

What imports TensorFlow is in :mod:`workflows.doctor.speed`, in a process of its own: a crash there is a line.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ptycho.config.memory import cores, in_words, physical_memory
from ptycho.files.atomic import write_atomically
from ptycho.files.lock import locked
from ptycho.iterative.lsqml import available
from ptycho.run.pretrained import run_folder
from ptycho.run.record import damaged

GOOD, NOTE, BAD = "ok", "note", "FAIL"
ENOUGH_MEMORY, ENOUGH_DISK, TRIAL_BYTES = 4 * 2**30, 2 * 2**30, 2**25
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
FILTERS = {"bitshuffle-LZ4": "Bitshuffle", "LZ4": "LZ4", "Blosc": "Blosc", "Zstandard": "Zstd"}
OPTIONAL = {  # purpose and extra: the module
    "Slurm, jobs [cluster]": "submitit",
    "MPI [mpi]": "mpi4py",
    "TFLite [lite]": "ai_edge_litert",
    "ONNX [lite-onnx]": "onnxruntime",
    "ONNX export [export]": "tf2onnx",
    "tuning [tune]": "optuna",
    "live over ZMQ [live]": "zmq",
}


class Check(NamedTuple):
    """One line: ``state`` is GOOD, NOTE (works, but) or BAD; ``remedy``: what to do where it is not GOOD."""

    part: str
    state: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"  {self.state:<5} {self.part:<16} {self.text}"
        return f"{line}\n        {'':<16} → {self.remedy}" if self.remedy and self.state != GOOD else line


def check_python(_: Path) -> Check:
    text = f"{platform.python_version()}, {platform.platform(terse=True)}, {platform.machine()}"
    fits = (3, 11) <= sys.version_info < (3, 14)
    return Check("Python", GOOD if fits else BAD, text, "Python 3.11, 3.12 or 3.13 is needed")


def check_packages(_: Path) -> Check:
    from packaging.requirements import Requirement

    every = map(Requirement, requires("ptychopinn") or [])
    needed = [one for one in every if not one.marker or one.marker.evaluate({"extra": ""})]
    wrong = []
    for one in needed:
        try:
            if (found := version(one.name)) not in one.specifier:
                wrong.append(f"{one.name} {found} (wanted: {one.specifier})")
        except PackageNotFoundError:
            wrong.append(f"{one.name} is missing")
    good = f"ptychopinn {version('ptychopinn')}, and the {len(needed)} that it needs"
    remedy = f"{sys.executable} -m pip install --upgrade ptychopinn"
    return Check("packages", BAD if wrong else GOOD, "; ".join(wrong) or good, remedy)


def check_cores(_: Path) -> Check:
    limits = [f"{name}={os.environ[name]}" for name in THREADS if os.environ.get(name)]
    text = f"{cores()} of {os.cpu_count()} may be used" + "; " * bool(limits) + ", ".join(limits)
    return Check("cores", NOTE if limits else GOOD, text, "unset those that are not intended")


def check_memory(_: Path) -> Check:
    total = physical_memory()
    remedy = "solver.block=2048 keeps a scan in smaller blocks"
    return Check("memory", GOOD if total >= ENOUGH_MEMORY else NOTE, in_words(total), remedy)


def check_disk(folder: Path) -> Check:
    """That files can be written there, flushed, renamed and locked; how fast, and how much is free."""
    place = next(one for one in (folder, *folder.parents) if one.is_dir())
    name = f"disk {place}" if len(str(place)) < 11 else "disk"
    try:
        import h5py

        with tempfile.TemporaryDirectory(dir=place, prefix=".doctor") as scratch, locked(Path(scratch)):
            content, began = os.urandom(TRIAL_BYTES), time.perf_counter()
            write_atomically(Path(scratch) / "trial", lambda file: file.write(content))
            rate = TRIAL_BYTES / (time.perf_counter() - began)
            with h5py.File(f"{scratch}/a.h5", "w", libver="latest") as file:  # as live data are
                file["a"] = np.arange(4)
                file.swmr_mode = True
                with h5py.File(file.filename, "r", libver="latest", swmr=True) as again:
                    assert again["a"][3] == 3
    except Exception as error:
        remedy = "choose another output_dir; of HDF5's locks: HDF5_USE_FILE_LOCKING=FALSE"
        return Check(name, BAD, f"{place.resolve()}: {type(error).__name__}: {error}", remedy)
    free = shutil.disk_usage(place).free
    text = f"{place.resolve()}: {in_words(free)} free; written at {rate / 2**20:.0f} MiB/s; renamed; locked"
    return Check(name, GOOD if free >= ENOUGH_DISK else NOTE, text, "make room, or choose another output_dir")


def check_hdf5(_: Path) -> Check:
    """Filters that detectors write with: their packages may be there and still not work."""
    import h5py
    import hdf5plugin

    data, working, broken = np.arange(1000, dtype=np.uint16), [], []
    for name, filter_ in FILTERS.items():
        try:
            with h5py.File(name, "w", driver="core", backing_store=False) as file:
                stored = file.create_dataset("a", data=data, chunks=(100,), **getattr(hdf5plugin, filter_)())
                assert np.array_equal(stored[()], data)
            working.append(name)
        except Exception:
            broken.append(name)
    text = f"HDF5 {h5py.version.hdf5_version}; filters: {', '.join(working)}"
    text += f"; broken: {', '.join(broken)}" * bool(broken)
    return Check("HDF5", BAD if broken else GOOD, text, "pip install --upgrade hdf5plugin")


def check_weights(_: Path) -> Check:
    text = "; ".join(problems := damaged(run_folder("pretrained")))
    good = "network and learned prior are there, and whole"
    return Check("weights", BAD if problems else GOOD, text or good, "install the program again")


def check_gpu(_: Path) -> Check:
    """A GPU by the driver's own word; whether TensorFlow uses it is shown with XLA."""
    words = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return Check("GPU", GOOD, "none: all is done by the cores")
    fails = f"nvidia-smi fails: {done.stderr.strip()[:80]}"
    text = fails if done.returncode else "; ".join(done.stdout.strip().splitlines())
    return Check("GPU", NOTE if done.returncode else GOOD, text, "mend the driver")


def check_optional(_: Path) -> Check:
    here = {purpose: find_spec(module) is not None for purpose, module in OPTIONAL.items()}
    here["LSQ-ML by pty-chi [iterative]"] = available() is None
    missing = ", ".join(purpose for purpose, found in here.items() if not found)
    text = ", ".join(purpose.split(" [")[0] for purpose, found in here.items() if found)
    text += f"{'; ' * bool(text)}not here: {missing}" * bool(missing)
    remedy = f"{sys.executable} -m pip install 'ptychopinn[NAME]', where it is wanted"
    return Check("optional", NOTE if missing else GOOD, text, remedy)


CHECKS: dict[str, Callable[[Path], Check]] = {
    "Python": check_python,
    "packages": check_packages,
    "cores": check_cores,
    "memory": check_memory,
    "disk": check_disk,
    "HDF5": check_hdf5,
    "weights": check_weights,
    "GPU": check_gpu,
    "optional": check_optional,
}


def run_checks(folder: Path) -> Iterator[Check]:
    """All that need no TensorFlow; what goes wrong in a check is a line of it."""
    for part, check in CHECKS.items():
        try:
            yield check(folder)
        except Exception as error:
            yield Check(part, BAD, f"{type(error).__name__}: {error}")
