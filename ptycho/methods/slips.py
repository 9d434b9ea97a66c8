"""Positions that err by tens of pixels, found and told before anything is reconstructed."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from ptycho.config import ScanRunConfig
from ptycho.evaluation.trust import ORIENTATION, POSITIONS, SCALE
from ptycho.methods.geometry import find_geometry, rotation_is_open
from ptycho.preparation.dataset import move_positions
from ptycho.preparation.prepare import Understood
from ptycho.reconstruction.slips import Slips, find_slips
from ptycho.scan.coarser import coarser
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding

log = logging.getLogger(__name__)


def correct_slips(
    scan: Understood, data: Dataset, config: ScanRunConfig, doubts: list[str]
) -> tuple[Dataset, list[Finding], list[str]]:
    """The patterns with positions that explain them, what was found, and flags of doubt.

    Args:
        data: one object, read the way that explains it, under a probe.
        doubts: flags so far; those of scale and rotation are raised anew where positions are moved.
    """
    if not config.data.position_slips or config.solver.positions is False:
        return data, [], doubts
    slips = _found(data, config.probe.learn is not False)
    if slips.moved.any():
        finding = _finding(slips)
        log.warning("%s", finding)
        moved = move_positions(scan, data, slips.moves, config)
        if SCALE in doubts or ORIENTATION in doubts:
            doubts = _doubts_again(scan, moved, config, doubts)
        return moved, [finding], doubts
    if slips.lost:
        log.warning(
            "positions: many patterns contradict those around them where they are told to be, and nothing "
            "was found that mends it; they stay as they are told"
        )
        return data, [], [*doubts, POSITIONS]
    return data, [], doubts


def _found(data: Dataset, free_probe: bool) -> Slips:
    """The slips of a scan, of large patterns at larger pixels."""
    view = coarser(data)
    if view is None:
        return find_slips(data, free_probe)
    slips = find_slips(view.data, free_probe)
    return replace(slips, moves=slips.moves / view.ratio)


def _finding(slips: Slips) -> Finding:
    factor = np.exp(-slips.gain.gain)
    why = f"deviance × {factor:.3f}; data.position_slips=false leaves them as they are told"
    return Finding("positions moved", slips.text, why)


def _doubts_again(scan: Understood, data: Dataset, config: ScanRunConfig, doubts: list[str]) -> list[str]:
    """Flags, of scale and rotation those that moved positions still raise."""
    if rotation_is_open(scan, config.data):
        return doubts
    geometry = find_geometry(scan, data, config.data, 0.0, True)
    return [flag for flag in doubts if flag not in (SCALE, ORIENTATION)] + list(geometry.doubts)
