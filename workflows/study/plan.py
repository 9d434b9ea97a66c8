"""The runs of a study: what each must be configured as, and what its folder holds already."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from ptycho.config import ConfigError, RunConfig
from workflows.config import run_config
from workflows.study.definition import Cell, Study

OURS = ("experiment", "seed", "output_dir", "overwrite")
COMPLETE, OTHER, INCOMPLETE, ABSENT = "complete", "other", "incomplete", "absent"


@dataclass(frozen=True)
class StudyRun:
    """One cell with one seed: its configuration and its folder."""

    cell: Cell
    seed: int
    path: Path
    config: RunConfig
    overrides: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.cell.name}, seed {self.seed}"

    @property
    def arguments(self) -> list[str]:
        """Overrides for ``scripts/grid_lines_workflow.py``; a folder in quotes may hold any character."""
        folder = str(self.path).replace("'", "\\'")
        return [
            f"experiment={self.cell.name}",
            *self.overrides,
            f"seed={self.seed}",
            f"output_dir='{folder}'",
            "overwrite=true",
        ]

    def state(self) -> str:
        """``complete`` with this configuration, complete with an ``other``, ``incomplete``, or ``absent``."""
        if not (self.path / "config.yaml").exists():
            return ABSENT
        if not (self.path / "manifest.json").exists():
            return INCOMPLETE
        return OTHER if self.differences() else COMPLETE

    def differences(self) -> list[str]:
        """Keys whose value in the folder's configuration is not the expected one: ``key=found, not …``."""
        try:
            stored = run_config(OmegaConf.load(self.path / "config.yaml"), [], {})  # type: ignore[arg-type]
        except ValueError as error:
            return [str(error)]
        found, wanted = _flat(_essence(stored)), _flat(_essence(self.config))
        keys = list(dict.fromkeys([*wanted, *found]))
        return [f"{k}={found.get(k)}, not {wanted.get(k)}" for k in keys if found.get(k) != wanted.get(k)]


def plan(
    study: Study, output: Path, seeds: Sequence[int], overrides: Sequence[str], conf: Path
) -> list[StudyRun]:
    """Every run of a study, all seeds of the first kind before the next, so that a table fills up early.

    Args:
        conf: the folder with ``grid_lines.yaml`` and ``experiment/``.

    Raises:
        ConfigError: an override belongs to the study, an experiment is missing or wrong.
    """
    for override in overrides:
        key = override.lstrip("+~").split("=", 1)[0]
        if key in OURS:
            raise ConfigError(f"--override {override}: {key} is set by the study itself; leave it out")
    configs = {cell.name: _composed(cell, overrides, conf) for cell in study.cells}
    return [
        StudyRun(
            cell,
            seed,
            output / cell.name / f"seed{seed}",
            replace(configs[cell.name], seed=seed),
            tuple(overrides),
        )
        for seed in seeds
        for cell in study.cells
    ]


def _composed(cell: Cell, overrides: Sequence[str], conf: Path) -> RunConfig:
    every = [f"experiment={cell.name}", *overrides, "output_dir=unused"]
    if not (conf / "experiment" / f"{cell.name}.yaml").exists():
        raise ConfigError(f"cell {cell.name}: {conf}/experiment/{cell.name}.yaml does not exist")
    with initialize_config_dir(version_base="1.3", config_dir=str(conf.resolve())):
        config = run_config(compose("grid_lines", every), every, os.environ)
    if cell.model not in config.models:
        raise ConfigError(
            f"cell {cell.name}: shows the {cell.model}, but its experiment has models={list(config.models)}"
        )
    return config


def _essence(config: RunConfig) -> RunConfig:
    return replace(config, output_dir=None, overwrite=False)


def _flat(config: RunConfig) -> dict[str, Any]:
    """All values by their key as on the command line; sections of a table with their kind."""
    values: dict[str, Any] = {}
    for key, value in asdict(config).items():
        if not isinstance(value, dict):
            values[key] = value
            continue
        kind = getattr(getattr(config, key), "KIND", None)
        values |= {f"{key}.kind": kind} | {f"{key}.{inner}": entry for inner, entry in value.items()}
    return values
