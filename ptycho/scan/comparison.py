"""Which of two reconstructions explains the same patterns better, and by more than chance; held-out patterns.

One rule for all: the mean paired difference of the log-deviance must exceed ``z`` of its standard errors and
``least``. Log-deviances are compared, so that relative changes count equally for well and badly fitted
patterns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


def split_patterns(
    positions: np.ndarray, held_out: int, seed: int | Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return indices, in order, of the patterns that are fitted and of ``held_out`` others.

    The patterns are walked through row by row of the scanned area, back and forth. Of each ``1/held_out`` of
    that path one is drawn at random, so that they are spread over the scan.

    Args:
        positions: ``(J, 2)`` in pixels, (row, column).
        held_out: number of patterns, less than J.
        seed: of the draw.
    """
    count = len(positions)
    if held_out == 0:
        return np.arange(count), np.zeros(0, int)
    step = max(np.ptp(positions[:, 0]) / np.sqrt(count), 1e-6)
    rows = np.floor(positions[:, 0] / step).astype(int)
    along = np.where(rows % 2 == 0, positions[:, 1], -positions[:, 1])
    rng = np.random.default_rng(seed)
    out = np.sort([rng.choice(part) for part in np.array_split(np.lexsort((along, rows)), held_out)])
    return np.setdiff1d(np.arange(count), out), out


@dataclass(frozen=True)
class Rule:
    """Rule of when one hypothesis counts as better than another.

    Attributes:
        z: standard errors of the mean difference.
        least: the mean difference of natural logarithms, at least; .005 is half a per cent of the deviance.
    """

    z: float
    least: float = 0.0


CLEAR = Rule(1.0)
"""Of two hypotheses of equal complexity: start, regulariser."""
TURNED = Rule(5.0, 0.2)
"""Of a scan turned by 180° or negated: a wrong probe, lopsided by chance, prefers one of two orientations
that the true one could not distinguish (measured)."""
EQUAL = Rule(0.0, 0.001)
"""Of two weights of a regulariser: a smaller difference tells nothing (measured; docs/notes/solver.md)."""
DIFFERENT = Rule(2.0)
"""Of two runs on the same scan."""
REFINED = Rule(2.0, 0.005)
"""Of a hypothesis that has more parameters: few patterns let a wrong flux explain a little of anything."""

FIRST_MODE = Rule(2.0, 0.015)
"""Of a further mode with which the probe is refined, too: true ones gain .026 and more. One that only
explained what refined positions left gained .008, and the error rose by 6 % (measured)."""

DRIFT = Rule(2.0, 0.05)
"""Of an affine part of the positions while parts of the beam are missing: drifts of some pixels gain .4,
right positions under partial coherence below .01 (measured)."""


class Comparison(NamedTuple):
    """Mean gain of one state over another, and its standard error."""

    gain: float
    error: float

    def passes(self, rule: Rule) -> bool:
        """Return whether the gain is large enough."""
        return bool(self.gain > rule.z * self.error and self.gain > rule.least)


def compare(new: np.ndarray, old: np.ndarray) -> Comparison:
    """Return the gain from ``old`` to ``new``, what is left of the same patterns ``(J,)``."""
    gains = old - new
    spread = float(gains.std(ddof=1)) if len(gains) > 1 else np.inf
    return Comparison(float(gains.mean()), spread / np.sqrt(len(gains)))


def compare_shares(new: np.ndarray, old: np.ndarray) -> Comparison:
    """Return the gain between deviances ``(J,)`` of the same patterns, in natural logarithms."""
    return compare(np.log(new), np.log(old))
