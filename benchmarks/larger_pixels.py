#!/usr/bin/env python3
"""How much time does the multiresolution start save a scan with large patterns?

    python benchmarks/larger_pixels.py                 N = 512, 100 patterns
    python benchmarks/larger_pixels.py --side 256 --step 16

A photograph (object ``c`` of ``photographs.py``) is measured with a lens whose
pupil has a radius of 0.03 cycles per pixel, 10⁷ photons per pattern. The beam is known. The object is fitted
from a constant, and from the downsampled start that
:func:`ptycho.reconstruction.blocks.multiresolution_start` returns. The table has the relative
complex error after numbers of steps, with the seconds until then; those of the downsampled start include it.
Compilation is not counted.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks import parser
from benchmarks.photographs import dataset, error_of, far_intensity, frequency, object_of, raster, side_of
from benchmarks.tables import markdown
from ptycho.reconstruction.blocks import multiresolution_start
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.prior import PRIORS, Prior
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.selection import SelectionOptions
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.scan.coarser import coarser
from ptycho.scan.dataset import Dataset

PHOTONS = 1e7  # in a pattern
PUPIL, BENDS = 0.03, 6.0  # cycles per pixel; half turns of the defocus at its rim
SHOWN = (0, 10, 30, 60, 90, 120)  # steps


def probe_of(N: int) -> np.ndarray:
    q = frequency(N) / PUPIL
    wave = np.fft.fftshift(np.fft.ifft2((q < 1) * np.exp(1j * BENDS * np.pi * q**2)))
    return wave / np.abs(wave).max()


def scan_of(N: int, step: int) -> tuple[Dataset, np.ndarray, np.ndarray]:
    """Return 100 patterns on a raster with a jitter of up to a fifth of the step, object and probe."""
    rng, probe = np.random.default_rng(5), probe_of(N)
    positions = raster(step, 10, rng)
    object_ = object_of("c", side_of(positions, N))
    intensity = far_intensity(object_, probe, positions)
    scale = PHOTONS / intensity.sum(axis=(1, 2)).mean()
    amplitudes, sizes = (
        np.sqrt(rng.poisson(scale * intensity)),
        {"object_size": len(object_), "region_size": N},
    )
    return dataset(amplitudes, probe, positions, np.sqrt(scale), **sizes), object_, probe


def row_of(
    name: str, objective: Objective, start: Estimate, truth: np.ndarray, probe: np.ndarray, spent: float
) -> dict[str, str]:
    """Return errors and seconds from a start on which ``spent`` seconds went; scoring is not counted."""
    row, since = {"start": name}, time.perf_counter()

    def watch(estimate: Estimate, value: float) -> None:
        nonlocal spent, since
        spent += time.perf_counter() - since
        if (step := watched.pop(0)) in SHOWN:
            error = error_of(estimate.object, truth, objective.likelihood.data.positions, probe)
            row[f"step {step}"] = f"{error:.3f} ({spent:.0f} s)"
        since = time.perf_counter()

    watched = list(range(SHOWN[-1] + 1))
    fit(objective, start, OBJECT_ALONE, SHOWN[-1], 0.0, watch)
    return row


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--side", type=int, default=512, help="N (512)")
    options_of.add_argument("--step", type=int, default=32, help="step of the scan in pixels (32)")
    options = options_of.parse_args()
    data, truth, probe = scan_of(options.side, options.step)
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
