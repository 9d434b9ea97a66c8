#!/usr/bin/env python3
"""Are position jumps of tens of pixels corrected, and correct positions left as they are?

    python benchmarks/position_slips.py            scans with wrong positions: a row each, and the table
    python benchmarks/position_slips.py right      correct scans of many kinds
    python benchmarks/position_slips.py others     wrong positions with other objects, one of 2500 patterns
    python benchmarks/position_slips.py maps       the whole preparation of scans with drifts and wrong maps

400 patterns of 64² with 10⁶ photons on a raster of 5 px back and forth (object ``a`` and probe ``lens`` of
``photographs.py``). The nominal positions are the true ones plus an error: 5 or
20 % of the patterns jump by 8 to 30 px in any direction, the last third of the scan is shifted by 25 px,
every second row by 12 px (backlash), or the stage drifts by 30 px (``maps``: also a drift that slows down,
28 px). The initial probe is the true one, or it is out of focus by 60 rad·px² and refined.

Positions: rms error after the common (median) shift is subtracted. Object: relative complex error of the
solver's object (no regularisation, 100 steps). It starts from the nominal, found and true positions, and
refines them in all three cases.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import ptycho
from benchmarks import parser
from benchmarks.photographs import (
    defocused,
    error_within,
    far_intensity,
    object_of,
    probe_of,
    rms,
    second_mode,
)
from benchmarks.position_map import placed
from benchmarks.tables import markdown
from ptycho.align.aligned import RunContext
from ptycho.align.cached import align
from ptycho.align.position_jumps import find_jumps
from ptycho.config import ScanRunConfig
from ptycho.methods.prepared import prepare
from ptycho.reconstruction.maximum_likelihood import solve
from ptycho.reconstruction.parameters import object_illumination
from ptycho.reconstruction.selection import ModelOptions
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import flags_of, warnings_of

N, ROOM, DEFOCUS = 64, 40, 60.0
KINDS = ("5 % jumps", "20 % jumps", "one jump", "backlash", "drift")
Row = dict[str, object]


class Case(NamedTuple):
    """A scan: object, probe, photons per pattern, step (px), path, and what is wrong besides positions."""

    object: str = "a"
    probe: str = "lens"
    photons: float = 1e6
    step: int = 5
    side: int = 20
    spiral: bool = False
    spoilt: str = "nothing"


RIGHT = (
    *(Case(), Case(step=3), Case(step=12, side=10), Case(step=20, side=8), Case(step=8, side=5)),
    *(Case(step=8, side=14, spiral=True), Case(step=20, side=6, spiral=True)),
    *(Case(photons=1e5), Case(photons=1e4), Case(photons=1e3), Case(photons=1e4, step=12, side=10)),
    *(Case("leaves", "zone_plate"), Case("c", "electron", 1e5, 7, 12), Case("a", "electron", 1e6, 14, 10)),
    *(Case(spoilt="defocus"), Case("b", "zone_plate", 1e6, 10, 10, spoilt="defocus")),
    *(Case(spoilt="modes"), Case(step=12, side=12, photons=1e5, spoilt="modes"), Case(spoilt="frames")),
)

OTHERS = (
    *(Case("leaves", "zone_plate"), Case("b", photons=1e5, step=7), Case("c", "electron", 1e6, 7)),
    Case("a", side=50),
)

MAPPED = (
    *(Case("leaves", "zone_plate"), Case("b", photons=1e5, step=7), Case("c", "electron", 1e6, 7), Case()),
    *(Case("c", "zone_plate", 1e5, 5, 16), Case("a", "electron", 1e6, 8, 14), Case("a", side=50)),
)
MAPS = {"positions × 1.2": 1.2, "positions × 0.8": 0.8, "rotated by 5°": np.exp(1j * np.deg2rad(5))}
OTHER_KINDS = ("drift", "slowing drift", "one jump", "backlash", "5 % jumps")


def places(case: Case) -> np.ndarray:
    """Return positions ``(J, 2)`` px: Fermat's spiral, or a raster with a jitter of a tenth of the step."""
    if case.spiral:
        k = np.arange(case.side**2) + 0.5
        turn, radius = k * np.pi * (3 - 5**0.5), case.step * np.sqrt(k / np.pi)
        found = np.stack([radius * np.sin(turn), radius * np.cos(turn)], -1)
    else:
        rows, columns = np.mgrid[: case.side, : case.side]
        columns[1::2] = columns[1::2, ::-1]
        off = np.random.default_rng(case.step).uniform(-0.1, 0.1, (case.side**2, 2))
        found = case.step * (np.stack([rows, columns], -1).reshape(-1, 2) + off)
    return np.round(found - found.min(axis=0)) + ROOM


def errors(kind: str, case: Case) -> np.ndarray:
    """Return nominal minus true positions, ``(J, 2)`` px."""
    count, rng = case.side**2, np.random.default_rng(1)
    found = np.zeros((count, 2))
    if kind.endswith("jumps"):
        chosen = rng.choice(count, count * int(kind.split()[0]) // 100, replace=False)
        angle, length = rng.uniform(0, 2 * np.pi, len(chosen)), rng.uniform(8, 30, len(chosen))
        found[chosen] = (length * np.stack([np.sin(angle), np.cos(angle)])).T
    elif kind == "one jump":
        found[2 * count // 3 :] = 15, 20
    elif kind == "backlash":
        found[np.arange(count) // case.side % 2 == 1] = 0, 12
    elif kind == "drift":
        found += np.linspace(0, 1, count)[:, None] * (24, -18)
    elif kind == "slowing drift":
        found += (1 - np.exp(-3 * np.linspace(0, 1, count)))[:, None] * (24, -18)
    elif kind in MAPS:
        z = (places(case) - places(case).mean(axis=0)) @ (1, 1j) * (MAPS[kind] - 1)
        found = np.stack([z.real, z.imag], -1)
    return found


def scan_of(case: Case, error: np.ndarray) -> tuple[Dataset, np.ndarray, np.ndarray]:
    """Return the scan as its file has it, its true positions ``(J, 2)`` px, and the object."""
    rng, probe, true = np.random.default_rng(5), probe_of(case.probe, N), places(case)
    image = object_of(case.object, N + int(true.max()) + ROOM)
    intensity = far_intensity(image, probe, true)
    if case.spoilt == "modes":
        intensity += far_intensity(image, second_mode(probe, 0.15), true)
    counts = rng.poisson(intensity * case.photons / intensity.sum(axis=(1, 2)).mean()).astype(float)
    if case.spoilt == "frames":  # dark, hot, dimmed
        counts[37], counts[222] = rng.poisson(3, (N, N)), rng.poisson(case.photons / N**2, (N, N))
        counts[300] *= 0.3
    if case.spoilt == "defocus":
        probe = defocused(probe, DEFOCUS)
    probe = probe * np.sqrt(counts.sum(axis=(1, 2)).mean() / np.sum(np.abs(probe) ** 2))
    return placed(np.sqrt(counts), probe, true + error), true, image


def error_at(data: Dataset, positions: np.ndarray, image: np.ndarray, refine_probe: bool) -> float | None:
    """Return the relative complex error of the solver's object, which starts from ``positions (J, 2)`` px."""
    scan = placed(data.amplitudes[:], data.probe[0], positions)
    options = ModelOptions(
        probe=refine_probe, positions=True, flux=False, background=False, modes=1, prior="none", steps=100
    )
    estimate = solve(scan, options, 0).estimate
    illumination = object_illumination(estimate)
    return error_within(estimate.object, image, illumination > 0.1 * illumination.max())


def row_of(case: Case, kind: str, refine_probe: bool) -> Row:
    data, true, image = scan_of(case, errors(kind, case))
    nominal, began = data.positions, time.perf_counter()
    jumps = find_jumps(data, refine_probe)
    seconds, found = time.perf_counter() - began, data.positions + jumps.moves
    return {
        "scan": " ".join(map(str, case[:-2])),
        "errors": kind,
        "probe": "refined" if refine_probe else "initial",
        "positions, px": [rms(places, true, np.median) for places in (nominal, found)],
        "object": [error_at(data, places, image, refine_probe) for places in (nominal, found, true)],
        "reported as": jumps.text if jumps.moved.any() else "nothing",
        "flagged": jumps.lost,
        "s": seconds,
    }


def program_row(case: Case, kind: str, initial_probe: bool) -> Row:
    """Prepare a scan with its whole alignment, and return the row of its decisions."""
    data, true, _ = scan_of(case, errors(kind, case))
    probe = data.probe[0] if initial_probe else None
    patterns = np.rint(data.amplitudes[:].astype(float) ** 2)
    scan = ptycho.Scan.from_arrays(patterns, data.positions, probe, counts=True)
    began = time.perf_counter()
    context = RunContext(Path(tempfile.gettempdir()), bar=False)
    config = ScanRunConfig(data=scan.data)
    aligned = align(scan.geometry, config, context)
    prepared = prepare(scan.name, aligned)
    open_still = (
        [] if prepared.alternative is None else [prepared.alternative.kept]
    )  # until the scan is fitted
    return {
        "scan": " ".join(map(str, case[:-2])),
        "errors": kind,
        "probe": "initial" if initial_probe else "guessed",
        "positions, px": [
            rms(data.positions, true, np.median),
            rms(prepared.whole.positions, true[prepared.scan.frames], np.median),
        ],
        "reported as": [
            decision.value for decision in prepared.decisions if decision.what.startswith("positions")
        ],
        "warnings": [*prepared.scan.warnings, *warnings_of(prepared.decisions)],
        "flagged": flags_of([*prepared.decisions, *open_still]),
        "s": time.perf_counter() - began,
    }


def wrong() -> Iterator[Row]:
    for refine_probe in (False, True):
        for kind in KINDS:
            yield row_of(Case(spoilt="defocus" if refine_probe else "nothing"), kind, refine_probe)


def right() -> Iterator[Row]:
    for case in RIGHT:
        for refine_probe in (True, False):
            data, _, _ = scan_of(case, np.zeros((case.side**2, 2)))
            began = time.perf_counter()
            jumps = find_jumps(data, refine_probe)
            yield {
                "scan": " ".join(map(str, case)),
                "probe": "refined" if refine_probe else "initial",
                "moved": int(np.any(jumps.moves != 0, axis=1).sum()),
                "flagged": jumps.lost,
                "s": time.perf_counter() - began,
            }


def others() -> Iterator[Row]:
    for case in OTHERS:
        for kind in KINDS:
            yield row_of(case, kind, True)


def maps() -> Iterator[Row]:
    """Yield rows of scans with drifts and affine maps; a steady drift is an affine map, too."""
    for case in MAPPED:
        for kind in (*MAPS, *(OTHER_KINDS if case.side < 50 else OTHER_KINDS[:1])):
            yield program_row(case, kind, True)
    for case in MAPPED[:4]:
        for kind in MAPS:
            yield program_row(case, kind, False)


def line(row: Row) -> Row:
    """Return a row of the table, as text."""
    texts = dict(row)
    if "positions, px" in row:
        texts["positions, px"] = "{:.1f} → {:.2f}".format(*row["positions, px"])  # type: ignore[misc]
    if "object" in row:
        texts["object"] = "{:.3f} → {:.3f} ({:.3f})".format(*row["object"])  # type: ignore[misc]
    words = {key: ", ".join(value) or "–" for key, value in texts.items() if isinstance(value, list)}
    return texts | words | {"s": f"{row['s']:.0f}"}


WAYS = {"wrong": wrong, "right": right, "others": others, "maps": maps}


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("way", nargs="?", default="wrong", choices=WAYS)
    way, rows = options_of.parse_args().way, []
    for row in WAYS[way]():
        print(json.dumps(row, ensure_ascii=False), flush=True)
        rows.append(row)
    print(markdown(list(map(line, rows))))


if __name__ == "__main__":
    main()
