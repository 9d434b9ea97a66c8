"""How a live reconstruction goes about it: every number, with its unit."""

from __future__ import annotations

from dataclasses import dataclass, field

from ptycho.reconstruction.prior import Prior


@dataclass(frozen=True)
class LiveOptions:
    """How a live reconstruction goes about it.

    Attributes:
        first: patterns from which the first image is reconstructed.
        refresh_s: between two images.
        finish_s: for the fit of all patterns together, once all are there.
        cycle_s: of a cycle, about: what arrives is used in the one after the next.
        patience_s: that new patterns wait while old ones are fitted again.
        pause_s: where there is nothing to do.
        rate_s: over which rates are averaged.
        speed: pattern-steps per second, of 128 × 128 pixels, before any were timed.
        fewest: patterns that are fitted together; ``batch_pixels``: of all of these, at most.
        first_steps: of the first patterns: of the object, then of the probe, too.
        steps: of a cycle; ``hurried_steps``: where more new patterns wait than can be fitted so.
        regulariser: of the object, in a cycle.
        dark: of the strongest illumination: what is less has said nothing of the object.
        coarse_px: in steps of which the object is filled where it is not illuminated.
        holdout: one pattern of so many is held out; ``most_held_out``: are looked at.
        least_probe_change: share of a cycle's change of the probe that is taken at least.
        visits: fits of a pattern before its position is refined.
        final_regulariser, denoiser_weight: of the fit in the end: λ and κ that are mostly chosen for counted
            photons by cross-validation.
        most_steps: of a stage of that fit.
        still_px: median of the position corrections below which they are noise.
        part_s, part_cycle_s: between two images, and of a cycle, of a scan too large to be fitted at once.
    """

    first: int = 50
    refresh_s: float = 4.0
    finish_s: float = 45.0
    cycle_s: float = 0.6
    patience_s: float = 0.3
    pause_s: float = 0.1
    rate_s: float = 10.0
    speed: float = 800.0
    fewest: int = 16
    batch_pixels: int = 2**22
    first_steps: tuple[int, int] = (25, 10)
    steps: int = 6
    hurried_steps: int = 3
    regulariser: Prior = field(default_factory=lambda: Prior("edge_preserving", 3.0))
    dark: float = 1e-3
    coarse_px: int = 4
    holdout: int = 20
    most_held_out: int = 64
    least_probe_change: float = 0.1
    visits: int = 2
    final_regulariser: Prior = field(default_factory=lambda: Prior("edge_preserving", 10.0))
    denoiser_weight: float = 2.0
    most_steps: int = 400
    still_px: float = 0.1
    part_s: float = 5.0
    part_cycle_s: float = 2.0
