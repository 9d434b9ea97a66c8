"""Select the object pixel by cross-validation: that of the detector, or a finer one.

    dx = λz/(N p)

If scattering continues beyond the edge of the detector, the object is finer than the pixels of its N. What
these cannot represent is then taken for errors of the positions. A window of N' > N has finer pixels; its
patterns are unmeasured beyond the detector. Both are fitted to the same patterns in the middle of the scan,
and the same held-out patterns are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ptycho.align.aligned import AlignedScan, RunContext, read_again
from ptycho.config import ConfigError, OwnProbe
from ptycho.preparation.dataset import check_disk, check_memory_for
from ptycho.preparation.prepare import interpret_again
from ptycho.preparation.start import FINER_PIXELS
from ptycho.preparation.window import AT_EDGE, finer_side
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.holdout import hold_out
from ptycho.reconstruction.scan_likelihood import ScanLikelihood, likelihood_of
from ptycho.reconstruction.solver import FIT, OBJECT_ALONE, Objective, fit
from ptycho.reconstruction.trial import TrialOptions, middle
from ptycho.scan.coarser import at_smaller_pixels, finer_waves
from ptycho.scan.comparison import Comparison, Rule, compare_shares
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.probe import padded


@dataclass(frozen=True)
class PixelOptions:
    """Options of the trial of finer pixels."""

    trial: TrialOptions = TrialOptions(patterns=100, pixels=2**19)
    object_steps: int = 20  # of the object alone,
    beam_steps: int = 300  # with what is refined, at most: a beam that has not converged hides the gain
    steps: int = 40  # and under that beam: fitted to its end, a finer object takes on more noise
    rule: Rule = Rule(2.0, 0.01)  # twice the pixels take about twice the time


def may_be_finer(aligned: AlignedScan) -> bool:
    """Return whether N is open, and the scattering seems to go on beyond the detector, in a far field."""
    config, data = aligned.config, aligned.data
    solver_alone = not config.models and config.run is None and isinstance(config.probe, OwnProbe)
    is_open = config.data.N is None and config.data.shared is None and config.probe.mask_diameter_px is None
    at_edge = any(finding.what == AT_EDGE for finding in aligned.scan.findings)
    return solver_alone and is_open and at_edge and data.fresnel is None and aligned.suffices_for_trials


def refine_pixel(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Read the scan on finer object pixels, if these explain held-out patterns clearly better."""
    data, config, options = aligned.data, aligned.config, PixelOptions()
    side = finer_side(data.N)
    refine = Refine(config.learns_probe, config.solver.positions is not False)
    trial = try_finer_pixels(data, side, refine, config.seed, options)
    if not trial.gain.passes(options.rule):
        return aligned.decided(Finding(FINER_PIXELS, "not used", trial.text))
    reading = replace(config.data, N=side)
    try:
        check_disk(aligned.scan.raw, reading, context.scratch)
        check_memory_for(
            interpret_again(aligned.scan, reading), reading.name, config.probe.modes, config.solver.block
        )
    except ConfigError as error:
        return aligned.decided(Finding.warning(f"data.N={side} would explain more, {trial.text}; {error}"))
    finer = _on_finer_pixels(aligned, read_again(aligned, reading, context))
    why = f"{trial.text}; data.N={data.N} keeps those of the detector"
    return finer.decided(Finding(FINER_PIXELS, f"data.N={side}", why))


def _on_finer_pixels(aligned: AlignedScan, again: AlignedScan) -> AlignedScan:
    """Return an aligned scan that was read ``again`` on finer pixels, with its probe."""
    side, other = again.data.N, aligned.alternative
    data = again.data.under_probe(finer_waves(aligned.data.probe, side))
    scan = again.scan if aligned.scan.probe is not None else replace(again.scan, probe=None)
    if other is not None and other.probe is not None:
        other = replace(other, probe=finer_waves(other.probe, side))
    aligned = replace(aligned, config=again.config, reading=again.reading)
    return replace(aligned, scan=scan, data=data, alternative=other)


class PixelTrial(NamedTuple):
    """Result of a trial of finer pixels."""

    gain: Comparison  # in logarithms of the deviance of what is held out
    deviance: float  # per pixel of what is held out, on the pixels as they are
    held_out: str  # what is: ``patterns``, ``photons`` or ``noise``

    @property
    def text(self) -> str:
        """The change of the deviance, for a finding."""
        after = self.deviance * np.exp(-self.gain.gain)
        values = f"{self.deviance:.4f} → {after:.4f} ± {after * self.gain.error:.4f}"
        return f"deviance of held-out {self.held_out} {values}"


def try_finer_pixels(
    data: Dataset, side: int, refine: Refine, seed: int, options: PixelOptions = PixelOptions()
) -> PixelTrial:
    """Fit patterns in the middle of a scan on N × N and on ``side × side`` pixels, and compare.

    Args:
        data: an aligned scan of one object, its far field.
        side: N'.
        refine: what is refined besides the object.
        seed: of the choice of what is held out.
    """
    some = middle(data, options.trial.count(data.N))
    kept, held = hold_out(likelihood_of(some), seed)
    if refine != OBJECT_ALONE:  # both begin with one beam: what has not converged explains less
        fitted = _fitted(kept, refine, options, options.beam_steps)
        beam = fitted.beam(kept.data.photon_scale, kept.normalisation)
        kept = replace(kept, data=kept.data.under(beam))
    usual = held.score(_fitted(kept, refine, options, options.steps), refine)
    held_finer = replace(held, likelihood=_finer(held.likelihood, side))
    finer = held_finer.score(_fitted(_finer(kept, side), refine, options, options.steps), refine)
    return PixelTrial(compare_shares(finer, usual), float(np.exp(np.log(usual).mean())), held.kind)


def _finer(likelihood: ScanLikelihood, side: int) -> ScanLikelihood:
    """Return the likelihood of the same patterns on finer pixels."""
    instead = None if likelihood.instead is None else padded(likelihood.instead[:], side)
    return replace(likelihood, data=at_smaller_pixels(likelihood.data, side), instead=instead)


def _fitted(kept: ScanLikelihood, refine: Refine, options: PixelOptions, steps: int) -> Estimate:
    """Return a fit from a constant object under the beam of the patterns."""
    objective = Objective(kept, options.trial.prior)
    flat = np.ones((kept.data.object_size,) * 2, np.complex64)
    start = Estimate.of(kept.data, flat, normalisation=kept.normalisation)
    start = fit(objective, start, OBJECT_ALONE, options.object_steps).estimate
    if refine == OBJECT_ALONE:
        return start
    return fit(objective, start, refine, steps, FIT.preliminary).estimate
