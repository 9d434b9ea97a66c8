"""The runs of a study: what each must be configured as, and what its folder holds already."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hydra import compose, initialize_config_dir

from ptycho.config import ConfigError, RunConfig
from ptycho.config.mapping import differences, result_settings
from ptycho.run.stored_config import read_config
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
        """Keys of the folder's configuration that are not as expected: ``key: found -> expected``."""
        try:
            return differences(result_settings(read_config(self.path)), result_settings(self.config))
        except ConfigError as error:
            return [str(error)]


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
    assert isinstance(config, RunConfig)  # grid_lines.yaml has no section data
    if cell.model not in config.models:
        raise ConfigError(
            f"cell {cell.name}: shows the {cell.model}, but its experiment has models={list(config.models)}"
        )
    return config
