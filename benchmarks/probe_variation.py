#!/usr/bin/env python3
"""A probe that drifts along the scan: are OPR modes selected, and do they improve the object?

    python benchmarks/probe_variation.py                every scan, the default settings
    python benchmarks/probe_variation.py --compare      also with a constant probe, and with modes

Photographs as amplitude and phase, 225 patterns of 64² on a jittered raster, 10⁶ photons each, by NumPy. The
probe drifts by ``‖P_last − P_first‖ = 0.2 ‖P‖``: towards a wave that is orthogonal to it, in focus, or back
and forth in position. Other scans have a constant probe and another imperfection, or both. Each scan has a
row: relative complex error, decisions on modes and OPR modes, scores, flags, seconds.
"""

from __future__ import annotations

import json
import time

import numpy as np

import ptycho
from benchmarks import parser
from benchmarks.photographs import defocused, error_within, object_of, probe_of, raster, side_of

N, SIDE, STEP, DRIFT = 64, 15, 6, 0.2
DRIFTS = ("orthogonal", "focus", "place")
OTHERS = ("nothing", "probe", "positions", "flux", "background", "modes")
TOGETHER = ("orthogonal+probe+positions", "focus+modes+flux", "orthogonal+background")
MODES = {"probe_variation": 0, "probe_modes": 2, "learn_probe": True}
WAYS: dict[str, dict] = {"default": {}, "constant": {"probe_variation": 0}, "modes": MODES}


def drifting(probe: np.ndarray, kind: str, times: np.ndarray) -> np.ndarray:
    """Return the probe at times from −½ to ½, ``(J, N, N)``, whose ends differ by ``DRIFT`` of its norm."""
    row, col = np.meshgrid(*(np.fft.fftfreq(N),) * 2, indexing="ij")
    far, norm = np.fft.fft2(probe), np.linalg.norm(probe)
    if kind == "orthogonal":
        wave = probe * np.exp(2j * np.pi * (row + 2 * col) * 3) * (1 + np.fft.fftshift(col))
        wave -= probe * np.vdot(probe, wave) / norm**2
        return probe + DRIFT * times[:, None, None] * wave * norm / np.linalg.norm(wave)
    phase = row**2 + col**2 if kind == "focus" else row + 0.5 * col
    phase = phase - np.average(phase, weights=np.abs(far) ** 2)  # a global phase changes no pattern
    slope = np.linalg.norm(phase * far) / np.linalg.norm(far)
    return np.fft.ifft2(far * np.exp(1j * DRIFT / slope * times[:, None, None] * phase))


def scan_of(name: str, photons: float = 1e6) -> tuple[ptycho.Scan, np.ndarray]:
    """Return a scan and its object; ``name`` joins drift and imperfection by +."""
    rng, probe, wrong = np.random.default_rng(0), probe_of("lens", N), name.split("+")
    places = raster(STEP, SIDE, rng).astype(int)
    image, times = object_of("c", side_of(places, N)), np.linspace(-0.5, 0.5, len(places))
    if "place" in wrong:  # a linear drift would be a shear of the object
        times = np.cos(2 * np.pi * times) / 2
    changes = [drifting(probe, kind, times) - probe for kind in DRIFTS if kind in wrong]
    probes = np.sum([np.repeat(probe[None], len(places), axis=0), *changes], axis=0)
    patches = np.stack([image[r : r + N, c : c + N] for r, c in places])
    intensity = np.abs(np.fft.fftshift(np.fft.fft2(probes * patches), axes=(1, 2))) ** 2
    if "modes" in wrong:
        second = probe * np.fft.fftshift(np.fft.fftfreq(N))
        second *= 0.4 * np.linalg.norm(probe) / np.linalg.norm(second)
        intensity += np.abs(np.fft.fftshift(np.fft.fft2(second * patches), axes=(1, 2))) ** 2
    intensity *= photons / intensity.sum(axis=(1, 2)).mean()
    if "flux" in wrong:
        intensity *= rng.uniform(0.8, 1.2, len(intensity))[:, None, None]
    intensity += 0.05 * photons / N**2 * ("background" in wrong)
    nominal = places + rng.normal(0, 0.7, places.shape) * ("positions" in wrong)
    initial = defocused(probe, 60) if "probe" in wrong else probe
    return ptycho.Scan.from_arrays(rng.poisson(intensity), nominal, initial, counts=True), image


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument(
        "--only", default=",".join((*OTHERS, *DRIFTS, *TOGETHER)), help="scans, comma-separated"
    )
    options_of.add_argument("--compare", action="store_true", help="also without a varying probe")
    args = options_of.parse_args()
    for name in args.only.split(","):
        for way in WAYS if args.compare else ("default",):
            (scan, image), began = scan_of(name), time.perf_counter()
            result = ptycho.reconstruct(scan, half_scans=False, progress=False, **WAYS[way])
            row = {"scan": name, "way": way}
            row["error"] = error_within(result.object, image, result.mask & result.illuminated)
            row["decided"] = [f"{one.what}: {one.value}" for one in result.decisions if "mode" in one.what]
            row |= {key: result.scores["beam"][key] for key in ("opr_modes", "probe_variation")}
            row |= {key: result.scores[key] for key in ("r_factor", "r_noise", "deviance_holdout", "flags")}
            print(json.dumps(row | {"s": round(time.perf_counter() - began)}), flush=True)


if __name__ == "__main__":
    main()
