"""Is this machine fit? Each check gives a line, and a remedy where it is not as it should be."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import metadata, version
from pathlib import Path

from ptycho.command_line.jobs import Unfit
from ptycho.config.memory import cores, physical_memory, size_text
from ptycho.config.schema import Flag, Text, key, settings
from ptycho.files.atomic import write_atomically
from ptycho.files.lock import locked
from ptycho.installed import missing, unmet
from ptycho.run.record import damaged
from ptycho.run.stored_run import run_folder

GOOD, NOTE, BAD = "ok", "note", "FAIL"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
FILTERS = ("Bitshuffle", "LZ4", "Blosc", "Zstd")
FOR_XLA = (
    "unset TF_XLA_FLAGS and XLA_FLAGS; on a GPU, install nvidia-cuda-nvcc-cu12, or let "
    "XLA_FLAGS=--xla_gpu_cuda_data_dir point to a CUDA installation; or set xla.compile=false"
)
Outcome = tuple[bool, str]  # whether all is well; the line


@settings()
class DoctorConfig:
    """The keys of ``conf/doctor.yaml``."""

    output_dir: Text = key("outputs", "folder of future runs, whose disk is tested")
    xla: Flag = key(True, "start TensorFlow and compile with XLA; about 10 s")


def report(config: DoctorConfig) -> list[str]:
    """Return the lines of all checks; what goes wrong in one is its text. Unfit: one fails."""
    lines, failing = list[str](), list[str]()
    for name, (check, problem, remedy) in CHECKS.items():
        if name == "XLA" and not config.xla:
            continue
        try:
            good, text = check(Path(config.output_dir))
            state = GOOD if good else problem
        except Exception as error:
            state, text = BAD, f"{type(error).__name__}: {error}"
        lines.append(f"  {state:<5} {name:<10} {text}")
        lines += [f"{'':<18} → {remedy}"] * (state != GOOD)
        failing += [name] * (state == BAD)
    if failing:
        raise Unfit("\n".join([*lines, f"does not work: {', '.join(failing)}"]))
    return [*lines, "this machine is fit"]


def check_packages(_: Path) -> Outcome:
    system = f"Python {platform.python_version()}, {platform.platform(terse=True)}"
    good, wrong = f"ptychopinn {version('ptychopinn')}, and all that it needs; {system}", unmet()
    return not wrong, "; ".join(wrong) or good


def check_machine(_: Path, enough: float = 4 * 2**30) -> Outcome:
    """The cores, and ``enough`` bytes of memory."""
    limits = [f"{name}={os.environ[name]}" for name in THREADS if os.environ.get(name)]
    memory = physical_memory()
    texts = [f"{cores()} of {os.cpu_count()} cores may be used", *limits, f"{size_text(memory)} memory"]
    return memory >= enough and not limits, ", ".join(texts)


def check_disk(folder: Path, trial_bytes: int = 2**25, enough: float = 2 * 2**30) -> Outcome:
    """That files can be written there, flushed, renamed and locked; how fast, and ``enough`` bytes free."""
    import h5py

    place = next(path for path in (folder, *folder.parents) if path.is_dir())
    with tempfile.TemporaryDirectory(dir=place, prefix=".doctor") as scratch, locked(Path(scratch)):
        content, began = os.urandom(trial_bytes), time.perf_counter()
        write_atomically(Path(scratch) / "trial", lambda file: file.write(content))
        rate = trial_bytes / 2**20 / (time.perf_counter() - began)
        with h5py.File(f"{scratch}/a.h5", "w", libver="latest") as file:  # as live data are
            file["a"] = range(4)
            file.swmr_mode = True
            with h5py.File(file.filename, "r", libver="latest", swmr=True) as again:
                assert again["a"][3] == 3
    left = shutil.disk_usage(place).free
    text = f"{place.resolve()}: {size_text(left)} free; written at {rate:.0f} MiB/s; renamed; locked"
    return left >= enough, text


def check_hdf5(_: Path) -> Outcome:
    """Filters that detectors write with: their packages may be there and still not work."""
    import h5py
    import hdf5plugin

    data, broken = list(range(1000)), [*FILTERS]
    for name in FILTERS:
        with suppress(Exception), h5py.File(name, "w", driver="core", backing_store=False) as file:
            packed = file.create_dataset("a", data=data, chunks=(100,), **getattr(hdf5plugin, name)())
            if packed[()].tolist() == data:
                broken.remove(name)
    return not broken, f"{'broken ' if broken else ''}filters: {', '.join(broken or FILTERS)}"


def check_weights(_: Path) -> Outcome:
    problems = damaged(run_folder("pretrained"))
    return not problems, "; ".join(problems) or "network and learned prior are there, and whole"


def check_extras(_: Path) -> Outcome:
    extras = metadata("ptychopinn").get_all("Provides-Extra") or []
    absent = [extra for extra in extras if extra not in ("cuda", "dev") and unmet(extra)] + missing()
    return not absent, f"not here: {', '.join(absent)}" if absent else "all are here"


def check_xla(_: Path, timeout_s: int = 300) -> Outcome:
    """That TensorFlow computes and compiles, in its own process, because a wrong flag ends the process."""
    code = """import tensorflow as tf
def step(image):
    wave = tf.signal.fft2d(tf.cast(image @ image, tf.complex64))
    return tf.nn.conv2d(tf.abs(wave)[None, ..., None], tf.ones((3, 3, 1, 1)), 1, "SAME")
for compiled in (False, True):
    tf.function(step, jit_compile=compiled)(tf.ones((64, 64))).numpy()"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout_s)
    ended = f"the process ended with {done.returncode}"
    last = (done.stderr.strip() or ended).splitlines()[-1].strip()
    return (False, last) if done.returncode else (True, "TensorFlow starts, and compiles")


# by name: what gets the folder of future runs; what a problem is; and what to do then
CHECKS: dict[str, tuple[Callable[[Path], Outcome], str, str]] = {
    "packages": (check_packages, BAD, "pip install --upgrade ptychopinn"),
    "machine": (check_machine, NOTE, "unset limits that are not intended; little memory: solver.block=2048"),
    "disk": (check_disk, NOTE, "make room, or choose another output_dir; locks: HDF5_USE_FILE_LOCKING=FALSE"),
    "HDF5": (check_hdf5, BAD, "pip install --upgrade hdf5plugin"),
    "weights": (check_weights, BAD, "install the program again"),
    "extras": (check_extras, NOTE, "pip install 'ptychopinn[NAME]' or '-e extras/NAME', where it is wanted"),
    "XLA": (check_xla, BAD, FOR_XLA),
}
