"""A measured scan made ready: aligned, some patterns held out."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ptycho.align.aligned import AlignedScan, StartingPoint
from ptycho.align.geometry import Alternative
from ptycho.config import ProbeConfig
from ptycho.config.data import DataConfig
from ptycho.config.waves import FreeSpace, wavelength_m
from ptycho.evaluation.trust import FEW, LIMITS
from ptycho.preparation.dataset import number_held_out
from ptycho.preparation.prepare import ScanGeometry
from ptycho.scan.beam import Beam, join_parts
from ptycho.scan.comparison import split_patterns
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding, report
from ptycho.scan.probe import probe_mask
from ptycho.scan.reconstruction import Reconstruction, values_per_parameter

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A scan that is ready to be reconstructed."""

    name: str  # of the scan, unique in its run
    scan: ScanGeometry  # how its file was interpreted
    whole: Dataset  # all usable patterns, with the initial beam
    # kept, out: indices of the fitted patterns, and of those that are held out for validation
    kept: np.ndarray
    out: np.ndarray
    decisions: tuple[Finding, ...] = ()  # of the alignment, warnings among them
    # positions that explained more under the beam that was known before the fit
    alternative: Alternative | None = None
    start: StartingPoint | None = None  # what the solver begins with; None: a constant object
    reading: DataConfig | None = None  # how the file was read; None: unknown

    def beam_under(self, reconstruction: Reconstruction | None) -> Beam:
        """Return the beam that goes with a reconstruction; if there is none, the initial one."""
        own = None if reconstruction is None else reconstruction.beam
        return self.whole.beam if own is None else own

    def with_space(self, between: FreeSpace | None) -> Prepared:
        """Return the same with this free space between slices; None: what it has."""
        if between is None or between == self.whole.between:
            return self
        return replace(self, whole=replace(self.whole, between=between))

    def slice_thickness_m(self, reconstruction: Reconstruction) -> float | None:
        """Return the distance from one slice of a reconstruction to the next; None: it is thin."""
        energy, between = self.scan.raw.energy_eV, reconstruction.between
        return None if between is None or energy is None else between.length * wavelength_m(energy)

    def fitted(self, beam: Beam) -> Dataset:
        """Return the patterns that are fitted, under a beam of all."""
        return self._kept_data.under(beam.at(self.kept))

    def left_out(self, beam: Beam) -> Dataset | None:
        """Return the patterns that were held out, one by one, under a beam of all; None: there are none."""
        return self._out_data.under(beam.at(self.out)) if len(self.out) else None

    @cached_property
    def _kept_data(self) -> Dataset:
        """Made once, because the statistics of the patterns take a pass over all of them."""
        return self.whole.subset(self.kept, self.whole.group_size)

    @cached_property
    def _out_data(self) -> Dataset:
        return self.whole.subset(self.out, 1)

    def beam_of(self, kept: Beam, out: Beam | None) -> Beam:
        """Return the beam of all patterns from that of the fitted ones and that of the held-out ones."""
        return join_parts([(self.kept, kept)] + ([] if out is None else [(self.out, out)]))


def prepare(name: str, aligned: AlignedScan) -> Prepared:
    """Hold some patterns of an aligned scan of that name out."""
    whole, config = aligned.data, aligned.config
    held_out = number_held_out(len(whole.positions), config.holdout_fraction)
    kept, out = split_patterns(whole.positions, held_out, [config.seed, 1])
    log.info("%d patterns are fitted, %d are held out for validation", len(kept), len(out))
    prepared = Prepared(
        name,
        aligned.scan,
        whole,
        kept,
        out,
        decisions=aligned.decisions,
        alternative=aligned.alternative,
        start=aligned.start,
        reading=config.data,
    )
    doubts = measurement_doubts(prepared.fitted(whole.beam), config.probe)
    report(doubts, log)
    return replace(prepared, decisions=(*prepared.decisions, *doubts))


def measurement_doubts(data: Dataset, probe: ProbeConfig) -> list[Finding]:
    """Return a warning of patterns that hold too little to determine object and beam; or none."""
    support, others = probe_mask(probe, data.N), 0
    if probe.learn is not False:
        modes = probe.modes or max(len(data.probe), 2)
        others = 2 * modes * (data.N**2 if support is None else int(support.sum()))
    ratio = values_per_parameter(data, others)
    if ratio >= LIMITS.measured:
        return []
    text = f"{FEW}: {len(data.positions)} patterns have {ratio:.2g} measured values per parameter"
    return [Finding.warning(text, FEW)]
