"""Is XLA working here at all? A few steps, in a process of their own, because a crash may end it."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple


class Step(NamedTuple):
    """One thing to try: code that raises if it fails, and what to do then."""

    name: str
    code: str
    advice: str


def _on_every_device(code: str) -> str:
    return f"for d in devices:\n with tf.device(d):\n  {code}"


def _compiled(function: str, arguments: str) -> str:
    return _on_every_device(f"tf.function({function}, jit_compile=True)({arguments}).numpy()")


STEPS = (
    Step(
        "import TensorFlow",
        "import tensorflow as tf",
        "Reinstall: pip install 'tensorflow[and-cuda]==2.21.*'.",
    ),
    Step(
        "find devices",
        "devices = [d.name for k in ('GPU', 'CPU') for d in tf.config.list_logical_devices(k)]",
        "The driver is older than the CUDA libraries, or LD_LIBRARY_PATH hides them: unset it.",
    ),
    Step(
        "run without XLA",
        _on_every_device("assert float(tf.reduce_sum(tf.ones((8, 8)) @ tf.ones((8, 8)))) == 512"),
        "TensorFlow itself does not run here: check nvidia-smi and the versions of CUDA and cuDNN.",
    ),
    Step(
        "compile an addition",
        _compiled("lambda x: x + 1", "tf.ones(4)"),
        "An unknown entry in TF_XLA_FLAGS or XLA_FLAGS ends the process: unset both, then add them singly. "
        "On a GPU, XLA needs libdevice and ptxas: install nvidia-cuda-nvcc-cu12, or let "
        "XLA_FLAGS=--xla_gpu_cuda_data_dir point to a CUDA installation.",
    ),
    Step(
        "compile a matrix product",
        _compiled("lambda x: x @ x", "tf.ones((64, 64))"),
        "cuBLAS does not load or has no memory: close other programs, set TF_FORCE_GPU_ALLOW_GROWTH=true.",
    ),
    Step(
        "compile a convolution",
        _compiled(
            "lambda x, k: tf.nn.conv2d(x, k, 1, 'SAME')", "tf.ones((1, 16, 16, 4)), tf.ones((3, 3, 4, 4))"
        ),
        "cuDNN is older than the one TensorFlow was built with ('DNN library initialization failed'): "
        "upgrade it.",
    ),
    Step(
        "compile a Fourier transform",
        _compiled("tf.signal.fft2d", "tf.ones((2, 16, 16), tf.complex64)"),
        "cuFFT does not load: reinstall tensorflow[and-cuda]; the program runs without XLA meanwhile.",
    ),
)


class Diagnosis(NamedTuple):
    """The first step that failed, what it said and what to try; ``failed`` is empty where all is well."""

    failed: str
    message: str
    advice: str


def diagnose(steps: tuple[Step, ...] = STEPS, timeout: float = 300.0) -> Diagnosis:
    """Run the steps in a fresh process with the environment of this one.

    Args:
        steps: what to try, in order; later ones may use the names of earlier ones.
        timeout: seconds after which the step that runs counts as failed.
    """
    code = "\n".join(f"print({s.name!r}, flush=True)\n{s.code}" for s in steps)
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout)
        status, output, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as expired:
        status, output = -1, _text(expired.stdout)
        errors = f"no answer after {timeout:.0f} s"
    if status == 0:
        return Diagnosis("", "", "")
    begun = [s for s in steps if s.name in output.splitlines()]
    step = begun[-1] if begun else steps[0]
    last = [line for line in errors.splitlines() if line.strip()][-1:] or [
        f"the process ended with status {status}"
    ]
    return Diagnosis(step.name, last[0].strip(), step.advice)


def _text(stream: bytes | str | None) -> str:
    return stream.decode() if isinstance(stream, bytes) else stream or ""
