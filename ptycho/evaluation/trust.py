"""Whether a reconstruction can be trusted: what a network does not know, amplitudes that noise covers."""

from __future__ import annotations

import math

import numpy as np

OUTSIDE, IN_NOISE = "outside_training", "amplitude_in_noise"
EXCESS = 0.045  # of the R-factor over photon noise
UNKNOWN_EXCESS = 0.15  # of the R-factor, where photons were not counted
DISAGREEMENT = 0.12  # of overlapping regions, relative to the object's contrast
NOISE_SHARE = 0.135  # of photon noise in the amplitude's standard deviation
MEANS = {
    OUTSIDE: "the network is outside of what it was trained for: its object explains the patterns worse than "
    f"photon noise lets it (√(r_factor² − r_noise²) above {EXCESS:g}), and than the solver's where there is "
    f"one, or its regions disagree where they overlap (disagreement above {DISAGREEMENT:g} of the contrast)",
    IN_NOISE: "photons are too few for the amplitude: they leave a noise in each pixel of more than "
    f"{NOISE_SHARE:g} of the amplitude's standard deviation (noise_share); phases may be better",
}
REMEDIES = {
    OUTSIDE: "fine-tune it on the scan (nepochs=2), or take the solver's object",
    IN_NOISE: "read the phase, or the denoised object; measure longer",
}


def excess(r_factor: float, r_noise: float | None) -> float:
    """What photon noise leaves unexplained of an R-factor, ``√(R² − R_noise²)``; counts unknown: all."""
    return math.sqrt(max(r_factor**2 - (r_noise or 0.0) ** 2, 0.0))


def outside_training(
    r_factor: float, r_noise: float | None, disagreement: float | None, solver: float | None = None
) -> bool:
    """Whether a reconstruction shows that the network does not know such scans; see :data:`MEANS`.

    The limits are from reconstructions of kinds of probes and objects that no training saw (docs/results.md).
    ``disagreement`` is NaN or None where no regions overlap; ``solver``: R-factor of the solver's object,
    which tells what is wrong with the measurement itself.
    """
    apart = disagreement is not None and disagreement > DISAGREEMENT
    least = max(r_noise or 0.0, solver or 0.0)
    limit = EXCESS if least else UNKNOWN_EXCESS
    return not math.isfinite(r_factor) or excess(r_factor, least) > limit or apart


def noise_share(image: np.ndarray, noise: np.ndarray) -> float:
    """Median photon noise over the standard deviation of the amplitude, of the pixels that are given.

    Args:
        image: complex.
        noise: standard deviation that photons leave in each part of them, as of
            :func:`ptycho.reconstruction.denoising.photon_noise`.
    """
    contrast = float(np.std(np.abs(image)))
    return float(np.median(noise)) / max(contrast, 1e-30)


def amplitude_in_noise(share: float | None) -> bool:
    return share is not None and not share <= NOISE_SHARE
