"""Write the compiled steps as StableHLO text with their inputs and outputs, for machines without TensorFlow.

    python benchmarks/gpu/export.py [--only NAME …] [--out FOLDER]

Each step is one file: value and all gradients of the likelihood of patterns with one and four modes at 64²,
128² and 256², in chunks as large as those of the solver on a GPU; loss and gradients of a training step of
``unrolled_fast``; its inference; every operator of ``ptycho.xla`` with the gradients of Σy². The outputs are
those of TensorFlow on this processor without XLA. ``run.py`` executes the files.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import keras
import numpy as np
import tensorflow as tf

from benchmarks.gpu.program import Program, repeated
from benchmarks.training_step import MODELS
from ptycho.config import RunConfig
from ptycho.config.memory import CHUNK_PIXELS
from ptycho.networks import build_pinn
from ptycho.reconstruction.likelihood import likelihood_step
from ptycho.reconstruction.scan_likelihood import computed_with
from ptycho.simulation.simulate import simulate
from ptycho.training.competitors import geometry_of
from ptycho.training.fitting import batch_of
from ptycho_images import crop_and_resize, projective_warp, resize, translate

Inputs = Sequence[tuple[np.ndarray, bool]]


def stablehlo_text(compiled: Any, examples: Sequence[tf.Tensor]) -> str:
    """Return the StableHLO of a ``tf.function(jit_compile=True)`` for inputs like ``examples``."""
    text = compiled.experimental_get_compiler_ir(*examples)(stage="stablehlo")
    text = re.sub(r"^#loc.*\n", "", text, flags=re.M)
    text = re.sub(r' loc\((?:"[^"]*"|[^()"]|\([^()]*\))*\)', "", text)
    text = re.sub(r" \{mhlo\.frontend_attributes = \{[^}]*\}\}", "", text)
    return re.sub(r"module @\S+ attributes \{.*\} \{", "module @ptycho {", text)


def exported(name: str, function: Callable, inputs: Inputs, rows: int, repeat: int, patterns: int) -> Program:
    """Return a program of ``function``, of tensors to any structure of tensors.

    Args:
        name: name of the program.
        function: function whose inputs are all tensors.
        inputs: arrays, and whether their rows are repeated.
        rows: number of rows of a repeated array; outputs with ``rows · repeat`` rows are repeated, too.
        repeat: how many times rows are repeated.
        patterns: number of patterns of one call.
    """

    def flat(*tensors: tf.Tensor) -> list[tf.Tensor]:
        return tf.nest.flatten(function(*tensors))

    given = [tf.constant(repeated(array, repeat if tiled else 1)) for array, tiled in inputs]
    outputs = [value.numpy() for value in tf.function(flat, autograph=False)(*given)]
    tiled = [repeat > 1 and value.shape[:1] == (rows * repeat,) for value in outputs]
    kept = [(value[:rows], True) if t else (value, False) for value, t in zip(outputs, tiled, strict=True)]
    compiled = tf.function(flat, jit_compile=True, autograph=False)
    if compiled.get_concrete_function(*given).captured_inputs:
        raise ValueError(f"{name}: the step uses tensors or variables that are not among its inputs")
    text = stablehlo_text(compiled, given)
    return Program(name, text, patterns, repeat, inputs, kept)


def likelihood(N: int, modes: int, count: int, rows: int = 2) -> Program:
    """Return value and gradients for ``count`` patterns of N², ``rows`` of them different, off the grid."""
    rng = np.random.default_rng([N, modes])
    normal = rng.standard_normal
    y, x = np.indices((N, N)) - (N - 1) / 2
    disk = np.exp(-(((x**2 + y**2) / (N / 5) ** 2) ** 2) + 3j * (x**2 + y**2) / (N / 4) ** 2)
    probe = np.stack([disk * (x / N) ** k * 30 for k in range(modes)]).astype(np.complex64)
    windows = np.exp(0.3 * normal((rows, N, N)) + 1j * normal((rows, N, N))).astype(np.complex64)
    intensity = sum(np.abs(np.fft.fft2(mode * windows, norm="ortho")) ** 2 for mode in probe)
    values: dict[str, tuple[np.ndarray, bool]] = {
        "windows": (windows + np.complex64(0.1), True),
        "fractions": (rng.uniform(-0.5, 0.5, (rows, 2)).astype(np.float32), True),
        "flux": (rng.uniform(0.9, 1.1, rows).astype(np.float32), True),
        "modes": (probe, False),
        "background": (np.full((N, N), 0.1, np.float32), False),
        "opr_modes": (probe[:0], False),
        "opr_weights": (np.zeros((rows, 0), np.complex64), True),
        "point_spread": (np.zeros(0, np.float32), False),
        "amplitudes": (np.sqrt(rng.poisson(intensity)).astype(np.float32), True),
        "photon": (np.float32(1), False),
        "ramps": (np.zeros((rows, 0, N), np.complex64), True),
        "transfer": (np.zeros((0, 0), np.complex64), False),
        "batches": (np.int32(1), False),
    }
    step = likelihood_step("poisson", computed_with({"background"}), True, True).python_function
    name = f"likelihood_{N}_{modes}"
    return exported(name, step, list(values.values()), rows, count // rows, count)


def network(kind: str) -> Program:
    """Return a ``training`` step up to its gradients, or the ``inference``, of a network, for one batch."""
    config = RunConfig(size=160, nimgs_train=1, max_groups_train=64, model=MODELS["unrolled_fast"])
    data = simulate(config)[0]["train"]
    model = build_pinn(config.model, geometry_of(data), config.xla, config.loss_weights, config.seed)
    batch = batch_of(data, np.arange(config.batch_size))
    probe, f = np.asarray(data.model_probe, np.complex64), np.float32(data.normalisation)
    model(batch["x"], batch["offsets"], tf.constant(probe))
    variables, normal = model.trainable_variables, np.random.default_rng(0).standard_normal
    weights = [np.float32(0.05) * normal(w.shape, np.float32) for w in variables]  # CNNs begin with zeros
    inputs = [*weights, batch["x"].numpy(), batch["offsets"].numpy(), probe, f]

    def step(*tensors: tf.Tensor) -> Any:
        values, (x, offsets, probe, *rest) = tensors[: len(weights)], tensors[len(weights) :]
        mapping = list(zip(variables, values, strict=True))
        with tf.GradientTape() as tape, keras.StatelessScope(state_mapping=mapping):
            if not rest:
                return model(x, offsets, probe)
            tape.watch(values)
            loss = model.losses_of({"x": x, "offsets": offsets}, probe, *rest)["loss"]
        return loss, tape.gradient(loss, values)

    given = [(array, False) for array in (inputs if kind == "training" else inputs[:-1])]
    return exported(kind, step, given, 0, 1, config.batch_size * config.group_size)


def operators(side: int = 84, rows: int = 4, repeat: int = 16) -> dict[str, Callable[[], Program]]:
    """Return programs of every operator on 64 images of ``side``²: result y, Σy² and its gradients."""
    rng = np.random.default_rng(side)
    images = rng.standard_normal((rows, side, side, 1), np.float32)
    shifts = rng.uniform(-5, 5, (rows, 2)).astype(np.float32)
    corners = rng.uniform(0, 0.3, (rows, 2))
    boxes = np.concatenate([corners, corners + 0.6], 1).astype(np.float32)
    turn = np.float32([[0.9, 0.2, 3, -0.2, 0.9, 9, 1e-4, 2e-4]]) + 0.01 * rng.standard_normal(
        (rows, 8), np.float32
    )
    size, which = (side, side), np.arange(rows * repeat, dtype=np.int32)
    cases: dict[str, tuple[Callable, list[np.ndarray]]] = {
        "translate": (translate, [images[..., 0], shifts]),
        "translate_matrix": (lambda i, s: translate(i, s, path="matrix"), [images[..., 0], shifts]),
        "crop_and_resize": (lambda i, b: crop_and_resize(i, b, which, size), [images, boxes]),
        "projective_warp": (projective_warp, [images, turn.astype(np.float32)]),
        "resize": (lambda i: resize(i, (100, 100), "bicubic"), [images]),
    }

    def of_case(name: str) -> Program:
        function, arrays = cases[name]

        def step(*tensors: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                value = function(*tensors)
                loss = tf.reduce_sum(tf.square(value))
            return value, loss, tape.gradient(loss, tensors)

        return exported(name, step, [(array, True) for array in arrays], rows, repeat, rows * repeat)

    return {name: lambda name=name: of_case(name) for name in cases}


def programs() -> dict[str, Callable[[], Program]]:
    """Return a function for each program, by name."""
    sizes = {(N, modes): 16 * CHUNK_PIXELS // N**2 for N in (64, 128, 256) for modes in (1, 4)}
    steps = {f"likelihood_{N}_{K}": lambda N=N, K=K, n=n: likelihood(N, K, n) for (N, K), n in sizes.items()}
    return steps | {kind: lambda kind=kind: network(kind) for kind in ("training", "inference")} | operators()


def main() -> None:
    table = programs()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", choices=table, default=list(table), help="programs (default: all)"
    )
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks/gpu"), help="folder to write to")
    arguments = parser.parse_args()
    tf.get_logger().setLevel("ERROR")
    tf.config.experimental.enable_tensor_float_32_execution(False)  # StableHLO requests float32 products
    arguments.out.mkdir(parents=True, exist_ok=True)
    sizes = []
    for name in arguments.only:
        sizes.append(table[name]().write(arguments.out).stat().st_size)
        print(f"{name}: {sizes[-1] / 2**20:.2f} MiB", flush=True)
    print(f"{len(sizes)} programs, {sum(sizes) / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
