"""Which of two reconstructions explains the same patterns better, and by more than chance?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

CERTAIN = 1.0  # standard errors
SURE = 2.0  # the same for what is freed
MATTERS = 0.005  # of the deviance, that it must explain at least


class Comparison(NamedTuple):
    """Mean gain of one state over another, and its standard error."""

    gain: float
    error: float

    @property
    def clear(self) -> bool:
        return self.gain > CERTAIN * self.error

    @property
    def matters(self) -> bool:
        """Whether a gain in logarithms is worth a freedom: certain, and no small part."""
        return self.gain > SURE * self.error and self.gain > MATTERS


def compare(new: np.ndarray, old: np.ndarray) -> Comparison:
    """Of what is left of the same patterns, ``(J,)``."""
    gains = old - new
    spread = float(gains.std(ddof=1)) if len(gains) > 1 else np.inf
    return Comparison(float(gains.mean()), spread / np.sqrt(len(gains)))


def compare_shares(new: np.ndarray, old: np.ndarray) -> Comparison:
    """Of the deviances ``(J,)`` of the same patterns, by their logarithms."""
    return compare(np.log(new), np.log(old))
