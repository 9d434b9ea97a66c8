"""Align a scan: a probe, an orientation, and the positions that explain its patterns.

Each step takes an :class:`~.aligned.AlignedScan` and returns another; ``docs/architecture.md`` lists what
each decides. Steps that read the scan again, or combine what several modules find, are here.

Position jumps and an affine map exclude each other: if a map explains more, the search for jumps is repeated
with it. If no jumps remain, or less remains unexplained than with jumps alone, the map is the error: a drift
is then corrected; another scale or rotation is tested again when the scan has been reconstructed
(:func:`ptycho.methods.pipeline.assess`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ptycho.align.affine_map import scale_in, turn_in
from ptycho.align.aligned import AlignedScan, RunContext, read_again
from ptycho.align.geometry import (
    coarse_rotation,
    find_geometry,
    find_rotation,
    of_electrons,
    rotation_is_open,
)
from ptycho.align.initial_probe import (
    check_probe,
    compare_defocus,
    compare_probe,
    estimate_probe,
    has_no_probe,
    may_be_defocused,
    shows_another_probe,
)
from ptycho.align.object_pixel import may_be_finer, refine_pixel
from ptycho.align.orientation import (
    REVERSED,
    Orientation,
    advice,
    better,
    find_frame_offset,
    longer_trials,
    orientations,
)
from ptycho.align.outliers import drop_outliers, may_have_outliers
from ptycho.align.pattern_shift import as_pairs, find_pattern_shift
from ptycho.align.position_jumps import Jumps, find_jumps
from ptycho.align.scan_rotation import positions_of_near_fields
from ptycho.align.several_scans import join_scans
from ptycho.config.data import DataConfig
from ptycho.config.messages import show
from ptycho.evaluation.trust import ORIENTATION, POSITIONS
from ptycho.preparation.dataset import at_positions
from ptycho.preparation.start import FRAME_OFFSET, ORIENTED, PATTERN_SHIFT
from ptycho.reconstruction.trial import TrialOptions, middle_patterns, place_anew, trials_at
from ptycho.scan.coarser import downsampled
from ptycho.scan.comparison import Rule, compare_shares
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.reconstruction import values_per_parameter

log = logging.getLogger(__name__)


def align_scan(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Align a scan as it was :func:`read`: take all steps."""
    aligned = look_at_rotation(check_probe(aligned))
    if aligned.rotation.transposed and aligned.config.data.orientation == "auto":
        way, config, why = Orientation(transpose=True), aligned.config.data, str(aligned.rotation.warning)
        aligned = look_at_rotation(check_probe(read_again(aligned, way.on(config), context)))
        aligned = aligned.decided(Finding(ORIENTED, way.keys(config), why))
    for step in STEPS:
        if values_per_parameter(aligned.data) < step.least or not step.applies(aligned):
            continue
        with context.timed(step.phase):
            aligned = step.run(aligned, context)
        if aligned.data.beam.opr_modes is not None:  # the steps that follow are for one probe
            break
    return aligned


def look_at_rotation(aligned: AlignedScan) -> AlignedScan:
    """Determine the rotation of the scan without a probe."""
    is_open = rotation_is_open(aligned.scan, aligned.config.data)
    return replace(aligned, rotation=coarse_rotation(aligned.data, is_open))


def correct_pattern_shift(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Read the scan again with patterns that shift on the detector, if that explains it clearly better."""
    view = downsampled(aligned.data)
    electrons = of_electrons(aligned.scan, aligned.config.data)
    found = find_pattern_shift(view.data, aligned.rotation.degrees, electrons, not aligned.estimated)
    if found is None:
        return aligned
    shift = as_pairs(found.matrix * view.data.N)  # for the width of a window, which N does not change
    again = read_again(aligned, replace(aligned.config.data, pattern_shift=shift), context)
    again = replace(again, steps=aligned.steps, rotation=aligned.rotation)
    keys = f"data.pattern_shift={show(shift)}".replace(" ", "")
    text = (
        f"deviance {found.trial.mean_deviance:.3g} of a short reconstruction, against "
        f"{found.none.mean_deviance:.3g} without; data.pattern_shift=[[0,0],[0,0]] keeps that"
    )
    again = again.decided(Finding(PATTERN_SHIFT, keys, text))
    if has_no_probe(again):
        return estimate_probe(again, context)
    return replace(again.under(aligned.data.probe), estimated=True) if aligned.estimated else again


def correct_frame_offset(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Read the scan again with frames late or early by one, if that explains it clearly better.

    Position jumps then must not remain: a backlash of about a step looks like an offset, and is left to
    :func:`correct_jumps`.
    """
    found = find_frame_offset(downsampled(aligned.data).data, aligned.scan.frames)
    if found is None:
        return aligned
    offset, trial, none = found
    again = _read_as(aligned, replace(aligned.config.data, frame_offset=offset), context)
    if again.positions_may_jump and (left := _jumps(again)).moved.any():
        log.info("frame offset: %d leaves %s; the positions are as stored", offset, left.text)
        return aligned
    text = (
        f"deviance {trial.mean_deviance:.3g} of a short reconstruction, against {none.mean_deviance:.3g} as "
        "stored; data.frame_offset=0 keeps that"
    )
    return again.decided(Finding(FRAME_OFFSET, f"data.frame_offset={offset}", text))


def _read_as(aligned: AlignedScan, config: DataConfig, context: RunContext) -> AlignedScan:
    """Return an aligned scan as another ``config`` reads it, with its map and its probe."""
    again = read_again(aligned, config, context).under(aligned.data.probe)
    return replace(aligned, scan=again.scan, data=again.data, config=again.config, reading=again.reading)


def correct_positions(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Apply the affine map that explains the patterns, or note it as an alternative."""
    if aligned.data.fresnel is not None:  # :func:`correct_near_field`
        return aligned
    view, scan, config = downsampled(aligned.data), aligned.scan, aligned.config.data
    coarse, fixed = aligned.rotation, not aligned.config.learns_probe
    may_search = coarse.unknown and not (coarse.transposed or aligned.estimated)
    searched = find_rotation(view.data) if may_search else None
    if searched is None and coarse.warning is not None:
        return aligned.decided(Finding.warning(coarse.warning, ORIENTATION))
    degrees = coarse.degrees if searched is None else searched
    geometry = find_geometry(scan, view.data, config, degrees, not aligned.estimated, fixed)
    probe = None if geometry.probe is None else view.finer_probe(geometry.probe)
    if geometry.reversed_probe:
        probe = REVERSED.patterns(aligned.data.probe).conj()
    if geometry.matrix is not None:
        aligned = aligned.mapped(geometry.matrix, probe)
    elif probe is not None:
        aligned = aligned.under(probe)
    other = geometry.alternative
    if other is not None and other.probe is not None:
        other = replace(other, probe=view.finer_probe(other.probe))
    return replace(aligned, alternative=other).decided(*geometry.decisions)


def correct_orientation(aligned: AlignedScan, context: RunContext, poor: float = 2.0) -> AlignedScan:
    """Read the scan the way that explains it clearly better, or warn that there is one.

    With ``data.orientation=auto``, fits are longer where short ones decide nothing, and the best of them
    leaves a ``poor`` deviance per pixel.
    """
    data, config = _for_orientation(aligned.data), aligned.config.data
    trials = orientations(data)
    clear = better(trials)
    if clear is None and config.orientation == "auto" and trials[0].mean_deviance > poor:
        clear = better(trials := longer_trials(data))
    if clear is None:
        return aligned
    text = advice(clear, trials, config)
    if config.orientation != "auto":
        return aligned.decided(Finding.warning(f"{text}; or data.orientation=auto", ORIENTATION))
    way: Orientation = clear.hypothesis[0]
    earlier = [finding for finding in aligned.steps if finding.what == ORIENTED]  # a transposition
    words = " ".join([*(finding.value for finding in earlier), way.keys(config)]).split()
    keys = {word.partition("=")[0]: word for word in words}  # of a key, the last value
    turned = _read_as(aligned, way.on(config), context)
    turned = replace(turned, steps=tuple(step for step in turned.steps if step not in earlier))
    return turned.decided(Finding(ORIENTED, " ".join(keys.values()), text))


def _for_orientation(data: Dataset) -> Dataset:
    """Return large patterns downsampled, all under the first mode of their probe."""
    data = downsampled(data).data
    return replace(data, beam=data.beam.with_probe(data.probe[0]))


def doubt_orientation(data: Dataset, config: DataConfig) -> Finding | None:
    """Return a warning of another orientation that explains a scan clearly better after longer fits, or None.

    For a scan whose reconstruction explains little: short trials say nothing under a wrong probe.
    """
    trials = longer_trials(_for_orientation(data))
    clear = better(trials)
    if clear is None:
        return None
    return Finding.warning(f"{advice(clear, trials, config)}; or data.orientation=auto", ORIENTATION)


def correct_jumps(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Move patterns whose positions err by tens of pixels; what is found but not applied raises flags."""
    if not aligned.positions_may_jump:
        return aligned
    other = aligned.alternative
    if other is None:
        return _moved(aligned, _jumps(aligned))
    mapped = replace(aligned.mapped(other.matrix, other.probe), alternative=None)
    behind = _jumps(mapped)
    if behind.lost or behind.moved.any():
        alone = _jumps(aligned)
        if not _explains_more(behind, alone):
            return _moved(aligned, alone)
    if not other.drift:
        return aligned
    log.warning("%s", other.applied)
    return _moved(replace(mapped, steps=(*mapped.steps, other.applied)), behind)


def _jumps(aligned: AlignedScan) -> Jumps:
    """Find the jumps of a scan, of large patterns on downsampled ones."""
    view = downsampled(aligned.data)
    jumps = find_jumps(view.data, aligned.config.learns_probe)
    limits = replace(jumps.limits, least=jumps.limits.least / view.ratio)
    return replace(jumps, moves=jumps.moves / view.ratio, limits=limits)


def _explains_more(behind: Jumps, alone: Jumps) -> bool:
    """Return whether jumps behind a map leave less unexplained of the same patterns than those without it."""
    if behind.deviance is None or alone.deviance is None:
        return bool(behind.moved.any())
    return compare_shares(behind.deviance, alone.deviance).gain > 0


def correct_near_field(
    aligned: AlignedScan,
    context: RunContext,
    least: float = 1.0,
    steps: tuple[int, int] = (30, 30),
    better: Rule = Rule(3.0, 0.02),
) -> AlignedScan:
    """Move patterns of a near field to where they show that they lie, if that explains them clearly better.

    A mirrored scan is another orientation.

    Args:
        least: pixels by which one is moved; the fit corrects less.
        steps: of the trials: object, then with the probe.
        better: rule of what they must gain.
    """
    data, nominal = aligned.data, aligned.data.positions.astype(float)
    measured = positions_of_near_fields(data)
    moves, here = measured.positions - nominal, measured.positions - measured.positions.mean(axis=0)
    map_back = np.linalg.lstsq(here, nominal - nominal.mean(axis=0), rcond=None)[0].T
    upright = np.linalg.det(map_back) > 0.1 and np.trace(map_back) > 0  # of positions on a line neither
    far = np.linalg.norm(moves, axis=1)
    if not upright or measured.error > least or far.max() < least:
        return aligned
    chosen = middle_patterns(data, TrialOptions().count(data.N))
    patterns = data.amplitudes.some(chosen).in_memory()
    tried = trials_at(place_anew(data, patterns, nominal[chosen], data.good), steps)
    own, other = (tried(positions[chosen], None, None) for positions in (nominal, measured.positions))
    gain, matrix = other.gain_over(own), np.linalg.inv(map_back)
    if not gain.passes(better):
        return aligned
    rest = np.sqrt(np.sum((nominal - nominal.mean(axis=0) - here @ map_back.T) ** 2, axis=1).mean())
    text = (
        f"{len(far)} patterns by {far.min():.1f} to {far.max():.1f} px: rotated by {turn_in(matrix):.2f}°, "
        f"scaled by {scale_in(matrix):.3f}, and {rest:.1f} px rms, by the correlation of neighbours"
    )
    return _at_moved(aligned, moves, text, float(np.exp(-gain.gain)))


def _at_moved(aligned: AlignedScan, moves: np.ndarray, text: str, factor: float) -> AlignedScan:
    """Return the scan with its patterns moved by ``(J, 2)`` pixels, with a decision, which is logged."""
    why = f"deviance × {factor:.3f}; data.position_jumps=false keeps the nominal positions"
    decision = Finding("positions corrected", text, why)
    log.warning("%s", decision)
    data = at_positions(aligned.data, aligned.data.positions.astype(float) + moves)
    return replace(aligned, data=data, steps=(*aligned.steps, decision))


def _moved(aligned: AlignedScan, jumps: Jumps) -> AlignedScan:
    """Return the scan with its patterns where they were found."""
    aligned = replace(aligned, contradicted=jumps.contradicted and not jumps.lost)
    if jumps.moved.any():
        moved = _at_moved(aligned, jumps.moves, jumps.text, float(np.exp(-jumps.gain.gain)))
        data, other = moved.data, aligned.alternative
        if other is not None and not rotation_is_open(moved.scan, moved.config.data):
            other = find_geometry(moved.scan, data, moved.config.data, 0.0, True).alternative
        return replace(moved, alternative=other)
    if jumps.lost:
        text = (
            "positions: many patterns contradict their neighbours at the nominal positions, and no "
            "correction was found; the nominal positions are kept"
        )
        return aligned.decided(Finding.warning(text, POSITIONS, refutable=True))
    return aligned


class Step(NamedTuple):
    """A step of the alignment."""

    run: Callable[[AlignedScan, RunContext], AlignedScan]
    phase: str  # its name in the log
    # Measured values per parameter of the object that it needs; with 1.6, short fits end in wrong places, and
    # prefer positions that lie too wide (measured).
    least: float = 0.0
    applies: Callable[[AlignedScan], bool] = lambda aligned: True  # whether there is anything to do


def _may_shift(aligned: AlignedScan) -> bool:
    """Return whether it is open how the patterns shift on the detector."""
    data = aligned.config.data
    far = aligned.data.fresnel is None and data.pattern_shift is None
    return far and data.shared is None and aligned.suffices_for_trials


def _may_be_late(aligned: AlignedScan) -> bool:
    """Return whether it is open to which position each frame belongs."""
    config, data = aligned.config.data, aligned.data
    one_scan = config.shared is None and len(data.positions) == len(aligned.scan.frames)
    return config.frame_offset is None and one_scan and data.fresnel is None and aligned.suffices_for_trials


def _may_lie_elsewhere(aligned: AlignedScan) -> bool:
    """Return whether the patterns of a near field may be moved."""
    near = aligned.data.fresnel is not None and aligned.config.data.shared is None
    return near and aligned.positions_may_jump and aligned.suffices_for_trials


STEPS = (
    Step(estimate_probe, "initial_probe", applies=has_no_probe),
    Step(compare_probe, "initial_probe", 1.8, applies=shows_another_probe),
    Step(correct_pattern_shift, "pattern_shift", 1.8, applies=_may_shift),
    Step(compare_defocus, "defocus", 1.8, applies=may_be_defocused),
    Step(join_scans, "several_scans", applies=lambda aligned: aligned.joins_scans),
    Step(correct_frame_offset, "frame_offset", 1.8, applies=_may_be_late),
    Step(correct_positions, "geometry", 1.8),
    Step(correct_orientation, "orientation", 1.8, applies=lambda aligned: aligned.suffices_for_trials),
    Step(correct_near_field, "near_field_positions", applies=_may_lie_elsewhere),
    Step(refine_pixel, "object_pixel", 1.8, applies=may_be_finer),
    Step(correct_jumps, "position_jumps", 1.8),
    Step(drop_outliers, "outliers", 1.8, applies=may_have_outliers),
)
"""What is tried, in order."""
