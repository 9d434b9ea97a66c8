"""A raster in an array, and the step that the file states with its axes, if it does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ptycho.config import ConfigError
from ptycho.readers.raw_scan import PatternSource, Raster
from ptycho.readers.values import LENGTHS

Axis = tuple[float, str]  # scale and unit


class Cube(NamedTuple):
    """Patterns ``source`` (J, H, W) of a raster, and what the file states of it.

    ``grid``: (rows, columns); None: a list. ``rows_first``: a list runs along the rows first, as MATLAB
    stores it. ``step_m``: along rows and along columns; None: it is not stated.
    """

    source: PatternSource
    grid: tuple[int, int] | None
    rows_first: bool = False
    step_m: tuple[float, float] | None = None


def step_m(axes: Sequence[Axis]) -> tuple[float, float] | None:
    """Return the step along the rows and the columns of a raster with ``axes``; None: one is no length.

    A list has one axis, of which the step is that of both. EMD writes nm as ``[n_m]``.
    """
    sizes = [LENGTHS.get(unit.strip("[]() ").replace("_", "").lower(), 0.0) for _, unit in axes]
    steps = [abs(scale) * size for (scale, _), size in zip(axes, sizes, strict=True)]
    return (steps[0], steps[-1]) if steps and all(0 < step < math.inf for step in steps) else None


def complete(raster: Raster | None, step: tuple[float, float] | None, path: str | Path) -> Raster:
    """Return the raster that the user specifies, with the ``step`` of the file if none is specified."""
    raster = raster or Raster(None, None)
    if raster.step_m is None and step is None:
        raise ConfigError(
            f"{path}: holds patterns without positions; state the step of the raster, data.scan_step_A=… (or "
            "data.scan_step_nm, data.scan_step_m), and data.scan_shape=[rows,columns] where its axes do not; "
            "or save patterns and positions in one NPZ, and add data.keys"
        )
    return raster if raster.step_m is not None else replace(raster, step_m=step, source="the file")


def listed(shape: tuple[int, ...]) -> tuple[tuple[int, int, int], tuple[int, int] | None]:
    """Return ``(J, H, W)``, and the raster of ``(A, B, H, W)``; of ``(J, H, W)`` None."""
    if len(shape) not in (3, 4) or min(shape) < 1:
        raise ConfigError(f"is an array {shape}; must be (rows, columns, H, W) or (patterns, H, W)")
    grid = (shape[0], shape[1]) if len(shape) == 4 else None
    return (math.prod(shape[:-2]), shape[-2], shape[-1]), grid


def raster_positions(
    raster: Raster, count: int, grid: tuple[int, int] | None, rows_first: bool, path: Path | str
) -> np.ndarray:
    """Return positions ``(J, 2)`` in metres of ``count`` patterns.

    ``grid``: that of the file's axes; None: ``raster.shape`` must be specified. ``rows_first``: a list of
    patterns runs along the rows first, as MATLAB stores it.
    """
    if raster.step_m is None:
        raise ConfigError(
            f"{path}: data.scan_shape, data.scan_path: belong to a raster; add data.scan_step_A=…"
        )
    shape = raster.shape or grid
    if shape is None:
        raise ConfigError(f"{path}: {count} patterns in a list; set data.scan_shape=[rows,columns]")
    if raster.shape and grid and min(grid) > 1 and raster.shape != grid:
        raise ConfigError(
            f"data.scan_shape={list(raster.shape)}: the first axes of the patterns in {path} are "
            f"{list(grid)}; remove it"
        )
    if math.prod(shape) != count:
        raise ConfigError(
            f"data.scan_shape={list(shape)}: is a raster of {math.prod(shape)} positions, and {path} holds "
            f"{count} patterns"
        )
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    if raster.path == "snake":
        columns[1::2] = columns[1::2, ::-1]
    order = "F" if rows_first else "C"
    return np.stack([rows.ravel(order), columns.ravel(order)], axis=1) * np.array(raster.step_m)
