"""Near fields: is the object reconstructed, and is a wrong one flagged? A Markdown table.

    python benchmarks/near_field.py [--only 4,12] [--probes none,right] [--photons 1e6]
    python benchmarks/near_field.py --only 12 --probes none --positions rotated,scaled,random,jump

Scans behind a diffuser are simulated in a window twice as wide as the detector
(:mod:`ptycho.simulation.near_field`), with 8 px between patterns on a spiral, and reconstructed with default
settings. The probe is not specified (``none``), specified as it is in the window of the detector (``right``),
or specified with errors of 10 % and 0.3 rad, 3 px wide (``errors``). ``farther``: the diffuser is five times
farther upstream of the sample, so that the illumination varies more.

The relative error, after one complex scale and phase plane, is that of the pixels in at least half as many
patterns as the pixel with the most. ``positions``: how the nominal ones are wrong, and their error before and
after, in pixels rms: rotated by 10°, scaled by 1.15, by chance by 3 px on each axis, or the second half of
them by (8, −5) px. ``flags``: those for a wrong image.
"""

from __future__ import annotations

import itertools
import time

import numpy as np
from scipy.ndimage import gaussian_filter

import ptycho
from benchmarks import parser
from benchmarks.photographs import rms
from benchmarks.tables import markdown
from ptycho.config.waves import Fresnel, wavelength_m
from ptycho.evaluation.metrics import align
from ptycho.report.wording import advice_of
from ptycho.scan.positions import rotation
from ptycho.simulation import near_field

ENERGY_EV, PITCH_M = 12e3, 5e-7
SIDE, PATTERNS, STEP_PX, COUNTED = 64, 36, 8.0, 0.5
NUMBERS = ("2", "4", "4 farther", "8", "12", "20", "30")
FARTHER = 5.0
ERROR, ERROR_RAD, ERROR_PX = 0.1, 0.3, 3.0
POSITIONS = {
    "right": lambda r, rng: r,
    "rotated": lambda r, rng: r @ rotation(10.0).T,
    "scaled": lambda r, rng: 1.15 * r,
    "random": lambda r, rng: r + 3.0 * rng.normal(size=r.shape),
    "jump": lambda r, rng: r + np.outer(np.arange(len(r)) >= len(r) // 2, (8.0, -5.0)),
}
COLUMNS = ("λz/dx²", "probe", "positions", "error", "R-factor", "noise", "unexplained", "flags", "seconds")


def simulate(name: str, photons: float) -> near_field.NearFieldScan:
    """Return the scan of a row, named as in the first column."""
    number, *farther = name.split()
    way, ahead = Fresnel(float(number), float(number)), FARTHER if farther else 1.0
    return near_field.simulate_near_field(SIDE, PATTERNS, STEP_PX, way, photons, ahead=ahead)


def specified_probe(truth: near_field.NearFieldScan, kind: str) -> np.ndarray | None:
    """Return the specified probe, ``(N, N)`` complex128, or None."""
    if kind == "none":
        return None
    wrong = gaussian_filter(
        np.random.default_rng(5).normal(size=(2, truth.N, truth.N)), (0, ERROR_PX, ERROR_PX)
    )
    wrong /= wrong.std()
    factor = (1 + ERROR * wrong[0]) * np.exp(1j * ERROR_RAD * wrong[1])
    return truth.photon_probe * (factor if kind == "errors" else 1)


def measure(truth: near_field.NearFieldScan, probe: np.ndarray | None, positions: np.ndarray) -> ptycho.Scan:
    """Return the scan as it is measured, in photons, with lengths that give its λz/dx²."""
    return ptycho.Scan.from_arrays(
        np.concatenate([*truth.counts(np.random.default_rng(1))]),
        positions,
        probe,
        counts=True,
        physics="near_field",
        energy_eV=ENERGY_EV,
        distance_m=truth.fresnel.row * PITCH_M**2 / wavelength_m(ENERGY_EV),
        detector_pixel_m=PITCH_M,
    )


def error_of(result: ptycho.Result, truth: near_field.NearFieldScan) -> float:
    """Return the relative error where at least ``COUNTED`` of the largest number of patterns overlap."""
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
    """Return a periodic image shifted by fractions of a pixel (row, col), by phases in Fourier space."""
    rows, cols = (np.exp(-2j * np.pi * s * np.fft.fftfreq(n)) for s, n in zip(by, image.shape, strict=True))
    return np.fft.ifft2(np.fft.fft2(image) * rows[:, None] * cols)


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--only", default=",".join(NUMBERS), help="rows, comma-separated (default: all)")
    options_of.add_argument("--probes", default="none,right,errors")
    options_of.add_argument("--positions", default="right", help=f"of {', '.join(POSITIONS)}")
    options_of.add_argument("--photons", type=float, default=1e6, help="photons per pattern (default: 1e6)")
    args = options_of.parse_args()
    rows = []
    for name in args.only.split(","):
        truth = simulate(name, args.photons)
        for kind, wrong in itertools.product(args.probes.split(","), args.positions.split(",")):
            nominal = POSITIONS[wrong](truth.positions, np.random.default_rng(3))
            scan, began = measure(truth, specified_probe(truth, kind), nominal), time.perf_counter()
            result = ptycho.reconstruct(scan)
            scores, error = result.scores, error_of(result, truth)
            flags = ", ".join(f"`{advice.flag}`" for advice in advice_of(scores) if advice.wrong) or "–"
            numbers = [f"{scores[key]:.3f}" for key in ("r_factor", "r_noise", "unexplained_variance")]
            off = [rms(positions, truth.positions) for positions in (nominal, result.beam.positions)]
            places = "{}: {:.2f} → {:.2f}".format(wrong, *off)
            row = [name, kind, places, f"{error:.3f}", *numbers, flags, f"{time.perf_counter() - began:.0f}"]
            rows.append(dict(zip(COLUMNS, row, strict=True)))
            print(*row, sep=" | ", flush=True)
    print(f"\n{markdown(rows)}")


if __name__ == "__main__":
    main()
