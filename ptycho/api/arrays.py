"""A scan that is arrays already: checked, and handed on as if a file had held it."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import LARGEST_N, SMALLEST_N
from ptycho.preparation.geometry import LARGEST_SPAN_M
from ptycho.readers.patterns import Incomplete, Patterns
from ptycho.readers.raw_scan import Frames, RawScan


def raw_scan(
    patterns: np.ndarray,
    positions: np.ndarray,
    unit: Literal["px", "m"],
    probe: np.ndarray | None,
    counts: bool,
    good: np.ndarray | None,
    truth: np.ndarray | None,
) -> RawScan:
    """Return arrays, patterns ``(J, N, N)``, as a file would; :meth:`ptycho.Scan.from_arrays` has the shapes.

    ConfigError: an array cannot be used; the message names it, its value, and what to do.
    """
    patterns = check_patterns(patterns, counts, good)
    J, N, _ = patterns.shape
    frames: Patterns = Frames(patterns)
    if good is not None and good.ndim == 3:
        frames, good = Incomplete(frames, Frames(good)), np.logical_or.reduce(good)
    return RawScan(
        format="arrays",
        patterns=frames,
        domain="counts" if counts else "intensity",
        zero_frequency="centre",
        positions=check_positions(positions, J, unit),
        unit=unit,
        probe=None if probe is None else check_probe(probe, N),
        object=None if truth is None else check_truth(truth),
        good=good,
    )


def check_patterns(patterns: np.ndarray, counts: bool, good: np.ndarray | None = None) -> np.ndarray:
    """Return patterns ``(J, N, N)``: finite numbers from zero up; whole ones where they are counts.

    What pixels hold that are not ``good``, ``(N, N)`` or ``(J, N, N)``, does not matter, and becomes zero.
    """
    array = np.asarray(patterns)
    if array.ndim != 3 or array.shape[1] != array.shape[2]:
        raise ConfigError(
            f"patterns has shape {array.shape}; must be (J, N, N), a square pattern for each position: cut "
            "it out around the zero frequency"
        )
    N = array.shape[1]
    if N % 2 or not SMALLEST_N <= N <= LARGEST_N:
        raise ConfigError(
            f"patterns has shape {array.shape}; N={N} must be even, from {SMALLEST_N} to {LARGEST_N}: cut or "
            "pad so that the zero frequency is at [N//2, N//2]"
        )
    if array.dtype.kind not in "fiu":
        raise ConfigError(
            f"patterns has dtype {array.dtype}; must be real numbers: intensities, np.abs(far_field)**2"
        )
    if good is not None:
        bad = np.broadcast_to(~check_good(good, array.shape), array.shape)
        odd = array[bad]
        usable = (odd >= 0) & np.isfinite(odd) & (not counts or odd == np.rint(odd))
        array = array if usable.all() else np.where(bad, array.dtype.type(0), array)
    _refuse(array, ~np.isfinite(array), "patterns", "finite; name pixels that were not measured in good")
    remedy = "subtract less of a dark field, or name marks of bad pixels in good"
    _refuse(array, array < 0, "patterns", f"from 0 up; {remedy}")
    if counts and array.dtype.kind == "f":
        _refuse(array, array != np.rint(array), "patterns", "whole photons with counts=True; or counts=False")
    return array


def check_positions(positions: np.ndarray, J: int, unit: Literal["px", "m"] = "px") -> np.ndarray:
    """Return positions ``(J, 2)`` float64; errors name ``positions``, or ``positions_m`` for metres."""
    name, length = ("positions", "object pixels") if unit == "px" else ("positions_m", "metres")
    array = np.asarray(positions)
    if array.shape != (J, 2):
        raise ConfigError(f"{name} has shape {array.shape}; must be ({J}, 2): (row, col) of each pattern")
    if array.dtype.kind not in "fiu":
        raise ConfigError(f"{name} has dtype {array.dtype}; must be real numbers, {length}")
    _refuse(array, ~np.isfinite(array), name, "finite; exclude patterns without a position")
    if unit == "m" and (span := np.ptp(array, axis=0)).max() > LARGEST_SPAN_M:
        raise ConfigError(f"{name} spans {span[0]:.3g} m × {span[1]:.3g} m; must be in metres: 1e-6 for a µm")
    return array.astype(np.float64)


def check_probe(probe: np.ndarray, N: int) -> np.ndarray:
    """Return modes ``(K, N, N)`` complex64."""
    array = np.asarray(probe)
    if array.ndim not in (2, 3) or array.shape[-2:] != (N, N) or not len(array):
        raise ConfigError(
            f"probe has shape {array.shape}; must be ({N}, {N}) as the patterns, (K, {N}, {N}) for K modes, "
            "or None: it is estimated from the mean pattern"
        )
    if array.dtype.kind not in "cfiu":
        raise ConfigError(f"probe has dtype {array.dtype}; must be complex or real numbers")
    estimated = "it is estimated from the mean pattern"
    _refuse(array, ~np.isfinite(array), "probe", f"finite; or probe=None: {estimated}")
    if not array.any():
        raise ConfigError(f"probe is zero everywhere; must carry intensity, or be None: {estimated}")
    return array.reshape(-1, N, N).astype(np.complex64)


def check_good(good: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the mask of good pixels of patterns of a ``shape`` ``(J, N, N)``: of all, or of each."""
    array = np.asarray(good)
    if array.shape not in (shape, shape[1:]) or array.dtype != bool:
        raise ConfigError(
            f"good has shape {array.shape} and dtype {array.dtype}; must be {shape[1:]} or {shape}, bool: "
            "True where a pixel was measured"
        )
    return array


def check_truth(truth: np.ndarray) -> np.ndarray:
    """Return the true object, ``(M, M')`` complex."""
    array = np.asarray(truth)
    if array.ndim != 2 or array.dtype.kind not in "cf" or not np.isfinite(array).all():
        raise ConfigError(
            f"truth has shape {array.shape} and dtype {array.dtype}; must be the finite complex object, 2-D"
        )
    return array.astype(complex)


def check_pixel(pixel_m: float | tuple[float, float]) -> tuple[float, float]:
    """Return the pixel size (row, col) in metres."""
    pair = np.broadcast_to(np.asarray(pixel_m, float), (2,)) if np.ndim(pixel_m) < 2 else np.zeros(0)
    if len(pair) != 2 or not all(math.isfinite(value) and 0 < value < 1e-3 for value in pair):
        raise ConfigError(
            f"pixel_m={pixel_m}: must be the object's pixel in metres, λz/(N·p), or (row, col); say 1e-8"
        )
    return float(pair[0]), float(pair[1])


def _refuse(array: np.ndarray, wrong: np.ndarray, name: str, allowed: str) -> None:
    """Raise ConfigError that names the first wrong number of an array, if there is one."""
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        text = ", ".join(map(str, index))
        raise ConfigError(f"{name}[{text}] is {array[index]:g}; must be {allowed}")
