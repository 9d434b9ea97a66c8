"""How a live reconstruction goes about it: every number, with its unit."""

from __future__ import annotations

from dataclasses import dataclass, field

from ptycho.reconstruction.prior import Prior


@dataclass(frozen=True)
class LiveOptions:
    """Pace and limits of a live reconstruction."""

    first: int = 50  # patterns from which the first image is reconstructed
    refresh_s: float = 4.0  # between two images
    finish_s: float = 45.0  # for the fit of all patterns together, once all are there
    cycle_s: float = 0.6  # of a cycle, about: what arrives is used in the one after the next
    patience_s: float = 0.3  # that new patterns wait while old ones are fitted again
    pause_s: float = 0.1  # where there is nothing to do
    rate_s: float = 10.0  # over which rates are averaged
    speed: float = 800.0  # pattern-steps per second, of 128 × 128 pixels, before any were timed
    fewest: int = 16  # patterns that are fitted together
    batch_pixels: int = 2**22  # of all of these, at most
    first_steps: tuple[int, int] = (25, 10)  # of the first patterns: of the object, then with the probe
    steps: int = 6  # of a cycle
    hurried_steps: int = 3  # where more new patterns wait than can be fitted so
    regulariser: Prior = field(default_factory=lambda: Prior("edge_preserving", 3.0))  # in a cycle
    dark: float = 1e-3  # of the strongest illumination, below which the object is unknown
    coarse_px: int = 4  # in steps of which the object is filled where it is not illuminated
    holdout: int = 20  # one pattern of so many is held out,
    most_held_out: int = 64  # and so many of them are scored
    least_probe_change: float = 0.1  # of a cycle's change of the probe that is taken at least
    visits: int = 2  # fits of a pattern before its position is refined
    # λ and κ of the last fit, that are mostly selected for counted photons by cross-validation
    final_regulariser: Prior = field(default_factory=lambda: Prior("edge_preserving", 10.0))
    denoiser_weight: float = 2.0
    most_steps: int = 400  # of a stage of that fit
    still_px: float = 0.1  # median of the position corrections below which they are noise
    part_s: float = 5.0  # between two images of a scan too large to be fitted at once
    part_cycle_s: float = 2.0  # of its cycle
