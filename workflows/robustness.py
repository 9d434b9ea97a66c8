"""A study of imperfections: cells of growing strength, what came of them, one table and one figure."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hydra import compose, initialize_config_dir
from matplotlib.figure import Figure

from ptycho.config import ITERATIVE, ConfigError, ScanRunConfig, check
from ptycho.evaluation.beam import probe_error
from ptycho.files.npz import read_all
from ptycho.iterative.lsqml import available
from ptycho.run import names
from ptycho.run.folder import OutputFolder
from ptycho.simulation.truth import read_truth
from workflows.config import run_config
from workflows.one_shot import config_of
from workflows.simulate_scan import SimulateConfig
from workflows.study.definition import loaded, made
from workflows.study.figures import BEST, TICKS
from workflows.study.report import table

Values = Sequence[int | float | str]
CLEAN, SCAN, RUN, WORDS = "clean", "scan.cxi", "run", "cell.json"
TIMES = ("solver", "training", "inference", "refinement", "LSQ-ML")  # steps, in seconds
OURS = ("output", "overwrite", "data.file", "output_dir", "resume")  # keys that the study sets


@dataclass(frozen=True)
class Panel:
    """An imperfection; ``keys`` of ``simulate_scan.py`` have a value for each of the ``strengths``."""

    name: str
    axis: str
    strengths: Sequence[float]
    keys: Mapping[str, Values]
    run: Sequence[str] = ()


@dataclass(frozen=True)
class Definition:
    """The keys of ``conf/robustness.yaml``."""

    simulate: Sequence[str]
    run: Sequence[str]
    curves: Mapping[str, str]
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Cell:
    """A scan and a run on it, in a folder of their own, and the overrides that they are made with."""

    name: str
    path: Path
    simulate: tuple[str, ...]
    run: tuple[str, ...]

    @property
    def words(self) -> dict[str, list[str]]:
        return {"simulate": [*self.simulate], "run": [*self.run]}

    @property
    def commands(self) -> list[list[str]]:
        """The scripts to run one after the other, with their arguments."""
        scan, run = (str(self.path / name).replace("'", "\\'") for name in (SCAN, RUN))
        return [
            ["simulate_scan.py", *self.simulate, f"output='{scan}'", "overwrite=true"],
            ["scan_workflow.py", *self.run, f"data.file='{scan}'", f"output_dir='{run}'", "overwrite=true"],
        ]

    def finished_as(self) -> dict[str, list[str]] | None:
        """The words that the finished cell in the folder was made with; None if there is none."""
        try:
            json.loads((self.path / RUN / names.MANIFEST).read_text())
            found: dict[str, list[str]] = json.loads((self.path / WORDS).read_text())
        except (OSError, ValueError):
            return None
        return found

    def begin(self) -> None:
        """Make the folder; scan and run replace what it holds, which is the finished cell no more."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / WORDS).unlink(missing_ok=True)

    def finish(self) -> None:
        OutputFolder(self.path).json(WORDS, self.words)


def load_definition(path: Path) -> Definition:
    """Read the definition; a ConfigError of one line where something in it is wrong."""
    read = made(Definition, loaded(path), str(path))
    panels = [made(Panel, panel, f"{path}, panels") for panel in read.panels]
    for panel in panels:
        where = f"{path}, {panel.name}"
        numbers = [isinstance(strength, int | float) and strength > 0 for strength in panel.strengths]
        check(bool(numbers) and all(numbers), f"{where}: strengths", panel.strengths, "numbers above 0")
        for key, values in panel.keys.items():
            check(len(values) == len(numbers), f"{where}: {key}", values, f"{len(numbers)} values")
    return Definition(read.simulate, read.run, read.curves, panels)


def cells_of(
    study: Definition, output: Path, simulate: Sequence[str], run: Sequence[str]
) -> dict[tuple[str, float], Cell]:
    """The cell of every panel and strength; those that are made with the same words are one.

    ``simulate`` and ``run`` are further overrides for every cell.
    """
    for word in (*simulate, *run):
        key = word.lstrip("+~").split("=", 1)[0]
        check(key not in OURS, key, "overridden", "left to the study, which sets it")
    found: dict[tuple[str, float], Cell] = {}
    by_words: dict[tuple[tuple[str, ...], tuple[str, ...]], Cell] = {}
    for panel in study.panels:
        runs = (*study.run, *panel.run, *run)
        for k, strength in enumerate((0.0, *panel.strengths)):
            wrong = [f"{key}={values[k - 1]}" for key, values in panel.keys.items()] if k else []
            words = (*study.simulate, *wrong, *simulate), runs
            name = CLEAN if not (wrong or panel.run) else f"{panel.name}_{strength:g}"
            cell = by_words.setdefault(words, Cell(name, output / name, *words))
            found[panel.name, strength] = cell
    return found


def check_cells(cells: Sequence[Cell], conf: Path) -> None:
    """See that every cell can be configured, and that pty-chi is there if one asks for it.

    Raises:
        ConfigError: one line with what is wrong.
    """
    pythons: set[str | None] = set()
    with initialize_config_dir(version_base="1.3", config_dir=str(conf)):
        for cell in cells:
            config_of(SimulateConfig, compose("simulate", [*cell.simulate, "output=scan.cxi"]))
            words = [*cell.run, "data.file=scan.cxi", "output_dir=run"]
            config = run_config(compose("scan", words), words, os.environ)
            assert isinstance(config, ScanRunConfig)
            if ITERATIVE in config.models:
                pythons.add(config.iterative.python)
    for python in pythons:
        if missing := available(python):
            raise ConfigError(f"{missing}; or leave it out: --override models=[pinn]")


def due(cells: Sequence[Cell], overwrite: bool) -> list[Cell]:
    """The cells that are not finished; one made with other words needs ``overwrite``."""
    wanted = []
    for cell in cells:
        words = cell.finished_as()
        if words is not None and words != cell.words and not overwrite:
            raise ConfigError(
                f"{cell.path}: holds a finished cell that was made with other overrides; choose another "
                "--output, or --overwrite to replace it"
            )
        if words != cell.words:
            wanted.append(cell)
    return wanted


# ---- what came of it


@dataclass(frozen=True)
class Outcome:
    """Of a finished cell: SSIM (amplitude, phase), probe error and position error by row; seconds by step."""

    ssim: dict[str, tuple[float, float] | None]
    probe: dict[str, float]
    position: dict[str, float]
    seconds: dict[str, float]


def outcome(cell: Cell, curves: Mapping[str, str]) -> Outcome | None:
    """None where the cell is not finished."""
    if cell.finished_as() != cell.words:
        return None
    rows = json.loads((cell.path / RUN / names.METRICS).read_text())
    manifest = json.loads((cell.path / RUN / names.MANIFEST).read_text())
    there = [row for row in curves if row in rows]
    ssim = {row: _ssim(rows[row]) for row in there}
    (steps,) = manifest["reconstruction_s"].values()
    timed = manifest["timings_s"]
    seconds = [steps.get("solver"), timed.get("pinn_training"), *map(steps.get, ("pinn", "refined", "lsqml"))]
    known = {step: value for step, value in zip(TIMES, seconds, strict=True) if value is not None}
    return Outcome(ssim, *_beam_errors(cell, there), known)


def _ssim(row: dict[str, Any]) -> tuple[float, float] | None:
    """None where it could not be compared with the truth."""
    found = (row.get("against_the_files_object") or {}).get("ssim", (None, None))
    return None if None in found else (found[0], found[1])


def _beam_errors(cell: Cell, rows: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """Errors of probe and positions; none where the file is the truth.

    That of positions is the median distance from the true ones, apart from a common shift: patterns that
    LSQ-ML does not see stay where they are.
    """
    try:
        truth = read_truth(cell.path / SCAN)
    except ConfigError:
        return {}, {}
    probes, positions = {}, {}
    for row in rows:
        found = read_all(cell.path / RUN / names.recon(row), {"probe": "c", "positions": "f"})
        probes[row] = probe_error(found["probe"][0], truth.probe[0])
        if len(found["positions"]) == len(truth.positions):
            away = found["positions"] - truth.positions
            positions[row] = float(np.median(np.hypot(*(away - np.median(away, axis=0)).T)))
    return probes, positions


def write_report(
    folder: OutputFolder, study: Definition, cells: Mapping[tuple[str, float], Cell], command: str
) -> None:
    """``results.md``, ``results.json`` and ``robustness.png``, of the cells that are finished."""
    every = {cell.name: outcome(cell, study.curves) for cell in cells.values()}
    found = {key: every[cell.name] for key, cell in cells.items()}
    folder.text("results.md", as_markdown(study, cells, found, command))
    folder.json("results.json", {name: None if o is None else vars(o) for name, o in every.items()})
    folder.figure("robustness.png", drawn(study, found))


def as_markdown(
    study: Definition,
    cells: Mapping[tuple[str, float], Cell],
    found: Mapping[tuple[str, float], Outcome | None],
    command: str,
) -> str:
    """A line for every cell of every panel."""
    labels = list(study.curves.values())
    headings = ["imperfection", "strength", *(f"{label} A / φ" for label in labels)]
    headings += ["probe error: " + ", ".join(labels), "position error / px: " + ", ".join(labels)]
    headings += [f"{step} / s" for step in TIMES]
    lines = []
    for panel in study.panels:
        for strength in (0.0, *panel.strengths):
            one = found[panel.name, strength]
            line = [f"**{panel.name}**: {panel.axis}" if strength == 0 else "", f"{strength:g}"]
            if one is None:
                rest = [""] * (len(headings) - 3)
                lines.append([*line, f"{cells[panel.name, strength].name} is not finished", *rest])
                continue
            line += [_pair(one.ssim.get(row)) for row in study.curves]
            line += [_row(values, study.curves) for values in (one.probe, one.position)]
            lines.append(
                [*line, *(f"{one.seconds[step]:.0f}" if step in one.seconds else "–" for step in TIMES)]
            )
    caption = "SSIM of amplitude / phase against the truth. Seconds of each step, on the machine as it was."
    shown = "![SSIM against the strength of each imperfection](robustness.png)"
    return "\n\n".join([caption, f"    {command}", table(headings, lines), shown]) + "\n"


def _pair(ssim: tuple[float, float] | None) -> str:
    return "–" if ssim is None else f"{ssim[0]:.3f} / {ssim[1]:.4f}"


def _row(values: Mapping[str, float], curves: Mapping[str, str]) -> str:
    return ", ".join(f"{values[row]:.2f}" if row in values else "–" for row in curves) if values else "–"


def drawn(study: Definition, found: Mapping[tuple[str, float], Outcome | None]) -> Figure:
    """A panel for each imperfection: SSIM on a scale of log(1 − SSIM); solid amplitude, dashed phase."""
    count = len(study.panels)
    figure = Figure(figsize=(1.2 + 3.1 * count, 4.4), layout="constrained")
    axes = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for ax, panel in zip(axes, study.panels, strict=True):
        strengths = (0.0, *panel.strengths)
        for colour, (row, label) in enumerate(study.curves.items()):
            for channel, (kind, style) in enumerate((("amplitude", "o-"), ("phase", "s--"))):
                pairs = [(found[panel.name, s] or Outcome({}, {}, {}, {})).ssim.get(row) for s in strengths]
                lost = [np.nan if pair is None else 1 - min(pair[channel], BEST) for pair in pairs]
                ax.plot(lost, style, color=f"C{colour}", markersize=4, label=f"{label}, {kind}")
        ax.set_xticks(range(len(strengths)), [f"{strength:g}" for strength in strengths])
        ax.set(title=panel.name, yscale="log", ylim=(1 - TICKS[0], (1 - BEST) * 0.8))
        ax.set_xlabel(panel.axis, fontsize="small")
        ax.set_yticks([1 - tick for tick in TICKS], [f"{tick:g}" for tick in TICKS])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("SSIM")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=6 if count > 3 else 3 if count > 1 else 2,
    )
    return figure
