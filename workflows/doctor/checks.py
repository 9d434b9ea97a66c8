"""Is this machine fit? Each check gives a line, and a remedy where there is one to give."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ptycho.config import RunConfig
from ptycho.config.memory import cores, in_words, physical_memory
from ptycho.config.schema import Flag, Text, key, settings
from ptycho.files.atomic import write_atomically
from ptycho.files.lock import locked
from ptycho.iterative.lsqml import available
from ptycho.quiet_start import start_tensorflow
from ptycho.run.pretrained import run_folder
from ptycho.run.record import damaged
from ptycho.xla_report.health import diagnose
from workflows.command_line.one_shot import Unfit

GOOD, NOTE, BAD = "ok", "note", "FAIL"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
FILTERS = {"bitshuffle-LZ4": "Bitshuffle", "LZ4": "LZ4", "Blosc": "Blosc", "Zstandard": "Zstd"}
EXTRAS = {  # and the module that each brings
    "cluster": "submitit",
    "mpi": "mpi4py",
    "lite": "ai_edge_litert",
    "lite-onnx": "onnxruntime",
    "export": "tf2onnx",
    "tune": "optuna",
    "live": "zmq",
}
Outcome = tuple[str, str]  # GOOD, NOTE (works, but) or BAD; what there is to say


@settings()
class DoctorConfig:
    """The keys of ``conf/doctor.yaml``."""

    output_dir: Text = key("outputs", "folder of future runs, whose disk is tested")
    speed: Flag = key(
        True, "start TensorFlow, compile with XLA and measure the speed of the solver; about 15 s"
    )


class Check(NamedTuple):
    """What is looked at, given the folder of future runs; and what to do where it is not GOOD."""

    look: Callable[[Path], Outcome]
    remedy: str


def report(config: DoctorConfig) -> list[str]:
    """Return the lines of all checks. Unfit: one fails."""
    lines, failing = list[str](), list[str]()
    for part, state, text in run_checks(Path(config.output_dir), config.speed):
        lines.append(f"  {state:<5} {part:<10} {text}")
        lines += [f"{'':<18} → {CHECKS[part].remedy}"] * (state != GOOD)
        failing += [part] * (state == BAD)
    if failing:
        raise Unfit([*lines, f"does not work: {', '.join(failing)}"])
    return [*lines, "this machine is fit"]


def run_checks(folder: Path, speed: bool = False) -> Iterator[tuple[str, str, str]]:
    """Yield name, state and text of all checks; what goes wrong in one is its text."""
    for part, check in CHECKS.items():
        if speed or part not in COMPUTE:
            try:
                yield part, *check.look(folder)
            except Exception as error:
                yield part, BAD, f"{type(error).__name__}: {error}"


def check_packages(_: Path) -> Outcome:
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
    if wrong:
        return BAD, "; ".join(wrong)
    system = f"Python {platform.python_version()}, {platform.platform(terse=True)}"
    return GOOD, f"ptychopinn {version('ptychopinn')}, and the {len(needed)} that it needs; {system}"


def check_machine(_: Path, enough: float = 4 * 2**30) -> Outcome:
    """The cores, and ``enough`` bytes of memory."""
    limits = [f"{name}={os.environ[name]}" for name in THREADS if os.environ.get(name)]
    memory = physical_memory()
    texts = [f"{cores()} of {os.cpu_count()} cores may be used", *limits, f"{in_words(memory)} memory"]
    return (GOOD if memory >= enough and not limits else NOTE), ", ".join(texts)


def check_disk(folder: Path, trial_bytes: int = 2**25, enough: float = 2 * 2**30) -> Outcome:
    """That files can be written there, flushed, renamed and locked; how fast, and ``enough`` bytes free."""
    import h5py

    place = next(one for one in (folder, *folder.parents) if one.is_dir())
    with tempfile.TemporaryDirectory(dir=place, prefix=".doctor") as scratch, locked(Path(scratch)):
        content, began = os.urandom(trial_bytes), time.perf_counter()
        write_atomically(Path(scratch) / "trial", lambda file: file.write(content))
        rate = trial_bytes / (time.perf_counter() - began)
        with h5py.File(f"{scratch}/a.h5", "w", libver="latest") as file:  # as live data are
            file["a"] = np.arange(4)
            file.swmr_mode = True
            with h5py.File(file.filename, "r", libver="latest", swmr=True) as again:
                assert again["a"][3] == 3
    free = shutil.disk_usage(place).free
    text = f"{place.resolve()}: {in_words(free)} free; written at {rate / 2**20:.0f} MiB/s; renamed; locked"
    return (GOOD if free >= enough else NOTE), text


def check_hdf5(_: Path) -> Outcome:
    """Filters that detectors write with: their packages may be there and still not work."""
    import h5py
    import hdf5plugin

    data, broken = np.arange(1000, dtype=np.uint16), []
    for name, filter_ in FILTERS.items():
        try:
            with h5py.File(name, "w", driver="core", backing_store=False) as file:
                stored = file.create_dataset("a", data=data, chunks=(100,), **getattr(hdf5plugin, filter_)())
                assert np.array_equal(stored[()], data)
        except Exception:
            broken.append(name)
    text = f"broken filters: {', '.join(broken)}" if broken else f"filters: {', '.join(FILTERS)}"
    return (BAD if broken else GOOD), f"HDF5 {h5py.version.hdf5_version}; {text}"


def check_weights(_: Path) -> Outcome:
    if problems := damaged(run_folder("pretrained")):
        return BAD, "; ".join(problems)
    return GOOD, "network and learned prior are there, and whole"


def check_gpu(_: Path) -> Outcome:
    """A GPU by the driver's own word; whether TensorFlow uses it is shown with the speed."""
    words = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    if shutil.which(words[0]) is None:
        return GOOD, "none: all is done by the cores"
    done = subprocess.run(words, capture_output=True, text=True, timeout=20)
    if done.returncode:
        return NOTE, f"nvidia-smi fails: {done.stderr.strip()[:80]}"
    return GOOD, "; ".join(done.stdout.strip().splitlines())


def check_extras(_: Path) -> Outcome:
    here = {extra: find_spec(module) is not None for extra, module in EXTRAS.items()}
    here["iterative"] = available() is None
    found, missing = (", ".join(name for name in here if here[name] is state) for state in (True, False))
    return (NOTE, f"{found}; not here: {missing}") if missing else (GOOD, found)


def check_xla(_: Path) -> Outcome:
    """TensorFlow and XLA, in a process of their own: a crash there is a line."""
    found = diagnose()
    failed = f"step that fails: {found.failed} ({found.message}). {found.advice}"
    return (BAD, failed) if found.failed else (GOOD, "TensorFlow starts, and compiles")


def check_speed(_: Path, reference: float = 5500.0, slow: float = 0.33) -> Outcome:
    """The solver's inner loop: likelihood and gradients by object and probe, 64 × 64 pixels, one mode.

    ``reference``: patterns a second and core, of a server's core of 2024 at some 3 GHz; below the share
    ``slow`` of that something is amiss.
    """
    start_tensorflow()
    import tensorflow as tf

    from ptycho.reconstruction.refinement import likelihood_of
    from ptycho.reconstruction.state import State
    from ptycho.simulation.simulate import simulate

    few = RunConfig(size=160, gridsize=1, nimgs_train=1, nimgs_test=1, outer_offset_train=8, batch_size=4)
    data = simulate(few)["train"]
    state, likelihood = State.of(data, np.ones((data.object_size,) * 2)), likelihood_of(data)
    seconds = timeit.repeat(lambda: likelihood.evaluate(state, ("object", "modes")), number=1, repeat=6)
    rate = len(data.positions) / float(np.median(seconds[1:]))  # the first compiles
    share, device = rate / (reference * cores()), tf.config.list_logical_devices()[-1].name
    text = f"{rate:.0f} patterns of 64² a second, {share:.2f} of what {cores()} cores of a server do"
    return (GOOD if share > slow else NOTE), f"solver: {text}; computes on {device}"


COMPUTE = ("XLA", "speed")  # which take seconds
CHECKS = {
    "packages": Check(check_packages, "pip install --upgrade ptychopinn"),
    "machine": Check(check_machine, "unset limits that are not intended; little memory: solver.block=2048"),
    "disk": Check(check_disk, "make room, or choose another output_dir; locks: HDF5_USE_FILE_LOCKING=FALSE"),
    "HDF5": Check(check_hdf5, "pip install --upgrade hdf5plugin"),
    "weights": Check(check_weights, "install the program again"),
    "GPU": Check(check_gpu, "mend the driver"),
    "extras": Check(check_extras, "pip install 'ptychopinn[NAME]', where it is wanted"),
    "XLA": Check(check_xla, "or set xla.compile=false"),
    "speed": Check(check_speed, "is something else running? Virtual cores that are shared are slow, too"),
}
