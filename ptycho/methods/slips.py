"""Positions that err by tens of pixels, found and told before anything is reconstructed.

Where a map of all positions explains the patterns better (:mod:`~ptycho.methods.geometry`), slips are looked
for behind it first. If nothing is left to move there, or less is left unexplained than by slips alone, the
map is what is wrong: a drift is then taken; another scale or turn is looked at again when the scan is
reconstructed (:func:`ptycho.methods.pipeline.assess`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np

from ptycho.config import ScanRunConfig
from ptycho.evaluation.trust import POSITIONS
from ptycho.methods.geometry import Other, find_geometry, rotation_is_open
from ptycho.preparation.dataset import map_positions, move_positions
from ptycho.preparation.prepare import Understood
from ptycho.reconstruction.slips import Slips, find_slips
from ptycho.scan.coarser import coarser
from ptycho.scan.comparison import compare_shares
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.probe import masked

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Settled:
    """A scan of one object, read the way that explains it, under a probe.

    Attributes:
        scan: how its file was understood.
        data: all usable patterns.
        found, doubts: what was settled, and flags that the results get.
        other: positions that would explain more, about which nothing is settled.
    """

    scan: Understood
    data: Dataset
    found: tuple[Finding, ...] = ()
    doubts: tuple[str, ...] = ()
    other: Other | None = None


def correct_slips(settled: Settled, config: ScanRunConfig) -> Settled:
    """The scan with positions that explain it; what is found but not taken is told, with flags."""
    if not config.data.position_jumps or config.solver.positions is False:
        return settled
    free = config.probe.learn is not False
    if settled.other is None:
        return _moved(settled, _found(settled.data, free), config)
    mapped = _mapped(settled, settled.other, config)
    behind = _found(mapped.data, free)
    if behind.lost or behind.moved.any():
        alone = _found(settled.data, free)
        if not _explains_more(behind, alone):
            return _moved(settled, alone, config)
    if not settled.other.drift:
        return settled
    log.warning("%s", settled.other.finding)
    return _moved(mapped, behind, config)


def _found(data: Dataset, free_probe: bool) -> Slips:
    """The slips of a scan, of large patterns at larger pixels."""
    view = coarser(data)
    if view is None:
        return find_slips(data, free_probe)
    slips = find_slips(view.data, free_probe)
    return replace(slips, moves=slips.moves / view.ratio)


def _explains_more(behind: Slips, alone: Slips) -> bool:
    """Whether slips behind a map leave less unexplained of the same patterns than those without it."""
    if behind.deviance is None or alone.deviance is None:
        return bool(behind.moved.any())
    return compare_shares(behind.deviance, alone.deviance).gain > 0


def _mapped(settled: Settled, other: Other, config: ScanRunConfig) -> Settled:
    """The scan with the positions that explain it better, and the probe that goes with them."""
    scan, data = map_positions(settled.scan, settled.data, other.matrix, config)
    if other.probe is not None:
        data = replace(data, beam=data.beam.with_probe(masked(other.probe, config.probe)))
    return Settled(scan, data, (*settled.found, other.finding), settled.doubts)


def _moved(settled: Settled, slips: Slips, config: ScanRunConfig) -> Settled:
    """The scan with its patterns where they were found."""
    if slips.moved.any():
        finding = _finding(slips)
        log.warning("%s", finding)
        data = move_positions(settled.scan, settled.data, slips.moves, config)
        moved = replace(settled, data=data, found=(*settled.found, finding))
        return replace(moved, other=_other_again(moved, config))
    if slips.lost:
        log.warning(
            "positions: many patterns contradict their neighbours at the nominal positions, and no "
            "correction was found; the nominal positions are kept"
        )
        settled = replace(settled, doubts=(*settled.doubts, POSITIONS))
    return settled


def _finding(slips: Slips) -> Finding:
    factor = np.exp(-slips.gain.gain)
    why = f"deviance × {factor:.3f}; data.position_jumps=false keeps the nominal positions"
    return Finding("positions corrected", slips.text, why)


def _other_again(settled: Settled, config: ScanRunConfig) -> Other | None:
    """What still explains more than positions that were moved, if anything did before."""
    if settled.other is None or rotation_is_open(settled.scan, config.data):
        return settled.other
    return find_geometry(settled.scan, settled.data, config.data, 0.0, True).other
