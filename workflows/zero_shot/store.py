"""What is stored of the cells of a study, and which are still to be made; nothing here imports TensorFlow."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.npz import read_all
from workflows.zero_shot.definition import Cell, Definition


def scores_name(cell: Cell) -> str:
    return f"cells/{cell.name}.json"


def images_name(cell: Cell) -> str:
    return f"cells/{cell.name}.npz"


def settings_of(cell: Cell, study: Definition, network: str) -> dict[str, Any]:
    """Everything that a cell's numbers depend on but the machine; ``network``: SHA-256 of its weights."""
    return {"scan": cell.settings, "study": study.settings, "network": network}


def finished(output: Path, cell: Cell) -> dict[str, Any] | None:
    """What is stored of a cell; None where nothing is, or nothing that can be read."""
    try:
        found = json.loads((output / scores_name(cell)).read_text())
        stored_images(output, cell)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"settings", "facts", "methods"} <= found.keys() else None


def stored_images(output: Path, cell: Cell) -> dict[str, np.ndarray]:
    """The true object in the region, the probe, and the object by each method, aligned."""
    return read_all(output / images_name(cell), "c")


def due(
    cells: Iterable[Cell], study: Definition, network: str, output: Path, overwrite: bool
) -> dict[str, list[str]]:
    """By cell, the methods that are still to be done.

    Raises:
        ConfigError: a finished cell was made with other settings, and ``overwrite`` is false.
    """
    waiting = {}
    for cell in cells:
        found, wanted = finished(output, cell), settings_of(cell, study, network)
        if found is not None and found["settings"] != wanted and not overwrite:
            keys = [key for key in wanted if found["settings"].get(key) != wanted[key]]
            raise ConfigError(
                f"{output / scores_name(cell)}: was made with other settings ({', '.join(keys)}); choose "
                "another --output, or --overwrite to replace it"
            )
        done = found["methods"] if found is not None and found["settings"] == wanted else {}
        if missing := [method for method in study.methods if method not in done]:
            waiting[cell.name] = missing
    return waiting


def made_alike(output: Path, cell: Cell, study: Definition) -> dict[str, Any] | None:
    """What is stored of a cell, if it was made with these settings, by whichever network."""
    found = finished(output, cell)
    if found is None:
        return None
    wanted = settings_of(cell, study, found["settings"].get("network", ""))
    return found if found["settings"] == wanted else None
