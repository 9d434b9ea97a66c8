"""Reconstruct a measured scan by the solver: from all patterns, and from halves of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from ptycho.align.aligned import RunContext, StartingPoint
from ptycho.config import ProbeConfig
from ptycho.config.solver_config import SolverConfig
from ptycho.evaluation.trust import LIMITS, PHASES
from ptycho.methods.assessment import spread
from ptycho.methods.prepared import Prepared
from ptycho.networks.denoiser import WEIGHTS
from ptycho.progress import Advance, Event, OnEvent, Progress, ignore, silent
from ptycho.reconstruction.blocks import ONCE_MORE, Blockwise, fit_in_blocks
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.holdout import HoldOut, is_sparse
from ptycho.reconstruction.maximum_likelihood import Solved, WarmStart, fit_object, solve
from ptycho.reconstruction.regulariser_selection import Regularisation
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.selection import ModelOptions
from ptycho.reconstruction.slice_selection import fit_fewer_slices
from ptycho.reconstruction.solver import FIT, OBJECT_ALONE, Objective, fit, fit_further
from ptycho.reconstruction.uncertainty import map_errors, phase_left
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.probe import intensity_at_edge, specified_support
from ptycho.scan.ramp import phase_ramp, phase_slope
from ptycho.scan.reconstruction import Reconstruction, covered_part

log = logging.getLogger(__name__)
SOLVER = "solver"


def options_for(
    prepared: Prepared,
    wanted: SolverConfig,
    probe: ProbeConfig,
    models: Sequence[str] = (),
    shared: str | None = None,
) -> ModelOptions:
    """Return those of a configuration; a near field's probe is refined where none is specified.

    What is guessed there is a flat wave on the detector: it is never right, and few photons do not show it.
    Slices are selected where the solver alone reconstructs one scan, because nothing else knows them.
    A probe that varies is selected for thin objects in far fields alone, and not where each of several scans
    has a probe of its own.

    Args:
        wanted, probe: sections ``solver`` and ``probe``.
        models: what else reconstructs the scan.
        shared: what several scans share, as in ``data.shared``.
    """
    options = ModelOptions(
        probe=probe.learn,
        positions=wanted.positions,
        flux=wanted.flux,
        background=wanted.background,
        point_spread=wanted.point_spread,
        modes=probe.modes,
        probe_variation=wanted.probe_variation,
        weight_waves=wanted.probe_variation_waves,
        slices=wanted.slices,
        thickness_specified=wanted.slice_thickness_m is not None,
        moves=wanted.position_model,
        prior=wanted.regulariser,
        strength=wanted.regularisation_weight,
        noise=wanted.noise,
        support=specified_support(probe, prepared.whole.N),
        pupil=wanted.pupil,
        steps=wanted.steps,
        weights=WEIGHTS if wanted.denoiser_weights is None else Path(wanted.denoiser_weights),
    )

    thick, own_probes = (options.slices or 1) > 1, shared == "object"
    if models or own_probes:
        options = replace(options, slices=options.slices or 1)
    if thick or prepared.whole.fresnel is not None or own_probes:
        options = replace(options, probe_variation=0)
    unspecified = prepared.whole.fresnel is not None and prepared.scan.probe is None
    return replace(options, probe=True) if unspecified and options.probe is None else options


def warm_start_of(start: StartingPoint, data: Dataset, options: ModelOptions) -> WarmStart:
    """Return what a fit begins with.

    What the earlier run refined, and its regulariser, are those of this one, but for what ``options``
    specify. They are selected anew where they are unknown, or a regulariser is specified without its weight,
    or more OPR modes than that run had.
    """
    image, there = start.object, start.object != 0
    image = np.where(there, image, np.mean(image[there]) if there.any() else 1)
    weight, varied = options.strength, options.probe_variation
    kept = {"point_spread": "not refined"} | dict(start.model)  # older runs do not know of it
    if options.slices is None and kept.get("slices", "1") != "1":  # selected anew
        return WarmStart(image)
    known = 0 if data.beam.opr_modes is None else len(data.beam.opr_modes)
    if varied is not None and varied > known:
        return WarmStart(image)
    count = known if varied is None else varied
    parts = ("probe", "positions", "flux", "background", "point_spread")
    wanted = {part: getattr(options, part) for part in parts}
    try:
        if options.prior == "none" or (weight is not None and not options.learned):
            chosen = Regularisation(options.weak_prior)
        elif options.learned and weight is None:
            chosen = Regularisation.of(kept["regulariser"], options.network)
        else:
            return WarmStart(image)
        refined = {part: kept[part] == "refined" if it is None else it for part, it in wanted.items()}
        refine = Refine(**refined, probe_variation=refined["probe"] and count > 0)
    except (KeyError, ValueError):
        return WarmStart(image)
    values = {part: "refined" if getattr(refine, part) else "not refined" for part in wanted}
    values |= {"modes": str(options.modes or len(data.probe)), "regulariser": chosen.name}
    limited = kept.get("pupil") == "limited" if options.pupil is None else options.pupil
    limited = limited and options.support is None
    values |= {"OPR modes": str(count)} if count else {}
    values |= {"pupil": "limited"} if limited else {}
    wanted |= {"modes": options.modes, "OPR modes": varied, "pupil": options.pupil}
    specified = {part for part, value in wanted.items() if value is not None}
    if options.prior == "none" or weight is not None:
        specified.add("regulariser")
    why = {part: "specified" if part in specified else "as in the run that start names" for part in values}
    findings = tuple(Finding(part, values[part], why[part]) for part in values)
    return WarmStart(image, refine, chosen, limited, findings)


def reconstruct(
    prepared: Prepared,
    options: ModelOptions,
    context: RunContext,
    block: int | None = None,
    seed: int = 0,
    compile_xla: bool = True,
) -> Reconstruction:
    """Return the most likely object and beam of a scan, with the decisions; the fit is a :class:`Solved`.

    Decisions and scores are made without the held-out patterns; then these are included in a final fit.

    Args:
        block: patterns of a block; None: as many as fit.
        seed: of the held-out patterns.
        compile_xla: compile with XLA.
    """
    began = time.perf_counter()
    data, count = prepared.fitted(prepared.whole.beam), len(prepared.kept)
    blockwise = Blockwise(block, context.executor, context.cache)
    in_blocks = min(3 * (options.steps + FIT.short_steps), 100)  # three fits of a pattern, each with its end
    passes = in_blocks if blockwise.divides(data) else options.steps
    passes *= 3 if (options.slices or 1) > 1 else 1
    bar = Progress("solver", passes * count, bar=context.bar, unit="step", per=count, at_most=True)
    with context.timed(SOLVER), closing(bar) as progress:
        if prepared.start is None:
            log.info("solver: object alone, then what else is refined, by cross-validation")
        watch = Course(prepared, context.on_event).watch

        def on_decision(decision: Finding) -> None:
            log.info("solver: %s", decision)
            context.on_event(Event("decision", decision.what, {"value": decision.value, "why": decision.why}))

        warm_start = None if prepared.start is None else warm_start_of(prepared.start, data, options)
        solved = solve(
            data,
            options,
            seed,
            compile_xla,
            progress.advance,
            watch,
            blockwise,
            on_decision,
            warm_start,
        )
        space = solved.objective.likelihood.data.between if solved.estimate.slices > 1 else None
        prepared = prepared.with_space(space)
        reconstruction = _reconstruction(solved, prepared)
        course, converged = solved.fit.course, solved.fit.converged
        if len(prepared.out):
            steps, advance = options.steps, progress.advance
            solved, last = _completed(solved, reconstruction, prepared, steps, blockwise, advance)
            reconstruction = replace(last, before=reconstruction)
    ended = "converged" if converged else "not converged: raise solver.steps"
    log.info("solver: last fit of %d steps, %s", len(course) - 1, ended)
    if solved.estimate.has_point_spread:
        rows, columns = np.abs(solved.estimate.point_spread).tolist()
        log.info("solver: point spread of σ %.2f × %.2f pixels of the patterns", rows, columns)
    seconds = time.perf_counter() - began
    decisions = [replace(finding, what=f"solver: {finding.what}") for finding in solved.decisions]
    return replace(
        reconstruction,
        decisions=(*decisions, *_too_wide(solved), *_doubts(solved, seed)),
        seconds=seconds,
        course=tuple(course),
        converged=converged,
        fit=solved,
        between=space,
    )


def _holdout(prepared: Prepared, likelihood: ScanLikelihood) -> HoldOut | None:
    """Return the held-out patterns; None: there are none."""
    out = prepared.left_out(prepared.whole.beam)
    return None if out is None else HoldOut(replace(likelihood, data=out, advance=silent))


def _doubts(solved: Solved, seed: int) -> tuple[Finding, ...]:
    """Return a warning of a near field whose patterns do not determine phases, or none."""
    if solved.objective.likelihood.data.fresnel is None:
        return ()
    left = phase_left(solved.objective, solved.estimate, solved.refine, seed)
    text = (
        f"phase sensitivity: a fraction {left:.2f} of a phase added to the object remains after the fit; the "
        "patterns do not determine it"
    )
    log.info("solver: %s", text.partition(";")[0])
    return () if left <= LIMITS.phase_left else (Finding.warning(text, PHASES),)  # of NaN, too


class Course:
    """The steps of the solver on the whole scan as events; of some with the patterns that are held out."""

    def __init__(self, prepared: Prepared, on_event: OnEvent, every: int = 10) -> None:
        """``every``: steps between scores, which cost a twentieth of a step, and the held-out positions."""
        self._prepared, self._on_event, self._step, self._every = prepared, on_event, 0, every

    def watch(self, estimate: Estimate, objective: float, refine: Refine, likelihood: ScanLikelihood) -> None:
        """Send a ``step`` event with −log p and, now and then, the deviance of held-out patterns."""
        if self._on_event is ignore:
            return
        values: dict[str, float] = {"step": self._step, "objective": objective}
        if self._step % self._every == 0 and (held_out := _holdout(self._prepared, likelihood)) is not None:
            values["deviance_holdout"] = float(held_out.score(estimate, refine).mean())
        self._step += 1
        self._on_event(Event("step", SOLVER, values))


def _too_wide(solved: Solved, limit: float = 0.25) -> tuple[Finding, ...]:
    """Return a warning of a probe that fills its window in a far field, and so wraps around it.

    ``limit``: intensity at the edge over the mean; a disk as wide as the window has it, others 0.02 to 0.1.
    """
    share = intensity_at_edge(solved.estimate.modes)
    if share < limit or solved.objective.likelihood.data.fresnel is not None:
        return ()
    warning = (
        f"the probe fills its window (intensity at its edge {share:.2f} of the mean): the detector pixels "
        "are too large for its far field; do not bin them (data.bin=1), or check data.distance_m, "
        "data.detector_pixel_m and the energy; else measure with a smaller beam, or farther away"
    )
    log.warning("%s", warning)
    return (Finding.warning(warning),)


def with_errors(reconstruction: Reconstruction, seed: int, context: RunContext) -> Reconstruction:
    """Return the same with its error map, if it is a fit of the solver."""
    solved = reconstruction.fit
    if not isinstance(solved, Solved):
        return reconstruction
    with context.timed("error_map"):
        errors = map_errors(solved.objective, solved.estimate, reconstruction.covered, seed)
        return replace(reconstruction, errors=errors)


def _completed(
    solved: Solved,
    reconstruction: Reconstruction,
    prepared: Prepared,
    steps: int,
    blockwise: Blockwise,
    advance: Advance,
) -> tuple[Solved, Reconstruction]:
    """Return the fit, continued with the held-out patterns included."""
    whole, f = prepared.whole, solved.objective.likelihood.normalisation
    assert reconstruction.beam is not None
    fitted = solved.estimate
    joined = Estimate.of(whole.under(reconstruction.beam), fitted.object, normalisation=f)
    flux = joined.flux / np.sqrt(np.mean(joined.flux**2))
    shared = "modes", "background", "opr_modes", "point_spread"
    estimate = replace(joined, flux=flux, **{part: getattr(fitted, part) for part in shared})
    likelihood = replace(solved.objective.likelihood, data=whole, advance=advance)
    objective = replace(solved.objective, likelihood=likelihood)
    if blockwise.divides(whole):
        last = fit_in_blocks(objective, estimate, solved.refine, steps, blockwise, ONCE_MORE, advance)
    else:
        projectable = whole.fresnel is None and estimate.slices == 1 and not estimate.varies
        holes, projected = is_sparse(whole, FIT.holes), projectable and is_sparse(whole)
        last = fit_further(objective, estimate, steps, holes, projected)
    ended = replace(objective, likelihood=replace(likelihood, advance=silent))
    solved = replace(solved, estimate=last.estimate, fit=last, objective=ended)
    beam = last.estimate.beam(whole.photon_scale, f)
    return solved, replace(_covered(last.estimate, whole), beam=beam)


def _covered(estimate: Estimate, data: Dataset) -> Reconstruction:
    """Return the object of an estimate, zero outside the illumination; slices keep what lies outside."""
    covered = covered_part(estimate.projection, data)
    return covered if estimate.slices == 1 else replace(covered, slices=estimate.object)


def _reconstruction(solved: Solved, prepared: Prepared) -> Reconstruction:
    """An estimate of the fitted patterns, with the positions and the flux of those that were held out."""
    likelihood = solved.objective.likelihood
    scale, f = likelihood.data.photon_scale, likelihood.normalisation
    held_out = _holdout(prepared, likelihood)
    out = None if held_out is None else held_out.places(solved.estimate, solved.refine).beam(scale, f)
    beam = prepared.beam_of(solved.estimate.beam(scale, f), out)
    return replace(_covered(solved.estimate, prepared.fitted(beam)), beam=beam)


def half_object(
    reconstruction: Reconstruction, steps: int, worse: float = 1.1
) -> Callable[[Dataset], Reconstruction]:
    """Return a function that reconstructs some of the solver's patterns, with the beam as it was found.

    Fewer patterns are easier to explain: where their deviance is ``worse`` times that of all, the steps went
    astray or did not suffice, and the reconstruction counts as not converged. They begin with the phase plane
    of the whole, which belongs to the beam.
    """
    solved = reconstruction.fit
    assert isinstance(solved, Solved)
    slope = phase_slope(reconstruction.object, np.abs(reconstruction.object))
    some = spread(len(solved.estimate.positions))
    fitted = replace(solved.objective.likelihood, advance=silent)
    known = replace(fitted, data=fitted.data.subset(some, 1)).evaluate(solved.estimate.at(some))
    usual = float(np.median(known.deviance))

    def infer(part: Dataset) -> Reconstruction:
        likelihood = replace(fitted, data=part, normalisation=part.normalisation)
        objective = Objective(likelihood, solved.objective.prior)
        image = fit_object(objective, part, phase_ramp(part.object_size, slope), steps)
        estimate = Estimate.of(part, image, normalisation=part.normalisation)
        if (count := solved.estimate.slices) > 1:
            start = replace(estimate, object=fit_fewer_slices(objective, estimate, count, steps))
            estimate = fit(objective, start, OBJECT_ALONE, steps, FIT.preliminary).estimate
        middle = float(np.median(likelihood.evaluate(estimate).deviance))
        return replace(covered_part(estimate.projection, part), converged=middle <= worse * usual)

    return infer
