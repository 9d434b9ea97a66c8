#!/usr/bin/env python3
"""How much time does the multiresolution start save a scan with large patterns?

    python benchmarks/larger_pixels.py                 N = 512, 100 patterns
    python benchmarks/larger_pixels.py --side 256 --step 16

A photograph (object ``c`` of ``benchmarks/panel.py``, simulated by NumPy) is measured with a lens whose
pupil has a radius of 0.03 cycles per pixel, 10⁷ photons per pattern. The beam is known. The object is fitted
from a constant, and from the downsampled start that
:func:`ptycho.reconstruction.blocks.multiresolution_start` returns. The table has the relative
complex error after numbers of steps, with the seconds until then; those of the downsampled start include it.
Compilation is not counted.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.panel import MARGIN, error_of, far_intensity, object_of
from benchmarks.tables import markdown
from ptycho.reconstruction.blocks import multiresolution_start
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.prior import PRIORS, Prior
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.selection import SelectionOptions
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.scan.beam import Beam
from ptycho.scan.coarser import coarser
from ptycho.scan.dataset import Dataset

PUPIL, BENDS = 0.03, 6.0  # cycles per pixel; half turns of the defocus at its rim
SHOWN = (0, 10, 30, 60, 90, 120)  # steps


def probe_of(N: int) -> np.ndarray:
    q = np.hypot(*np.ix_(*(np.fft.fftfreq(N),) * 2)) / PUPIL
    wave = np.fft.fftshift(np.fft.ifft2((q < 1) * np.exp(1j * BENDS * np.pi * q**2)))
    return wave / np.abs(wave).max()


def scan_of(N: int, step: int, photons: float, count: int = 10) -> tuple[Dataset, np.ndarray, np.ndarray]:
    """Return ``count²`` patterns on a raster with a jitter of up to a fifth of the step, object and probe."""
    rng, probe = np.random.default_rng(5), probe_of(N)
    grid = step * np.stack(np.mgrid[:count, :count], -1).reshape(-1, 2).astype(float)
    positions = np.round(grid + rng.uniform(-step / 5, step / 5, grid.shape))
    positions += MARGIN - positions.min(axis=0)
    object_ = object_of("c", N + int(positions.max()) + MARGIN + 1)
    intensity = far_intensity(object_, probe, positions)
    scale = photons / intensity.sum(axis=(1, 2)).mean()
    data = Dataset(
        np.sqrt(rng.poisson(scale * intensity)).astype(np.float32),
        Beam(probe.astype(np.complex64), positions.astype(np.float32)),
        np.zeros(len(positions), np.int32),
        np.arange(len(positions), dtype=np.int32)[:, None],
        float(np.sqrt(scale)),
        len(object_),
        N,
    )
    return data, object_, probe


def row_of(
    name: str, objective: Objective, start: Estimate, truth: np.ndarray, probe: np.ndarray, spent: float
) -> dict[str, str]:
    """Return errors and seconds from a start on which ``spent`` seconds went; scoring is not counted."""
    row, since = {"start": name}, time.perf_counter()

    def watch(estimate: Estimate, value: float) -> None:
        nonlocal spent, since
        spent += time.perf_counter() - since
        if (step := watched.pop(0)) in SHOWN:
            error = error_of(estimate.object, truth, objective.likelihood.data.beam, probe)
            row[f"step {step}"] = f"{error:.3f} ({spent:.0f} s)"
        since = time.perf_counter()

    watched = list(range(SHOWN[-1] + 1))
    fit(objective, start, OBJECT_ALONE, SHOWN[-1], 0.0, watch)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", type=int, default=512, help="N (512)")
    parser.add_argument("--step", type=int, default=32, help="step of the scan in pixels (32)")
    parser.add_argument("--photons", type=float, default=1e7, help="photons per pattern (1e7)")
    options = parser.parse_args()
    data, truth, probe = scan_of(options.side, options.step, options.photons)
    view = coarser(data)
    if view is None:
        raise SystemExit(f"--side {options.side}: these patterns cannot be downsampled; choose 256 or more")
    print(f"{len(data.positions)} patterns of {data.N}², downsampled to {view.data.N}²\n")
    objective = Objective(
        ScanLikelihood(data, data.normalisation),
        Prior("edge_preserving", PRIORS["edge_preserving"].strengths[0]),
    )
    flat = Estimate.of(data, np.ones(truth.shape))
    fit(objective, flat, OBJECT_ALONE, 1)
    multiresolution_start(objective, flat, 1)
    rows = [row_of("a constant", objective, flat, truth, probe, 0.0)]
    since = time.perf_counter()
    downsampled = multiresolution_start(objective, flat, SelectionOptions.first_steps)
    assert downsampled is not None
    rows.append(row_of("downsampled", objective, downsampled, truth, probe, time.perf_counter() - since))
    print(markdown(rows))


if __name__ == "__main__":
    main()
