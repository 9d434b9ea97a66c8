"""Find patterns that contradict all others: mixed-up frames, double exposures, halves of frames, a dim beam.

Object and probe are fitted without them, and then predict them. What share of its variation a pattern leaves
unexplained there (:mod:`~ptycho.align.registration`) is small if it belongs to its position, also where the
object is finer or darker than elsewhere, and about one if it does not. The flux is fitted to each pattern.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ptycho.align.aligned import AlignedScan, RunContext
from ptycho.align.position_jumps import JumpOptions
from ptycho.align.registration import Registration, square
from ptycho.preparation.dataset import at_positions
from ptycho.preparation.start import OUTLIERS
from ptycho.reconstruction.estimate import Refine
from ptycho.reconstruction.solver import OBJECT_ALONE
from ptycho.reconstruction.trial import TrialOptions, stand_out
from ptycho.scan.coarser import downsampled
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding


@dataclass(frozen=True)
class OutlierOptions:
    """Limits of the search for patterns that contradict the others, and steps of its fits."""

    steps: int = 20  # of the object, and as many with the probe, in a round
    rounds: int = 3
    suspected: float = 0.2  # share of its variation that a pattern leaves unexplained, to be predicted,
    unexplained: float = 0.5  # and to be an outlier, if it is predicted;
    times: float = 5.0  # either also so many times the median share,
    spread: float = 8.0  # and so many median deviations above it,
    near: int = 3  # and if at no place within so many pixels of its position it is below ``suspected``
    covered: float = 0.9  # of its intensity on what the others illuminate, to be predicted
    most: float = 0.1  # of the patterns that may be outliers; of more the model is wrong
    flux: float = 0.25  # least difference of an unusual flux from one,
    unusual: float = 8.0  # and so many times the median difference


class Outliers(NamedTuple):
    """Patterns that contradict the others, and the flux of those that have an unusual one."""

    mask: np.ndarray  # ``(J,)`` bool
    flux: np.ndarray  # c ``(J,)`` float32, one of patterns with the usual flux


def find_outliers(
    data: Dataset, refine_probe: bool = True, options: OutlierOptions = OutlierOptions()
) -> Outliers:
    """Return the patterns of a scan of one object that object and probe do not explain.

    Args:
        data: patterns of a far field at positions that are about right.
        refine_probe: the probe is corrected along with the object.
    """
    registration = Registration.of(data, Refine(refine_probe))
    every, nothing = np.arange(len(data.positions)), np.zeros(len(data.positions), bool)
    none = Outliers(nothing, np.ones(len(every), np.float32))
    if registration.noise > registration.variation:  # hides what patterns differ by
        return none
    out, limit = nothing, options.suspected
    for _ in range(options.rounds):
        others = np.flatnonzero(~out)
        for refine in (OBJECT_ALONE, registration.refined):
            registration.fit(others, refine, options.steps)
        shares, flux = registration.own_shares_and_flux(every)
        flux = flux / np.median(flux[others])
        cover = registration.cover_of(others)[tuple(registration.corners(every, registration.moves).T)]
        predicted = cover >= options.covered
        middle = np.median(shares[others])
        scatter = np.median(np.abs(shares[others] - middle))
        wrong = ~(shares <= max(limit, options.times * middle, middle + options.spread * scatter))
        for j in np.flatnonzero(wrong):  # unless it belongs near its position
            _, share = registration.best_place(int(j), registration.moves[j] + square(options.near))
            wrong[j] = not share <= options.suspected
        off = np.abs(flux - 1)
        unusual = ~wrong & (off > max(options.flux, options.unusual * np.median(off[others])))
        before, out = out, (wrong | unusual) & (predicted | out | (limit == options.suspected))
        if out.mean() > 2 * options.most or not (out.any() or before.any()):
            return none
        limit = options.unexplained
    outliers, unusual = wrong & out & predicted, unusual & out & predicted
    outliers = nothing if outliers.mean() > options.most else outliers
    return Outliers(outliers, np.where(unusual, flux, 1).astype(np.float32))


def may_have_outliers(aligned: AlignedScan) -> bool:
    """Return whether some patterns stand out, and may be left out."""
    config, data, count = aligned.config, aligned.data, len(aligned.data.positions)
    one_scan = config.data.shared is None and config.data.frames is None and data.fresnel is None
    some = TrialOptions.least <= count <= data.held_by(JumpOptions.most_pixels, 1)
    if not (one_scan and some and aligned.positions_may_jump):
        return False
    return aligned.contradicted or bool(stand_out(data).any())


def drop_outliers(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Leave out the patterns that contradict all others; those in a dim beam begin with their flux."""
    view, count = downsampled(aligned.data).data, len(aligned.data.positions)
    outliers, flux = find_outliers(view, aligned.config.learns_probe)
    if outliers.any():
        kept, scan, config = np.flatnonzero(~outliers), aligned.scan, aligned.config
        drop = sorted({*config.data.drop, *scan.frames[outliers].tolist()})
        why = (
            f"{outliers.sum()} of {count} patterns contradict what the others predict: frames mixed up, "
            "doubled or cut; data.position_jumps=false keeps them"
        )
        finding = Finding(OUTLIERS, f"data.drop=[{','.join(map(str, drop))}]", why)
        data = aligned.data.subset(kept, aligned.data.group_size)
        aligned = replace(
            aligned,
            scan=replace(scan, frames=scan.frames[kept]).place(scan.positions[kept]),
            data=at_positions(data, data.positions),
            config=replace(config, data=replace(config.data, drop=tuple(drop))),
        ).decided(finding)
    if (unusual := flux != 1).any():
        own = flux[~outliers] * aligned.data.beam.flux
        beam = replace(aligned.data.beam, flux=own / np.sqrt(np.mean(own**2)))
        seen = np.square(flux[unusual])
        text = f"{seen.min():.2g} to {seen.max():.2g} times the usual intensity in {unusual.sum()} patterns"
        aligned = replace(aligned, data=replace(aligned.data, beam=beam))
        aligned = aligned.decided(Finding("initial flux", text, "as the other patterns predict"))
    return aligned
