"""Whether a network that was trained for many scans can be trusted with one."""

from __future__ import annotations

import math

OUTSIDE = "outside_training"
EXCESS = 0.15  # of the R-factor over photon noise
DISAGREEMENT = 0.088  # of overlapping regions, relative to the object's contrast
MEANS = (
    "the network is outside of what it was trained for, or photons are too few: its object explains the "
    f"patterns worse than photon noise lets it (√(r_factor² − r_noise²) above {EXCESS:g}), or its regions "
    f"disagree where they overlap (disagreement above {DISAGREEMENT:g} of the object's contrast)"
)
REMEDY = "fine-tune it on the scan (nepochs=2), or take the solver's object"


def excess(r_factor: float, r_noise: float | None) -> float:
    """What photon noise leaves unexplained of an R-factor, ``√(R² − R_noise²)``; counts unknown: all."""
    return math.sqrt(max(r_factor**2 - (r_noise or 0.0) ** 2, 0.0))


def outside_training(r_factor: float, r_noise: float | None, disagreement: float | None) -> bool:
    """Whether a reconstruction shows that the network does not know such scans; see :data:`MEANS`.

    The limits are from reconstructions of kinds of probes and objects that no training saw (docs/results.md).
    ``disagreement`` is NaN or None where no regions overlap.
    """
    apart = disagreement is not None and disagreement > DISAGREEMENT
    return not math.isfinite(r_factor) or excess(r_factor, r_noise) > EXCESS or apart
