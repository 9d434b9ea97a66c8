#!/usr/bin/env python
"""Large scans: memory, speed, kills, several processes, and a million patterns that do not fit in memory.

    python benchmarks/large_scans.py runs --counts 20000 100000     the default command: peak, seconds, error
    python benchmarks/large_scans.py runs --counts 2000 50000 --side 128 --set solver.steps=6
    python benchmarks/large_scans.py kills                          three kills, then resumed: the same bits?
    python benchmarks/large_scans.py processes                      one and two MPI processes, a core each
    python benchmarks/large_scans.py generator --counts 1000000     patterns simulated when read: one pass

Scans are simulated by ``scripts/simulate_scan.py`` (blobs on a jittered grid of 5 px, N = 64, 10⁵ photons per
pattern) and kept in ``--folder``. The error is the relative complex error in metrics.json. A
pattern-iteration is one evaluation of the likelihood of one pattern with its gradient.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import parser
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.patterns import Patterns
from ptycho.scan.windows import inner_windows

ROOT = Path(__file__).resolve().parents[1]

Row = dict[str, object]
PHOTONS, STEP = 1e5, 5.0
PERIOD = 1024  # pixels after which the sample repeats


def scan_file(count: int, side: int, folder: Path) -> Path:
    """Return the file of a simulated scan, which is written if it does not exist."""
    path = folder / f"scan_{count}_{side}.cxi"
    if not path.is_file():
        settings = (f"N={side}", f"n_positions={count}", "nphotons=1e5", "path=jittered", "sample=blobs")
        subprocess.run(
            [sys.executable, "scripts/simulate_scan.py", f"output={path}", *settings, "oversampling=1"],
            check=True,
            cwd=ROOT,
        )
    return path


def command(scan: Path, out: Path, *more: str) -> list[str]:
    program = [sys.executable, "scripts/scan_workflow.py"]
    return [*program, f"data.file={scan}", f"output_dir={out}", "overwrite=true", *more]


def outcome(out: Path) -> Row:
    """Return scores, seconds and memory of a run, from its files."""
    manifest = json.loads((out / "manifest.json").read_text())
    metrics = json.loads((out / "metrics.json").read_text())
    row = metrics[metrics["product"]]
    error = (row.get("reference_comparison") or {}).get("relative_error")
    return {
        "peak_MiB": manifest["peak_memory_mib"],
        "s": manifest["timings_s"]["total"],
        "solver_s": manifest["timings_s"]["solver"],
        "error": error,
        "r_free": row["r_free"],
        "flags": ",".join(row["flags"]),
    }


def runs(counts: list[int], side: int, folder: Path, settings: Sequence[str] = ()) -> Iterator[Row]:
    """Run the default command on scans of several sizes, with some settings."""
    for count in counts:
        scan, out = scan_file(count, side, folder), folder / f"run_{count}_{side}"
        subprocess.run(command(scan, out, *settings), check=True, cwd=ROOT)
        yield {"patterns": count, "N": side} | outcome(out)


def object_of(out: Path) -> np.ndarray:
    with np.load(out / "recons" / "solver" / "recon.npz") as stored:
        return stored["object"]


def kills(counts: list[int], side: int, folder: Path) -> Iterator[Row]:
    """Kill a run three times, after each of the first blocks, and then resume it to the end."""
    for count in counts:
        scan, out, whole = scan_file(count, side, folder), folder / "killed", folder / f"run_{count}_{side}"
        if not (whole / "metrics.json").is_file():
            subprocess.run(command(scan, whole), check=True, cwd=ROOT)
        start = command(scan, out)
        for number in range(1, 4):
            process = subprocess.Popen(start, cwd=ROOT, start_new_session=True)
            while process.poll() is None and len(list((out / "blocks").glob("*.npz"))) < number:
                time.sleep(0.1)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            start = [sys.executable, "scripts/scan_workflow.py", f"resume={out}"]
        began = time.perf_counter()
        subprocess.run(start, check=True, cwd=ROOT)
        same = bool(np.array_equal(object_of(out), object_of(whole)))
        yield {
            "patterns": count,
            "kills": 3,
            "same bits": same,
            "s after the last": time.perf_counter() - began,
        }


def processes(counts: list[int], side: int, folder: Path) -> Iterator[Row]:
    """Run one process on one core, and two MPI processes on a core each, with blocks for both."""
    images = []
    for count in counts:
        scan = scan_file(count, side, folder)
        for ranks in (1, 2):
            out = folder / f"mpi_{ranks}"
            block = f"solver.block={-(-count // 6)}"
            beside = Path(sys.executable).parent / "mpiexec"
            mpiexec = str(beside) if beside.is_file() else "mpiexec"
            program = [mpiexec, "-n", str(ranks), "-bind-to", "core", *command(scan, out, block)]
            subprocess.run(program, check=True, cwd=ROOT)
            images.append(object_of(out))
            yield {"patterns": count, "processes": ranks} | outcome(out)
        difference = np.linalg.norm(images[1] - images[0]) / np.linalg.norm(images[0])
        yield {"patterns": count, "relative difference": float(difference)}


class GeneratedRows:
    """Amplitudes ``√n``, ``n ~ Poisson(|F P O_j|²)``, the same whenever a pattern is read."""

    def __init__(self, sample: np.ndarray, probe: np.ndarray, corners: np.ndarray) -> None:
        self._sample, self._probe, self._corners = sample, probe, corners
        self.shape = (len(corners), *probe.shape)
        self.dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self._corners)

    def __getitem__(self, index: Any) -> np.ndarray:
        chosen = np.arange(len(self))[index]
        N, found = self.shape[-1], np.empty((len(chosen), *self.shape[1:]), np.float32)
        for k in range(0, len(chosen), 256):
            part = chosen[k : k + 256]
            waves = self._probe * inner_windows(self._sample, self._corners[part] % PERIOD, N)
            intensity = np.abs(np.fft.fft2(waves, norm="ortho")) ** 2
            noise = np.stack([np.random.default_rng(j).standard_normal((N, N), np.float32) for j in part])
            # For many photons, the root of a Poisson count is normal with σ = ½.
            amplitude = np.maximum(np.sqrt(intensity) + noise / 2, 0)
            found[k : k + 256] = np.fft.fftshift(np.round(amplitude**2) ** 0.5, axes=(1, 2))
        return found


def generated_scan(count: int, N: int) -> Dataset:
    """Return ``count`` patterns of N² of a periodic sample, on a jittered square grid of 5 px."""
    rng, side = np.random.default_rng(0), int(np.ceil(count**0.5))
    grid = STEP * np.stack(np.divmod(np.arange(count), side), axis=1)
    corners = np.rint(grid + rng.uniform(0, 2, grid.shape)).astype(np.int64)
    axis = np.arange(N) - N / 2
    square = (axis[:, None] ** 2 + axis**2) / (N / 8) ** 2
    probe = np.exp(-square / 2 + 1j * square)
    probe = (np.sqrt(PHOTONS) / np.linalg.norm(probe) * probe).astype(np.complex64)
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(PERIOD), np.fft.fftfreq(PERIOD)))
    waves = rng.standard_normal((2, PERIOD, PERIOD))
    smooth = [np.fft.ifft2(np.fft.fft2(wave) * np.exp(-((frequency / 0.05) ** 2))).real for wave in waves]
    amplitude, phase = (part / np.abs(part).max() for part in smooth)
    sample = ((0.8 + 0.2 * amplitude) * np.exp(1j * phase)).astype(np.complex64)
    rows = GeneratedRows(np.pad(sample, (0, N), mode="wrap"), probe, corners)
    return Dataset(
        amplitudes=Patterns(rows),  # type: ignore[arg-type]
        beam=Beam(probe, corners.astype(np.float32)),
        image=np.zeros(count, np.int32),
        groups=np.arange(count, dtype=np.int32)[:, None],
        photon_scale=1.0,
        object_size=N + int(corners.max()) + 2,
        region_size=N,
    )


def generator(counts: list[int], side: int, folder: Path) -> Iterator[Row]:
    """Run one step of every block of a scan whose patterns are simulated when they are read."""
    from ptycho.quiet_start import start_tensorflow

    start_tensorflow()
    import psutil

    from ptycho.reconstruction.blocks import Blockwise, Stage, fit_in_blocks
    from ptycho.reconstruction.estimate import Estimate
    from ptycho.reconstruction.scan_likelihood import likelihood_of
    from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit

    for count in counts:
        began = time.perf_counter()
        data = generated_scan(count, side)
        made_s = time.perf_counter() - began
        likelihood = likelihood_of(data)
        start = Estimate.of(data, np.ones((data.object_size,) * 2))
        memory, began = [], time.perf_counter()

        def advance(patterns: int) -> None:
            memory.append(psutil.Process().memory_info().rss / 2**20)  # noqa: B023

        one = (
            Stage(
                "one step",
                lambda objective, estimate, refine, steps: fit(objective, estimate, refine, 1),
                True,
            ),
        )
        fit_in_blocks(Objective(likelihood), start, OBJECT_ALONE, 1, Blockwise(), one, advance)
        seconds = time.perf_counter() - began
        rate = 2 * count / seconds  # the start, and one step
        tenth = max(1, len(memory) // 10)
        yield {
            "patterns": count,
            "object": data.object_size,
            "statistics_s": made_s,
            "pass_s": seconds / 2,
            "pattern-iterations/s": rate,
            "MiB, first tenth": max(memory[:tenth]),
            "MiB, last tenth": max(memory[-tenth:]),
            "80 passes, h": 80 * count / rate / 3600,
        }


WAYS: dict[str, Callable[[list[int], int, Path], Iterator[Row]]] = {
    "runs": runs,
    "kills": kills,
    "processes": processes,
    "generator": generator,
}


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("way", choices=WAYS)
    options_of.add_argument("--counts", type=int, nargs="+", default=[20000])
    options_of.add_argument("--side", type=int, default=64)
    options_of.add_argument("--folder", type=Path, default=ROOT / "outputs" / "large")
    options_of.add_argument("--set", nargs="*", default=[], help="settings of runs, such as solver.steps=6")
    options = options_of.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    ways = WAYS | {"runs": partial(runs, settings=options.set)}
    for row in ways[options.way](options.counts, options.side, options.folder.resolve()):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
