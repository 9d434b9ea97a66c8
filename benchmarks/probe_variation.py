#!/usr/bin/env python3
"""A probe that drifts along the scan: is it noticed, and what does the object gain?

    python benchmarks/probe_variation.py                     every scan, the default settings
    python benchmarks/probe_variation.py --compare           with a constant probe, and with modes, too

A photograph (amplitude) and another (phase), 225 patterns of 64² on a jittered raster, 10⁶ photons each, by
NumPy alone. The probe drifts from the first pattern to the last by ``‖P_last − P_first‖ = 0.2 ‖P‖``: towards
a wave that is orthogonal to it, by its focus, or to and fro by its place. The other scans have a constant
probe and something else that is wrong. A row a scan: relative complex error, what was decided of the probe's
variation, R-factors, flags, seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ptycho
from benchmarks.panel import MARGIN, object_of, probe_of
from benchmarks.position_map import error_of

N, SIDE, STEP, DRIFT = 64, 15, 6, 0.2
DRIFTS = ("orthogonal", "focus", "place")
OTHERS = ("nothing", "probe", "positions", "flux", "background", "modes")
COMPARED = {
    "constant": {"probe_variation": 0},
    "modes": {"probe_variation": 0, "probe_modes": 2, "learn_probe": True},
}


def drifting(probe: np.ndarray, kind: str, times: np.ndarray) -> np.ndarray:
    """The probe at times from −½ to ½, ``(J, N, N)``, whose ends differ by ``DRIFT`` of its norm."""
    row, col = np.meshgrid(*(np.fft.fftfreq(N),) * 2, indexing="ij")
    if kind == "orthogonal":
        wave = probe * np.exp(2j * np.pi * (row + 2 * col) * 3) * (1 + np.fft.fftshift(col))
        wave -= probe * np.vdot(probe, wave) / np.vdot(probe, probe)
        wave *= np.linalg.norm(probe) / np.linalg.norm(wave)
        return probe + DRIFT * times[:, None, None] * wave
    phase, far = (row**2 + col**2) if kind == "focus" else row + 0.5 * col, np.abs(np.fft.fft2(probe)) ** 2
    phase -= (phase * far).sum() / far.sum()  # a factor of the probe changes no pattern

    def moved(amount: float) -> np.ndarray:
        return np.fft.ifft2(np.fft.fft2(probe) * np.exp(1j * amount * phase))

    slope = np.linalg.norm(moved(0.01) - moved(-0.01)) / 0.02 / np.linalg.norm(probe)
    return np.stack([moved(DRIFT / slope * t) for t in times])


def scan_of(name: str, photons: float, seed: int = 0) -> tuple[ptycho.Scan, np.ndarray]:
    """A scan by the name of what drifts or is wrong, and its object."""
    rng, probe = np.random.default_rng(seed), probe_of("lens", N)
    grid = STEP * np.stack(np.mgrid[:SIDE, :SIDE], -1).reshape(-1, 2).astype(float)
    places = np.round(grid + rng.uniform(-1.2, 1.2, grid.shape) + MARGIN).astype(int)
    image = object_of("c", N + int(places.max()) + MARGIN)
    times = np.linspace(-0.5, 0.5, len(places))
    if name == "place":  # a linear drift would be a shear of the object
        times = np.cos(2 * np.pi * times) / 2
    probes = drifting(probe, name, times) if name in DRIFTS else np.repeat(probe[None], len(places), axis=0)
    patches = np.stack([image[r : r + N, c : c + N] for r, c in places])
    light = np.abs(np.fft.fftshift(np.fft.fft2(probes * patches), axes=(1, 2))) ** 2
    if name == "modes":
        second = probe * np.fft.fftshift(np.fft.fftfreq(N))
        second *= 0.4 * np.linalg.norm(probe) / np.linalg.norm(second)
        light += np.abs(np.fft.fftshift(np.fft.fft2(second * patches), axes=(1, 2))) ** 2
    light *= photons / light.sum(axis=(1, 2)).mean()
    if name == "flux":
        light *= rng.uniform(0.8, 1.2, len(light))[:, None, None]
    if name == "background":
        light += 0.05 * photons / N**2
    given, told = probe, places.astype(float)
    if name == "probe":
        q = np.hypot(*np.ix_(*(np.fft.fftfreq(N),) * 2))
        given = np.fft.ifft2(np.fft.fft2(probe) * np.exp(60j * q**2))
    if name == "positions":
        told = told + rng.normal(0, 0.7, told.shape)
    return ptycho.Scan.from_arrays(rng.poisson(light), told, given, counts=True), image


def lit(result: ptycho.Result) -> np.ndarray:
    """What gets a tenth of the strongest light, ``(M, M)`` bool."""
    light = np.zeros(result.object.shape)
    for row, col in np.round(result.beam.positions).astype(int):
        light[row : row + N, col : col + N] += np.sum(np.abs(result.probe) ** 2, axis=0)
    return (light > 0.1 * light.max()) & result.mask


def measure(name: str, photons: float, settings: dict[str, int]) -> dict[str, object]:
    """Reconstruct a scan; return its row."""
    scan, image = scan_of(name, photons)
    began = time.perf_counter()
    result = ptycho.reconstruct(scan, half_scans=False, progress=False, **settings)
    told = {one.what: f"{one.value} ({one.why})" for one in result.decisions}
    return {
        "error": round(error_of(result.object, image, lit(result)) or np.nan, 4),
        "OPR modes": next((told[what] for what in told if "OPR" in what), "not offered"),
        "probe modes": len(result.probe),
        **{key: round(result.scores[key], 4) for key in ("r_factor", "r_noise", "deviance_holdout")},
        "flags": result.scores["flags"],
        "s": round(time.perf_counter() - began),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Reconstruct scans under a probe that drifts.")
    parser.add_argument(
        "--only", default=",".join((*OTHERS, *DRIFTS)), help="names of scans, comma-separated"
    )
    parser.add_argument("--photons", type=float, default=1e6, help="in a pattern (default: 1e6)")
    parser.add_argument("--compare", action="store_true", help="without a varying probe, too")
    args = parser.parse_args()
    for name in args.only.split(","):
        for way, settings in ({"default": {}} | (COMPARED if args.compare else {})).items():
            row = {"scan": name, "way": way} | measure(name, args.photons, settings)
            print(json.dumps(row, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
