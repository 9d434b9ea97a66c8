#!/usr/bin/env python3
"""Does the error map hold? A photograph is measured several times with a known beam.

    python benchmarks/error_map.py                          the three cells, 12 measurements each
    python benchmarks/error_map.py --cell 1e5 20 --object a --repeats 6 --prior edge_preserving

A cell has a number of photons per pattern and a step in px. Counted are pixels with more than a tenth of the
strongest illumination. The table has the percentage of them in which amplitude and phase of a measurement
are within one σ of their mean over the R measurements (68 % is expected; σ is multiplied by √((R − 1)/R),
because the mean contains each measurement), and within one σ of the truth, where the bias of the prior
counts, too. σ is the error map of the first measurement, or the bound of photon noise alone, for independent
pixels without a prior. The global phase, which no pattern determines, is removed. The seconds of the solver
and of the map are without compilation.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from benchmarks import parser
from benchmarks.panel import KNOWN, Cell, scan_of
from benchmarks.photographs import ILLUMINATED, far_intensity
from benchmarks.tables import markdown
from ptycho.reconstruction.maximum_likelihood import Solved, solve
from ptycho.reconstruction.selection import ModelOptions
from ptycho.reconstruction.uncertainty import map_errors, turn_towards
from ptycho.scan.dataset import Dataset
from ptycho.scan.reconstruction import covered, photon_noise

CELLS = ((1e6, 5), (1e4, 12), (1e5, 12))
COLUMNS = ("cell", "λ", "σ", "amplitude, mean / %", "phase, mean", "amplitude, truth", "phase, truth")
COLUMNS += ("median σ amplitude", "phase / rad", "solver / s", "map / s")
ROUNDS = 5  # alternations between the mean object and the phases relative to it


class Repeats(NamedTuple):
    """Objects ``(R, M, M)`` of R measurements and the truth ``(M, M)``, in phase with the mean object."""

    objects: np.ndarray
    truth: np.ndarray


def measurements(cell: Cell, count: int) -> list[Dataset]:
    """Return ``count`` measurements of a cell, each with photon noise of its own."""
    data, truth, probe = scan_of(cell)
    rate = data.photon_scale**2 * far_intensity(truth, probe, data.positions.astype(float))
    rngs = [np.random.default_rng([cell.step, k]) for k in range(count)]
    return [replace(data, amplitudes=np.sqrt(rng.poisson(rate)).astype(np.float32)) for rng in rngs]


def turned(objects: list[np.ndarray], truth: np.ndarray, illuminated: np.ndarray) -> Repeats:
    mean = objects[0].astype(complex)
    for _ in range(ROUNDS):
        same = np.array([turn_towards(mean, each.astype(complex), illuminated) for each in objects])
        mean = same.mean(axis=0)
    return Repeats(same, turn_towards(mean, truth, illuminated))


def coverage(
    repeats: Repeats, amplitude: np.ndarray, phase: np.ndarray, illuminated: np.ndarray
) -> list[float]:
    """Return the fractions within one σ: amplitude and phase against the mean, then against the truth."""
    found, truth = repeats
    count = len(found)
    rest = np.sqrt((count - 1) / count)
    size, mean = np.abs(found), found.mean(axis=0)
    pairs = [
        (size - size.mean(axis=0), rest * amplitude),
        (np.angle(found * mean.conj()), rest * phase),
        (size - np.abs(truth), amplitude),
        (np.angle(found * truth.conj()), phase),
    ]
    return [float(np.mean((np.abs(off) < sigma)[:, illuminated])) for off, sigma in pairs]


def run(cell: Cell, count: int, prior: str) -> list[dict[str, str]]:
    """Return two rows of the table: σ of the error map, and of photon noise alone."""
    _, truth, _ = scan_of(cell)
    scans = measurements(cell, count)
    illuminated = covered(scans[0], ILLUMINATED)[0]
    solved: list[Solved] = []
    for scan in scans:
        began = time.perf_counter()
        solved.append(solve(scan, ModelOptions(prior=prior, **KNOWN), 0))
        seconds = time.perf_counter() - began  # the last one counts: the first compiles
    first = solved[0]
    for _ in range(2):
        began = time.perf_counter()
        errors = map_errors(first.objective, first.estimate, covered(scans[0])[0], 0)
        mapping = time.perf_counter() - began
    repeats = turned([each.estimate.object for each in solved], truth, illuminated)
    noise = photon_noise(scans[0])[0]
    maps = {
        "map": (errors.amplitude[0], errors.phase[0]),
        "photon noise alone": (noise, noise / np.abs(first.estimate.object)),
    }
    strength = ", ".join(sorted({f"{each.objective.prior.strength:g}" for each in solved}))
    rows = []
    for name, sigmas in maps.items():
        shares = [f"{100 * share:.1f}" for share in coverage(repeats, *sigmas, illuminated)]
        medians = [f"{np.median(sigma[illuminated]):.4f}" for sigma in sigmas]
        texts = cell.name, strength, name, *shares, *medians, f"{seconds:.1f}", f"{mapping:.1f}"
        rows.append(dict(zip(COLUMNS, texts, strict=True)))
    return rows


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--cell", nargs=2, action="append", metavar=("PHOTONS", "STEP"))
    options_of.add_argument("--object", default="c")
    options_of.add_argument("--repeats", type=int, default=12)
    options_of.add_argument("--prior", default=ModelOptions.prior, help="regulariser (learned)")
    options = options_of.parse_args()
    rows = []
    for photons, step in options.cell or CELLS:
        cell = Cell(options.object, "lens", float(photons), int(step))
        rows += run(cell, options.repeats, options.prior)
        print(rows[-2:], flush=True)
    print(markdown(rows))


if __name__ == "__main__":
    main()
