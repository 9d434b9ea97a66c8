"""The product of a run: which of its reconstructions is its result."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ptycho.files.text import read_json

METRICS, RECONS = "metrics.json", "recons"
BEST = ("solver", "refined", "pinn", "lsqml", "baseline")  # where a run does not say


def product_of(metrics: Mapping[str, Any], held: Collection[str]) -> str:
    """Return the product among the reconstructions that are ``held``, by a scan's scores; empty: none."""
    named = metrics.get("product")
    return str(named) if named in held else next((name for name in BEST if name in held), "")


def find_product(run: Path) -> tuple[str, Path] | None:
    """Return name and file of a run's product."""
    try:
        metrics = read_json(run / METRICS)
    except (OSError, ValueError):  # not finished, or damaged: its files say what is there
        metrics = {}
    files = {path.parent.name: path for path in (run / RECONS).glob("*/recon.npz")}
    name = product_of(metrics, files)
    return (name, files[name]) if name else None
