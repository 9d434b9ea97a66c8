#!/usr/bin/env python3
"""How accurate is the product? Scans of photographs, simulated without our simulator.

    python benchmarks/panel.py                       every cell without a result, into outputs/panel
    python benchmarks/panel.py --only 1e+04          cells whose names contain this text
    python benchmarks/panel.py --lsqml python        also LSQ-ML of pty-chi, by a Python that has it
    python benchmarks/panel.py --pmace python        also PMACE of xptycho
    python benchmarks/panel.py --course --lsqml python    error against seconds of three cells, a picture
    python benchmarks/panel.py --candidates          every regulariser that is compared (beam known)
    python benchmarks/panel.py --command             also the whole command, align to assess
    python benchmarks/panel.py --pictures            six reconstructions at 10⁴ photons, and their errors

Objects and probes are those of ``photographs.py``, counts are Poisson. ``drift``: positions that drift
smoothly by some pixels, and a probe out of focus; ``frames``: one pattern in thirty is that of another
position; ``faint``: the 0.1th power of the object, so phases of .15 rad, and .6 of the probe's defocus in the
file; ``descan``: patterns that shift on the detector with the position, by about 1.5 px across the scan;
``spread``: a detector whose Gaussian point spread has σ = .8 px, and a probe out of focus.

Each cell has a row: relative complex error and seconds. The columns are the likelihood alone; the
edge-preserving regulariser with the weight that the program chooses; the solver with its default decisions;
LSQ-ML after 500 epochs (it always refines the probe, and the positions where they are unknown; seconds of
pty-chi alone); PMACE after 500 iterations (with the specified probe where the beam is known); and the
decisions. A cell with a result is not run again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.ndimage import gaussian_filter

import ptycho
from benchmarks import parser
from benchmarks.photographs import (
    cut,
    dataset,
    defocused,
    error_of,
    far_intensity,
    illuminated,
    object_of,
    probe_of,
    raster,
    second_mode,
    side_of,
)
from benchmarks.study import framework
from benchmarks.tables import markdown
from ptycho.config import LsqmlConfig
from ptycho.evaluation.metrics import align
from ptycho.reconstruction import lsqml
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.maximum_likelihood import solve
from ptycho.reconstruction.model_selection import select_model
from ptycho.reconstruction.regulariser_selection import select_regulariser
from ptycho.reconstruction.selection import ModelOptions
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import energy_diameter
from ptycho.scan.reconstruction import Reconstruction

OBJECTS = ("a", "b", "c", "leaves")
EPOCHS = 500
# the beam is not refined
KNOWN = dict.fromkeys(("probe", "positions", "flux", "background", "point_spread"), False)
WAYS = {  # name in the table; marker and colour in the picture
    "likelihood": ("likelihood alone", "x", "0.6"),
    "classical": ("edge-preserving", "|", "tab:blue"),
    "product": ("product", "o", "tab:blue"),
    "command": ("whole command", ".", "tab:green"),
    "lsqml": ("LSQ-ML", "s", "tab:orange"),
    "pmace": ("PMACE", "d", "tab:brown"),
}
SHOWN = tuple(f"{name} lens 1e+04 {step} nothing" for step in (12, 20) for name in ("b", "c", "leaves"))
COURSE = ("a lens 1e+06 5 nothing", "c lens 1e+06 12 nothing", "c lens 1e+04 12 nothing")
COURSE_EPOCHS = (3, 10, 30, 100, 300)
DESCAN = np.array([[0.025, 0.008], [-0.006, 0.028]])  # detector pixels for one of the position
Row = dict[str, object]


class Cell(NamedTuple):
    """A scan: object, probe, photons per pattern, step (px), what is wrong in its file, and N."""

    object: str
    probe: str
    photons: float
    step: int
    wrong: str = "nothing"
    side: int = 64

    @property
    def name(self) -> str:
        side = "" if self.side == 64 else f" N{self.side}"
        return f"{self.object} {self.probe} {self.photons:.0e} {self.step} {self.wrong}{side}"

    @property
    def stored(self) -> framework.Cell:
        return framework.Cell(name=self.name.replace(" ", "_"), settings=self._asdict())

    @property
    def beam(self) -> dict[str, bool]:
        """Options of the solver: what is known is not refined."""
        return KNOWN if self.wrong == "nothing" else {}


def cells() -> Iterator[Cell]:
    for photons in (1e4, 1e5, 1e6, 1e8):
        for step in (5, 12, 20):
            yield from (Cell(name, "lens", photons, step) for name in OBJECTS)
    yield from (
        Cell("a", probe, photons, 8) for probe in ("zone_plate", "electron") for photons in (1e4, 1e6)
    )
    yield from (Cell("a", "lens", 1e6, 5, wrong) for wrong in ("probe", "positions", "modes", "background"))
    yield from (Cell("a", "lens", 1e6, 8, wrong) for wrong in ("refined", "all"))
    yield from (Cell("relief", "lens", photons, step) for photons, step in ((1e4, 12), (1e4, 20), (1e6, 20)))
    yield from (Cell("c", "lens", photons, 12, side=128) for photons in (1e4, 1e6))
    for wrong in ("fraction", "slight", "finer"):  # errors that a background or flux could imitate
        yield from (Cell(name, "lens", photons, 8, wrong) for name in OBJECTS for photons in (1e5, 1e6))
    yield from (Cell(name, "lens", 1e6, 8, wrong) for wrong in ("drift", "frames") for name in OBJECTS)
    yield from (Cell(name, "lens", photons, 8, "faint") for name in OBJECTS for photons in (1e5, 1e6))
    yield from (Cell(name, "lens", photons, 8, "descan") for name in OBJECTS for photons in (1e4, 1e6))
    yield from (Cell(name, "lens", 1e6, 8, "spread") for name in OBJECTS)


def drift_of(count: int) -> np.ndarray:
    """Return errors ``(count, 2)`` of positions that drift smoothly by some pixels, (row, col)."""
    time = np.linspace(0, 1, count)
    return 6 * np.column_stack([np.sin(2.2 * time) - 0.8 * time**2, time**2 - 0.25 * np.sin(5 * time)])


def intensity_of_finer(object_: np.ndarray, probe: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return ``|F(P·O)|²`` on the detector of ``probe (N, N)``, for object pixels of half the length."""
    N = len(probe)
    far = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(probe)))
    fine = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(np.pad(far, N // 2))))
    return far_intensity(object_, fine, 2 * positions)[:, N // 2 : -N // 2, N // 2 : -N // 2]


def scan_of(cell: Cell) -> tuple[Dataset, np.ndarray, np.ndarray]:
    """Return the scan as its file has it, the true object, and the true probe ``(N, N)``."""
    rng, N, probe = np.random.default_rng(11), cell.side, probe_of(cell.probe, cell.side)
    positions = raster(cell.step, max(8, -(-90 // cell.step)), np.random.default_rng(cell.step))
    side = side_of(positions, N)
    object_, true, initial = object_of(cell.object, side), positions.copy(), probe
    if cell.wrong == "faint":
        object_ = np.abs(object_) ** 0.1 * np.exp(0.1j * np.angle(object_))
    if cell.wrong in ("positions", "all"):
        true = positions + rng.normal(0, 0.7 / np.sqrt(2), positions.shape)
    if cell.wrong == "fraction":
        true = positions + np.array([0.37, -0.42])
    if cell.wrong == "drift":
        true = positions + drift_of(len(positions))
    if cell.wrong in ("probe", "all", "slight", "drift", "faint", "spread"):
        initial = defocused(probe, {"slight": 3, "faint": -140}.get(cell.wrong, 60))
    if cell.wrong == "finer":
        intensity = intensity_of_finer(object_of(cell.object, 2 * side, 2), probe, true)
    else:
        intensity = far_intensity(object_, probe, true, DESCAN if cell.wrong == "descan" else None)
    if cell.wrong in ("modes", "all"):
        intensity += far_intensity(object_, second_mode(probe, 0.15), true)
    if cell.wrong == "spread":
        intensity = gaussian_filter(intensity, (0, 0.8, 0.8), mode="wrap")
    scale = cell.photons / intensity.sum(axis=(1, 2)).mean()
    counts = rng.poisson(scale * intensity + (2.0 if cell.wrong in ("background", "all") else 0.0))
    if cell.wrong == "frames":
        mixed_up = rng.choice(len(counts), len(counts) // 30, replace=False)
        counts[mixed_up] = np.roll(counts[mixed_up], 1, axis=0)
    amplitudes = np.sqrt(counts).astype(np.float32)
    power = np.mean(np.sum(amplitudes**2, axis=(1, 2)))
    known = np.sqrt(scale) if cell.wrong == "nothing" else np.sqrt(power / np.sum(np.abs(initial) ** 2))
    return dataset(amplitudes, initial, positions, known, object_size=side, region_size=N), object_, probe


class Measured:
    """A scan of a cell, and the error of its reconstructions."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.data, self.truth, self.probe = scan_of(cell)

    def error(self, image: np.ndarray) -> float:
        return error_of(image, self.truth, self.data.positions, self.probe)

    def solve(self) -> Row:
        row: Row = {"cell": self.cell.name, "patterns": len(self.data.positions)}
        row["probe_px"] = energy_diameter(self.probe)
        priors = {"likelihood": {"prior": "none"}, "classical": {"prior": "edge_preserving"}, "product": {}}
        for way, prior in priors.items():
            began = time.perf_counter()
            solved = solve(self.data, ModelOptions(**prior, **self.cell.beam), 0)
            row[f"{way}_s"] = time.perf_counter() - began
            row[way] = self.error(solved.estimate.object)
            row["decided"] = ", ".join(f"{d.what} {d.value}" for d in solved.decisions)
        return row

    def run_command(self) -> Row:
        """Run the steps of the command on the counts of the file, without pictures and half scans."""
        counts, positions = np.rint(np.square(self.data.amplitudes[:])), self.data.positions
        scan = ptycho.Scan.from_arrays(counts, positions, self.data.probe[0], counts=True)
        known = {key.replace("probe", "learn_probe"): value for key, value in self.cell.beam.items()}
        began = time.perf_counter()
        result = ptycho.reconstruct(scan, progress=False, half_scans=False, error_map=False, **known)
        seconds = time.perf_counter() - began
        frames = result.prepared.scan.frames  # without those that were dropped
        shift = np.median(result.beam.positions - positions[frames], axis=0)
        return {
            "command": self.error(cut(result.object, shift, len(self.truth))),
            "command_s": seconds,
            "flags": result.scores["flags"],
            "dropped": np.setdiff1d(np.arange(len(positions)), frames).tolist(),
        }

    def run_pmace(self, python: str) -> Row:
        with tempfile.TemporaryDirectory() as scratch:
            source, target = Path(scratch) / "scan.npz", Path(scratch) / "found.npz"
            np.savez(
                source,
                counts=np.square(self.data.amplitudes[:]),
                corners=self.data.positions.round(),
                probe=self.data.photon_scale * self.data.probe[0],
                side=self.data.object_size,
                known=self.cell.wrong == "nothing",
                iterations=EPOCHS,
            )
            script = Path(__file__).with_name("pmace_process.py")
            subprocess.run([python, str(script), str(source), str(target)], check=True)
            with np.load(target, allow_pickle=False) as stored:
                return {"pmace": self.error(stored["object"]), "pmace_s": float(stored["seconds"])}

    def compare_regularisers(self) -> Row:
        """Return the final errors of all regularisers that are compared, and the one that is chosen."""
        selection = select_model(self.data, ModelOptions(**KNOWN), 0, True)
        select_regulariser(selection)
        errors = {one.hypothesis.name: self.error(one.estimate.object) for one in selection.tried}
        return {"candidates": errors, "chosen": selection.decisions[-1].value}

    def run_lsqml(self, python: str) -> Row:
        moved = self.cell.wrong in ("positions", "refined", "all", "fraction", "drift")
        modes = 2 if self.cell.wrong in ("modes", "all") else 1
        made = self.lsqml(
            LsqmlConfig(epochs=EPOCHS, early=False, modes=modes, positions=moved, python=python)
        )
        return {"lsqml": self.error(made.object), "lsqml_s": made.seconds}

    def lsqml(self, config: LsqmlConfig) -> Reconstruction:
        with tempfile.TemporaryDirectory() as scratch:
            return lsqml.reconstruct(
                self.data, config, 0, lambda patterns: None, Path(scratch)
            ).reconstruction


def course(cell: Cell, python: str | None) -> dict[str, list[tuple[float, float]]]:
    """Return (seconds, error) after every fifth step of the solver, and of LSQ-ML after some epochs."""
    scan, options = Measured(cell), ModelOptions(**cell.beam)
    points: list[tuple[float, float]] = []
    scoring, steps = 0.0, 0

    def watch(estimate: Estimate, value: float, *_: object) -> None:
        nonlocal scoring, steps
        if steps % 5 == 0:
            now = time.perf_counter()
            points.append((now - began - scoring, scan.error(estimate.object)))
            scoring += time.perf_counter() - now
        steps += 1

    solve(scan.data, options, 0)  # compiles
    began = time.perf_counter()
    solve(scan.data, options, 0, watch=watch)
    theirs = []
    for epochs in COURSE_EPOCHS if python else ():
        made = scan.lsqml(LsqmlConfig(epochs=epochs, early=False, positions=False, python=python))
        theirs.append((made.seconds, scan.error(made.object)))
    return {"solver": points} | ({"LSQ-ML": theirs} if theirs else {})


def course_picture(courses: dict[str, dict[str, list[tuple[float, float]]]]) -> Figure:
    figure = Figure(figsize=(4 * len(courses), 3.2), layout="constrained")
    panels = figure.subplots(1, len(courses), squeeze=False)[0]
    for axes, (name, ways) in zip(panels, courses.items(), strict=True):
        for way, points in ways.items():
            axes.plot(*zip(*points, strict=True), marker=".", label=way)
        axes.set(xscale="log", yscale="log", xlabel="s", title=name)
        axes.legend(fontsize=7)
    panels[0].set_ylabel("relative complex error")
    return figure


def line(row: Row) -> Row:
    """Return a row of the table: errors, with seconds, as text."""
    texts = {}
    for way, (name, *_) in WAYS.items():
        seconds = f" ({row[f'{way}_s']:.1f} s)" if f"{way}_s" in row else ""
        texts[name] = f"{row[way]:.3f}{seconds}" if way in row else "–"
    return (
        {key: row.get(key, "") for key in ("cell", "patterns")} | texts | {"decided": row.get("decided", "")}
    )


def summary(rows: list[Row]) -> list[Row]:
    """Return ratios by photons: product over edge-preserving, and over the likelihood alone."""
    known = [row for row in rows if str(row["cell"]).split()[4] == "nothing"]
    lines = []
    for photons in dict.fromkeys(str(row["cell"]).split()[2] for row in known):
        these = [row for row in known if str(row["cell"]).split()[2] == photons]

        def ratios(over: str, under: str, these: list[Row] = these) -> list[float]:
            return [row[over] / row[under] for row in these]  # type: ignore[operator]

        lines.append(
            {
                "photons per pattern": photons,
                "cells": len(these),
                "product / edge-preserving, median": f"{np.median(ratios('product', 'classical')):.3f}",
                "worst": f"{max(ratios('product', 'classical')):.3f}",
                "product / likelihood alone, median": f"{np.median(ratios('product', 'likelihood')):.3f}",
                "time ratio": f"{np.median(ratios('product_s', 'classical_s')):.2f}",
            }
        )
    return lines


def hits(rows: list[Row]) -> str:
    """Return a sentence on the error of the chosen regulariser relative to the best one."""
    tried = [(row["candidates"], row["chosen"]) for row in rows if "chosen" in row]
    ratios = [errors[chosen] / min(errors.values()) for errors, chosen in tried]  # type: ignore[index, attr-defined]
    if not ratios:
        return ""
    return (
        f"\nOf {len(ratios)} scans with a known beam the program chose the best regulariser in "
        f"{ratios.count(1.0)}; its error is {np.median(ratios):.3f} times the best one's in the median, "
        f"{max(ratios):.3f} times at most.\n"
    )


def picture(rows: list[Row]) -> Figure:
    """Draw the error of each cell by every method."""
    figure = Figure(figsize=(8, 0.18 * len(rows) + 1.5), layout="constrained")
    axes = figure.add_subplot()
    for way, (name, mark, colour) in WAYS.items():
        points = [(row[way], place) for place, row in enumerate(rows) if way in row]
        if points:
            axes.plot(*zip(*points, strict=True), mark, color=colour, markersize=4, label=name)
    axes.set_yticks(range(len(rows)), [str(row["cell"]) for row in rows], fontsize=6)
    axes.set(xscale="log", ylim=(len(rows), -1), xlabel="relative complex error (1: no object)")
    axes.legend(fontsize=7, loc="upper left")
    return figure


def six(chosen: list[Cell]) -> Figure:
    """Draw amplitude and phase of truth, edge-preserving and learned result, and the error of the last."""
    figure = Figure(figsize=(2 * len(chosen), 14), layout="constrained")
    axes = figure.subplots(7, len(chosen), squeeze=False)
    for k, scan in enumerate(map(Measured, chosen)):
        truth, mask = scan.truth, illuminated(scan.data.positions, scan.probe, scan.truth.shape)
        images, errors = {"truth": truth}, []
        for name in ("edge_preserving", "learned"):
            image = solve(scan.data, ModelOptions(prior=name, **KNOWN), 0).estimate.object
            images[name] = align(np.where(mask, image, 0), truth, mask).object
            errors.append(f"{scan.error(images[name]):.3f}")
        turn = np.exp(-1j * np.angle(truth[mask].sum()))
        rows = {}
        for what, part in {"amplitude": np.abs, "phase": np.angle}.items():
            limits = np.quantile(part(turn * truth[mask]), (0.01, 0.99))
            rows |= {f"{name}, {what}": (part(turn * image), limits) for name, image in images.items()}
        wrong = np.abs(images["learned"] - truth)
        rows["|learned − truth|"] = wrong, (0, np.quantile(wrong[mask], 0.99))
        where = [np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0)]
        box = tuple(slice(ends[0], ends[-1] + 1) for ends in where)
        for ax, (name, (image, (low, high))) in zip(axes[:, k], rows.items(), strict=True):
            ax.imshow(np.where(mask, image, np.nan)[box], cmap="gray", vmin=low, vmax=high)
            ax.set(xticks=[], yticks=[], ylabel="" if k else name)
        cell = scan.cell
        axes[0, k].set_title(f"{cell.object}, {cell.step} px\n{' → '.join(errors)}", fontsize=9)
    return figure


def measure(cell: Cell, store: framework.Store, options: argparse.Namespace) -> None:
    """Run the requested methods without a result; another process may add others to the same cell."""
    wanted: dict[str, Callable[[Measured], Row]] = {"product": Measured.solve}
    if options.command:
        wanted["command"] = Measured.run_command
    if options.lsqml:
        wanted["lsqml"] = lambda scan: scan.run_lsqml(options.lsqml)
    if options.pmace:
        wanted["pmace"] = lambda scan: scan.run_pmace(options.pmace)
    if options.candidates and cell.wrong == "nothing":
        wanted["chosen"] = Measured.compare_regularisers
    for key, way in wanted.items():
        if key not in (store.result(cell.stored) or {}):
            result = way(Measured(cell))
            store.keep(cell.stored, (store.result(cell.stored) or {}) | result)
    print(
        markdown([line({"cell": cell.name} | (store.result(cell.stored) or {}))]).splitlines()[-1], flush=True
    )


def main() -> None:
    options_of = parser(__doc__)
    options_of.add_argument("--only", default="", help="cells whose names contain this text")
    options_of.add_argument("--course", action="store_true", help="only error against seconds of three cells")
    options_of.add_argument("--candidates", action="store_true", help="also every regulariser compared")
    options_of.add_argument("--command", action="store_true", help="also the whole command")
    options_of.add_argument("--lsqml", metavar="PYTHON", help="Python with pty-chi")
    options_of.add_argument("--pmace", metavar="PYTHON", help="Python with xptycho")
    options_of.add_argument("--pictures", action="store_true", help="only six reconstructions at 10⁴ photons")
    options, store = options_of.parse_args(), framework.Store(Path("outputs/panel"))
    if options.course:
        courses = {cell.name: course(cell, options.lsqml) for cell in cells() if cell.name in COURSE}
        store.text("course.json", json.dumps(courses, indent=2, allow_nan=False) + "\n")
        store.figure("course.png", course_picture(courses))
        return
    if options.pictures:
        store.figure("six.png", six([cell for cell in cells() if cell.name in SHOWN]))
        return
    for cell in cells():
        if options.only in cell.name:
            measure(cell, store, options)
    rows = [row for cell in cells() if "product" in (row := store.result(cell.stored) or {})]
    store.text(
        "results.md", "\n\n".join([markdown(summary(rows)), markdown(list(map(line, rows))), hits(rows)])
    )
    store.figure("panel.png", picture(rows))


if __name__ == "__main__":
    main()
