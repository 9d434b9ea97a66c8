"""Near fields: how well the object is found, and whether a user is warned where it is not: a Markdown table.

    python benchmarks/near_field.py [--only 4,12] [--probes none,right] [--photons 1e6] [--side 64]

Scans behind a diffuser are simulated in a window twice as wide as the detector
(:mod:`ptycho.simulation.near_field`), their patterns 8 px apart on a spiral, and reconstructed by the default
call. The probe is not specified (``none``), specified as it is on the detector's window (``right``), or with
errors of 10 % and 0.3 rad, 3 px wide (``errors``). ``farther``: the diffuser is five times as far before the
sample, so that the illumination varies more.

Scored is what at least half of the most patterns saw, against the truth, in one frame: relative error less
scale, phase and phase plane. ``flags``: those that say that the image is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ptycho
from ptycho.config.waves import Fresnel, wavelength_m
from ptycho.evaluation.metrics import align
from ptycho.evaluation.trust import WRONG
from ptycho.simulation import near_field

ENERGY_EV, PITCH_M = 12e3, 5e-7
STEP_PX, COUNTED = 8.0, 0.5
NUMBERS = ("2", "4", "4 farther", "8", "12", "20", "30")
FARTHER = 5.0
ERROR, ERROR_RAD, ERROR_PX = 0.1, 0.3, 3.0
COLUMNS = ("λz/dx²", "probe", "error", "R-factor", "noise", "unexplained", "flags", "seconds")


def simulate(name: str, side: int, patterns: int, photons: float) -> near_field.NearFieldScan:
    """The scan of a row, by the name of its first column."""
    number, *farther = name.split()
    way, ahead = Fresnel(float(number), float(number)), FARTHER if farther else 1.0
    return near_field.simulate_near_field(side, patterns, STEP_PX, way, photons, ahead=ahead)


def specified_probe(truth: near_field.NearFieldScan, kind: str) -> np.ndarray | None:
    """The specified probe, ``(N, N)`` complex128, or None."""
    if kind == "none":
        return None
    wrong = gaussian_filter(
        np.random.default_rng(5).normal(size=(2, truth.N, truth.N)), (0, ERROR_PX, ERROR_PX)
    )
    wrong /= wrong.std()
    factor = (1 + ERROR * wrong[0]) * np.exp(1j * ERROR_RAD * wrong[1])
    return truth.photon_probe * (factor if kind == "errors" else 1)


def measure(truth: near_field.NearFieldScan, probe: np.ndarray | None) -> ptycho.Scan:
    """The scan as it is measured, in photons, with the lengths that lead to its λz/dx²."""
    return ptycho.Scan.from_arrays(
        np.concatenate([*truth.counts(np.random.default_rng(1))]),
        truth.positions,
        probe,
        counts=True,
        physics="near_field",
        energy_eV=ENERGY_EV,
        distance_m=truth.fresnel.row * PITCH_M**2 / wavelength_m(ENERGY_EV),
        detector_pixel_m=PITCH_M,
    )


def error_of(result: ptycho.Result, truth: near_field.NearFieldScan) -> float:
    """Relative error of the object where at least ``COUNTED`` of the most patterns were."""
    positions, side = result.beam.positions, len(result.object)
    off = (positions + (result.beam.probe.shape[-1] - truth.N) / 2 - truth.positions).mean(axis=0)
    whole = np.floor(off).astype(int)
    known = shifted(truth.sample, off - whole)
    row, col = truth.margin - whole
    known, counted = known[row : row + side, col : col + side], np.zeros((side, side))
    for r, c in np.round(truth.positions + off).astype(int):
        counted[r : r + truth.N, c : c + truth.N] += 1
    illuminated = (counted >= COUNTED * counted.max()) & result.mask
    found = align(result.object, known, illuminated).object
    return float(np.linalg.norm((found - known)[illuminated]) / np.linalg.norm(known[illuminated]))


def shifted(image: np.ndarray, by: np.ndarray) -> np.ndarray:
    """A periodic image moved by fractions of a pixel (row, col), by the phases of its spectrum."""
    rows, cols = (np.exp(-2j * np.pi * s * np.fft.fftfreq(n)) for s, n in zip(by, image.shape, strict=True))
    return np.fft.ifft2(np.fft.fft2(image) * rows[:, None] * cols)


def main() -> int:
    parser = argparse.ArgumentParser(description="Reconstruct near fields of several λz/dx².")
    parser.add_argument("--only", default=",".join(NUMBERS), help="rows, comma-separated (default: all)")
    parser.add_argument("--probes", default="none,right,errors")
    parser.add_argument("--photons", type=float, default=1e6, help="in a pattern (default: 1e6)")
    parser.add_argument("--side", type=int, default=64, help="of the detector, pixels (default: 64)")
    parser.add_argument("--patterns", type=int, default=36)
    args = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for name in args.only.split(","):
        truth = simulate(name, args.side, args.patterns, args.photons)
        for kind in args.probes.split(","):
            scan, began = measure(truth, specified_probe(truth, kind)), time.perf_counter()
            result = ptycho.reconstruct(scan)
            scores, error = result.scores, error_of(result, truth)
            flags = ", ".join(f"`{flag}`" for flag in scores["flags"] if flag in WRONG) or "–"
            numbers = [f"{scores[key]:.3f}" for key in ("r_factor", "r_noise", "unexplained_variance")]
            row = [name, kind, f"{error:.3f}", *numbers, flags, f"{time.perf_counter() - began:.0f}"]
            print(f"| {' | '.join(row)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
