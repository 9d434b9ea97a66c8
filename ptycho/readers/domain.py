"""Determine whether a detector's numbers are counts, or intensities or amplitudes in units of their own.

Zero, one and two do not distinguish these, and a frame or a detector's edge may hold nothing else: numbers
are read until enough of them are above zero, and one is large enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Domain(NamedTuple):
    """Domain of the patterns, and why; ``name`` None: undetermined; one is ``likely``, or they are dark."""

    name: str | None
    why: str
    likely: str | None = None


def tell_domain(dtype: np.dtype, blocks: Iterable[np.ndarray], key: str = "", enough: int = 1000) -> Domain:
    """Return what some patterns are: amplitudes by their ``key``, counts if whole, amplitudes if squares are.

    ``blocks``: parts ``(…)`` of them, in any order; no more are taken than are needed. ``enough``: numbers
    above zero that decide, if one of them is above 2.5.
    """
    if key == "diffamp":
        return Domain("amplitude", "the key of the patterns is diffamp")
    if dtype.kind in "iu":
        return Domain("counts", f"the patterns are {dtype}")
    count, largest, whole, roots, n_roots = 0, 0.0, True, True, 0
    for block in blocks:
        numbers = block[np.isfinite(block) & (block != 0)].astype(np.float64)
        count += numbers.size
        largest = max(largest, float(np.max(numbers, initial=0.0)))
        whole = whole and bool(np.all(numbers == np.rint(numbers)))
        are_roots, squares = _roots(numbers)
        roots, n_roots = roots and are_roots, n_roots + squares
        if not (whole or roots) or (count >= enough and largest >= 2.5):
            break
    if not count:
        return Domain(None, "the patterns hold nothing but zeros")
    if whole:
        return Domain("counts", "the patterns are whole numbers")
    if roots and n_roots >= 10:
        return Domain("amplitude", "the squares of the patterns are whole numbers")
    if key == "diffraction":
        return Domain("amplitude", "prepared files hold amplitudes as diffraction")
    likely = "amplitude" if largest <= 50 else "intensity"
    why = f"the patterns are no whole numbers and reach {largest:.4g}; perhaps data.domain={likely}"
    return Domain(None, why, likely)


def squares_are_whole(amplitudes: np.ndarray) -> bool:
    """Return whether ``amplitudes (…)`` are square roots of counts, and enough of them no whole numbers."""
    numbers = amplitudes[np.isfinite(amplitudes) & (amplitudes != 0)].astype(np.float64)
    are_roots, roots = _roots(numbers)
    return are_roots and roots >= 10


def _roots(numbers: np.ndarray, largest: float = 1e4) -> tuple[bool, int]:
    """Return whether numbers ``(n,)`` can be roots of counts, and how many of them are not whole.

    ``largest``: squares beyond it are too coarse in float32.
    """
    squares = numbers[(numbers != np.rint(numbers)) & (numbers**2 <= largest)] ** 2
    whole = np.all(numbers >= 0) and np.all(abs(squares - np.rint(squares)) <= 1e-6 * squares)
    return bool(whole), squares.size
