"""Execute exported steps with JAX, compare with the stored outputs, and time them. Needs JAX and NumPy alone.

    python benchmarks/gpu/run.py FOLDER [--only NAME …] [--repeats 20] [--out FILE.json]
    XLA_FLAGS=--xla_force_host_platform_device_count=2 python benchmarks/gpu/run.py FOLDER      # without GPUs

``FOLDER`` is the output of ``export.py``. A Markdown table is printed. If JAX has several devices, the
patterns are divided among them, one chunk each, and sums are reduced; results on one and on all devices are
compared with the stored outputs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gpu.program import Arrays, Program, read_program, worst

AXIS = "patterns"


def jax_function(program: Program) -> Callable[..., tuple[jax.Array, ...]]:
    """Return the program as a function of JAX arrays, for ``jax.jit``.

    JAX exports a function with the same inputs and outputs, whose module is replaced by that of the program.
    """
    results = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in program.expected()]
    arguments = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in program.given()]
    zeros = jax.jit(lambda *_: tuple(jax.numpy.zeros(r.shape, r.dtype) for r in results), keep_unused=True)
    stand_in = jax.export.export(zeros)(*arguments)
    return dataclasses.replace(stand_in, mlir_module_serialized=portable(program.text)).call


def portable(text: str, version: str = "1.9.0") -> bytes:
    """Return StableHLO text as the bytes that JAX stores, in a version of StableHLO that older JAX reads."""
    try:
        from jax.extend.mlir import serialize_portable_artifact as serialise
    except ImportError:
        from jaxlib.mlir.dialects.stablehlo import serialize_portable_artifact_str as serialise
    return serialise(text, version)


def divided(program: Program, devices: Sequence[Any]) -> tuple[Callable, list[jax.Array], list[np.ndarray]]:
    """Return the program on several devices, a chunk on each, with its inputs and expected outputs.

    The rows of each device are rolled by one more than those of the device before, so that
    neighbouring chunks differ. Outputs without rows are sums over the patterns.
    """
    mesh, count = Mesh(np.array(devices), (AXIS,)), len(devices)
    rows, whole = PartitionSpec(AXIS), PartitionSpec()
    function = jax_function(program)
    tiled = [is_rows for _, is_rows in program.outputs]

    def step(*inputs: jax.Array) -> tuple[jax.Array, ...]:
        outputs = function(*inputs)
        return tuple(o if r else jax.lax.psum(o, AXIS) for o, r in zip(outputs, tiled, strict=True))

    specs = tuple(rows if is_rows else whole for _, is_rows in program.inputs)
    results = tuple(rows if is_rows else whole for is_rows in tiled)
    sharded = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=results, check_vma=False)
    given = [chunks(a, count) if s == rows else a for a, s in zip(program.given(), specs, strict=True)]
    placed = [jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip(given, specs, strict=True)]
    expected = [chunks(a, count) if r else count * a for a, r in zip(program.expected(), tiled, strict=True)]
    return sharded, placed, expected


def chunks(array: np.ndarray, count: int) -> np.ndarray:
    """Return ``(count · B, …)``, copies of an array ``(B, …)``, each rolled by one row more."""
    return np.concatenate([np.roll(array, k, axis=0) for k in range(count)])


def measured(function: Callable, inputs: Sequence[Any], expected: Arrays, repeats: int) -> dict[str, float]:
    """Compile, compare and time: seconds to compile, milliseconds per call, difference, memory in MiB."""
    began = time.perf_counter()
    compiled = jax.jit(function).lower(*inputs).compile()
    compilation = time.perf_counter() - began
    difference = worst([np.asarray(o) for o in compiled(*inputs)], expected)
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(compiled(*inputs))
        times.append(time.perf_counter() - began)
    memory = compiled.memory_analysis()
    sizes = {"inputs": "argument", "outputs": "output", "temporary": "temp"}
    return {
        "compile_s": compilation,
        "ms": 1e3 * statistics.median(times),
        "difference": difference,
        **{f"{key}_mib": getattr(memory, f"{name}_size_in_bytes") / 2**20 for key, name in sizes.items()},
    }


def run(program: Program, repeats: int) -> list[dict[str, Any]]:
    """Return a row for one device, and one for all devices if there are several and the patterns are rows."""
    devices = jax.devices()
    inputs = [jax.device_put(a, devices[0]) for a in program.given()]
    cases = [(1, jax_function(program), inputs, program.expected())]
    if len(devices) > 1 and program.repeat > 1:
        cases.append((len(devices), *divided(program, devices)))
    rows = []
    for count, function, given, expected in cases:
        row = measured(function, given, expected, repeats)
        rate = 1e3 * count * program.patterns / row["ms"]
        rows.append({"program": program.name, "devices": count, "patterns": count * program.patterns} | row)
        rows[-1]["patterns_per_s"] = rate
    return rows


COLUMNS = {
    "program": "{}",
    "devices": "{}",
    "patterns": "{}",
    "ms": "{:.2f}",
    "patterns_per_s": "{:.0f}",
    "difference": "{:.0e}",
    "inputs_mib": "{:.0f}",
    "outputs_mib": "{:.0f}",
    "temporary_mib": "{:.0f}",
    "compile_s": "{:.1f}",
}
"""What is printed of a row, and how."""


def line(row: dict[str, Any]) -> str:
    """Return a row as a line of the Markdown table."""
    cells = [form.format(row[name]) if name in row else "" for name, form in COLUMNS.items()]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="output of export.py")
    parser.add_argument("--only", nargs="+", help="names of programs (default: all)")
    parser.add_argument("--repeats", type=int, default=20, help="calls of which the median is taken")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    paths = sorted(arguments.folder.glob("*.npz"))
    paths = [p for p in paths if arguments.only is None or p.stem in arguments.only]
    if not paths:
        parser.error(f"{arguments.folder}: no such programs; write them with benchmarks/gpu/export.py")
    about = {"device": jax.devices()[0].device_kind, "devices": jax.device_count(), "jax": jax.__version__}
    print(json.dumps(about), "", f"| {' | '.join(COLUMNS)} |".replace("_", " "), sep="\n")
    print("|---" * len(COLUMNS) + "|")
    rows = []
    for path in paths:
        for row in run(read_program(path), arguments.repeats):
            rows.append(row)
            print(line(row), flush=True)
        if arguments.out:  # after every program: a later one may fail
            arguments.out.write_text(json.dumps(about | {"rows": rows}, indent=1))


if __name__ == "__main__":
    main()
