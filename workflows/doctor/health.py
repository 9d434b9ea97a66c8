"""Does XLA work here? A few steps in a process of their own, because a crash may end it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple


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
