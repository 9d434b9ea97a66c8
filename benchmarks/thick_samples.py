#!/usr/bin/env python3
"""Thick samples: is the number of slices selected correctly, and do slices improve the object?

    python benchmarks/thick_samples.py                  every sample, by default and as a thin object

Photographs as amplitude and phase of each slice, 144 patterns of 64² on a jittered raster at 8 keV, pixels of
10 nm, by NumPy: angular spectrum between slices, in double precision. A sample is named by its number of
slices, their distance in depths of field (5 dx²/λ = 3.2 µm), and photons per pattern. The slices share the
phase of a photograph; in ``strong`` each has twice that phase. In ``alike`` all slices are the same. Each
sample has a row: slices found, relative complex errors of each slice (without its phase ramp, which
neighbouring slices may share) and of their product, deviance of held-out patterns, CPU seconds.
"""

from __future__ import annotations

import json
import time

import numpy as np

import ptycho
from benchmarks import parser
from benchmarks.photographs import error_within, object_of, probe_of, raster, side_of
from ptycho.config.waves import wavelength_m
from ptycho.evaluation.alignment import align, in_frame
from ptycho.evaluation.metrics import relative_error
from ptycho.scan.ramp import phase_slope, tilted

N, SIDE, STEP, ENERGY_EV, PIXEL_M = 64, 12, 6, 8000.0, 1e-8
DEPTH_M = 5 * PIXEL_M**2 / wavelength_m(ENERGY_EV)
SAMPLES = ["1 0 1e7", "1 0 1e5", "2 1 1e7", "2 .5 1e7", "2 2 1e7", "2 1 1e5", "3 1 1e7", "4 .5 1e5 alike"]
SAMPLES += ["2 2 1e7 strong", "3 2 1e7 strong"]


def slices_of(count: int, kind: str, side: int) -> np.ndarray:
    """Return the slices ``(L, M, M)``, each with an equal part of the phase, or ``strong``."""
    names = ("c", "a", "b", "leaves")[:count]
    images = [object_of(names[0 if kind == "alike" else k], side) for k in range(count)]
    amplitudes, phases = np.abs(images) ** (1 / count), np.angle(images)
    return amplitudes * np.exp(1j * phases * (2 if kind == "strong" else 1 / count))


def intensity_of(slices: np.ndarray, probe: np.ndarray, places: np.ndarray, distance: float) -> np.ndarray:
    """Return intensities ``(J, N, N)``, zero frequency at N//2."""
    squares = np.add.outer(*(np.fft.fftfreq(N, PIXEL_M) ** 2,) * 2)
    wavelength = wavelength_m(ENERGY_EV)
    transfer = np.exp(2j * np.pi * distance * (np.sqrt(wavelength**-2 - squares) - 1 / wavelength))
    found = []
    for row, col in places:
        parts = slices[:, row : row + N, col : col + N]
        wave = probe * parts[0]
        for part in parts[1:]:
            wave = part * np.fft.ifft2(transfer * np.fft.fft2(wave))
        found.append(np.abs(np.fft.fftshift(np.fft.fft2(wave))) ** 2)
    return np.stack(found)


def scan_of(name: str) -> tuple[ptycho.Scan, np.ndarray]:
    """Return the scan of a sample, and its slices."""
    count, depths, photons, *kind = name.split()
    rng, probe = np.random.default_rng(0), probe_of("lens", N)
    places = raster(STEP, SIDE, rng).astype(int)
    slices = slices_of(int(count), " ".join(kind), side_of(places, N))
    intensity = intensity_of(slices, probe, places, float(depths) * DEPTH_M)
    counts = rng.poisson(intensity * float(photons) / intensity.sum(axis=(1, 2)).mean())
    lengths = {"pixel_m": PIXEL_M, "energy_eV": ENERGY_EV}
    return ptycho.Scan.from_arrays(counts, places.astype(float), probe, counts=True, **lengths), slices


def error_of_slice(found: np.ndarray, truth: np.ndarray, mask: np.ndarray) -> float | None:
    """Return the relative complex error of a slice without its phase ramp, which slices may share."""
    known, there = in_frame(truth.astype(np.complex64), np.where(mask, found, 0), mask)
    image = np.where(there, found, 0)
    image = tilted(image, -phase_slope(image, np.where(there, known, 0)))
    return relative_error(align(image, known, there).object, known)


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--only", default=",".join(SAMPLES), help='samples, comma-separated: "2 1 1e7"')
    for name in options_of.parse_args().only.split(","):
        scan, slices = scan_of(name)
        for way, settings in {"default": {}, "thin": {"slices": 1}}.items():
            began = time.process_time()
            result = ptycho.reconstruct(scan, half_scans=False, progress=False, **settings)
            seconds, known = time.process_time() - began, result.mask & result.illuminated
            found = [] if result.slices is None else result.slices
            row = {"sample": name, "way": way, "slices": len(found) or 1}
            if len(found):
                row["depths"] = round(result.product.slice_thickness_m / DEPTH_M, 3)
            if len(found) == len(slices):
                row["each"] = [error_of_slice(*pair, known) for pair in zip(found, slices, strict=True)]
            row["product"] = error_within(result.object, slices.prod(axis=0), known)
            row |= {key: result.scores[key] for key in ("deviance_holdout", "r_free", "r_noise", "flags")}
            decided = [one.value for one in result.decisions if one.what == "solver: regulariser"]
            print(json.dumps(row | {"regulariser": decided, "cpu_s": round(seconds)}), flush=True)


if __name__ == "__main__":
    main()
