"""Align a scan: a probe, an orientation, and the positions that explain its patterns.

Each step takes an :class:`AlignedScan` and returns another:

1. ``check_probe``: a probe of the file that does not belong to the patterns is dropped.
2. ``look_at_rotation``: centres of mass and parallax give the rotation of the scan, without a probe.
3. ``estimate_probe``: where the file has none. ``compare_probe``: a specified one with that of the parallax.
   ``compare_defocus``: with itself, of another curvature.
4. ``join_scans``: several scans of one object are placed on each other (:mod:`~ptycho.align.several_scans`).
5. ``correct_frame_offset``: frames late or early by one (:mod:`~ptycho.align.orientation`).
6. ``correct_positions``: an affine map (:mod:`~ptycho.align.geometry`).
7. ``correct_orientation``: transposed, mirrored or negated axes (:mod:`~ptycho.align.orientation`).
8. ``refine_pixel``: object pixels finer than those of the detector (:mod:`~ptycho.align.object_pixel`).
9. ``correct_jumps``: positions that err by tens of pixels (:mod:`~ptycho.align.position_jumps`).
10. ``drop_outliers``: patterns that contradict all others (:mod:`~ptycho.align.outliers`).

Position jumps and an affine map exclude each other: if a map explains more, the search for jumps is repeated
with it. If no jumps remain, or less remains unexplained than with jumps alone, the map is the error: a drift
is then corrected; another scale or rotation is tested again when the scan has been reconstructed
(:func:`ptycho.methods.pipeline.assess`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ptycho.align.aligned import AlignedScan, RunContext, StartingPoint, read_again, read_as
from ptycho.align.geometry import (
    coarse_rotation,
    find_geometry,
    rotation_is_open,
)
from ptycho.align.initial_probe import (
    ProbeOptions,
    find_other_probe,
    guess_lens,
    guess_probe,
    likeness,
    own_held_out,
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
from ptycho.align.position_jumps import Jumps, find_jumps
from ptycho.align.several_scans import place_on_the_largest, with_probe_of_each
from ptycho.config import OwnProbe
from ptycho.config.data import DataConfig
from ptycho.evaluation.trust import ORIENTATION, POSITIONS
from ptycho.preparation.dataset import at_positions, choose_probe, map_positions, place_patterns
from ptycho.preparation.start import FRAME_OFFSET, ORIENTED, Start
from ptycho.reconstruction.trial import TrialOptions
from ptycho.scan.coarser import downsampled
from ptycho.scan.comparison import compare_shares
from ptycho.scan.coverage import values_per_parameter
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.positions import rotation
from ptycho.scan.probe import masked

log = logging.getLogger(__name__)

ONE_OBJECT = ("object", "both")  # of data.shared


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


def begin_from(aligned: AlignedScan, start: Start) -> AlignedScan:
    """Return a scan as it was read, under the probe and at the positions of an earlier result."""
    scan, data, shift = place_patterns(aligned.scan, aligned.data, start.positions)
    beam, limits = data.beam, aligned.config.probe
    if start.opr_modes is not None:
        beam = replace(beam, opr_modes=masked(start.opr_modes, limits), opr_weights=start.opr_weights)
    beam = replace(beam, probe=masked(start.probe, limits)).scaled_to(beam.power)
    image = np.zeros((data.object_size,) * 2, np.complex64)
    low, high = np.maximum(shift, 0), np.minimum(shift + len(start.object), data.object_size)
    here = tuple(slice(*ends) for ends in zip(low, high, strict=True))
    image[here] = start.object[tuple(slice(*ends) for ends in zip(low - shift, high - shift, strict=True))]
    data, starting_point = replace(data, beam=beam), StartingPoint(image, start.model)
    return replace(aligned, scan=scan, data=data, start=starting_point).decided(start.finding)


def check_probe(aligned: AlignedScan, alike: float = 0.4) -> AlignedScan:
    """Drop the file's probe where it is none: an object, or the probe of another beam.

    Args:
        alike: least correlation of the mean pattern with the far field of a probe; of right ones it is above
            .93, of wrong ones below .34 (flat and curved probes, 10⁴ to 10⁹ photons, N = 32 to 128).
    """
    scan, data, config = aligned.scan, aligned.data, aligned.config
    if scan.probe is None or not isinstance(config.probe, OwnProbe) or data.fresnel is not None:
        return aligned
    correlation = likeness(data.amplitudes.statistics.mean_intensity, data.probe)
    if correlation > alike:
        return aligned
    text = (
        "the probe of the file does not belong to the patterns: its far field and their mean have a "
        f"correlation of {correlation:.2f}; it is estimated instead; set probe=npz probe.file=… or "
        "probe=zone_plate"
    )
    scan = replace(scan, probe=None)
    modes, _ = choose_probe(scan, config.probe, config.run)
    return replace(aligned, scan=scan, data=data.under_probe(modes)).decided(Finding.warning(text))


def look_at_rotation(aligned: AlignedScan) -> AlignedScan:
    """Determine the rotation of the scan without a probe."""
    is_open = rotation_is_open(aligned.scan, aligned.config.data)
    return replace(aligned, rotation=coarse_rotation(aligned.data, is_open))


def estimate_probe(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Return a scan whose probe is estimated from its patterns."""
    turned, curvatures = _rotated(aligned), aligned.rotation.curvatures
    guess = guess_lens(turned, curvatures) if curvatures else guess_probe(turned)
    return replace(aligned.under(guess.probe), estimated=True).decided(guess.finding)


def compare_probe(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Replace the specified probe by one of the curvature that parallax shows, if that is clearly better."""
    turned = _rotated(aligned)
    guess, own = guess_lens(turned, aligned.rotation.curvatures), own_held_out(turned)
    other = guess.refined.held_out
    if not compare_shares(other, own).passes(ProbeOptions.another):
        return aligned
    text = (
        f"the specified probe explains held-out patterns worse (deviance {own.mean():.3g}) than {guess.text} "
        f"({other.mean():.3g}), which is used instead; check its defocus, or keep it with probe.learn=false"
    )
    return replace(aligned.under(guess.probe), estimated=True).decided(Finding.warning(text))


def compare_defocus(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Give the specified probe another curvature, or its conjugate, if that explains clearly more.

    A curvature of the other sign explains what positions of the other sign do. Positions are as they were
    read here, so none is tried with ``data.orientation=auto``.
    """
    view, auto = downsampled(aligned.data), aligned.config.data.orientation == "auto"
    found = find_other_probe(view.data, both_signs=not auto)
    if found is None:
        return aligned
    probe = masked(found.of(aligned.data.probe, view.ratio), aligned.config.probe)
    return replace(aligned, data=aligned.data.under_probe(probe)).decided(found.finding)


def _rotated(aligned: AlignedScan) -> Dataset:
    """Return the patterns at rotated positions, those of the largest scan if there are several."""
    turned = map_positions(aligned.scan, aligned.data, rotation(aligned.rotation.degrees))[1]
    if aligned.config.data.shared not in ONE_OBJECT:
        return turned
    index = aligned.scan.scan_index  # the places of the scans are not known yet
    return turned.subset(np.flatnonzero(index == np.bincount(index).argmax()), 1)


def join_scans(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Place several scans of one object on the one that has the most patterns."""
    config = aligned.config
    index, names = aligned.scan.scan_index, [Path(file).name for file in config.data.file]
    view = downsampled(aligned.data)
    own: Callable[[Dataset], np.ndarray] | None = None
    if config.data.shared == "object":
        own = (lambda part: guess_probe(part).probe) if aligned.estimated else (lambda part: part.probe)
    placed = place_on_the_largest(view.data, index, config.probe.learn is not False, own)
    first = placed.first
    positions, flux = aligned.data.positions.astype(float), aligned.data.beam.flux.copy()
    findings: list[Finding] = []
    for k, place in placed.places.items():
        if place is None:
            text = (
                f"{names[k]}: its object has nothing in common with that of {names[first]}; it stays where "
                "its file places it; is it of the same sample?"
            )
            findings.append(Finding.warning(text, POSITIONS))
            continue
        positions[index == k] = place.of(positions[index == k] * view.ratio) / view.ratio
        flux[index == k] *= place.flux
        with_flux = own is None  # else probes differ in power
        findings.append(place.finding(names[k], names[first], view.ratio, with_flux))
    scan, data, _ = place_patterns(aligned.scan, aligned.data, positions)
    beam = replace(data.beam, flux=(flux / np.sqrt(np.mean(flux**2))).astype(np.float32))
    if own is not None:
        finer = {k: view.finer_probe(probe) for k, probe in placed.probes.items()}
        beam = with_probe_of_each(beam, index, replace(placed, probes=finer))
    return replace(aligned, scan=scan, data=replace(data, beam=beam)).decided(*findings)


def correct_frame_offset(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Read the scan again with frames late or early by one, if that explains it clearly better.

    Position jumps then must not remain: a backlash of about a step looks like an offset, and is left to
    :func:`correct_jumps`.
    """
    found = find_frame_offset(downsampled(aligned.data).data, aligned.scan.frames)
    if found is None:
        return aligned
    offset, trial, none = found
    again = read_as(aligned, replace(aligned.config.data, frame_offset=offset), context)
    if _may_jump(again) and (left := _jumps(again)).moved.any():
        log.info("frame offset: %d leaves %s; the positions are as stored", offset, left.text)
        return aligned
    text = (
        f"deviance {trial.mean_deviance:.3g} of a short reconstruction, against {none.mean_deviance:.3g} as "
        "stored; data.frame_offset=0 keeps that"
    )
    return again.decided(Finding(FRAME_OFFSET, f"data.frame_offset={offset}", text))


def correct_positions(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Apply the affine map that explains the patterns, or note it as an alternative."""
    if aligned.rotation.warning is not None:
        return aligned.decided(Finding.warning(aligned.rotation.warning, ORIENTATION))
    if aligned.data.fresnel is not None:  # a near field moves with its positions
        return aligned
    view, scan, config = downsampled(aligned.data), aligned.scan, aligned.config.data
    fixed, degrees = aligned.config.probe.learn is False, aligned.rotation.degrees
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
    turned = read_as(aligned, way.on(config), context)
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
    if not _may_jump(aligned):
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


def _may_jump(aligned: AlignedScan) -> bool:
    """Return whether positions may be corrected."""
    return aligned.config.data.position_jumps and aligned.config.solver.positions is not False


def _jumps(aligned: AlignedScan) -> Jumps:
    """Find the jumps of a scan, of large patterns on downsampled ones."""
    view = downsampled(aligned.data)
    jumps = find_jumps(view.data, aligned.config.probe.learn is not False)
    limits = replace(jumps.limits, least=jumps.limits.least / view.ratio)
    return replace(jumps, moves=jumps.moves / view.ratio, limits=limits)


def _explains_more(behind: Jumps, alone: Jumps) -> bool:
    """Return whether jumps behind a map leave less unexplained of the same patterns than those without it."""
    if behind.deviance is None or alone.deviance is None:
        return bool(behind.moved.any())
    return compare_shares(behind.deviance, alone.deviance).gain > 0


def _moved(aligned: AlignedScan, jumps: Jumps) -> AlignedScan:
    """Return the scan with its patterns where they were found."""
    aligned = replace(aligned, contradicted=jumps.contradicted and not jumps.lost)
    if jumps.moved.any():
        factor = np.exp(-jumps.gain.gain)
        why = f"deviance × {factor:.3f}; data.position_jumps=false keeps the nominal positions"
        decision = Finding("positions corrected", jumps.text, why)
        log.warning("%s", decision)
        data = at_positions(aligned.data, aligned.data.positions.astype(float) + jumps.moves)
        moved, other = replace(aligned, data=data, steps=(*aligned.steps, decision)), aligned.alternative
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


def _has_no_probe(aligned: AlignedScan) -> bool:
    """Return whether neither the file nor the configuration has a probe."""
    return aligned.scan.probe is None and isinstance(aligned.config.probe, OwnProbe)


def _shows_another_probe(aligned: AlignedScan, fewest: int = 48) -> bool:
    """Return whether a specified probe may be replaced, and parallax shows a curvature to compare it with.

    ``fewest``: patterns that the comparison needs; of fewer, too few are held out.
    """
    shown = bool(aligned.rotation.curvatures)
    return shown and _probe_is_open(aligned) and len(aligned.data.positions) >= fewest


def _probe_is_open(aligned: AlignedScan) -> bool:
    """Return whether a specified probe may be replaced."""
    config = aligned.config
    return config.probe.learn is not False and config.run is None and not aligned.estimated


def _may_be_defocused(aligned: AlignedScan) -> bool:
    """Return whether the specified probe of a scan may have another curvature; parallax shows electrons'."""
    config, far = aligned.config.data, aligned.data.fresnel is None
    of_photons = config.shared is None and not rotation_is_open(aligned.scan, config)
    return far and of_photons and _probe_is_open(aligned) and _suffices_for_trials(aligned)


def _suffices_for_trials(aligned: AlignedScan) -> bool:
    """Return whether there are enough patterns to fit some and to hold out others."""
    return len(aligned.data.positions) >= TrialOptions.least


def _may_be_late(aligned: AlignedScan) -> bool:
    """Return whether it is open to which position each frame belongs."""
    config, data = aligned.config.data, aligned.data
    one_scan = config.shared is None and len(data.positions) == len(aligned.scan.frames)
    return config.frame_offset is None and one_scan and data.fresnel is None and _suffices_for_trials(aligned)


STEPS = (
    Step(estimate_probe, "initial_probe", applies=_has_no_probe),
    Step(compare_probe, "initial_probe", 1.8, applies=_shows_another_probe),
    Step(compare_defocus, "defocus", 1.8, applies=_may_be_defocused),
    Step(join_scans, "several_scans", applies=lambda aligned: aligned.config.data.shared in ONE_OBJECT),
    Step(correct_frame_offset, "frame_offset", 1.8, applies=_may_be_late),
    Step(correct_positions, "geometry", 1.8),
    Step(correct_orientation, "orientation", 1.8, applies=_suffices_for_trials),
    Step(refine_pixel, "object_pixel", 1.8, applies=may_be_finer),
    Step(correct_jumps, "position_jumps", 1.8),
    Step(drop_outliers, "outliers", 1.8, applies=may_have_outliers),
)
"""What is tried, in order."""
