"""Shift sections of a scan as one: behind a position jump, all patterns have the same shift.

An object that is extended across a jump in whole pixels is a little too wide or too narrow there. Each
pattern agrees with its neighbours, so that gradients of single positions hardly correct it; one shift of the
whole section does.
"""

from __future__ import annotations

import numpy as np

from ptycho.align.registration import OPTIONS, Registration, RegistrationOptions, square
from ptycho.reconstruction.scan_likelihood import side_by_side


def bring_together(registration: Registration) -> bool:
    """Give each section the shift at which its patterns fit best; return whether any was shifted.

    The shifts are kept only if all patterns are then explained better.
    """
    parts = sections(registration.moves, registration.placed, registration.options)
    if len(parts) < 2 or all(
        _spread(registration.moves[part]) < registration.options.settled for part in parts
    ):
        return False
    placed, moves, estimate = np.flatnonzero(registration.placed), registration.moves, registration.estimate
    registration.fit(placed, registration.refined, registration.options.refining_steps)
    before = _mean_share(registration, placed)
    known = parts[0]
    _put(registration, known, _middle(moves[known]))
    for part in parts[1:]:
        registration.fit(known, registration.refined, registration.options.refining_steps)
        if (move := _place_of(registration, part, known)) is not None:
            _put(registration, part, move)
            known = np.union1d(known, part)
    registration.fit(placed, registration.refined, registration.options.refining_steps)
    if _mean_share(registration, placed) < before:
        return True
    registration.moves, registration.estimate = moves, estimate
    return False


def sections(
    moves: np.ndarray, placed: np.ndarray, options: RegistrationOptions = OPTIONS
) -> list[np.ndarray]:
    """Return indices of placed patterns with ``moves (J, 2)`` within ``options.least``, largest first."""
    left, sections = np.flatnonzero(placed), list[np.ndarray]()
    while len(left):
        places, counts = np.unique(np.rint(moves[left]), axis=0, return_counts=True)
        centre = places[counts.argmax()]
        for _ in range(2):
            near = np.linalg.norm(moves[left] - centre, axis=1) < options.least
            centre = np.median(moves[left[near]], axis=0)
        if near.sum() < options.seed:
            break
        sections.append(left[near])
        left = left[~near]
    return sorted(sections, key=len, reverse=True)


def _place_of(
    registration: Registration, part: np.ndarray, known: np.ndarray, fewest: int = 5, most: int = 120
) -> np.ndarray | None:
    """Return the shift ``(2,)`` of a section at which its patterns that overlap with others fit best.

    None: fewer than ``fewest`` of them overlap; ``most`` are used.
    """
    middle = np.rint(_middle(registration.moves[part]))
    cover = registration.cover_of(known)[tuple(registration.corners(part, middle).T)]
    beside = part[np.argsort(-cover, kind="stable")][
        : min(most, int(np.sum(cover >= registration.options.overlapping)))
    ]
    if len(beside) < fewest:
        return None
    tried = middle + square(int(registration.options.least) + 1)
    shares = np.array(list(side_by_side(lambda pattern: registration.shares(pattern, tried), list(beside))))
    known_shares = shares[np.isfinite(shares).all(axis=1)]
    return tried[known_shares.sum(axis=0).argmin()] if len(known_shares) >= fewest else None


def _put(registration: Registration, part: np.ndarray, move: np.ndarray) -> None:
    registration.moves = registration.moves.copy()
    registration.moves[part] = move


def _middle(moves: np.ndarray) -> np.ndarray:
    return np.median(moves, axis=0)


def _spread(moves: np.ndarray) -> float:
    return float(np.abs(moves - _middle(moves)).max())


def _mean_share(registration: Registration, patterns: np.ndarray) -> float:
    shares = registration.own_shares(patterns)
    return float(shares[np.isfinite(shares)].mean())
