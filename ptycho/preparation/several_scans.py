"""Positions of several scans on one canvas (key ``data.shared``), before anything is reconstructed."""

from __future__ import annotations

import numpy as np

from ptycho.config import ConfigError
from ptycho.scan.finding import Finding


def place_scans(
    positions: np.ndarray,
    index: np.ndarray,
    N: int,
    shared: str,
    findings: list[Finding],
    fewest: int = 5,
    between: int = 8,
) -> np.ndarray:
    """Return positions ``(J, 2)`` in object pixels of several scans, shifted by whole pixels.

    Scans that share the probe alone are of different objects: they lie beside each other. Those of one object
    stay where their files place them, unless they do not overlap: then their middles coincide.

    Args:
        index: ``(J,)``, which scan a pattern belongs to.
        shared: ``object``, ``probe`` or ``both``.
        findings: decisions, to which that about the places is added.
        fewest: patterns of each scan, at least.
        between: pixels between scans of different objects.

    Raises:
        ConfigError: a scan has too few patterns.
    """
    scans, counts = np.unique(index, return_counts=True)
    if len(scans) < 2 or counts.min() < fewest:
        raise ConfigError(
            f"data.shared={shared}: the scans have {', '.join(map(str, counts))} patterns that are used; "
            f"must be at least {fewest} of each of two (data.drop, data.stride and data.frames count through "
            "all files)"
        )
    lows, highs = (np.array([f(positions[index == k], axis=0) for k in scans]) for f in (np.min, np.max))
    if shared == "probe":
        columns = int(np.ceil(np.sqrt(len(scans))))
        cells = np.stack(np.divmod(np.arange(len(scans)), columns), axis=1)
        shifts = cells * (np.ceil(np.max(highs - lows)) + N + between) - np.floor(lows)
        placement = "beside each other: they are of different objects"
    else:
        apart = ((lows > highs[0] + N) | (highs + N < lows[0])).any(axis=1)
        middles = (lows + highs) / 2
        shifts = np.where(apart[:, None], np.rint(middles[0] - middles), 0.0)
        placement = "by the positions of the files"
        placement += "; those that do not overlap with the first, middle on middle" if apart.any() else ""
    findings.append(Finding("scans", " + ".join(map(str, counts)) + " patterns", f"placed {placement}"))
    return positions + shifts[np.searchsorted(scans, index)]
