"""A raster in an array, and the step that the file states with its axes, if it does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ptycho.config import ConfigError
from ptycho.readers.quantities import LENGTHS
from ptycho.readers.raw_scan import PatternSource, Raster

Axis = tuple[float, str]  # scale and unit


class Cube(NamedTuple):
    """Patterns of a raster.

    Attributes:
        source: ``(J, H, W)``.
        grid: ``(rows, columns)`` that the file states; None: a list.
        rows_first: a list runs along the rows first, as MATLAB stores it.
        step_m: along rows and along columns, that the file states; None: it does not.
    """

    source: PatternSource
    grid: tuple[int, int] | None
    rows_first: bool = False
    step_m: tuple[float, float] | None = None


def step_m(axes: Sequence[Axis]) -> tuple[float, float] | None:
    """Return the step along the rows and the columns of a raster with ``axes``; None: one is no length.

    A list has one axis, of which the step is that of both.
    """
    steps = [_length_m(*axis) for axis in axes]
    first, last = (steps[0], steps[-1]) if steps else (None, None)
    return None if first is None or last is None else (first, last)


def _length_m(scale: float, unit: str) -> float | None:
    """Return the size of a step in metres; EMD writes nm as ``[n_m]``."""
    size = LENGTHS.get(unit.strip("[]() ").replace("_", "").lower())
    return abs(scale) * size if size is not None and math.isfinite(scale) and scale != 0 else None


def complete(raster: Raster | None, step: tuple[float, float] | None, path: str | Path) -> Raster:
    """Return the raster that the user states, with the ``step`` of the file where the user states none.

    Raises:
        ConfigError: nobody states the step.
    """
    raster = raster or Raster(None, None)
    if raster.step_m is None and step is None:
        raise ConfigError(
            f"{path}: holds patterns without positions; state the step of the raster, data.scan_step_A=… (or "
            "data.scan_step_nm, data.scan_step_m), and data.scan_shape=[rows,columns] where its axes do not; "
            "or save patterns and positions in one NPZ, and add data.keys"
        )
    return raster if raster.step_m is not None else replace(raster, step_m=step, source="the file")


def listed(shape: tuple[int, ...]) -> tuple[tuple[int, int, int], tuple[int, int] | None]:
    """Return ``(J, H, W)``, and the raster of ``(A, B, H, W)``; of ``(J, H, W)`` None.

    Raises:
        ConfigError: another number of axes, or nothing along one.
    """
    if len(shape) == 4 and min(shape) > 0:
        return (shape[0] * shape[1], shape[2], shape[3]), (shape[0], shape[1])
    if len(shape) == 3 and min(shape) > 0:
        return (shape[0], shape[1], shape[2]), None
    raise ConfigError(f"is an array {shape}; must be (rows, columns, H, W) or (patterns, H, W)")
