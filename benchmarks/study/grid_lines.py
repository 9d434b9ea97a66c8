"""The study of networks on grid lines: runs of the workflow, for several seeds, each in a process."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from pydantic.dataclasses import dataclass

from benchmarks.study import grid_lines_report as report
from benchmarks.study.framework import STRICT, Cell, Store, check_words
from benchmarks.study.grid_lines_report import REFERENCES, Difference, Experiment
from ptycho.command_line.config import run_config
from ptycho.command_line.jobs import CONF
from ptycho.command_line.words import quoted
from ptycho.config import ConfigError, RunConfig, StitchConfig, check
from ptycho.config.mapping import result_settings
from ptycho.evaluation.trust import FLAGS
from ptycho.run import names

log = logging.getLogger("study")
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
PATIENCE_S = 30.0  # seconds after which an interrupted program is killed
OURS = ("experiment", "seed", "output_dir", "overwrite", "resume")  # keys that the study sets


@dataclass(frozen=True, config=STRICT)
class GridLines:
    """The keys of ``grid_lines.yaml``."""

    seeds: tuple[int, ...]
    stitching: tuple[str, ...]
    experiments: tuple[Experiment, ...]
    differences: tuple[Difference, ...] = ()
    run: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in ("seeds", "stitching", "experiments"):
            check(bool(getattr(self, key)), key, "[]", "a non-empty list")
        known = [experiment.name for experiment in self.experiments]
        check(len(set(known)) == len(known), "experiments", known, "free of repetition")
        for method in self.stitching:
            methods = f"among {', '.join(StitchConfig.METHODS)}"
            check(method in StitchConfig.METHODS, "stitching", method, methods)
        for name in (name for one in self.differences for name in (one.cell, one.minus)):
            check(name in known, "differences", name, f"one of {', '.join(known)}")
        check_words(self.run, OURS)

    def cells(self) -> list[Cell]:
        """Return the cells ordered by seed, so that the table has every experiment early."""
        configs = [(experiment, self._compose(experiment)) for experiment in self.experiments]
        return [
            Cell(
                name=f"{one.name}/seed{seed}",
                settings={"shown": one.model, **result_settings(replace(config, seed=seed))},
                groups=(one.name,),
            )
            for seed in self.seeds
            for one, config in configs
        ]

    def _compose(self, experiment: Experiment) -> RunConfig:
        name, path = experiment.name, CONF / "experiment" / f"{experiment.name}.yaml"
        check(path.exists(), f"{name}: experiment", path, "there")
        words = [f"experiment={name}", *self.run, "output_dir=unused"]
        with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            config = run_config(compose("grid_lines", words), words, os.environ)
        assert isinstance(config, RunConfig)  # grid_lines.yaml has no section data
        if experiment.model not in config.models:
            raise ConfigError(f"{name}: shows the {experiment.model}, but has models={list(config.models)}")
        return config

    def check_due(self, due: Sequence[Cell]) -> None:
        """Check nothing: every run checks its own configuration, which is composed before."""

    def measure(self, cell: Cell, store: Store) -> dict[str, Any]:
        (name,), folder = cell.groups, store.path / cell.name
        words = [f"experiment={name}", *self.run, f"seed={cell.settings['seed']}"]
        words += [f"output_dir={quoted(str(folder))}", "overwrite=true"]
        run_script("grid_lines_workflow.py", words, folder.with_name(f"{folder.name}.log"))
        shutil.rmtree(folder / "datasets", ignore_errors=True)  # about 0.3 GB
        return read_result(folder, cell.settings["shown"])

    def report(self, cells: Sequence[Cell], store: Store) -> str:
        """Return a table and differences, and draw ``comparison.png``."""
        results = [
            report.Results(one, {cell.name: store.result(cell) for cell in cells if one.name in cell.groups})
            for one in self.experiments
        ]
        return report.write([one for one in results if one.by_cell], self.stitching, self.differences, store)


def read_result(folder: Path, model: str) -> dict[str, Any]:
    """Return scores and flags of a run by row (stitchings, then reference images), costs, and machine."""
    metrics, manifest = (_json(folder / name) for name in (names.METRICS, names.MANIFEST))
    stitched, training = metrics[model]["stitching"], manifest["training"][model]
    rows = stitched | {name: metrics[name] for name in REFERENCES}
    return {
        "rows": {name: _read_scores(row) for name, row in rows.items()},
        "costs": {
            "seconds": training["steps_s"],
            "compile_s": training["compile_s"],
            "simulation_s": manifest["timings_s"].get("simulation"),
            "parameters": _json(folder / model / "model.json")["parameters"],
        },
        "machine": f"{manifest['platform']}, {manifest['cpu_count']} CPUs, {manifest['device']}, "
        f"TensorFlow {manifest['versions']['tensorflow']}",
    }


def _read_scores(row: dict[str, Any]) -> dict[str, Any]:
    amplitude, phase = row["ssim"]
    return {
        "amplitude": amplitude,
        "phase": phase,
        "phase_rmse_rad": row["phase_rmse_rad"],
        "frc50": row["frc50"][0],
        "flags": [flag for flag in row["flags"] if flag in FLAGS],
    }


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


def run_script(name: str, words: Sequence[str], output: Path) -> None:
    """Run a program of ``scripts/`` with its arguments; its text goes to ``output``.

    The process is in a new session, so that it gets Ctrl-C once, from this process.

    Raises:
        RuntimeError: it failed; with its exit code and its last line.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w") as file:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": subprocess.STDOUT}
        command = [sys.executable, str(SCRIPTS / name), *words]
        process = subprocess.Popen(command, **pipes, start_new_session=True)  # type: ignore[call-overload]
        try:
            code = process.wait()
        except KeyboardInterrupt:
            log.info("    stopping")
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
            raise
        finally:
            process.kill()  # does nothing to one that has ended
            process.wait()
    if code:
        lines = output.read_text(errors="replace").strip().splitlines() or ["no output"]
        raise RuntimeError(f"{name} ended with exit code {code}: {lines[-1]}; see {output}")
