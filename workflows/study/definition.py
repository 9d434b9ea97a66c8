"""What a study consists of: ``conf/study.yaml`` as frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ptycho.config import MODELS, ConfigError, StitchConfig, check
from workflows.config import one_line

AT_LEAST = ("amplitude", "phase", "frc50")
AT_MOST = ("phase_rmse_rad", "seconds", "parameters")
SCORES = ("amplitude", "phase", "phase_rmse_rad", "frc50")


@dataclass(frozen=True)
class Published:
    """SSIM of amplitude and phase that others report, or None, and where."""

    amplitude: float | None = None
    phase: float | None = None
    source: str = ""


@dataclass(frozen=True)
class Target:
    """Limits: the ``AT_LEAST`` from below, the ``AT_MOST`` from above; None is no limit."""

    amplitude: float | None = None
    phase: float | None = None
    frc50: float | None = None
    phase_rmse_rad: float | None = None
    seconds: float | None = None
    parameters: float | None = None

    def limits(self) -> dict[str, float]:
        """The limits that are set, by the name of the score."""
        found = {key: getattr(self, key) for key in (*AT_LEAST, *AT_MOST)}
        return {key: limit for key, limit in found.items() if limit is not None}


@dataclass(frozen=True)
class Cell:
    """One experiment of a study and the model it shows."""

    name: str
    title: str
    model: str = "pinn"
    published: Published = field(default_factory=Published)
    target: Target = field(default_factory=Target)


@dataclass(frozen=True)
class Claim:
    """``score(cell) − score(minus) ≥ at_least``, as the median over the seeds that both have."""

    cell: str
    minus: str
    at_least: float
    score: str = "amplitude"


@dataclass(frozen=True)
class Comparison:
    """Holds if ``any`` of its claims does."""

    title: str
    any: tuple[Claim, ...]


@dataclass(frozen=True)
class Study:
    """Cells in the order of the table; ``stitching[0]`` is the one that is judged."""

    stitching: tuple[str, ...]
    cells: tuple[Cell, ...]
    comparisons: tuple[Comparison, ...] = ()

    def select(self, names: Sequence[str] | None) -> Study:
        """The study of some cells only, in its own order, with the comparisons among them."""
        known = [cell.name for cell in self.cells]
        for name in names or ():
            check(name in known, "--cells", name, f"drawn from {', '.join(known)}")
        chosen = known if names is None else [name for name in known if name in names]
        return Study(
            self.stitching,
            tuple(cell for cell in self.cells if cell.name in chosen),
            tuple(
                comparison
                for comparison in self.comparisons
                if all(claim.cell in chosen and claim.minus in chosen for claim in comparison.any)
            ),
        )


def load_study(path: Path) -> Study:
    """Read the definition of a study.

    Raises:
        ConfigError: the file is missing or no YAML; a key is unknown or missing; a name means nothing.
    """
    study = made(Study, loaded(path), str(path))
    cells = tuple(_cell(cell, f"{path}, cells") for cell in study.cells)
    comparisons = tuple(_comparison(entry, f"{path}, comparisons") for entry in study.comparisons)
    read = Study(tuple(study.stitching), cells, comparisons)
    _check_names(read)
    return read


def loaded(path: Path) -> Any:
    """What a YAML file holds; a ConfigError of one line where it cannot be read."""
    try:
        return yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read ({one_line(str(error))})") from error


def _cell(values: Any, where: str) -> Cell:
    values = dict(values) if isinstance(values, dict) else values
    if isinstance(values, dict):
        where = f"{where}, {values.get('name')}"
        for key, cls in (("published", Published), ("target", Target)):
            if key in values:
                values[key] = made(cls, values[key], f"{where}, {key}")
    return made(Cell, values, where)


def _comparison(values: Any, where: str) -> Comparison:
    read = made(Comparison, values, where)
    where = f"{where}, {read.title}"
    return Comparison(read.title, tuple(made(Claim, claim, where) for claim in read.any))


Made = TypeVar("Made")


def made(cls: type[Made], values: Any, where: str) -> Made:
    """A dataclass from a mapping that has its keys and no others."""
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: {values!r} must be a section of keys")
    parts = fields(cls)  # type: ignore[arg-type]
    known = [part.name for part in parts]
    for key in values:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key}; known are {', '.join(known)}")
    for part in parts:
        if part.name not in values and part.default is MISSING and part.default_factory is MISSING:
            raise ConfigError(f"{where}: lacks the key {part.name}")
    return cls(**values)


def _check_names(study: Study) -> None:
    names = [cell.name for cell in study.cells]
    check(len(set(names)) == len(names), "cells", names, "free of repetition")
    check(bool(names), "cells", "[]", "a non-empty list")
    check(bool(study.stitching), "stitching", "[]", "a non-empty list")
    for method in study.stitching:
        check(method in StitchConfig.METHODS, "stitching", method, f"among {', '.join(StitchConfig.METHODS)}")
    for cell in study.cells:
        check(cell.model in MODELS, f"{cell.name}: model", cell.model, f"one of {', '.join(MODELS)}")
    for claim in (claim for comparison in study.comparisons for claim in comparison.any):
        for name in (claim.cell, claim.minus):
            check(name in names, "comparisons: cell", name, f"one of {', '.join(names)}")
        check(claim.score in SCORES, "comparisons: score", claim.score, f"one of {', '.join(SCORES)}")
