#!/usr/bin/env python3
"""How accurate is the product? Scans of photographs, simulated without our simulator.

    python benchmarks/panel.py                       every cell without a result, into outputs/panel
    python benchmarks/panel.py --only 1e+04 --list
    python benchmarks/panel.py --lsqml python        also LSQ-ML of pty-chi, by a Python that has it
    python benchmarks/panel.py --pmace python        also PMACE of xptycho
    python benchmarks/panel.py --lsqml python --peers    LSQ-ML alone, while another process runs the solver
    python benchmarks/panel.py --course --lsqml python    error against seconds of three cells, a picture
    python benchmarks/panel.py --candidates          every regulariser that is compared (beam known)
    python benchmarks/panel.py --command             also the whole command, align to assess
    python benchmarks/panel.py --pictures            six reconstructions at 10⁴ photons, and their errors

Objects: photographs and textures of scikit-image (amplitude .6 to 1 from one, phases of 1.5 rad from
another); leaves, which are overlapping disks with sharp edges and absorption proportional to the phase; and
relief, elevation data of Matplotlib as a smooth thickness. Probes: a defocused zone plate, a defocused round
lens, an aberrated electron lens. A pattern is |F(P·O)|² by NumPy. Where positions are not whole pixels, the
object is shifted by a quintic spline. Counts are Poisson. ``drift``: positions that drift smoothly by some
pixels, and a probe out of focus; ``frames``: one pattern in thirty is that of another position; ``faint``:
the 0.1th power of the object, so phases of .15 rad, and .6 of the probe's defocus in the file; ``descan``:
patterns that shift on the detector with the position, by about 1.5 px across the scan; ``spread``: a
detector whose Gaussian point spread has σ = .8 px, and a probe out of focus.

Each cell has a row: relative complex error |A − T| / |T − mean T| after one complex scale, one phase plane
and one sub-pixel shift, and seconds. The columns are the likelihood alone; the edge-preserving regulariser
with the weight that the program chooses; the solver with its default decisions; LSQ-ML after 500 epochs (it
always refines the probe, and the positions where they are unknown; seconds of pty-chi alone); PMACE after 500
iterations (with the specified probe where the beam is known); and the decisions. A cell with a result is not
run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import skimage.data
from matplotlib.cbook import get_sample_data
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.ndimage import gaussian_filter, shift, zoom

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ptycho
from benchmarks.study import framework
from ptycho.config import LsqmlConfig
from ptycho.evaluation.alignment import in_frame
from ptycho.evaluation.metrics import align, relative_error
from ptycho.reconstruction import lsqml
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.maximum_likelihood import solve
from ptycho.reconstruction.model_selection import select_model
from ptycho.reconstruction.regulariser_selection import select_regulariser
from ptycho.reconstruction.selection import ModelOptions
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import energy_diameter
from ptycho.scan.windows import cut_windows

MARGIN = 8
OBJECTS = ("a", "b", "c", "leaves")
PHOTOGRAPHS = {
    "a": ("coffee", "chelsea"),
    "b": ("astronaut", "rocket"),
    "c": ("camera", "coins"),
    "d": ("moon", "brick"),
    "e": ("gravel", "coins"),
}
EPOCHS = 500
WAYS = {
    "likelihood": "likelihood alone",
    "classical": "edge-preserving",
    "product": "product",
    "command": "whole command",
    "lsqml": "LSQ-ML",
    "pmace": "PMACE",
}
SHOWN = tuple(f"{name} lens 1e+04 {step} nothing" for step in (12, 20) for name in ("b", "c", "leaves"))
MARKS = {
    "product": ("o", "tab:blue", "product"),
    "classical": ("|", "tab:blue", "edge-preserving"),
    "likelihood": ("x", "0.6", "likelihood alone"),
    "lsqml": ("s", "tab:orange", "LSQ-ML"),
    "pmace": ("d", "tab:brown", "PMACE"),
}
COURSE = ("a lens 1e+06 5 nothing", "c lens 1e+06 12 nothing", "c lens 1e+04 12 nothing")
COURSE_EPOCHS = (3, 10, 30, 100, 300)
DESCAN = np.array([[0.025, 0.008], [-0.006, 0.028]])  # detector pixels for one of the position
KNOWN = dict.fromkeys(("probe", "positions", "flux", "background", "point_spread"), False)
ILLUMINATED = 0.1  # scored are pixels above this fraction of the strongest illumination


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


def photograph(name: str, side: int) -> np.ndarray:
    image = np.asarray(getattr(skimage.data, name)(), float)
    return scaled(image.mean(axis=-1) if image.ndim == 3 else image, side)


def scaled(image: np.ndarray, side: int) -> np.ndarray:
    """Return the central square of an image on ``(side, side)`` pixels, with values from 0 to 1."""
    least = min(image.shape)
    top, left = ((n - least) // 2 for n in image.shape)
    square = zoom(image[top : top + least, left : left + least], (side + 0.5) / least, order=1)[:side, :side]
    return (square - square.min()) / np.ptp(square)


def leaves(side: int, finer: int = 1) -> np.ndarray:
    """Return the thickness of overlapping disks, 0 to 1, on pixels of 1/``finer`` of the usual length."""
    rng, (row, col) = np.random.default_rng(7), np.mgrid[:side, :side]
    image = np.zeros((side, side))
    for _ in range(300):
        at, radius = rng.uniform(0, side // finer, 2) * finer, rng.uniform(3, 25) * finer
        image[np.hypot(row - at[0], col - at[1]) < radius] = rng.uniform()
    return image


def object_of(name: str, side: int, finer: int = 1) -> np.ndarray:
    """Return the object ``(side, side)``; ``finer=n``: that of side/n, on pixels of 1/n of the length."""
    if name == "leaves":
        thickness = leaves(side, finer)
        return np.exp((-0.3 + 2j) * thickness)
    if name == "relief":
        heights = get_sample_data("jacksboro_fault_dem.npz")["elevation"].astype(float)
        return np.exp((-0.15 + 1.2j) * scaled(heights, side))
    amplitude, phase = (photograph(part, side) for part in PHOTOGRAPHS[name])
    return (0.6 + 0.4 * amplitude) * np.exp(1.5j * (phase - phase.mean()))


def probe_of(name: str, N: int) -> np.ndarray:
    """Return the probe ``(N, N)`` of a pupil, with its aberrations, on the far-field grid."""
    q = np.hypot(*np.ix_(*(np.fft.fftfreq(N),) * 2))
    angle = np.arctan2(*np.ix_(*(np.fft.fftfreq(N),) * 2)[::1])
    defocus, stretch = (q / 0.15) ** 2, np.cos(2 * angle)
    open_, bends = {
        "lens": (q < 0.17, 3.2 * (q / 0.17) ** 2 * np.pi),
        "zone_plate": ((q < 0.2) & (q > 0.08), 4.0 * (q / 0.2) ** 2 * np.pi),
        "electron": (q < 0.15, np.pi * (2.5 * defocus - defocus**2 + 0.4 * defocus * stretch)),
    }[name]
    wave = np.fft.fftshift(np.fft.ifft2(open_ * np.exp(1j * bends)))
    return wave / np.abs(wave).max()


def positions_of(step: int) -> np.ndarray:
    """Return a square raster of 80 px or more with a jitter of up to a fifth of the step, whole pixels."""
    count = max(8, -(-90 // step))
    rng = np.random.default_rng(step)
    grid = step * np.stack(np.mgrid[:count, :count], -1).reshape(-1, 2).astype(float)
    moved = grid + rng.uniform(-step / 5, step / 5, grid.shape)
    return np.round(moved - moved.min(axis=0)) + MARGIN


def drift_of(count: int) -> np.ndarray:
    """Return errors ``(count, 2)`` of positions that drift smoothly by some pixels, (row, col)."""
    time = np.linspace(0, 1, count)
    return 6 * np.column_stack([np.sin(2.2 * time) - 0.8 * time**2, time**2 - 0.25 * np.sin(5 * time)])


def far_intensity(
    object_: np.ndarray, probe: np.ndarray, positions: np.ndarray, descan: np.ndarray | None = None
) -> np.ndarray:
    """Return ``|F(P·O)|²``, ``(J, N, N)``, zero frequency at N//2; shifted by a ``descan (2, 2)``."""
    found, N = [], len(probe)
    shifts = (
        np.zeros((len(positions), 2)) if descan is None else (positions - positions.mean(axis=0)) @ descan.T
    )
    axis = 2j * np.pi * np.arange(N) / N
    for (row, col), (down, right) in zip(positions, shifts, strict=True):
        whole = int(row), int(col)
        part = object_[max(whole[0] - 6, 0) : whole[0] + N + 7, max(whole[1] - 6, 0) : whole[1] + N + 7]
        move = [min(w, 6) for w in whole]
        rest = row - whole[0], col - whole[1]
        if any(rest):
            back = [-x for x in rest]
            part = shift(part.real, back, order=5, mode="nearest") + 1j * shift(
                part.imag, back, order=5, mode="nearest"
            )
        patch = part[move[0] : move[0] + N, move[1] : move[1] + N]
        patch = patch * np.exp(np.add.outer(down * axis, right * axis))
        found.append(np.abs(np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(probe * patch), norm="ortho"))) ** 2)
    return np.array(found)


def intensity_of_finer(object_: np.ndarray, probe: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return ``|F(P·O)|²`` on the detector of ``probe (N, N)``, for object pixels of half the length."""
    N = len(probe)
    far = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(probe)))
    fine = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(np.pad(far, N // 2))))
    return far_intensity(object_, fine, 2 * positions)[:, N // 2 : -N // 2, N // 2 : -N // 2]


def scan_of(cell: Cell) -> tuple[Dataset, np.ndarray, np.ndarray]:
    """Return the scan as its file has it, the true object, and the true probe ``(N, N)``."""
    rng, N, probe = np.random.default_rng(11), cell.side, probe_of(cell.probe, cell.side)
    positions = positions_of(cell.step)
    side = N + int(positions.max()) + MARGIN + 1
    object_, true = object_of(cell.object, side), positions.copy()
    initial = probe
    if cell.wrong == "faint":
        object_ = np.abs(object_) ** 0.1 * np.exp(0.1j * np.angle(object_))
    if cell.wrong in ("positions", "all"):
        true = positions + rng.normal(0, 0.7 / np.sqrt(2), positions.shape)
    if cell.wrong == "fraction":
        true = positions + np.array([0.37, -0.42])
    if cell.wrong == "drift":
        true = positions + drift_of(len(positions))
    if cell.wrong in ("probe", "all", "slight", "drift", "faint", "spread"):
        q = np.hypot(*np.ix_(*(np.fft.fftfreq(N),) * 2))
        defocus = np.exp(1j * {"slight": 3, "faint": -140}.get(cell.wrong, 60) * q**2)
        initial = np.fft.fftshift(np.fft.ifft2(np.fft.fft2(np.fft.ifftshift(probe)) * defocus))
    if cell.wrong == "finer":
        intensity = intensity_of_finer(object_of(cell.object, 2 * side, 2), probe, true)
    else:
        intensity = far_intensity(object_, probe, true, DESCAN if cell.wrong == "descan" else None)
    if cell.wrong in ("modes", "all"):
        second = probe * np.linspace(-1, 1, N)
        intensity += 0.15 * far_intensity(
            object_, second / np.linalg.norm(second) * np.linalg.norm(probe), true
        )
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
    each = np.arange(len(positions), dtype=np.int32)[:, None]
    data = Dataset(
        amplitudes=amplitudes,
        beam=Beam(initial.astype(np.complex64), positions.astype(np.float32)),
        image=np.zeros(len(positions), np.int32),
        groups=each,
        photon_scale=float(known),
        object_size=side,
        region_size=N,
    )
    return data, object_, probe


def error_of(found: np.ndarray, truth: np.ndarray, beam: Beam, probe: np.ndarray) -> float:
    """Return the relative complex error where the illumination exceeds ``ILLUMINATED`` of its maximum."""
    illumination, N = np.zeros(truth.shape), beam.N
    for row, col in beam.positions.astype(int):
        illumination[row : row + N, col : col + N] += np.abs(probe) ** 2
    mask = illumination > ILLUMINATED * illumination.max()
    flat = align(np.where(mask, found, 0), truth, mask).object
    placed, there = in_frame(truth, flat, mask)
    there &= mask
    return float(relative_error(align(np.where(there, found, 0), placed, there).object, placed))


def run(cell: Cell) -> dict[str, object]:
    data, truth, probe = scan_of(cell)
    known = cell.wrong == "nothing"
    beam = KNOWN if known else {}
    row: dict[str, object] = {
        "cell": cell.name,
        "patterns": len(data.positions),
        "probe_px": energy_diameter(probe),
    }
    ways = {
        "likelihood": ModelOptions(prior="none", **beam),
        "classical": ModelOptions(prior="edge_preserving", **beam),
        "product": ModelOptions(**beam),
    }
    for way, options in ways.items():
        began = time.perf_counter()
        solved = solve(data, options, 0)
        row[f"{way}_s"] = time.perf_counter() - began
        row[way] = error_of(solved.estimate.object, truth, data.beam, probe)
        row["decided"] = ", ".join(f"{d.what} {d.value}" for d in solved.decisions)
    return row


def run_command(cell: Cell) -> dict[str, object]:
    """Run the steps of the command on the counts of the file, without pictures and half scans."""
    data, truth, probe = scan_of(cell)
    counts = np.rint(np.square(data.amplitudes[:]))
    scan = ptycho.Scan.from_arrays(counts, data.positions, data.probe[0], counts=True)
    known = {"learn_probe": False, **KNOWN} if cell.wrong == "nothing" else {}
    known.pop("probe", None)
    began = time.perf_counter()
    result = ptycho.reconstruct(scan, progress=False, half_scans=False, error_map=False, **known)
    seconds = time.perf_counter() - began
    frames, side = result.prepared.scan.frames, len(truth)  # without those that were dropped
    shift = np.median(result.beam.positions - data.positions[frames], axis=0)
    start = np.rint(shift).astype(int) + side  # of the truth's array on the padded object
    image = cut_windows(np.pad(result.object, side), start[None], side)[0]
    return {
        "command": error_of(image, truth, data.beam, probe),
        "command_s": seconds,
        "flags": result.scores["flags"],
        "dropped": np.setdiff1d(np.arange(len(data.positions)), frames).tolist(),
    }


def run_pmace(cell: Cell, python: str) -> dict[str, object]:
    data, truth, probe = scan_of(cell)
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch) / "scan.npz", Path(scratch) / "found.npz"
        np.savez(
            source,
            counts=np.square(data.amplitudes[:]),
            corners=data.positions.round(),
            probe=data.photon_scale * data.probe[0],
            side=data.object_size,
            known=cell.wrong == "nothing",
            iterations=EPOCHS,
        )
        script = Path(__file__).with_name("pmace_process.py")
        subprocess.run([python, str(script), str(source), str(target)], check=True)
        with np.load(target, allow_pickle=False) as found:
            error = error_of(found["object"], truth, data.beam, probe)
            return {"pmace": error, "pmace_s": float(found["seconds"])}


def run_candidates(cell: Cell) -> dict[str, object]:
    """Return the final errors of all regularisers that are compared, and the one that is chosen."""
    data, truth, probe = scan_of(cell)
    selection = select_model(
        data, ModelOptions(probe=False, positions=False, flux=False, background=False), 0, True
    )
    select_regulariser(selection)
    errors = {
        one.hypothesis.name: error_of(one.estimate.object, truth, data.beam, probe) for one in selection.tried
    }
    return {"candidates": errors, "chosen": selection.decisions[-1].value}


def run_lsqml(cell: Cell, python: str) -> dict[str, object]:
    data, truth, probe = scan_of(cell)
    moved = cell.wrong in ("positions", "refined", "all", "fraction", "drift")
    modes = 2 if cell.wrong in ("modes", "all") else 1
    config = LsqmlConfig(epochs=EPOCHS, early=False, modes=modes, positions=moved, python=python)
    with tempfile.TemporaryDirectory() as scratch:
        found = lsqml.reconstruct(data, config, 0, lambda patterns: None, Path(scratch)).reconstruction
    return {"lsqml": error_of(found.object, truth, data.beam, probe), "lsqml_s": found.seconds}


def course(cell: Cell, python: str | None) -> dict[str, list[tuple[float, float]]]:
    """Return (seconds, error) after every fifth step of the solver, and of LSQ-ML after some epochs."""
    data, truth, probe = scan_of(cell)
    known = cell.wrong == "nothing"
    beam = KNOWN if known else {}
    points: list[tuple[float, float]] = []
    scoring, steps = 0.0, 0

    def watch(estimate: Estimate, value: float, *_: object) -> None:
        nonlocal scoring, steps
        if steps % 5 == 0:
            now = time.perf_counter()
            points.append((now - began - scoring, error_of(estimate.object, truth, data.beam, probe)))
            scoring += time.perf_counter() - now
        steps += 1

    solve(data, ModelOptions(**beam), 0)  # compiles
    began = time.perf_counter()
    solve(data, ModelOptions(**beam), 0, watch=watch)
    found = {"solver": points}
    if python:
        found["LSQ-ML"] = []
        for epochs in COURSE_EPOCHS:
            config = LsqmlConfig(epochs=epochs, early=False, positions=False, python=python)
            with tempfile.TemporaryDirectory() as scratch:
                theirs = lsqml.reconstruct(data, config, 0, lambda patterns: None, Path(scratch))
            recon = theirs.reconstruction
            found["LSQ-ML"].append((recon.seconds, error_of(recon.object, truth, data.beam, probe)))
    return found


def course_picture(courses: dict[str, dict[str, list[tuple[float, float]]]]) -> Figure:
    figure = Figure(figsize=(4 * len(courses), 3.2), layout="constrained")
    for axes, (name, ways) in zip(
        figure.subplots(1, len(courses), squeeze=False)[0], courses.items(), strict=True
    ):
        for way, points in ways.items():
            axes.plot(*zip(*points, strict=True), marker=".", label=way)
        axes.set(xscale="log", yscale="log", xlabel="s", title=name)
        axes.legend(fontsize=7)
    figure.axes[0].set_ylabel("relative complex error")
    return figure


def table(rows: list[dict[str, object]]) -> str:
    lines = [f"| cell | patterns | {' | '.join(WAYS.values())} | decided |"]
    lines.append("|---" * (len(WAYS) + 3) + "|")
    for row in rows:
        cells = [_figure(row, way) for way in WAYS]
        lines.append(
            f"| {row['cell']} | {row.get('patterns', '')} | {' | '.join(cells)} | {row.get('decided', '')} |"
        )
    return "\n".join(lines) + "\n"


def _figure(row: dict[str, object], way: str) -> str:
    """Return the error, and the seconds if they are known, as text."""
    if way not in row:
        return "–"
    seconds = f" ({row[f'{way}_s']:.1f} s)" if f"{way}_s" in row else ""
    return f"{row[way]:.3f}{seconds}"


def summary(rows: list[dict[str, object]]) -> str:
    """Return a table of ratios by photons: product over edge-preserving, and over the likelihood alone."""
    lines = [
        "| photons per pattern | cells | product / edge-preserving, median | worst "
        "| product / likelihood alone, median | time ratio, product / edge-preserving |"
    ]
    lines.append("|---" * 6 + "|")
    known = [row for row in rows if str(row["cell"]).split()[4] == "nothing"]
    for photons in dict.fromkeys(str(row["cell"]).split()[2] for row in known):
        these = [row for row in known if str(row["cell"]).split()[2] == photons]
        ratio = [row["product"] / row["classical"] for row in these]
        alone = [row["product"] / row["likelihood"] for row in these]
        times = [row["product_s"] / row["classical_s"] for row in these]
        lines.append(
            f"| {photons} | {len(these)} | {np.median(ratio):.3f} | {max(ratio):.3f} | "
            f"{np.median(alone):.3f} | {np.median(times):.2f} |"
        )
    return "\n".join(lines) + "\n"


def hits(rows: list[dict[str, object]]) -> str:
    """Return a sentence on the error of the chosen regulariser relative to the best one."""
    ratios = [
        row["candidates"][row["chosen"]] / min(row["candidates"].values()) for row in rows if "chosen" in row
    ]
    if not ratios:
        return ""
    return (
        f"\nOf {len(ratios)} scans with a known beam the program chose the best regulariser in "
        f"{ratios.count(1.0)}; its error is {np.median(ratios):.3f} times the best one's in the median, "
        f"{max(ratios):.3f} times at most.\n"
    )


def picture(rows: list[dict[str, object]]) -> Figure:
    """Draw the error of each cell by every method."""
    figure = Figure(figsize=(8, 0.18 * len(rows) + 1.5), layout="constrained")
    axes = figure.add_subplot()
    for place, row in enumerate(rows):
        for way, (mark, colour, _) in MARKS.items():
            if way in row:
                axes.plot(row[way], place, mark, color=colour, markersize=4)
    axes.set_yticks(range(len(rows)), [str(row["cell"]) for row in rows], fontsize=6)
    axes.set(xscale="log", ylim=(len(rows), -1), xlabel="relative complex error (1: no object)")
    keys = [
        Line2D([], [], marker=mark, color=colour, linestyle="none", label=name)
        for mark, colour, name in MARKS.values()
    ]
    axes.legend(handles=keys, fontsize=7, loc="upper left")
    return figure


def six(cells_: list[Cell]) -> Figure:
    """Draw amplitude and phase of truth, edge-preserving and learned result, and the error of the last."""
    figure = Figure(figsize=(2 * len(cells_), 14), layout="constrained")
    axes = figure.subplots(7, len(cells_), squeeze=False)
    for column, cell in enumerate(cells_):
        data, truth, probe = scan_of(cell)
        still = KNOWN
        illumination, N = np.zeros(truth.shape), data.N
        for row, col in data.positions.astype(int):
            illumination[row : row + N, col : col + N] += np.abs(probe) ** 2
        mask = illumination > ILLUMINATED * illumination.max()
        objects = {"truth": truth}
        for name in ("edge_preserving", "learned"):
            found = solve(data, ModelOptions(prior=name, **still), 0).estimate.object
            objects[name] = align(np.where(mask, found, 0), truth, mask).object
        turn = np.exp(-1j * np.angle(truth[mask].sum()))
        ranges = [np.quantile(part(turn * truth[mask]), (0.01, 0.99)) for part in (np.abs, np.angle)]
        rows = [
            (f"{name}, {what}", part(turn * image), limits)
            for what, part, limits in zip(("amplitude", "phase"), (np.abs, np.angle), ranges, strict=True)
            for name, image in objects.items()
        ]
        wrong = np.abs(objects["learned"] - truth)
        rows.append(("|learned − truth|", wrong, (0, np.quantile(wrong[mask], 0.99))))
        illuminated = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        box = (
            slice(illuminated[0][0], illuminated[0][-1] + 1),
            slice(illuminated[1][0], illuminated[1][-1] + 1),
        )
        for place, (name, image, (low, high)) in enumerate(rows):
            shown = np.where(mask, image, np.nan)[box]
            axes[place, column].imshow(shown, cmap="gray", vmin=low, vmax=high)
            axes[place, column].set(xticks=[], yticks=[], ylabel="" if column else name)
        error = [error_of(objects[name], truth, data.beam, probe) for name in ("edge_preserving", "learned")]
        axes[0, column].set_title(
            f"{cell.object}, {cell.step} px\n{error[0]:.3f} → {error[1]:.3f}", fontsize=9
        )
    return figure


def measure(cell: Cell, store: framework.Store, options: argparse.Namespace) -> None:
    """Run the requested methods without a result; another process may add others to the same cell."""
    known = cell.wrong == "nothing"
    wanted: dict[str, Callable[[], dict[str, object]]] = {}
    if not options.peers:
        wanted["product"] = lambda: run(cell)
    if options.command:
        wanted["command"] = lambda: run_command(cell)
    if options.lsqml:
        wanted["lsqml"] = lambda: run_lsqml(cell, options.lsqml)
    if options.pmace:
        wanted["pmace"] = lambda: run_pmace(cell, options.pmace)
    if options.candidates and known:
        wanted["chosen"] = lambda: run_candidates(cell)
    for key, way in wanted.items():
        if key not in (store.result(cell.stored) or {}):
            found = way()
            store.keep(cell.stored, (store.result(cell.stored) or {}) | found)
    print(table([{"cell": cell.name} | (store.result(cell.stored) or {})]).splitlines()[-1], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="cells whose names contain this text")
    parser.add_argument("--list", action="store_true", help="print the names of the cells only")
    parser.add_argument("--output", type=Path, default=Path("outputs/panel"))
    parser.add_argument("--course", action="store_true", help="only error against seconds of three cells")
    parser.add_argument("--candidates", action="store_true", help="also every regulariser that is compared")
    parser.add_argument("--command", action="store_true", help="also the whole command")
    parser.add_argument("--lsqml", metavar="PYTHON", help="Python with pty-chi")
    parser.add_argument("--pmace", metavar="PYTHON", help="Python with xptycho")
    parser.add_argument("--peers", action="store_true", help="only the programs of --lsqml and --pmace")
    parser.add_argument("--pictures", action="store_true", help="only six reconstructions at 10⁴ photons")
    options = parser.parse_args()
    chosen = [cell for cell in cells() if options.only in cell.name]
    if options.list:
        print("\n".join(cell.name for cell in chosen))
        return
    store = framework.Store(options.output)
    if options.course:
        picked = [cell for cell in cells() if cell.name in COURSE]
        courses = {cell.name: course(cell, options.lsqml) for cell in picked}
        store.text("course.json", json.dumps(courses, indent=2, allow_nan=False) + "\n")
        store.figure("course.png", course_picture(courses))
        return
    if options.pictures:
        store.figure("six.png", six([cell for cell in cells() if cell.name in SHOWN]))
        return
    for cell in chosen:
        measure(cell, store, options)
    rows = [row for cell in cells() if "product" in (row := store.result(cell.stored) or {})]
    store.text("results.md", summary(rows) + "\n" + table(rows) + hits(rows))
    store.figure("panel.png", picture(rows))


if __name__ == "__main__":
    main()
