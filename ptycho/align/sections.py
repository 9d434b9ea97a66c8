"""Patterns that are moved alike, brought as one to where they belong: behind a jump, all have one move.

An object that grows around a jump, pattern by pattern and from whole pixel to whole pixel, is a little too
wide or too narrow there. Each pattern agrees with those beside it, so that gradients of single positions
hardly mend it; one move of all does.
"""

from __future__ import annotations

import numpy as np

from ptycho.align.registration import LEAST, OVERLAPPING, SEED, SETTLED, SETTLING, Growth, square
from ptycho.reconstruction.scan_likelihood import side_by_side

WIDTH = int(LEAST) + 1  # pixels: how far a section is looked for
FEW, ASKED = 5, 120  # patterns of a section, at least and at most, that say where it belongs


def bring_together(growth: Growth) -> bool:
    """Give all patterns of a section the move that explains those beside the others best.

    It is taken where all patterns are then explained better. Whether it is.
    """
    parts = sections(growth.moves, growth.placed)
    if len(parts) < 2 or all(_spread(growth.moves[part]) < SETTLED for part in parts):
        return False
    placed, moves, state = np.flatnonzero(growth.placed), growth.moves, growth.state
    growth.fit(placed, growth.free, SETTLING)
    before = _mean_share(growth, placed)
    known = parts[0]
    _put(growth, known, _middle(moves[known]))
    for part in parts[1:]:
        growth.fit(known, growth.free, SETTLING)
        if (move := _place_of(growth, part, known)) is not None:
            _put(growth, part, move)
            known = np.union1d(known, part)
    growth.fit(placed, growth.free, SETTLING)
    if _mean_share(growth, placed) < before:
        return True
    growth.moves, growth.state = moves, state
    return False


def sections(moves: np.ndarray, placed: np.ndarray) -> list[np.ndarray]:
    """Indices of placed patterns whose ``moves (J, 2)`` are within ``LEAST`` of one, the largest first."""
    left, found = np.flatnonzero(placed), list[np.ndarray]()
    while len(left):
        places, counts = np.unique(np.rint(moves[left]), axis=0, return_counts=True)
        centre = places[counts.argmax()]
        for _ in range(2):
            near = np.linalg.norm(moves[left] - centre, axis=1) < LEAST
            centre = np.median(moves[left[near]], axis=0)
        if near.sum() < SEED:
            break
        found.append(left[near])
        left = left[~near]
    return sorted(found, key=len, reverse=True)


def _place_of(growth: Growth, part: np.ndarray, known: np.ndarray) -> np.ndarray | None:
    """The move ``(2,)`` of a section that explains best those of its patterns that light what others do."""
    middle = np.rint(_middle(growth.moves[part]))
    cover = growth.cover_of(known)[tuple(growth.corners(part, middle).T)]
    beside = part[np.argsort(-cover, kind="stable")][: min(ASKED, int(np.sum(cover >= OVERLAPPING)))]
    if len(beside) < FEW:
        return None
    tried = middle + square(WIDTH)
    shares = np.array(list(side_by_side(lambda pattern: growth.shares(pattern, tried), list(beside))))
    lit = shares[np.isfinite(shares).all(axis=1)]
    return tried[lit.sum(axis=0).argmin()] if len(lit) >= FEW else None


def _put(growth: Growth, part: np.ndarray, move: np.ndarray) -> None:
    growth.moves = growth.moves.copy()
    growth.moves[part] = move


def _middle(moves: np.ndarray) -> np.ndarray:
    return np.median(moves, axis=0)


def _spread(moves: np.ndarray) -> float:
    return float(np.abs(moves - _middle(moves)).max())


def _mean_share(growth: Growth, patterns: np.ndarray) -> float:
    shares = growth.own_shares(patterns)
    return float(shares[np.isfinite(shares)].mean())
