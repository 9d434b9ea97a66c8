"""Whether a detector's numbers are counts, or intensities or amplitudes in units of their own.

=========================== ==================================================================
key ``diffamp``             ``amplitude``
integers, whole numbers     ``counts``
squares are whole           ``amplitude``: square roots of counts
key ``diffraction``         ``amplitude``, as the published PtychoPINN prepares its files
none of these               cannot be determined; the format says, or the user (``data.domain=``)
=========================== ==================================================================

Nought, one and two tell little, and a frame or a detector's edge may hold nothing else: numbers are read
until ``ENOUGH`` that are not nought were seen, and one of at least ``TELLING`` among them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

ENOUGH, TELLING = 1000, 2.5
SQUARES_TO, ROOTS = 1e4, 10  # so many roots of numbers up to that; of larger ones float32 is too coarse
SMALL = 50  # amplitudes are seldom larger


class Domain(NamedTuple):
    """What patterns are, and why; ``name`` None: undetermined; one is ``likely``, or they are dark."""

    name: str | None
    why: str
    likely: str | None = None


def tell_domain(dtype: np.dtype, blocks: Iterable[np.ndarray], key: str = "") -> Domain:
    """What some patterns are.

    Args:
        dtype: of the patterns.
        blocks: parts of them ``(…)``, in any order; no more are taken than are needed.
        key: their name in the file.
    """
    if key == "diffamp":
        return Domain("amplitude", "the key of the patterns is diffamp")
    if dtype.kind in "iu":
        return Domain("counts", f"the patterns are {dtype}")
    seen, largest, whole, roots, n_roots = 0, 0.0, True, True, 0
    for block in blocks:
        lit = block[np.isfinite(block) & (block != 0)].astype(np.float64)
        seen += lit.size
        largest = max(largest, float(np.max(lit, initial=0.0)))
        whole = whole and bool(np.all(lit == np.rint(lit)))
        are_roots, squares = _roots(lit)
        roots, n_roots = roots and are_roots, n_roots + squares
        if not (whole or roots) or (seen >= ENOUGH and largest >= TELLING):
            break
    if not seen:
        return Domain(None, "the patterns hold nothing but zeros")
    if whole:
        return Domain("counts", "the patterns are whole numbers")
    if roots and n_roots >= ROOTS:
        return Domain("amplitude", "the squares of the patterns are whole numbers")
    if key == "diffraction":
        return Domain("amplitude", "prepared files hold amplitudes as diffraction")
    likely = "amplitude" if largest <= SMALL else "intensity"
    why = f"the patterns are no whole numbers and reach {largest:.4g}; perhaps data.domain={likely}"
    return Domain(None, why, likely)


def squares_are_whole(amplitudes: np.ndarray) -> bool:
    """Whether ``amplitudes (…)`` are square roots of counts: those of some that are no whole numbers."""
    are_roots, roots = _roots(amplitudes[np.isfinite(amplitudes) & (amplitudes != 0)].astype(np.float64))
    return are_roots and roots >= ROOTS


def _roots(lit: np.ndarray) -> tuple[bool, int]:
    """Whether numbers ``(n,)``, none of them zero, can be roots of counts; and how many of them tell."""
    squares = lit[(lit != np.rint(lit)) & (lit**2 <= SQUARES_TO)] ** 2
    whole = np.all(lit >= 0) and np.all(abs(squares - np.rint(squares)) <= 1e-6 * squares)
    return bool(whole), squares.size
