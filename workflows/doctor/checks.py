"""Is this machine fit? Each check gives a line, and a remedy where there is one to give.

Nothing here imports TensorFlow; what does is in :mod:`workflows.doctor.speed`, in a process of its own, so
that a crash there is a line here.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import numpy as np

from ptycho.config.memory import cores, in_words, physical_memory
from ptycho.files.atomic import write_atomically
from ptycho.files.lock import locked
from ptycho.iterative.lsqml import available
from ptycho.run.pretrained import run_folder
from ptycho.run.record import damaged

GOOD, NOTE, BAD = "ok", "note", "FAIL"
ENOUGH_MEMORY, ENOUGH_DISK = 4 * 2**30, 2 * 2**30
TRIAL_BYTES = 2**25
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
OPTIONAL = {
    "Slurm, jobs": ("submitit", "cluster"),
    "MPI": ("mpi4py", "mpi"),
    "TFLite": ("ai_edge_litert", "lite"),
    "ONNX": ("onnxruntime", "lite-onnx"),
    "ONNX export": ("tf2onnx", "export"),
    "tuning": ("optuna", "tune"),
    "live over ZMQ": ("zmq", "live"),
}
"""What it is for: the module and the extra that brings it."""


@dataclass(frozen=True)
class Check:
    """One line: ``state`` is GOOD, NOTE (works, but) or BAD; ``remedy``: what to do."""

    part: str
    state: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"  {self.state:<5} {self.part:<16} {self.text}"
        return f"{line}\n        {'':<16} → {self.remedy}" if self.remedy else line


def check_python() -> Check:
    text = f"{platform.python_version()}, {platform.platform(terse=True)}, {platform.machine()}"
    if (3, 11) <= sys.version_info < (3, 14):
        return Check("Python", GOOD, text)
    return Check("Python", BAD, text, "Python 3.11, 3.12 or 3.13 is needed")


def check_packages() -> Check:
    """The packages that are always needed, and whether their versions are those that are asked for."""
    from packaging.requirements import Requirement

    missing, others, count = [], [], 0
    for text in requires("ptychopinn") or []:
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        count += 1
        try:
            found = version(wanted.name)
        except PackageNotFoundError:
            missing.append(wanted.name)
            continue
        if found not in wanted.specifier:
            others.append(f"{wanted.name} {found} (wanted: {wanted.specifier})")
    if missing or others:
        told = "; ".join([*(f"{name} is missing" for name in missing), *others])
        return Check("packages", BAD, told, f"{sys.executable} -m pip install --upgrade ptychopinn")
    return Check("packages", GOOD, f"ptychopinn {version('ptychopinn')}, and the {count} that it needs")


def check_cores() -> Check:
    limits = [f"{name}={os.environ[name]}" for name in THREADS if os.environ.get(name)]
    text = f"{cores()} of {os.cpu_count()} may be used"
    if limits:
        return Check("cores", NOTE, f"{text}; {', '.join(limits)}", "unset those that are not intended")
    return Check("cores", GOOD, text)


def check_memory() -> Check:
    total = physical_memory()
    state = GOOD if total >= ENOUGH_MEMORY else NOTE
    remedy = "" if state == GOOD else "solver.block=2048 keeps a scan in smaller blocks"
    return Check("memory", state, f"{in_words(total)}", remedy)


def check_disk(folder: Path) -> Check:
    """That files can be written there, flushed, renamed and locked; how fast, and how much is free."""
    place = folder
    while not place.is_dir():
        place = place.parent
    name = f"disk {place}" if len(str(place)) < 11 else "disk"
    try:
        with tempfile.TemporaryDirectory(dir=place, prefix=".doctor") as scratch:
            rate = _write_and_rename(Path(scratch))
            with locked(Path(scratch)):
                pass
            _use_hdf5(Path(scratch) / "a.h5")
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        remedy = "choose another output_dir; of HDF5's locks: HDF5_USE_FILE_LOCKING=FALSE"
        return Check(name, BAD, f"{place.resolve()}: {words}", remedy)
    free = shutil.disk_usage(place).free
    text = f"{place.resolve()}: {in_words(free)} free; written at {rate / 2**20:.0f} MiB/s; renamed; locked"
    if free < ENOUGH_DISK:
        return Check(name, NOTE, text, "make room, or choose another output_dir")
    return Check(name, GOOD, text)


def _write_and_rename(scratch: Path) -> float:
    content, began = os.urandom(TRIAL_BYTES), time.perf_counter()
    write_atomically(scratch / "trial", lambda file: file.write(content))
    return TRIAL_BYTES / (time.perf_counter() - began)


def _use_hdf5(path: Path) -> None:
    """As live data are written and read: in single-writer, multiple-reader mode."""
    import h5py

    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("a", data=np.arange(4))
        file.swmr_mode = True
        with h5py.File(path, "r", libver="latest", swmr=True) as again:
            assert again["a"][3] == 3


def check_hdf5() -> Check:
    """Filters that detectors write with: their packages may be there and still not work."""
    import h5py
    import hdf5plugin

    data, working, broken = np.arange(1000, dtype=np.uint16), [], []
    filters = {
        "bitshuffle-LZ4": hdf5plugin.Bitshuffle(),
        "LZ4": hdf5plugin.LZ4(),
        "Blosc": hdf5plugin.Blosc(),
        "Zstandard": hdf5plugin.Zstd(),
    }
    for name, one in filters.items():
        try:
            with h5py.File(name, "w", driver="core", backing_store=False) as file:
                stored = file.create_dataset("a", data=data, chunks=(100,), **one)
                assert np.array_equal(stored[()], data)
                working.append(name)
        except Exception:
            broken.append(name)
    text = f"HDF5 {h5py.version.hdf5_version}; filters: {', '.join(working)}"
    if broken:
        return Check("HDF5", BAD, f"{text}; broken: {', '.join(broken)}", "pip install --upgrade hdf5plugin")
    return Check("HDF5", GOOD, text)


def check_weights() -> Check:
    """The network and the prior that come with the program."""
    if problems := damaged(run_folder("pretrained")):
        return Check("weights", BAD, "; ".join(problems), "install the program again")
    return Check("weights", GOOD, "network and learned prior are there, and whole")


def check_graphics() -> Check:
    """A GPU by the driver's own word; whether TensorFlow uses it is told with XLA."""
    try:
        words = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return Check("GPU", GOOD, "none: all is done by the cores")
    if done.returncode != 0:
        return Check("GPU", NOTE, f"nvidia-smi fails: {done.stderr.strip()[:80]}", "mend the driver")
    return Check("GPU", GOOD, "; ".join(done.stdout.strip().splitlines()))


def check_optional() -> list[Check]:
    """What need not be there, and the command that installs it."""
    found, missing = list[str](), list[str]()
    for purpose, (module, extra) in OPTIONAL.items():
        here = importlib.util.find_spec(module) is not None
        (found if here else missing).append(purpose if here else f"{purpose} [{extra}]")
    if available() is None:
        found.append("LSQ-ML by pty-chi")
    else:
        missing.append("LSQ-ML by pty-chi [iterative]")
    checks = [Check("optional", GOOD, ", ".join(found))] if found else []
    if missing:
        remedy = f"{sys.executable} -m pip install 'ptychopinn[NAME]', where it is wanted"
        checks.append(Check("optional", NOTE, f"not here: {', '.join(missing)}", remedy))
    return checks


def run_checks(folder: Path) -> Iterator[Check]:
    """All that need no TensorFlow; what goes wrong in a check is a line of it."""
    several: dict[str, Callable[[], Check | list[Check]]] = {
        "Python": check_python,
        "packages": check_packages,
        "cores": check_cores,
        "memory": check_memory,
        "disk": lambda: check_disk(folder),
        "HDF5": check_hdf5,
        "weights": check_weights,
        "GPU": check_graphics,
        "optional": check_optional,
    }
    for part, check in several.items():
        try:
            made = check()
        except Exception as error:
            made = Check(part, BAD, f"{type(error).__name__}: {error}")
        yield from [made] if isinstance(made, Check) else made
