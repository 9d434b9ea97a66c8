"""The study of imperfections: simulated scans with ever stronger imperfections, and a run on each."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from matplotlib.figure import Figure
from omegaconf import DictConfig
from pydantic.dataclasses import dataclass

from benchmarks.study.framework import STRICT, Cell, Store, check_words
from benchmarks.study.processes import quoted, run_scripts
from benchmarks.study.ssim_scale import lost, scale
from benchmarks.tables import markdown
from ptycho.command_line.config import explained, plain, run_config
from ptycho.command_line.jobs import CONF
from ptycho.config import ITERATIVE, ConfigError, ScanRunConfig, check
from ptycho.config.mapping import to_dataclass
from ptycho.evaluation.alignment import probe_error
from ptycho.files.npz import read_all
from ptycho.reconstruction.lsqml import check_available
from ptycho.run import names
from ptycho.simulation.truth import read_truth
from workflows.convert.simulate_scan import SimulateConfig

CLEAN, SCAN, RUN = "clean", "scan.cxi", "run"
OURS = ("output", "overwrite", "data.file", "output_dir", "resume")  # keys that the study sets
CAPTION = (
    "SSIM of amplitude / phase against the truth; relative error of the probe; median distance from the true "
    "positions, a common shift apart. Seconds of each step, on the machine as it was."
)


@dataclass(frozen=True, config=STRICT)
class Panel:
    """An imperfection; ``keys`` of ``simulate_scan.py`` have a value for each strength."""

    name: str
    axis: str
    strengths: tuple[float, ...]
    keys: Mapping[str, tuple[int | float | str, ...]]
    run: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.strengths)
        check(
            count and min(self.strengths) > 0, f"{self.name}: strengths", [*self.strengths], "numbers above 0"
        )
        for key, values in self.keys.items():
            check(len(values) == count, f"{self.name}: {key}", [*values], f"{count} values")


def compose_words(name: str, words: Sequence[str], schema: type) -> DictConfig:
    """Compose a configuration by Hydra; raise an error that names the keys of its program."""
    try:
        return compose(name, list(words))
    except HydraException as error:
        raise ConfigError(explained(error, schema)) from error


@dataclass(frozen=True, config=STRICT)
class Robustness:
    """The keys of ``robustness.yaml``."""

    simulate: tuple[str, ...]
    run: tuple[str, ...]
    curves: Mapping[str, str]
    panels: tuple[Panel, ...]

    def __post_init__(self) -> None:
        check_words((*self.simulate, *self.run), OURS)
        names = [panel.name for panel in self.panels]
        check(len(set(names)) == len(names), "panels", names, "of different names")

    def cells(self) -> list[Cell]:
        """Return the cells of all panels; a cell of several panels occurs once."""
        return list(
            {cell.name: cell for panel in self.panels for cell in self.cells_of(panel).values()}.values()
        )

    def cells_of(self, panel: Panel) -> dict[float, Cell]:
        """Return the cells of a panel by strength, 0 first."""
        found = {}
        for k, strength in enumerate((0.0, *panel.strengths)):
            wrong = [f"{key}={values[k - 1]}" for key, values in panel.keys.items()] if k else []
            name = f"{panel.name}_{strength:g}" if wrong or panel.run else CLEAN
            # Overrides from the command line come last, and so take precedence.
            settings = {"simulate": [*wrong, *self.simulate], "run": [*panel.run, *self.run]}
            settings["rows"] = [*self.curves]
            shared = tuple(one.name for one in self.panels if not one.run)
            groups = shared if name == CLEAN else (panel.name,)
            found[strength] = Cell(name=name, settings=settings, groups=groups)
        return found

    def check_due(self, due: Sequence[Cell]) -> None:
        """Check that every cell can be configured, and that pty-chi is installed if a cell needs it."""
        pythons = set()
        with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            for cell in due:
                simulate = [*cell.settings["simulate"], f"output={SCAN}"]
                to_dataclass(SimulateConfig, plain(compose_words("simulate", simulate, SimulateConfig)))
                words = [*cell.settings["run"], f"data.file={SCAN}", f"output_dir={RUN}"]
                config = run_config(compose_words("scan", words, ScanRunConfig), words, os.environ)
                assert isinstance(config, ScanRunConfig)
                pythons |= {config.iterative.python} if ITERATIVE in config.models else set()
        for python in pythons:
            try:
                check_available(python)
            except ConfigError as error:
                raise ConfigError(f"{error}; or leave it out: run+=models=[pinn]") from None

    def measure(self, cell: Cell, store: Store) -> dict[str, Any]:
        folder, again = store.path / cell.name, "overwrite=true"
        scan, run = folder / SCAN, folder / RUN
        simulate = [*cell.settings["simulate"], quoted("output", scan), again]
        solve = [*cell.settings["run"], quoted("data.file", scan), quoted("output_dir", run), again]
        commands = [["simulate_scan.py", *simulate], ["scan_workflow.py", *solve]]
        run_scripts(commands, folder / "log.txt")
        return read_result(folder, cell.settings["rows"])

    def report(self, cells: Sequence[Cell], store: Store) -> str:
        """Return a line for every strength of every panel, and draw ``robustness.png``."""
        picked = {cell.name for cell in cells} - {CLEAN}
        every = [(panel, self.cells_of(panel)) for panel in self.panels]
        panels = [
            (panel, {strength: store.result(cell) for strength, cell in own.items()})
            for panel, own in every
            if not picked or any(cell.name in picked for cell in own.values())
        ]
        rows = [
            _format_row(panel, strength, result, self.curves)
            for panel, results in panels
            for strength, result in results.items()
        ]
        store.figure("robustness.png", draw_picture(panels, self.curves))
        shown = "![SSIM against the strength of each imperfection](robustness.png)"
        return "\n\n".join([CAPTION, markdown(rows), shown])


def read_result(folder: Path, curves: Sequence[str]) -> dict[str, Any]:
    """Return SSIM (None if it has none), errors of probe and positions by row; seconds by step."""
    rows = json.loads((folder / RUN / names.METRICS).read_text())
    manifest = json.loads((folder / RUN / names.MANIFEST).read_text())
    there = [row for row in curves if row in rows]
    (steps,), timed = manifest["reconstruction_s"].values(), manifest["timings_s"]
    ssim = {row: (rows[row].get("reference_comparison") or {}).get("ssim") for row in there}
    return {
        "ssim": {row: None if pair is None or None in pair else pair for row, pair in ssim.items()},
        **measure_beam(folder, there),
        "seconds": {
            "solver": steps.get("solver"),
            "training": timed.get("pinn_training"),
            "inference": steps.get("pinn"),
            "LSQ-ML": steps.get("lsqml"),
        },
    }


def measure_beam(folder: Path, rows: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the errors of probe and positions by row; empty if the scan file has no truth.

    The error of the positions is the median distance from the true ones, px, apart from a common shift. The
    median is used because LSQ-ML leaves patterns that it does not fit at their nominal positions.
    """
    try:
        truth = read_truth(folder / SCAN)
    except ConfigError:
        return {"probe": {}, "position": {}}
    probes, positions = {}, {}
    for row in rows:
        found = read_all(folder / RUN / names.recon(row), {"probe": "c", "positions": "f"})
        probes[row] = probe_error(found["probe"][0], truth.probe[0])
        if len(found["positions"]) == len(truth.positions):
            away = found["positions"] - truth.positions
            positions[row] = float(np.median(np.hypot(*(away - np.median(away, axis=0)).T)))
    return {"probe": probes, "position": positions}


def _format_row(panel: Panel, strength: float, result: Any, curves: Mapping[str, str]) -> dict[str, str]:
    result = result or {"ssim": {}, "probe": {}, "position": {}, "seconds": {}}
    pairs = {row: result["ssim"].get(row) for row in curves}
    texts = {row: "–" if pair is None else f"{pair[0]:.3f} / {pair[1]:.4f}" for row, pair in pairs.items()}
    labels, seconds = ", ".join(curves.values()), result["seconds"].items()
    return {
        "imperfection": f"**{panel.name}**: {panel.axis}" if strength == 0 else "",
        "strength": f"{strength:g}",
        **{f"{label} A / φ": texts[row] for row, label in curves.items()},
        f"probe error: {labels}": _format_errors(result["probe"], curves),
        f"position error / px: {labels}": _format_errors(result["position"], curves),
        "seconds": ", ".join(f"{step} {value:.0f}" for step, value in seconds if value is not None)
        or "not done",
    }


def _format_errors(values: Mapping[str, float], curves: Mapping[str, str]) -> str:
    return ", ".join(f"{values[row]:.2f}" if row in values else "–" for row in curves) if values else "–"


def draw_picture(panels: Sequence[tuple[Panel, Mapping[float, Any]]], curves: Mapping[str, str]) -> Figure:
    """Draw the SSIM by strength in a panel for each imperfection; solid: amplitude, dashed: phase."""
    count = len(panels)
    figure = Figure(figsize=(1.2 + 3.1 * count, 4.4), layout="constrained")
    axes = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for ax, (panel, results) in zip(axes, panels, strict=True):
        for colour, (row, label) in enumerate(curves.items()):
            pairs = [None if result is None else result["ssim"].get(row) for result in results.values()]
            known = np.array([(np.nan, np.nan) if pair is None else pair for pair in pairs])
            for values, kind, style in zip(known.T, ("amplitude", "phase"), ("o-", "s--"), strict=True):
                ax.plot(lost(values), style, color=f"C{colour}", markersize=4, label=f"{label}, {kind}")
        ax.set_xticks(range(len(results)), [f"{strength:g}" for strength in results])
        ax.set(title=panel.name)
        ax.set_xlabel(panel.axis, fontsize="small")
        scale(ax, "y")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("SSIM")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=6 if count > 3 else 3 if count > 1 else 2)
    return figure
