"""Whether the input of a network is what it was trained for: flags, with a warning each."""

from __future__ import annotations

import logging

import numpy as np

from ptycho.evaluation.trust import FAR_PROBE, FLAGS
from ptycho.scan import plausibility
from ptycho.scan.patterns import Statistics
from ptycho.scan.probe import described_widths, is_far_from

log = logging.getLogger(__name__)


def doubt_probe(probe: np.ndarray, trained: np.ndarray) -> dict[str, str]:
    """Return the flag for a probe ``(…, N, N)`` far from the one of the training, with a warning that names
    both; or none.
    """
    if not is_far_from(probe, trained):
        return {}
    log.warning(
        "the probe of the scan (%s) is far from the training's (%s): train with a similar probe, or trust "
        "the result only as far as it explains the patterns",
        described_widths(probe),
        described_widths(trained),
    )
    return {FAR_PROBE: FLAGS[FAR_PROBE].means}


def doubt_patterns(statistics: Statistics, probe: np.ndarray) -> dict[str, str]:
    """Return the flag for patterns that do not fit the probe ``(…, N, N)``, with a warning; or none."""
    doubts = plausibility.doubts(statistics, probe)
    for sentence in doubts.values():
        log.warning("%s: trust the result only as far as it explains them", sentence)
    return {flag: FLAGS[flag].means for flag in doubts}
