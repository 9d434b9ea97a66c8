"""Validate a reconstruction: the one table of flags, and the limits at which they are raised.

The limits of measured scans are from scans of photographs, half of them spoilt (docs/results.md,
``benchmarks/trust_limits.py``); those of a network for many scans from kinds of probes and objects that were
in no training set.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ptycho.evaluation import metrics, raster
from ptycho.scan.probe import described_widths, is_far_from

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrustLimits:
    """Limits beyond which flags are raised."""

    excess: float = 0.045  # of the R-factor over photon noise
    uncounted_excess: float = 0.15  # of the R-factor, where photons were not counted
    disagreement: float = 0.12  # of overlapping regions, relative to the object's contrast
    noise_share: float = 0.135  # of photon noise in the amplitude's standard deviation
    unexplained: float = 0.03  # of the variation of the fitted patterns
    unexplained_holdout: float = 0.12  # of that of the held-out patterns,
    unexplained_holdout_agreeing: float = 0.3  # or if halves of the scan agree beyond ``half_frc``
    unexplained_p90: float = 0.05  # of the variation, in every tenth pattern
    certain: float = 4.0  # standard errors of the variation
    half_frc: float = 0.35  # of Nyquist, below which halves of the scan stop to agree
    half_frc_by_photons: float = 0.6  # of the frequency to which they would agree but for photon noise
    r_free_ratio: float = 2.0  # r_free over r_noise: more than photons can explain,
    r_ratio: float = 1.1  # unless r_factor is no more than this times r_noise
    phase_left: float = 0.5  # of a phase that is added to the object of a near field
    measured: float = 2.0  # numbers for each real unknown; a phase is never measured


LIMITS = TrustLimits()
UNEXPLAINED, SOME_UNEXPLAINED = "poor_fit", "outlier_patterns"
OVERFIT, NOTHING_SEEN, HALVES = "overfit", "no_contrast", "low_half_scan_frc"
EXCESSIVE, FEW = "excess_misfit", "few_measurements"
ORIENTATION, SCALE = "orientation_doubtful", "scale_doubtful"
POSITIONS, PHASES = "positions_doubtful", "phase_insensitive"
SHIFT, MOTION, UNMEASURED = "pattern_shift", "motion_blur", "intensity_unmeasured"
NOT_CONVERGED, OUTSIDE, IN_NOISE = "not_converged", "outside_training", "amplitude_in_noise"
FAR_PROBE, RASTER = "probe_far_from_training", "raster_artefact"


class Flag(NamedTuple):
    """Meaning of a flag, its remedy, and whether it says that the image is likely wrong (not only weak)."""

    means: str
    remedy: str
    wrong: bool = True


FLAGS = {
    UNEXPLAINED: Flag(
        f"object and beam do not explain more than {LIMITS.unexplained:g} of the variation between patterns, "
        "noise excluded (unexplained_variance)",
        "check how the file was read: unit, axes and order of the positions, distance and pixel sizes, order "
        "of the frames, intensities or amplitudes (data.domain), the centre, the probe",
    ),
    SOME_UNEXPLAINED: Flag(
        f"a tenth of the patterns leaves more than {LIMITS.unexplained_p90:g} of the variation between "
        "patterns unexplained (unexplained_variance_p90); the others are explained better",
        "see where they are (visuals/quality.png): frames lost or repeated, jumps of the stage or of the "
        "intensity; exclude them (data.drop)",
    ),
    OVERFIT: Flag(
        "the fitted patterns are explained, but the held-out patterns are not (unexplained_variance_holdout "
        f"above {LIMITS.unexplained_holdout:g}, or {LIMITS.unexplained_holdout_agreeing:g} if halves of the "
        f"scan agree beyond {LIMITS.half_frc:g} of Nyquist): the object fits noise",
        "measure with more overlap; do not refine the probe (probe.learn=false) or the positions "
        "(solver.positions=false); check the positions",
    ),
    NOTHING_SEEN: Flag(
        "the patterns differ by noise alone, so they show no object",
        "was the object in the beam, and the shutter open? measure longer",
    ),
    HALVES: Flag(
        f"two halves of the scan stop to agree below {LIMITS.half_frc:g} of Nyquist (half_scan_frc), and far "
        "below where photon noise would end their agreement: at best the coarse features are real",
        "measure longer, or with more overlap; read coarse features alone",
    ),
    EXCESSIVE: Flag(
        f"r_free is above {LIMITS.r_free_ratio:g} times r_noise, and r_factor above {LIMITS.r_ratio:g} "
        "times: more than photon noise is wrong",
        "see which cause is likely (misfit_causes in metrics.json); if probe.learn, solver.positions, "
        "solver.flux, solver.background or solver.point_spread is false, remove it, so that it is refined",
        False,
    ),
    FEW: Flag(
        f"fewer than {LIMITS.measured:g} measured numbers for each unknown of object and beam: much of the "
        "object is the initial estimate",
        "measure more patterns; where the probe is known, do not refine it (probe.learn=false)",
    ),
    ORIENTATION: Flag(
        "another orientation or rotation of the detector, or sign of the positions, explains the patterns "
        "clearly better, or an unknown rotation cannot be determined; see warnings",
        "accept it with data.orientation=auto, or specify a rotation with data.rotation_deg",
    ),
    SCALE: Flag(
        "positions of another scale explain the patterns clearly better; see warnings",
        "check the distance, the energy, the detector's pixel size (data.distance_m, data.energy_eV, "
        "data.detector_pixel_m) and the unit of the positions (data.unit); data.scan_affine, or "
        "data.orientation=auto, corrects them",
    ),
    POSITIONS: Flag(
        "many patterns contradict their neighbours, both at their nominal positions and within 36 px of "
        "them: the positions, or the probe, are not those of the scan",
        "check order, unit and axes of the positions, the order of the frames, the probe",
    ),
    UNMEASURED: Flag(
        "more than a quarter of the intensity fell on pixels that less than a tenth of the patterns have "
        "measured, because they are saturated or marked: the object's coarse features are not determined",
        "measure with less flux, or several times with different exposures; see the finding `not measured`",
    ),
    SHIFT: Flag(
        "the patterns shift on the detector with the scan position (descan): that explains more of the "
        "misfit than any other cause that was tried (misfit_causes)",
        "specify the shift that a scan without a sample shows (data.pattern_shift), or correct the descan; "
        "do not correct it by a scale or rotation of the positions",
    ),
    MOTION: Flag(
        "the sample moved by more than 1.2 px while patterns were measured (a fly scan, or vibration): that "
        "explains more of the misfit than any other cause that was tried (misfit_causes), and the image is "
        "blurred by it",
        "measure with the stage at rest, or with shorter exposures; probe.modes=3 reduces the effect",
        False,
    ),
    PHASES: Flag(
        "the patterns of this near field hardly constrain the phase: of a phase that is added to the object, "
        f"the solver leaves more than {LIMITS.phase_left:g}; coarse phases and contrast may be wrong, "
        "although the patterns are explained",
        "measure from farther away (a larger λz/dx²), or behind a diffuser with finer grains or farther from "
        "the sample, so that the illumination varies more across it",
    ),
    NOT_CONVERGED: Flag("the solver ended before its steps gained nothing more", "raise solver.steps", False),
    OUTSIDE: Flag(
        "the scan is outside the range that the network was trained for: its object explains the patterns "
        f"worse than photon noise allows (√(r_factor² − r_noise²) above {LIMITS.excess:g}), and worse than "
        "the object of the solver, if there is one; or its regions disagree where they overlap (disagreement "
        f"above {LIMITS.disagreement:g} of the contrast)",
        "fine-tune the network on the scan (nepochs=2), or use the object of the solver",
    ),
    FAR_PROBE: Flag(
        "the probe is wider or narrower than the one of the training, in the sample plane or in the far "
        "field, by more than a quarter: the network was not validated for it",
        "train with a similar probe, or trust the result only as far as it explains the patterns",
        False,
    ),
    IN_NOISE: Flag(
        "photons are too few for the amplitude: they leave a noise in each pixel of more than "
        f"{LIMITS.noise_share:g} of the amplitude's standard deviation (noise_share); phases may be better",
        "read the phase; measure longer",
        False,
    ),
    RASTER: Flag(
        "the object has the periods of the scan's raster: waves of more than "
        f"{raster.LIMITS.contrast:g} of its contrast stand out at the frequencies of the lattice of the "
        "positions (raster_artefact). The patterns of a raster cannot tell whether they belong to the object "
        "or to the probe",
        "do not believe these periods, unless the sample has them; remove probe.learn=false, unless the "
        "probe is exact; measure on a spiral, or on a grid whose positions are shifted at random",
        False,
    ),
    metrics.NAN: Flag("the object holds NaN or infinity", "inspect the training loss (visuals/history.png)"),
    metrics.UNCOVERED: Flag("not one pixel of the scored region is covered", "check the positions"),
    **{
        name: Flag(
            f"the contrast of the {channel} is below {metrics.CONTRAST:g} of the truth's: a constant",
            "train longer, or with another seed or learning rate",
        )
        for name, channel in ((metrics.COLLAPSED, "amplitude"), (metrics.COLLAPSED_PHASE, "phase"))
    },
}
"""Every flag of a reconstruction; what else stands among its flags says why a single score is not defined."""


@dataclass(frozen=True)
class Evidence:
    """Evidence of a scan about its reconstruction, without the truth.

    Attributes:
        unexplained_variance: share of the variation between patterns that the middle one of the fitted
            patterns leaves unexplained; unexplained_variance_p90: above which the worst tenth of them is;
            unexplained_variance_holdout: the same as the first of the held-out patterns, None where there
            are none, and unexplained_variance_holdout_error its standard error by noise.
        certainty: of the variation, in standard errors.
        r_factor: R-factor of the fitted patterns, and r_noise by photon noise alone.
        r_free, r_noise_free: the same of the held-out patterns, or of the fitted ones.
        halves: frequency at which two halves stop to agree by half (FRC 0.5), of Nyquist; 1: never; None:
            unknown; halves_by_photons: the same, by the noise that photons leave in the halves alone.
    """

    unexplained_variance: float
    unexplained_variance_p90: float
    unexplained_variance_holdout: float | None
    certainty: float
    r_factor: float | None = None
    r_noise: float | None = None
    r_free: float | None = None
    r_noise_free: float | None = None
    halves: float | None = None
    unexplained_variance_holdout_error: float = 0.0
    halves_by_photons: float = 1.0

    @property
    def explains_held_out(self) -> bool:
        """Whether nine tenths of the fitted patterns, and the median held-out one, are explained within the
        limit of the median fitted one. Patterns that lie in wrong places are not; those of another scale may
        be, which has a flag of its own.
        """
        values = self.unexplained_variance_p90, self.unexplained_variance_holdout
        known = self.certainty > LIMITS.certain
        return known and all(value is not None and value <= LIMITS.unexplained for value in values)

    @property
    def flags(self) -> list[str]:
        """Names in :data:`FLAGS` of what this raises; an object that is not finite explains nothing."""
        if not self.certainty > LIMITS.certain:
            return [NOTHING_SEEN]
        fits = self.unexplained_variance <= LIMITS.unexplained
        least = min(LIMITS.half_frc, LIMITS.half_frc_by_photons * self.halves_by_photons)
        agree = self.halves is not None and self.halves >= LIMITS.half_frc
        unexplained = LIMITS.unexplained_holdout_agreeing if agree else LIMITS.unexplained_holdout
        raised = {
            UNEXPLAINED: not fits,
            SOME_UNEXPLAINED: fits and self.unexplained_variance_p90 > LIMITS.unexplained_p90,
            OVERFIT: fits
            and self.unexplained_variance_holdout is not None
            and self.unexplained_variance_holdout - 2 * self.unexplained_variance_holdout_error > unexplained,
            HALVES: self.halves is not None and self.halves < least,
            EXCESSIVE: _above(self.r_free, self.r_noise_free, LIMITS.r_free_ratio)
            and _above(self.r_factor, self.r_noise, LIMITS.r_ratio),
        }
        return [name for name, present in raised.items() if present]


def _above(r_factor: float | None, r_noise: float | None, ratio: float) -> bool:
    """Return whether an R-factor is above ``ratio`` times that of photon noise; False where unknown."""
    return bool(r_factor and r_noise and r_factor > ratio * r_noise)


def excess(r_factor: float, r_noise: float | None) -> float:
    """Return what photon noise leaves unexplained of an R-factor: ``√(R² − R_noise²)``."""
    return math.sqrt(max(r_factor**2 - (r_noise or 0.0) ** 2, 0.0))


def outside_training(
    r_factor: float,
    r_noise: float | None,
    disagreement: float | None,
    solver: float | None = None,
) -> bool:
    """Return whether a scan is outside the range that the network was trained for; see :data:`FLAGS`.

    ``disagreement`` is NaN or None where no regions overlap; ``solver``: R-factor of the solver's object,
    which holds the faults of the measurement itself.
    """
    apart = disagreement is not None and disagreement > LIMITS.disagreement
    least = max(r_noise or 0.0, solver or 0.0)
    limit = LIMITS.excess if least else LIMITS.uncounted_excess
    return not math.isfinite(r_factor) or excess(r_factor, least) > limit or apart


def noise_share(image: np.ndarray, noise: np.ndarray) -> float:
    """Return the median photon noise over the standard deviation of the amplitude.

    Args:
        image: ``(…)`` complex.
        noise: ``(…)``, standard deviation that photons leave in each part of them, as of
            :func:`ptycho.scan.reconstruction.photon_noise`.
    """
    contrast = float(np.std(np.abs(image)))
    return float(np.median(noise)) / max(contrast, 1e-30)


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
