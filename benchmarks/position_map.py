#!/usr/bin/env python3
"""Affine position correction: are scale and rotation found, and correct positions left as they are?

    python benchmarks/position_map.py nominal            the true probe
    python benchmarks/position_map.py guessed            a probe that is estimated at the nominal positions
    python benchmarks/position_map.py jittered           positions with random errors of 0.7 px, too
    python benchmarks/position_map.py dim                10⁴ photons per pattern
    python benchmarks/position_map.py defocus            a probe of another defocus, and other errors
    python benchmarks/position_map.py astigmatism        a probe of another astigmatism
    python benchmarks/position_map.py gains              the score test that precedes the search
    python benchmarks/position_map.py electrons          the default command, no probe, rotated by −121°
    python benchmarks/position_map.py specified          likewise, few electrons and the specified defocus

Ten pairs of objects and probes of ``photographs.py``, 100 to 225 patterns of 64² with three lenses. The
nominal positions are the true ones: as they are, × 1.2, × 0.8, rotated by 5°, or sheared by a steady drift.
Each scan has a row: errors of the scale and rotation found, rms error of the positions before and after the
correction, whether scale or rotation is flagged, seconds. Electrons: 80 keV, 20 mrad, atoms of 0.5 rad on a
lattice, on one with defects, or at random, 225 patterns to 40 mrad (900 of few electrons). The error of the
image is the relative complex one, where the illumination exceeds a tenth of its maximum.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]

from benchmarks import parser
from benchmarks.photographs import (
    dataset,
    error_within,
    far_intensity,
    frequency,
    object_of,
    probe_of,
    raster,
    side_of,
)
from ptycho.align.affine_map import find_map, score_map, turn_in
from ptycho.align.initial_probe import find_other_probe, guess_probe
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.parameters import object_illumination
from ptycho.scan.dataset import Dataset
from ptycho.scan.optics import curvature_of, curved
from ptycho.scan.positions import rotation

N = 64
CASES = (
    *(
        ("a", "lens", 1e6, 6),
        ("b", "zone_plate", 1e5, 8),
        ("c", "electron", 1e6, 7),
        ("leaves", "lens", 1e5, 9),
    ),
    *(("d", "zone_plate", 1e7, 6), ("e", "electron", 1e5, 8), ("a", "zone_plate", 1e6, 9)),
    *(("leaves", "electron", 1e7, 7), ("b", "lens", 1e5, 7), ("c", "zone_plate", 1e6, 8)),
)
EDITS = {  # nominal positions = matrix · true ones
    "right": np.eye(2),
    "× 1.2": 1.2 * np.eye(2),
    "× 0.8": 0.8 * np.eye(2),
    "5°": rotation(5.0),
    "drift": np.array([[1.1, 0.0], [-0.3, 1.0]]),
}
WAVELENGTH_M, MRAD = 4.1757e-12, 1.25  # wavelength of 80 keV electrons; angle of a detector pixel
PIXEL_M = WAVELENGTH_M / (N * MRAD * 1e-3)
TURN = -121.0
ELECTRONS = (  # defocus in nm, object, electrons in a pattern
    *((50, "lattice", 1e5), (50, "defects", 1e5), (50, "random", 1e5), (-30, "lattice", 1e5)),
    *((-30, "defects", 1e5), (-50, "random", 1e4), (30, "defects", 1e4)),
)
SPECIFIED = "probe=aberrated", "probe.semi_angle_mrad=20"
FEW = ((30, "lattice", 2e3), (30, "defects", 2e3), (-20, "random", 2e3), (-20, "random", 500.0))
Row = dict[str, object]


def places(step: int, count: int | None = None, jitter: float = 0.2) -> np.ndarray:
    """Return true positions on a jittered grid, whole pixels, ``(J, 2)``."""
    return raster(step, count or max(8, -(-90 // step)), np.random.default_rng([0, step]), jitter)


def scan_of(case: tuple[str, str, float, int], matrix: np.ndarray, error_px: float = 0.0) -> Dataset:
    """Return a scan whose nominal positions are ``matrix (2, 2)`` times the true ones, plus random errors."""
    name, kind, photons, step = case
    rng, probe, true = np.random.default_rng(5), probe_of(kind, N), places(step)
    intensity = far_intensity(object_of(name, side_of(true, N)), probe, true)
    amplitudes = np.sqrt(rng.poisson(intensity * photons / intensity.sum(axis=(1, 2)).mean())).astype(
        np.float32
    )
    nominal = (true - true.mean(axis=0)) @ matrix.T + rng.normal(0, error_px, true.shape)
    power = np.mean(np.square(amplitudes, dtype=float).sum(axis=(1, 2)))
    return placed(amplitudes, probe * np.sqrt(power / np.sum(np.abs(probe) ** 2)), nominal)


def placed(amplitudes: np.ndarray, probe: np.ndarray, nominal: np.ndarray) -> Dataset:
    """Return a scan of patterns ``(J, N, N)`` of one object at positions ``(J, 2)`` px of any origin."""
    nominal = nominal - np.floor(nominal.min(axis=0)) + 6
    side = N + int(np.ceil(nominal.max())) + 7
    return dataset(amplitudes, probe, nominal, object_size=side, region_size=N + 2, exact=True)


def photons(way: str) -> Iterator[Row]:
    for name, kind, mean_dose, step in CASES:
        case = name, kind, 1e4 if way == "dim" else mean_dose, step
        for edit, matrix in EDITS.items():
            data = scan_of(case, matrix, 0.7 if way == "jittered" else 0.0)
            if way == "guessed":
                data = replace(data, beam=data.beam.with_probe(guess_probe(data).probe))
            began = time.perf_counter()
            position_map = find_map(data)
            found = np.eye(2) if position_map is None else position_map.matrix
            left = found @ matrix - np.eye(2)
            offsets = (places(step) - places(step).mean(axis=0)).T
            before, after = (
                float(np.sqrt(np.mean(np.sum((error @ offsets) ** 2, axis=0))))
                for error in (matrix - np.eye(2), left)
            )
            yield {
                "scan": f"{name} {kind} {case[2]:.0e} {step}",
                "nominal": edit,
                "scale error, %": 100 * (np.sqrt(np.linalg.det(found @ matrix)) - 1),
                "rotation error, °": turn_in(found @ matrix),
                "positions, rms px": f"{before:.1f} → {after:.2f}",
                "flagged": position_map is not None
                and bool(position_map.scale_differs or position_map.turn_differs),
                "s": time.perf_counter() - began,
            }


def defocus() -> Iterator[Row]:
    """Yield what is changed in scans whose probe has another defocus, or whose probe alone is right."""
    for name, kind, dose, step in CASES:
        data, scan = scan_of((name, kind, dose, step), np.eye(2)), f"{name} {kind} {dose:.0e} {step}"
        own = data.probe[0]
        for share in (-1, -0.5, 0.3, 0.5, 0.7, 1.5, 2):
            wrong = curved(own, (share - 1) * curvature_of(own))
            yield {"scan": scan, "defocus": share} | corrected(data, wrong)
        late = placed(data.amplitudes[:], own, np.roll(data.positions, 1, axis=0))
        mirrored = replace(data, amplitudes=np.ascontiguousarray(data.amplitudes[:][:, :, ::-1]))
        transposed = replace(data, amplitudes=np.ascontiguousarray(data.amplitudes[:].swapaxes(1, 2)))
        others = {"one late": late, "mirrored": mirrored, "transposed": transposed}
        for mean_dose in (3e3, 1e4, dose):
            others |= {
                f"{edit}, {mean_dose:.0e}": scan_of((name, kind, mean_dose, step), matrix)
                for edit, matrix in EDITS.items()
            }
        for edit, changed in others.items():
            found = find_other_probe(changed)
            yield {"scan": scan, "wrong": edit, "defocus changed": None if found is None else found.text}


def astigmatism() -> Iterator[Row]:
    """Yield what is changed in scans whose specified probe has another astigmatism, by a share of its c."""
    for case in CASES:
        data = scan_of(case, np.eye(2))
        own, name = data.probe[0], "{} {} {:.0e} {}".format(*case)
        for share in (-0.4, -0.2, 0.2, 0.4):
            wrong = curved(own, 0.0, share * curvature_of(own))
            yield {"scan": name, "astigmatism": share} | corrected(data, wrong)


def corrected(data: Dataset, wrong: np.ndarray) -> Row:
    """Return what the probe of a scan becomes if a ``wrong (N, N)`` one is specified, and the map there."""
    own, found = data.probe[0], find_other_probe(data.under_probe(wrong[None]))
    probe = wrong if found is None else found.of(wrong)
    position_map = find_map(data.under_probe(probe[None]))
    flagged = position_map is not None and (position_map.scale_differs or position_map.turn_differs)
    return {
        "overlap with the right probe": f"{overlap(wrong, own):.3f} → {overlap(probe, own):.3f}",
        "map": None if not flagged else position_map.text,
    }


def overlap(one: np.ndarray, two: np.ndarray) -> float:
    """Return ``|⟨P, Q⟩| / |P||Q|``."""
    return float(abs(np.vdot(one, two)) / np.linalg.norm(one) / np.linalg.norm(two))


def gains() -> Iterator[Row]:
    """Yield score tests of an affine map, for correct positions and for scales wrong by 2 to 20 %."""
    for name, kind, mean_dose, step in CASES:
        for dose in (mean_dose, 1e4):
            for scale in (1.0, 1.02, 1.03, 0.96, 0.8):
                found = score_map(scan_of((name, kind, dose, step), scale * np.eye(2)))
                assert found is not None
                share = found.chi2 / found.deviance
                row = {"scan": f"{name} {kind} {dose:.0e} {step}", "scale": scale}
                yield row | {"gain of χ²": found.chi2, "over the deviance": share}


def lens(defocus_nm: float) -> np.ndarray:
    """Return the probe of an aperture of 20 mrad, ``(N, N)``; positive is overfocus."""
    q = frequency(N, PIXEL_M)
    far = (WAVELENGTH_M * q < 20e-3) * np.exp(-1j * np.pi * WAVELENGTH_M * defocus_nm * 1e-9 * q**2)
    return np.fft.fftshift(np.fft.ifft2(far))


def atoms(side: int, kind: str) -> np.ndarray:
    """Return ``exp(iφ)``, φ ≤ 0.5 rad an atom, ``(side, side)``: two sorts on a lattice, or at random."""
    rng, a = np.random.default_rng(3), 3.16e-10 / PIXEL_M
    if kind != "random":
        i, j = np.mgrid[-60:60, -60:60]
        one = np.stack([i * a + j * a / 2, j * a * np.sqrt(3) / 2], -1).reshape(-1, 2)
        spots = np.concatenate([one, one + np.array([a / 2, a / np.sqrt(12)])])
        heights = np.repeat([1.0, 0.45], len(one))
        if kind == "defects":
            spots = spots + rng.normal(0, 0.3, spots.shape)
            heights *= rng.random(len(spots)) > 0.06
    else:
        spots = rng.uniform(0, side, (side**2 // 22, 2))
        heights = rng.uniform(0.2, 1, len(spots))
    near = ((spots > -5) & (spots < side + 5)).all(axis=1)
    rows, columns = np.mgrid[:side, :side]
    phase, width = np.zeros((side, side)), 0.5e-10 / PIXEL_M
    for (row, column), height in zip(spots[near], heights[near], strict=True):
        phase += height * np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / (2 * width**2))
    return np.exp(0.5j * phase)


def electrons(
    scans: Iterable[tuple[int, str, float]] = ELECTRONS,
    probe: Callable[[int], tuple[str, ...]] = lambda defocus: (),
    grid: tuple[int, int] = (7, 15),
) -> Iterator[Row]:
    """Yield a row for each scan.

    ``probe``: the keys of the specified probe, by the defocus in nm; ``grid``: step in pixels, and side.
    """
    for defocus, kind, dose in scans:
        rng, true = np.random.default_rng(1), places(*grid, 0.1)
        image = atoms(N + int(true.max()) + 20, kind)
        intensity = far_intensity(image, lens(defocus), true)
        counts = rng.poisson(intensity * dose / intensity.sum(axis=(1, 2)).mean()).astype(np.uint32)
        nominal = 1e10 * PIXEL_M * (true - true.mean(axis=0)) @ rotation(-TURN).T
        with tempfile.TemporaryDirectory() as name:
            file, out = Path(name) / "electrons.npz", Path(name) / "run"
            np.savez(file, diff3d=counts, xcoords=nominal[:, 1], ycoords=nominal[:, 0])
            keys = ("data.domain=counts", "data.unit=angstrom", "data.electrons_keV=80")
            began = time.perf_counter()
            subprocess.run(
                [
                    *(sys.executable, "scripts/scan_workflow.py", f"data.file={file}", f"output_dir={out}"),
                    *(*keys, f"data.detector_pixel_mrad={MRAD}", *probe(defocus)),
                ],
                check=True,
                cwd=ROOT,
            )
            metrics = json.loads((out / "metrics.json").read_text())
            with np.load(out / "recons" / "solver" / "recon.npz") as stored:
                found = stored["object"][0]
                beam = (stored[key] for key in ("probe", "positions", "flux"))
                illumination = object_illumination(Estimate(found, *beam, np.zeros((N, N))))
        row = metrics["solver"]
        yield {
            "defocus, nm": defocus,
            "object": kind,
            "electrons": dose,
            "rotation": metrics["findings"].get("rotation", ["not found"])[0],
            "error": error_within(found, image, illumination > 0.1 * illumination.max()),
            "r_factor": row["r_factor"],
            "r_noise": row["r_noise"],
            "flags": row["flags"],
            "s": time.perf_counter() - began,
        }


WAYS = {
    "defocus": defocus,
    "astigmatism": astigmatism,
    "gains": gains,
    "electrons": electrons,
    "specified": partial(electrons, FEW, lambda nm: (*SPECIFIED, f"probe.defocus_nm={nm}"), (2, 30)),
}


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("way", choices=("nominal", "guessed", "jittered", "dim", *WAYS))
    way = options_of.parse_args().way
    for row in WAYS[way]() if way in WAYS else photons(way):
        print(json.dumps(row, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
