"""Is this machine fit? Each check gives a line, and a remedy where it is not as it should be."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ptycho.command_line.console import missing
from ptycho.command_line.jobs import Unfit
from ptycho.config.memory import cores, in_words, physical_memory
from ptycho.config.schema import Flag, Text, key, settings
from ptycho.files.atomic import write_atomically
from ptycho.files.lock import locked
from ptycho.run.record import damaged
from ptycho.run.stored_run import run_folder

GOOD, NOTE, BAD = "ok", "note", "FAIL"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
FILTERS = ("Bitshuffle", "LZ4", "Blosc", "Zstd")
Outcome = tuple[str, str]  # GOOD, NOTE (works, but) or BAD; the message


@settings()
class DoctorConfig:
    """The keys of ``conf/doctor.yaml``."""

    output_dir: Text = key("outputs", "folder of future runs, whose disk is tested")
    xla: Flag = key(True, "start TensorFlow and compile with XLA; about 10 s")


class Check(NamedTuple):
    """A check, which gets the folder of future runs; and what to do if it is not GOOD."""

    look: Callable[[Path], Outcome]
    remedy: str


def report(config: DoctorConfig) -> list[str]:
    """Return the lines of all checks; what goes wrong in one is its text. Unfit: one fails."""
    lines, failing = list[str](), list[str]()
    for part, check in CHECKS.items():
        if part == "XLA" and not config.xla:
            continue
        try:
            state, text = check.look(Path(config.output_dir))
        except Exception as error:
            state, text = BAD, f"{type(error).__name__}: {error}"
        lines.append(f"  {state:<5} {part:<10} {text}")
        lines += [f"{'':<18} → {check.remedy}"] * (state != GOOD)
        failing += [part] * (state == BAD)
    if failing:
        raise Unfit([*lines, f"does not work: {', '.join(failing)}"])
    return [*lines, "this machine is fit"]


def unmet(extra: str = "") -> list[str]:
    """Return the packages that the program, or one of its extras, needs and that are not here as needed."""
    from packaging.requirements import Requirement

    wrong = []
    for requirement in map(Requirement, requires("ptychopinn") or []):
        if requirement.marker.evaluate({"extra": extra}) if requirement.marker else not extra:
            try:
                if (installed := version(requirement.name)) not in requirement.specifier:
                    wrong.append(f"{requirement.name} {installed} (wanted: {requirement.specifier})")
            except PackageNotFoundError:
                wrong.append(f"{requirement.name} is missing")
    return wrong


def check_packages(_: Path) -> Outcome:
    system = f"Python {platform.python_version()}, {platform.platform(terse=True)}"
    good = f"ptychopinn {version('ptychopinn')}, and all that it needs; {system}"
    return (BAD, "; ".join(wrong)) if (wrong := unmet()) else (GOOD, good)


def check_machine(_: Path, enough: float = 4 * 2**30) -> Outcome:
    """The cores, and ``enough`` bytes of memory."""
    limits = [f"{name}={os.environ[name]}" for name in THREADS if os.environ.get(name)]
    memory = physical_memory()
    texts = [f"{cores()} of {os.cpu_count()} cores may be used", *limits, f"{in_words(memory)} memory"]
    return (GOOD if memory >= enough and not limits else NOTE), ", ".join(texts)


def check_disk(folder: Path, trial_bytes: int = 2**25, enough: float = 2 * 2**30) -> Outcome:
    """That files can be written there, flushed, renamed and locked; how fast, and ``enough`` bytes free."""
    import h5py

    place = next(path for path in (folder, *folder.parents) if path.is_dir())
    with tempfile.TemporaryDirectory(dir=place, prefix=".doctor") as scratch, locked(Path(scratch)):
        content, began = os.urandom(trial_bytes), time.perf_counter()
        write_atomically(Path(scratch) / "trial", lambda file: file.write(content))
        rate = trial_bytes / (time.perf_counter() - began)
        with h5py.File(f"{scratch}/a.h5", "w", libver="latest") as file:  # as live data are
            file["a"] = np.arange(4)
            file.swmr_mode = True
            with h5py.File(file.filename, "r", libver="latest", swmr=True) as again:
                assert again["a"][3] == 3
    available = shutil.disk_usage(place).free
    text = (
        f"{place.resolve()}: {in_words(available)} free; written at {rate / 2**20:.0f} MiB/s; renamed; locked"
    )
    return (GOOD if available >= enough else NOTE), text


def check_hdf5(_: Path) -> Outcome:
    """Filters that detectors write with: their packages may be there and still not work."""
    import h5py
    import hdf5plugin

    data, broken = np.arange(1000, dtype=np.uint16), []
    for name in FILTERS:
        try:
            with h5py.File(name, "w", driver="core", backing_store=False) as file:
                packed = file.create_dataset("a", data=data, chunks=(100,), **getattr(hdf5plugin, name)())
                assert np.array_equal(packed[()], data)
        except Exception:
            broken.append(name)
    text = f"filters: {', '.join(FILTERS)}"
    return (BAD, f"broken filters: {', '.join(broken)}") if broken else (GOOD, text)


def check_weights(_: Path) -> Outcome:
    problems = damaged(run_folder("pretrained"))
    return (
        (BAD, "; ".join(problems)) if problems else (GOOD, "network and learned prior are there, and whole")
    )


def check_extras(_: Path) -> Outcome:
    extras = metadata("ptychopinn").get_all("Provides-Extra") or []
    absent = [extra for extra in extras if extra not in ("cuda", "dev") and unmet(extra)] + missing()
    return (NOTE, f"not here: {', '.join(absent)}") if absent else (GOOD, "all are here")


def check_xla(_: Path) -> Outcome:
    failing = failing_step()
    return (BAD, f"step that fails: {failing}") if failing else (GOOD, "TensorFlow starts, and compiles")


CHECKS = {
    "packages": Check(check_packages, "pip install --upgrade ptychopinn"),
    "machine": Check(check_machine, "unset limits that are not intended; little memory: solver.block=2048"),
    "disk": Check(check_disk, "make room, or choose another output_dir; locks: HDF5_USE_FILE_LOCKING=FALSE"),
    "HDF5": Check(check_hdf5, "pip install --upgrade hdf5plugin"),
    "weights": Check(check_weights, "install the program again"),
    "extras": Check(check_extras, "pip install 'ptychopinn[NAME]' or '-e extras/NAME', where it is wanted"),
    "XLA": Check(check_xla, "or set xla.compile=false"),
}


class Step(NamedTuple):
    """Code that raises if the step fails, which may use the names of earlier steps; and what to do then."""

    code: str
    remedy: str


def _everywhere(code: str) -> str:
    return f"for device in devices:\n with tf.device(device):\n  {code}"


def _compiled(function: str, arguments: str) -> str:
    return _everywhere(f"tf.function({function}, jit_compile=True)({arguments}).numpy()")


STEPS = {
    "import TensorFlow": Step(
        "import tensorflow as tf", "Reinstall: pip install 'tensorflow[and-cuda]==2.21.*'."
    ),
    "find devices": Step(
        "devices = [d.name for k in ('GPU', 'CPU') for d in tf.config.list_logical_devices(k)]",
        "The driver is older than the CUDA libraries, or LD_LIBRARY_PATH hides them: unset it.",
    ),
    "run without XLA": Step(
        _everywhere("assert float(tf.reduce_sum(tf.ones((8, 8)) @ tf.ones((8, 8)))) == 512"),
        "TensorFlow itself does not run here: check nvidia-smi and the versions of CUDA and cuDNN.",
    ),
    "compile an addition": Step(
        _compiled("lambda x: x + 1", "tf.ones(4)"),
        "An unknown entry in TF_XLA_FLAGS or XLA_FLAGS ends the process: unset both, then add them singly. "
        "On a GPU, XLA needs libdevice and ptxas: install nvidia-cuda-nvcc-cu12, or let "
        "XLA_FLAGS=--xla_gpu_cuda_data_dir point to a CUDA installation.",
    ),
    "compile a matrix product": Step(
        _compiled("lambda x: x @ x", "tf.ones((64, 64))"),
        "cuBLAS does not load or has no memory: close other programs, set TF_FORCE_GPU_ALLOW_GROWTH=true.",
    ),
    "compile a convolution": Step(
        _compiled(
            "lambda x, k: tf.nn.conv2d(x, k, 1, 'SAME')", "tf.ones((1, 16, 16, 4)), tf.ones((3, 3, 4, 4))"
        ),
        "cuDNN is older than the one TensorFlow was built with: upgrade it.",
    ),
    "compile a Fourier transform": Step(
        _compiled("tf.signal.fft2d", "tf.ones((2, 16, 16), tf.complex64)"),
        "cuFFT does not load: reinstall tensorflow[and-cuda].",
    ),
}


def failing_step(steps: Mapping[str, Step] = STEPS, timeout: float = 300.0) -> str:
    """Return the first step that fails in a fresh process, its error and its remedy; empty: none fails.

    Args:
        steps: what to try, in order, in the environment of this process.
        timeout: seconds after which the step that runs counts as failed.
    """
    code = "\n".join(f"print({name!r}, flush=True)\n{step.code}" for name, step in steps.items())
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired as late:
        message = f"no answer after {timeout:.0f} s".encode()
        done = subprocess.CompletedProcess(command, -1, late.stdout or b"", message)
    if done.returncode == 0:
        return ""
    name = [next(iter(steps)), *(line for line in done.stdout.decode().splitlines() if line in steps)][-1]
    errors = done.stderr.decode(errors="replace").strip() or f"the process ended with {done.returncode}"
    return f"{name} ({errors.splitlines()[-1].strip()}). {steps[name].remedy}"
