"""A measured scan made ready: a probe and an orientation settled, some patterns kept out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ptycho.config import OwnProbe, ProbeConfig, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.evaluation.trust import ENOUGH, FEW, ORIENTATION
from ptycho.methods.geometry import (
    Geometry,
    Other,
    coarse_turn,
    find_geometry,
    rotation_is_open,
    with_warnings,
)
from ptycho.methods.slips import Settled, correct_slips
from ptycho.preparation.dataset import choose_probe, keep_out, make_dataset, map_positions
from ptycho.preparation.prepare import Understood, understand
from ptycho.progress import OnEvent, Progress, ignore
from ptycho.readers.table import open_raw
from ptycho.reconstruction.blocks import Crew, NoShelf, Shelf, alone
from ptycho.reconstruction.orientation import Orientation, advice, better, orientations
from ptycho.reconstruction.probe_guess import guess_lens, guess_probe
from ptycho.scan.beam import Beam, join_parts
from ptycho.scan.coarser import coarser
from ptycho.scan.coverage import covered
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.plausibility import likeness
from ptycho.scan.positions import rotation
from ptycho.scan.probe import lit_part, masked
from ptycho.scan.reconstruction import Reconstruction

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A scan that is ready to be reconstructed.

    Attributes:
        name: of the scan, unique in its run.
        scan: how its file was understood.
        whole: all usable patterns, with the beam as it is told.
        kept, out: indices of those that are fitted, and of those that are kept out to judge the result by.
        found, doubts: what was settled, and flags that the results get.
        other: positions of another map, which explained more under the beam that was known before the fit.
    """

    name: str
    scan: Understood
    whole: Dataset
    kept: np.ndarray
    out: np.ndarray
    found: tuple[Finding, ...] = ()
    doubts: tuple[str, ...] = ()
    other: Other | None = None

    def beam_under(self, made: Reconstruction | None) -> Beam:
        """The beam that goes with a reconstruction; if there is none, the one that was told."""
        return self.whole.beam if made is None or made.beam is None else made.beam

    def fitted(self, beam: Beam) -> Dataset:
        """The patterns that are fitted, under a beam of all."""
        return self._kept_data.under(beam.at(self.kept))

    def left_out(self, beam: Beam) -> Dataset | None:
        """The patterns that were kept out, one by one, under a beam of all; None: there are none."""
        return self._out_data.under(beam.at(self.out)) if len(self.out) else None

    @cached_property
    def _kept_data(self) -> Dataset:
        """Made once, because the statistics of the patterns take a pass over all of them."""
        return self.whole.subset(self.kept, self.whole.group_size)

    @cached_property
    def _out_data(self) -> Dataset:
        return self.whole.subset(self.out, 1)

    def beam_of(self, kept: Beam, out: Beam | None) -> Beam:
        """That of all patterns, of those of the fitted ones and of the others."""
        return join_parts([(self.kept, kept)] + ([] if out is None else [(self.out, out)]))


@dataclass(frozen=True)
class Surroundings:
    """Where something is done.

    Attributes:
        scratch: a folder for patterns in a nameless file.
        timed: a context that notes how long what it is named after takes.
        bar: as for :class:`~ptycho.progress.Progress`.
        crew: who fits the blocks of a large scan.
        shelf: where their fits are kept.
        on_event: is told what happens.
    """

    scratch: Path
    timed: Callable[[str], AbstractContextManager] = lambda what: nullcontext()
    bar: bool | None = None
    crew: Crew = alone
    shelf: Shelf = field(default_factory=NoShelf)
    on_event: OnEvent = ignore


def prepare(name: str, scan: Understood, config: ScanRunConfig, where: Surroundings) -> Prepared:
    """The patterns read, a probe and an orientation settled, and some patterns kept out."""
    settled = align_scan(scan, config, where)
    whole = settled.data
    kept, out = keep_out(whole, config.holdout_fraction, config.seed)
    log.info("%d patterns are fitted, %d are held out for validation", len(kept), len(out))
    each = Prepared(name, settled.scan, whole, kept, out, settled.found, other=settled.other)
    doubts = measurement_doubts(each.fitted(whole.beam), config.probe)
    return replace(each, doubts=tuple(dict.fromkeys((*settled.doubts, *doubts))))


def align_scan(scan: Understood, config: ScanRunConfig, where: Surroundings) -> Settled:
    """Return the scan with a probe, in the orientation and at the positions that explain its patterns."""
    settled = settle(scan, config, where)
    with where.timed("position_jumps"):
        return correct_slips(settled, config)


def settle(scan: Understood, config: ScanRunConfig, where: Surroundings, transposed: bool = False) -> Settled:
    """The scan with a probe, if need be a guessed one, read the way that explains it.

    ``transposed``: its patterns have been transposed because of their deflection, which is done once.
    """
    data, found = read(scan, config, where)
    scan, data = without_foreign_probe(scan, data, config)
    guessed = scan.probe is None and isinstance(config.probe, OwnProbe)
    with where.timed("probe_and_orientation"):
        coarse = coarse_turn(data, rotation_is_open(scan, config.data))
        if coarse.transposed and config.data.orientation == "auto" and not transposed:
            return _transposed(config, str(coarse.warning), where)
        if guessed:
            about_turned = map_positions(scan, data, rotation(coarse.degrees), config)[1]
            lenses = coarse.curvatures
            guess = guess_lens(about_turned, lenses) if lenses else guess_probe(about_turned)
            data = replace(data, beam=data.beam.with_probe(masked(guess.probe, config.probe)))
            found.append(guess.finding)
            log.info("%s", guess.finding)
    with where.timed("geometry"):
        geometry = Geometry()
        if coarse.warning is None and data.fresnel is None:  # a near field moves with its positions
            geometry = _geometry(scan, data, config, coarse.degrees, not guessed)
        scan, data = _placed(scan, data, geometry, config)
        found += geometry.findings
        doubts = geometry.doubts
        if coarse.warning is not None:
            scan = with_warnings(scan, (coarse.warning,))
            doubts += (ORIENTATION,)
    with where.timed("probe_and_orientation"):
        view = coarser(data)
        seen = data if view is None else view.data
        trials = orientations(replace(seen, beam=seen.beam.with_probe(seen.probe[0])))
        clear = better(trials)
    settled = Settled(scan, data, tuple(found), doubts, geometry.other)
    if clear is None:
        return settled
    told = advice(clear, trials, config.data)
    if config.data.orientation != "auto":
        log.warning("%s; or data.orientation=auto", told)
        warned = replace(scan, warnings=(*scan.warnings, told))
        return replace(settled, scan=warned, doubts=(*doubts, ORIENTATION))
    log.info("data.orientation=auto: %s", told)
    turned = clear.orientation.on(config.data)
    probe = data.probe
    with _opened_again(turned) as scan:
        data, again = read(scan, replace(config, data=turned), where)
    again += geometry.findings
    if geometry.matrix is not None:
        scan, data = map_positions(scan, data, geometry.matrix, config)
    if guessed:
        data = replace(data, beam=data.beam.with_probe(probe))
    again.append(Finding("orientation", clear.orientation.keys(config.data), told))
    return replace(settled, scan=scan, data=data, found=tuple(again))


def without_foreign_probe(
    scan: Understood, data: Dataset, config: ScanRunConfig, alike: float = 0.4
) -> tuple[Understood, Dataset]:
    """Return the scan without the file's probe where that is none: an object, or the probe of another beam.

    Args:
        alike: least correlation of the mean pattern with the far field of a probe; of right ones it is above
            .9, of wrong ones below .34 (:mod:`ptycho.scan.plausibility`).
    """
    if scan.probe is None or not isinstance(config.probe, OwnProbe) or data.fresnel is not None:
        return scan, data
    found = likeness(data.amplitudes.statistics, data.probe)
    if found > alike:
        return scan, data
    warning = (
        "the probe of the file does not belong to the patterns: its far field and their mean have a "
        f"correlation of {found:.2f}; it is estimated instead; set probe=npz probe.file=… or probe=zone_plate"
    )
    scan = with_warnings(replace(scan, probe=None), (warning,))
    modes, _ = choose_probe(scan, config)
    beam = data.beam.with_probe(modes).scaled_to(data.beam.power)
    return scan, replace(data, beam=beam)


def _geometry(
    scan: Understood, data: Dataset, config: ScanRunConfig, degrees: float, told_probe: bool
) -> Geometry:
    """What the patterns say of the positions, at larger pixels where patterns are large."""
    view = coarser(data)
    if view is None:
        return find_geometry(scan, data, config.data, degrees, told_probe)
    found = find_geometry(scan, view.data, config.data, degrees, told_probe)
    if found.probe is not None:
        found = replace(found, probe=view.finer_probe(found.probe))
    if found.other is not None and found.other.probe is not None:
        found = replace(found, other=replace(found.other, probe=view.finer_probe(found.other.probe)))
    return found


def _transposed(config: ScanRunConfig, why: str, where: Surroundings) -> Settled:
    """The scan settled with its patterns transposed, because of what their deflection says."""
    way = Orientation(transpose=True)
    turned = way.on(config.data)
    with _opened_again(turned) as scan:
        settled = settle(scan, replace(config, data=turned), where, transposed=True)
    return replace(settled, found=(*settled.found, Finding("orientation", way.keys(config.data), why)))


@contextmanager
def _opened_again(config: DataConfig) -> Iterator[Understood]:
    """A scan that is read in another way, whose file is closed once its patterns are copied."""
    raw = open_raw(config)
    with closing(raw.patterns):
        yield understand(raw, config)


def _placed(
    scan: Understood, data: Dataset, geometry: Geometry, config: ScanRunConfig
) -> tuple[Understood, Dataset]:
    """The scan with positions as they were found, and the probe that goes with them."""
    for finding in geometry.findings:
        log.info("%s", finding)
    scan = with_warnings(scan, geometry.warnings)
    if geometry.matrix is not None:
        scan, data = map_positions(scan, data, geometry.matrix, config)
    if geometry.probe is not None:
        data = replace(data, beam=data.beam.with_probe(masked(geometry.probe, config.probe)))
    return scan, data


def read(scan: Understood, config: ScanRunConfig, where: Surroundings) -> tuple[Dataset, list[Finding]]:
    """All patterns of the scan, read once."""
    progress = Progress("reading", len(scan.frames), bar=where.bar)
    with where.timed("reading"), closing(progress):
        data, found = make_dataset(scan, config, where.scratch, progress.advance)
    for finding in found:
        log.info("%s", finding)
    return data, found


def measurement_doubts(data: Dataset, probe: ProbeConfig) -> list[str]:
    """The flag for patterns that hold too little to determine object and beam, with a warning; or none."""
    good = data.N**2 if data.good is None else int(data.good.sum())
    lit = lit_part(probe, data.N)
    unknown = 2 * int(covered(data).sum())
    if probe.learn is not False:
        modes = probe.modes or max(len(data.probe), 2)
        unknown += 2 * modes * (data.N**2 if lit is None else int(lit.sum()))
    ratio = len(data.positions) * good / unknown
    if ratio >= ENOUGH:
        return []
    log.warning("%s: %d patterns have %.2g measured values per parameter", FEW, len(data.positions), ratio)
    return [FEW]
