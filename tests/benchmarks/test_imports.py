"""Every benchmark can be imported: what it uses of the program is still there."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
MODULES = sorted(
    ".".join(file.relative_to(BENCHMARKS.parent).with_suffix("").parts)
    for file in BENCHMARKS.rglob("*.py")
    if file.stem not in ("__init__", "__main__")
)
OTHERS = ("jax", "xptycho")
"""Packages of other environments, in which some benchmarks run."""


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_finds_what_it_imports(name, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OTHERS:
            raise
