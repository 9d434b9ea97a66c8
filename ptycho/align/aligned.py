"""A scan that is being aligned: how it was read, its patterns under a probe, and what was decided."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptycho.align.geometry import Alternative, CoarseRotation
from ptycho.config import ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.preparation.dataset import make_dataset, map_positions
from ptycho.preparation.prepare import ScanGeometry, interpret_again
from ptycho.progress import OnEvent, Progress, ignore
from ptycho.reconstruction.blocks import Cache, Executor, serial
from ptycho.reconstruction.trial import TrialOptions
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding, report
from ptycho.scan.probe import masked

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunContext:
    """Where a scan is reconstructed: folder, clock, progress bar, executor and cache."""

    scratch: Path  # a folder for patterns in a nameless file
    timed: Callable[[str], AbstractContextManager] = lambda what: nullcontext()  # notes how long it takes
    bar: bool | None = None  # as for :class:`~ptycho.progress.Progress`
    executor: Executor = serial  # of the blocks of a large scan
    cache: Cache | None = None  # of their fits
    on_event: OnEvent = ignore  # is called with what happens
    words: Callable[[str], str] = str  # puts the names that the caller knows for keys into a text


@dataclass(frozen=True, eq=False)
class StartingPoint:
    """Start of a reconstruction."""

    object: np.ndarray  # ``(M, M)`` complex64 on the pixels of the dataset, zero where nothing is known
    model: Mapping[str, str]  # what is refined, by the names of the solver's findings; empty: it is selected


@dataclass(frozen=True, eq=False)
class AlignedScan:
    """A scan of one object, read the way that explains it, under a probe."""

    scan: ScanGeometry  # how its file was interpreted
    data: Dataset  # all usable patterns
    config: ScanRunConfig  # how it is read and reconstructed
    # Decided when the patterns were read, and by the steps; warnings among them.
    reading: tuple[Finding, ...] = ()
    steps: tuple[Finding, ...] = ()
    alternative: Alternative | None = None  # positions that would explain more; nothing is decided about them
    rotation: CoarseRotation = CoarseRotation()  # what the patterns say before there is a probe
    estimated: bool = False  # the probe is estimated from the patterns
    matrix: np.ndarray | None = None  # by which positions are multiplied so far, ``(2, 2)``; None: as read
    start: StartingPoint | None = None  # what the reconstruction begins with; None: nothing is known
    contradicted: bool = False  # some patterns do not fit where they are

    @property
    def decisions(self) -> tuple[Finding, ...]:
        """All decisions, in order."""
        return (*self.reading, *self.steps)

    @property
    def joins_scans(self) -> bool:
        """Whether its patterns are those of several scans of one object."""
        return self.config.data.shared in ("object", "both")

    @property
    def suffices_for_trials(self) -> bool:
        """Whether there are enough patterns to fit some and to hold out others."""
        return len(self.data.positions) >= TrialOptions.least

    @property
    def positions_may_jump(self) -> bool:
        """Whether patterns may be moved by many pixels, or left out."""
        return self.config.data.position_jumps and self.config.solver.positions is not False

    def decided(self, *decisions: Finding) -> AlignedScan:
        """Return the scan with more decisions of a step, which are logged."""
        report(decisions, log)
        return replace(self, steps=(*self.steps, *decisions))

    def under(self, probe: np.ndarray) -> AlignedScan:
        """Return the scan under another probe ``(N, N)``, or its modes ``(K, N, N)``."""
        beam = self.data.beam.with_probe(masked(probe, self.config.probe))
        return replace(self, data=replace(self.data, beam=beam))

    def mapped(self, matrix: np.ndarray, probe: np.ndarray | None) -> AlignedScan:
        """Return the scan with positions multiplied by ``matrix (2, 2)``, and the probe of those."""
        scan, data = map_positions(self.scan, self.data, matrix)
        whole = matrix if self.matrix is None else matrix @ self.matrix
        mapped = replace(self, scan=scan, data=data, matrix=whole)
        return mapped if probe is None else mapped.under(probe)


def read(scan: ScanGeometry, config: ScanRunConfig, context: RunContext) -> AlignedScan:
    """Read all patterns of a scan, once."""
    progress = Progress("reading", len(scan.frames), bar=context.bar)
    with context.timed("reading"), closing(progress):
        scan, data, decisions = make_dataset(scan, config, context.scratch, progress.advance)
    report(decisions, log)
    return AlignedScan(scan, data, config, tuple(decisions))


def read_again(aligned: AlignedScan, config: DataConfig, context: RunContext) -> AlignedScan:
    """Read a scan as another ``config`` says, with the map of its positions."""
    again = read(interpret_again(aligned.scan, config), replace(aligned.config, data=config), context)
    return again if aligned.matrix is None else again.mapped(aligned.matrix, None)
