"""From reconstructions of a scan to its scores: the one list of steps, of command line and Python."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ptycho.align.align_scan import doubt_orientation
from ptycho.align.aligned import RunContext
from ptycho.evaluation.trust import FLAGS, ORIENTATION, SHIFT, UNEXPLAINED
from ptycho.evaluation.trust import MOTION as MOTION_FLAG
from ptycho.methods.assessment import (
    Fit,
    assess_fit,
    compare_with_truth,
    evidence_of,
    probe_caustic,
    trust_row,
)
from ptycho.methods.half_scans import Halves, half_scans
from ptycho.methods.prepared import Prepared
from ptycho.methods.solver import half_object, with_errors
from ptycho.methods.table import NETWORK, SOLVER, MethodInputs
from ptycho.methods.table import infer as infer_by
from ptycho.readers.raw_scan import listed
from ptycho.reconstruction.causes import MOTION, PATTERN_SHIFT, POSITION_MAP
from ptycho.reconstruction.misfit import find_outliers
from ptycho.reconstruction.trial import TrialOptions
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding, flags_of, report
from ptycho.scan.ramp import move_ramp
from ptycho.scan.reconstruction import Reconstruction, values_per_parameter

log = logging.getLogger(__name__)
CAUSE_FLAGS = {PATTERN_SHIFT: (SHIFT,), MOTION: (MOTION_FLAG,)}


@dataclass(frozen=True, eq=False)
class Assessed:
    """The reconstructions of one scan with their scores."""

    # by name; the phase ramp of each is taken from the object to the probe, unless ``probe.learn=false``
    reconstructions: dict[str, Reconstruction]
    fits: dict[str, Fit]  # how each explains the patterns that it was fitted to, and the held-out ones
    halves: Halves | None  # ring correlation of two half scans; None: not computed, or not meaningful
    product: str  # the name of the reconstruction that is the result of the run
    rows: dict[str, dict[str, Any]]  # the scores of each, as in ``metrics.json``
    aligning: tuple[Finding, ...] = ()  # what the alignment decided, but for what the product refutes

    @property
    def decisions(self) -> list[Finding]:
        """What was decided in the alignment and in the reconstructions, in order."""
        items = self.reconstructions.values()
        return [*self.aligning, *(decision for item in items for decision in item.decisions)]


def assess(
    prepared: Prepared,
    reconstructions: dict[str, Reconstruction],
    inputs: MethodInputs,
    product: str | None = None,
    with_halves: bool = True,
) -> Assessed:
    """Score the reconstructions of a scan, choose the ``product``, if there is none, and map its errors.

    ``reconstructions``: by the name of their method, in the order in which they were made.
    """
    config, context, reconstructions = inputs.config, inputs.context, dict(reconstructions)
    for reconstruction in reconstructions.values():
        prepared = prepared.with_space(reconstruction.between)
    with context.timed("validation"):
        fits = {name: assess_fit(item, prepared) for name, item in reconstructions.items()}
    product = product or choose(fits)
    prepared = _without_refuted(prepared, fits[product])
    if config.solver.error_map:
        reconstructions[product] = with_errors(reconstructions[product], config.seed, context)
    reconstructions[product] = with_outliers(prepared, reconstructions[product], fits[product])
    reconstructions[product] = with_orientation(prepared, reconstructions[product], fits[product], context)
    reconstructions, flags = _confirmed(prepared, reconstructions, fits, product)
    halves = None
    if with_halves:
        with context.timed("half_scans"):
            halves = _halves(prepared, reconstructions.get(SOLVER), inputs)
    for name, item in reconstructions.items():
        reconstructions[name] = replace(item, beam=prepared.beam_under(item))
    if config.learns_probe:  # else the probe is known, and the ramp is the object's
        reconstructions = {name: move_ramp(item) for name, item in reconstructions.items()}
    with context.timed("scoring"):
        rows = score_rows(prepared, reconstructions, fits, halves, flags, context.words)
        for name, item in reconstructions.items():
            focus = probe_caustic(prepared, item)
            rows[name]["probe_focus"] = None if focus is None else focus.facts
    return Assessed(reconstructions, fits, halves, product, rows, prepared.decisions)


def _without_refuted(prepared: Prepared, fit: Fit) -> Prepared:
    """Return the scan without the warnings of its alignment that a fit refutes."""
    refuted = [decision for decision in prepared.decisions if decision.refutable]
    if not (refuted and evidence_of(fit, None).explains_held_out):
        return prepared
    for decision in refuted:
        log.info("withdrawn, as the held-out patterns are explained: %s", decision)
    kept = tuple(decision for decision in prepared.decisions if not decision.refutable)
    return replace(prepared, decisions=kept)


def with_orientation(
    prepared: Prepared, reconstruction: Reconstruction, fit: Fit, context: RunContext, least: float = 1.8
) -> Reconstruction:
    """Return a reconstruction, a poor one with a warning of another orientation that explains clearly more.

    ``least``: measured values for each number of the object that trials need.
    """
    data, reading = prepared.whole, prepared.reading
    doubted = ORIENTATION in flags_of(prepared.decisions)
    poor = UNEXPLAINED in evidence_of(fit, None).flags
    if doubted or not poor or reading is None or reading.shared is not None or reading.orientation == "auto":
        return reconstruction
    if len(data.positions) < TrialOptions.least or values_per_parameter(data) < least or data.fresnel:
        return reconstruction
    with context.timed("orientation"):
        return _warned(reconstruction, doubt_orientation(data, reading))


def _warned(reconstruction: Reconstruction, warning: Finding | None) -> Reconstruction:
    """Return a reconstruction with one warning more, which is logged."""
    if warning is None:
        return reconstruction
    report((warning,), log)
    return replace(reconstruction, decisions=(*reconstruction.decisions, warning))


def choose(fits: dict[str, Fit]) -> str:
    """Return the name of the product: the solver's reconstruction, else the network's, else the last."""
    return next((name for name in (SOLVER, NETWORK) if name in fits), next(reversed(fits)))


def _halves(prepared: Prepared, solved: Reconstruction | None, inputs: MethodInputs) -> Halves | None:
    """Compare two halves of the scan, each reconstructed by the solver, else by the network."""
    config, network = inputs.config, inputs.network
    infer: Callable[[Dataset], Reconstruction]
    if solved is not None:
        infer = half_object(solved, config.solver.steps)
    elif network is not None:
        infer = partial(infer_by, network, batch_size=config.batch_size, scratch=inputs.context.scratch)
    else:
        return None
    fixed = "group_size" in config.model.FIXED
    data = prepared.fitted(prepared.beam_under(solved))
    together = solved is not None and solved.slices is None  # slices take much memory
    return half_scans(infer, data, config.seed, config.patterns_in_group, fixed, together)


def with_outliers(prepared: Prepared, reconstruction: Reconstruction, fit: Fit) -> Reconstruction:
    """Return a reconstruction with a warning that names single patterns which contradict the others."""
    patterns = prepared.kept[fit.inspected[find_outliers(fit.residuals, fit.used.unexplained)]]
    if not len(patterns):
        return reconstruction
    frames = prepared.scan.frames[patterns]
    some, more = listed(frames.tolist())
    warning = Finding.warning(
        f"explained far worse than the others: frame{'s'[: len(patterns) > 1]} {some}{more}; a wrong "
        f"position, or something else in the beam? data.drop=[{some}] leaves out what is wrong"
    )
    return _warned(reconstruction, warning)


def _confirmed(
    prepared: Prepared, reconstructions: dict[str, Reconstruction], fits: dict[str, Fit], product: str
) -> tuple[dict[str, Reconstruction], tuple[str, ...]]:
    """Return the reconstructions, the product with a warning of positions that are still doubtful, and flags.

    Another map of the positions that explained more before the fit is reported where it is still a likely
    cause of what is left, under the beam that was found, or where a short fit under the map predicted
    patterns better than the product explains those that it was fitted to. Else the beam, or another cause,
    had been at fault.
    """
    solver, other = fits.get(SOLVER), prepared.alternative
    causes = None if solver is None else solver.causes
    flags = () if causes is None else CAUSE_FLAGS.get(causes.named() or "", ())
    if other is None:
        return reconstructions, flags
    if solver is not None and causes is not None:
        deviance = solver.used.mean_deviance
        worse = deviance is not None and deviance > other.deviance
        if not (causes.plausible(POSITION_MAP) or worse):
            log.info("%s: not confirmed by the fit, not applied", other.applied.what)
            return reconstructions, flags
    log.warning("%s", other.kept)
    warned = replace(reconstructions[product], decisions=(*reconstructions[product].decisions, other.kept))
    return reconstructions | {product: warned}, (*flags, *other.kept.flags)


def score_rows(
    prepared: Prepared,
    reconstructions: dict[str, Reconstruction],
    fits: dict[str, Fit],
    halves: Halves | None,
    flags: tuple[str, ...] = (),
    words: Callable[[str], str] = str,
) -> dict[str, dict[str, Any]]:
    """Return the scores of each reconstruction; flags are logged with what to do, in the caller's ``words``.

    Doubts of the solver, and ``flags``, are of the scan under the beam that all reconstructions share.
    """
    solver = (fits[SOLVER].held_out or fits[SOLVER].used).r_factor if SOLVER in fits else None
    doubts = (*flags, *flags_of(reconstructions[SOLVER].decisions if SOLVER in reconstructions else ()))
    rows = {}
    for name, reconstruction in reconstructions.items():
        row = rows[name] = trust_row(fits[name], reconstruction, prepared, solver, halves)
        row["flags"] = list(dict.fromkeys([*row["flags"], *doubts]))
        if (scores := compare_with_truth(reconstruction, prepared)) is not None:
            row["reference_comparison"] = scores
            log.info("%-8s SSIM amplitude %s  phase %s", name, *(number(score) for score in scores["ssim"]))
        log.info(
            "%-8s r_factor %s  r_free %s  (photon noise alone %s)%s",
            name,
            *(number(row[key]) for key in ("r_factor", "r_free", "r_noise")),
            f"  ! {', '.join(row['flags'])}" if row["flags"] else "",
        )
    for flag in dict.fromkeys(flag for row in rows.values() for flag in row["flags"]):
        log.warning("%s: %s", flag, words(FLAGS[flag].remedy))
    return rows


def number(value: float | None) -> str:
    """Return a score as it is printed."""
    return "–" if value is None else f"{value:.4f}"
