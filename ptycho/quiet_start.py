"""TensorFlow started on one GPU, if there are any, without the lines that it prints where nothing is wrong.

These come from C++ before its logging is set up, so that no setting keeps them back. What else it prints is
shown, also where it is the last that the process does. Keras is given its backend before it is imported.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from typing import TypeVar

from ptycho.config.memory import cores
from ptycho.config.messages import check

LEVEL = "TF_CPP_MIN_LOG_LEVEL"
GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"  # a GPU's memory as it is needed; else the first process takes all of it
THREADS = "TF_NUM_INTRAOP_THREADS"  # TensorFlow's own variable: threads that share one operation
RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
"""Of these variables one tells a process of MPI which of its machine it is."""
NOTES = r"WARNING: All log messages before absl::InitializeLog|I\d{4} [\d:.]+ +\d+ \w+\.cc:\d+\]"
NO_DEVICE = r"[WE]\d{4} [\d:.]+ +\d+ cuda_\w+\.cc:\d+\] failed call to cuInit"
VARIABLE, NEEDED = "KERAS_BACKEND", "tensorflow"
Gpu = TypeVar("Gpu")
DEVICES = ("/dev/nvidia*", "/dev/dxg")
FILTER = """
import re, sys
noise = re.compile(sys.argv[1].encode())
for line in sys.stdin.buffer:
    if not noise.match(line):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
"""


def require_tensorflow(environ: MutableMapping[str, str]) -> None:
    """Set the variable by which Keras chooses its backend; it goes before the file ``~/.keras/keras.json``.

    Raises:
        ConfigError: the environment asks for another backend.
    """
    wanted = environ.get(VARIABLE, "")
    check(wanted in ("", NEEDED), VARIABLE, wanted, f"{NEEDED}, or unset: the networks are written for it")
    environ[VARIABLE] = NEEDED


def start_tensorflow(for_solver: bool = False) -> None:
    """Import TensorFlow, if need be, and keep float32 at 24 bits on every device.

    ``TF_CPP_MIN_LOG_LEVEL=0`` or ``1`` shows all messages of the import. Of several GPUs TensorFlow sees one,
    each process of MPI on a machine the next one. ``for_solver``: no network is trained. The solver computes
    a chunk of patterns on each core; if TensorFlow shared each operation of these among the same cores, an
    evaluation would take 1.4 times as long. It then shares one among a quarter of the cores, or as many as
    ``TF_NUM_INTRAOP_THREADS`` says.
    """
    if "tensorflow" not in sys.modules:
        _import_quietly(for_solver)
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)


def _import_quietly(for_solver: bool) -> None:
    os.environ.setdefault(GROWTH, "true")
    wanted = os.environ.setdefault(LEVEL, "2") in ("0", "1")
    with contextlib.nullcontext() if wanted else without_lines(noise()):
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        tf.config.set_visible_devices(own_gpu(gpus), "GPU")
        if for_solver and THREADS not in os.environ:
            tf.config.threading.set_intra_op_parallelism_threads(max(1, cores() // 4))
    if not wanted:
        tf.get_logger().addFilter(_tells_more_than_retracing)


def own_gpu(gpus: Sequence[Gpu]) -> Sequence[Gpu]:
    """Return the GPU of this process, or none."""
    rank = next((int(os.environ[name]) for name in RANKS if name in os.environ), 0)
    return gpus[rank % len(gpus) :][:1] if gpus else gpus


def _tells_more_than_retracing(record: logging.LogRecord) -> bool:
    """Scans tried in several ways have chunks of several shapes, a function each: that is meant so."""
    return "triggered tf.function retracing" not in record.getMessage()


def noise() -> str:
    """Return the pattern of the needless lines; without a device, also those on a missing driver."""
    device = any(glob.glob(pattern) for pattern in DEVICES)
    return NOTES if device else f"{NOTES}|{NO_DEVICE}"


@contextlib.contextmanager
def without_lines(pattern: str) -> Iterator[None]:
    """Leave out the lines on stderr that match ``pattern``, whoever in this process writes them.

    Another process reads them and passes the rest on, so that none is lost where this one ends at once.
    """
    command = [sys.executable, "-I", "-S", "-c", FILTER, pattern]
    try:
        reader = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    except OSError:
        yield
        return
    assert reader.stdin is not None
    sys.stderr.flush()
    before, stderr = os.dup(2), 2
    os.dup2(reader.stdin.fileno(), stderr)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, stderr)
        os.close(before)
        reader.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            reader.wait(5)
