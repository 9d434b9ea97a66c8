"""TensorFlow, XLA and the solver's speed on this machine, as a process: ``python -m workflows.doctor.speed``.

It prints one line of JSON. The speed is that of the joint solver's inner loop: patterns whose likelihood and
gradients by object and probe are computed in a second, 64 × 64 pixels, one mode.
"""

from __future__ import annotations

import json
import subprocess
import sys
import timeit
from pathlib import Path

import numpy as np
from scipy.special import kl_div

from ptycho.config.memory import cores
from ptycho.config.schema import Flag, Text, key, settings
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.patterns import Patterns
from workflows.command_line.one_shot import Unfit
from workflows.doctor.checks import BAD, GOOD, NOTE, Check, run_checks

N, SIDE, PATTERNS, REPEATS, PHOTONS = 64, 160, 512, 5, 1e6
DARKEST = 0.02  # photons; the solver adds them to every pixel
REFERENCE, SLOW = 5500.0, 0.33  # patterns a second and core: a server's core of 2024 at some 3 GHz
TOLERANCE = 1e-4  # of float32 sums of 4096 terms in another order
LIMIT_S = 240


@settings()
class DoctorConfig:
    """The keys of ``conf/doctor.yaml``."""

    output_dir: Text = key("outputs", "folder of future runs, whose disk is tested")
    speed: Flag = key(
        True, "start TensorFlow, compile with XLA and measure the speed of the solver; about 15 s"
    )


def report(config: DoctorConfig) -> list[str]:
    """The lines of all checks. Unfit: one fails."""
    checks = [*run_checks(Path(config.output_dir)), *(check_speed() if config.speed else ())]
    failing = [check.part for check in checks if check.state == BAD]
    if failing:
        raise Unfit([*map(str, checks), f"does not work: {', '.join(failing)}"])
    return [*map(str, checks), "this machine is fit"]


def check_speed() -> list[Check]:
    """Start TensorFlow in a process of its own and let it compute; what became of it."""
    words = [sys.executable, "-m", __spec__.name if __spec__ else __name__]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return [Check("TensorFlow", BAD, f"took more than {LIMIT_S} s", "is the machine busy?")]
    try:
        return judge(json.loads(done.stdout.strip().splitlines()[-1]))
    except (ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        remedy = "install the program again; an old processor without AVX cannot run TensorFlow"
        return [Check("TensorFlow", BAD, last, remedy)]


def judge(facts: dict) -> list[Check]:
    """What was measured, as lines."""
    started = f"{facts['version']}, starts in {facts['start_s']:.1f} s, computes on {facts['device']}"
    agrees = f"compiled in {facts['compile_s']:.1f} s; agrees with double precision to {facts['error']:.0e}"
    rate, share = facts["rate"], facts["rate"] / (REFERENCE * cores())
    text = f"solver: {rate:.0f} patterns of {N}² a second, {share:.2f} of what {cores()} cores of a server do"
    busy = "is something else running? Virtual cores that are shared are slow, too"
    right = facts["error"] < TOLERANCE
    return [
        Check("TensorFlow", GOOD, started),
        Check("XLA", GOOD if right else BAD, agrees, "set xla.compile=false, and report it"),
        Check("speed", GOOD if share > SLOW else NOTE, text, busy),
    ]


def measure() -> dict[str, float | str]:
    """Facts of this process; imports TensorFlow."""
    began = timeit.default_timer()
    from ptycho.quiet_start import start_tensorflow

    start_tensorflow()
    import tensorflow as tf

    from ptycho.reconstruction.refinement import likelihood_of
    from ptycho.reconstruction.state import State

    start_s = timeit.default_timer() - began
    data, light = synthetic_scan()
    state, likelihood = State.of(data, np.ones((SIDE, SIDE))), likelihood_of(data)
    began = timeit.default_timer()
    first = likelihood.evaluate(state, ("object", "modes"))
    compile_s = timeit.default_timer() - began
    seconds = timeit.repeat(lambda: likelihood.evaluate(state, ("object", "modes")), number=1, repeat=REPEATS)
    expected = deviance(light, np.square(data.amplitudes[:].astype(float)))
    return {
        "version": tf.__version__,
        "start_s": start_s,
        "device": ", ".join(device.name for device in tf.config.list_logical_devices("GPU")) or "CPU",
        "compile_s": compile_s,
        "error": float(np.abs(first.deviance / expected - 1).max()),
        "rate": PATTERNS / float(np.median(seconds)),
    }


def synthetic_scan() -> tuple[Dataset, np.ndarray]:
    """Counts under a curved Gaussian probe of a flat object, and the light ``(N, N)`` that is expected."""
    rng, axis = np.random.default_rng(0), np.arange(N) - N / 2
    square = np.add.outer(axis**2, axis**2) / (N / 8) ** 2
    probe = np.exp(-square / 2 + 1j * square)
    probe *= np.sqrt(PHOTONS) / np.linalg.norm(probe)
    light = np.abs(np.fft.fftshift(np.fft.fft2(probe, norm="ortho"))) ** 2
    counts = rng.poisson(light, (PATTERNS, N, N)).astype(np.float32)
    positions = rng.integers(0, SIDE - N, (PATTERNS, 2)).astype(np.float32)
    data = Dataset(
        amplitudes=Patterns(np.sqrt(counts)),
        beam=Beam(probe.astype(np.complex64), positions),
        image=np.zeros(PATTERNS, np.int32),
        groups=np.arange(PATTERNS, dtype=np.int32)[:, None],
        photon_scale=1.0,
        object_size=SIDE,
        region_size=N,
    )
    return data, light


def deviance(light: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """``2 Σ λ − n + n log(n/λ)`` of each pattern, ``(J,)``, in double precision."""
    return 2 * kl_div(counts + DARKEST, light + DARKEST).sum(axis=(1, 2))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure()) + "\n")
