#!/usr/bin/env python3
"""How much better are two sparse scans of one object together (`data.shared=both`) than each alone?

    python benchmarks/several_scans.py                 into outputs/several_scans

The object is a photograph, the probe a defocused lens (``photographs.py``). Two
rasters have the same step, one in the gaps of the other. The second has 1.3 times the photons, and its
nominal positions are rotated by half a degree and shifted by (3.3, −5.7) px; alone, each scan has its true
positions.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

import ptycho
from benchmarks.photographs import cut, error_of, far_intensity, object_of, probe_of
from benchmarks.tables import markdown

CELLS = [  # photons per pattern, step in pixels, whether the probe is known
    (1e5, 24, True),
    (1e6, 24, False),
    (1e6, 30, False),
    (1e6, 36, False),
]
TURN, SHIFT, FLUX, EDGE = np.deg2rad(0.5), np.array([3.3, -5.7]), 1.3, 12


def scans_of(photons: float, step: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """Return object, probe, true positions and counts of both scans."""
    rng, count, probe = np.random.default_rng(5), max(5, 180 // step), probe_of("lens", 64)
    grid = step * np.stack(np.mgrid[:count, :count], -1).reshape(-1, 2).astype(float)
    places = [grid + rng.uniform(-2, 2, grid.shape) + EDGE + offset for offset in (0, step / 2)]
    image = object_of("a", 64 + int(max(map(np.max, places))) + EDGE)
    intensity = [far_intensity(image, probe, positions) for positions in places]
    scale = photons / intensity[0].sum(axis=(1, 2)).mean()
    return (
        image,
        probe,
        places,
        [rng.poisson(scale * f * part) for f, part in zip((1, FLUX), intensity, strict=True)],
    )


def written(
    folder: Path, name: str, positions: np.ndarray, counts: np.ndarray, probe: np.ndarray | None
) -> Path:
    path = folder / f"{name}.npz"
    np.savez(path, patterns=counts, positions=positions, **({} if probe is None else {"probe": probe}))
    return path


def row_of(files: list[Path], truth: np.ndarray, probe: np.ndarray, places: np.ndarray, known: bool) -> tuple:
    keys = {"patterns": "patterns", "positions": "positions"} | ({"probe": "probe"} if known else {})
    shared = {"shared": "both"} if len(files) > 1 else {}
    begin = time.perf_counter()
    scan = ptycho.open_scan(files, keys=keys, unit="px", domain="counts", **shared)
    found = ptycho.reconstruct(scan, error_map=False)
    seconds = time.perf_counter() - begin
    corner = (found.beam.positions - places).mean(axis=0)
    error = error_of(cut(found.reconstruction.object, corner, len(truth)), truth, places, probe)
    return round(error, 4), round(seconds, 1), [str(one) for one in found.decisions if "place of" in one.what]


def main() -> None:
    out = Path("outputs/several_scans")
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for photons, step, known in CELLS:
        truth, probe, places, counts = scans_of(photons, step)
        c, s = np.cos(TURN), np.sin(TURN)
        middle = places[1].mean(axis=0)
        nominal = (places[1] - middle) @ np.array([[c, s], [-s, c]]) + middle + SHIFT
        with tempfile.TemporaryDirectory() as name:
            specified = probe if known else None
            files = [written(Path(name), k, places[j], counts[j], specified) for j, k in enumerate("ab")]
            alone = [row_of([files[j]], truth, probe, places[j], known) for j in (0, 1)]
            files[1] = written(Path(name), "b", nominal, counts[1], specified)
            both = row_of(files, truth, probe, np.concatenate(places), known)
        ratio = both[0] / min(one[0] for one in alone)
        values = photons, step, known, alone[0][0], alone[1][0], both[0], round(ratio, 2), both[1], *both[2]
        heads = ("photons", "step_px", "probe known", "first", "second", "both", "ratio", "seconds", "place")
        rows.append(dict(zip(heads, values, strict=False)))
        print(rows[-1], flush=True)
        (out / "several_scans.md").write_text(markdown(rows))


if __name__ == "__main__":
    main()
