"""What a run left in its folder, read back; nothing is unpickled, nothing is guessed."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ptycho.config import ConfigError, RunConfig
from ptycho.conversion import from_mapping, one_line, to_mapping
from ptycho.npz import NpzError, read_all
from ptycho.report import weights_hash

CONFIG = "config.yaml"


@dataclass(frozen=True, eq=False)
class StoredModel:
    """Weights by path, what ``model.json`` says of them, and the rows of ``history.csv``."""

    weights: dict[str, np.ndarray]
    description: dict[str, Any]
    rows: list[dict[str, float]]


def read_config(run: Path) -> RunConfig:
    """The configuration of the run in folder ``run``, from its ``config.yaml``.

    Keys that are newer than the file have their defaults; a file that lacks whole sections has been cut
    short.

    Raises:
        ConfigError: the file is missing, unreadable, incomplete, or holds an unknown key or a wrong value.
    """
    path = run / CONFIG
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{run}: holds no run; there is no {CONFIG} in it") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: not text; a date of month 13
        raise ConfigError(f"{path}: is damaged ({one_line(str(error))})") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: is damaged (it must hold a configuration: lines of key: value)")
    try:
        config = from_mapping(values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    sections = {key for key, value in to_mapping(RunConfig()).items() if isinstance(value, dict)}
    if missing := sorted(sections - values.keys()):
        raise ConfigError(f"{path}: is incomplete; it lacks {', '.join(missing)}")
    return config


def read_model(run: Path, name: str) -> StoredModel | None:
    """The model ``name`` of a run; None if it has not been stored completely.

    Raises:
        ConfigError: a file of it is damaged, or the weights are not those that ``model.json`` speaks of.
    """
    folder = run / name
    paths = [folder / file for file in ("weights.npz", "history.csv", "model.json")]
    if not all(path.exists() for path in paths):
        return None
    try:
        weights = read_all(paths[0], "f")
    except NpzError as error:
        raise ConfigError(f"{paths[0]}: {error}") from error
    try:
        with paths[1].open(newline="", encoding="utf-8") as file:
            rows = [_row(row) for row in csv.DictReader(file)]
        description = json.loads(paths[2].read_text(encoding="utf-8"))
        wanted = description["weights_sha256"]
    except Exception as error:  # a damaged file raises whatever its bytes lead to
        raise ConfigError(f"{folder}: is damaged ({one_line(str(error))})") from error
    if weights_hash(weights) != wanted:
        raise ConfigError(f"{folder}: is damaged (weights.npz has another SHA-256 than model.json says)")
    return StoredModel(weights, description, rows)


def _row(row: dict[str, str]) -> dict[str, float]:
    """A row of ``history.csv`` as numbers."""
    return {key: int(value) if key == "epoch" else float(value) for key, value in row.items()}


def is_finished(run: Path) -> bool:
    """Whether a run wrote its last files, ``metrics.json`` and ``manifest.json``, and they can be read."""
    try:
        return all(json.loads((run / name).read_text()) for name in ("metrics.json", "manifest.json"))
    except (OSError, ValueError):
        return False
