"""The solver's part of a run on a measured scan: from the patterns, from a network's object, from halves."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import numpy as np

from ptycho.config import ScanRunConfig
from ptycho.preparation.finding import Finding
from ptycho.progress import Progress
from ptycho.reconstruction.judge import Judge
from ptycho.reconstruction.maximum_likelihood import Solved, Wishes, fit_object, solve
from ptycho.reconstruction.solver import NEARLY, Terms, fit_to_the_end
from ptycho.reconstruction.state import State, explained
from ptycho.reconstruction.stitching import Stitched, covered
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import lit_part
from workflows.scan_assessment import Recon

log = logging.getLogger(__name__)


def wishes_of(config: ScanRunConfig, data: Dataset) -> Wishes:
    """What a configuration asks the solver to find."""
    wanted = config.solver
    return Wishes(
        probe=config.probe.learn,
        positions=wanted.positions,
        flux=wanted.flux,
        background=wanted.background,
        modes=config.probe.modes,
        moves=wanted.position_model,
        prior=wanted.prior,
        strength=wanted.strength,
        noise=wanted.noise,
        lit=lit_part(config.probe, data.N),
        steps=wanted.steps,
    )


def reconstruct(
    whole: Dataset, kept: np.ndarray, out: np.ndarray, config: ScanRunConfig
) -> tuple[Recon, Solved, list[Finding]]:
    """The most likely object and beam of a scan; and what was decided on the way.

    All is decided and judged without the patterns ``out``; then they join, and the fit goes on with all.

    Args:
        whole: all patterns, with the beam as it is told.
        kept, out: indices of those that are fitted at first, and of those that judge.
    """
    began, C = time.perf_counter(), config.patterns_in_group
    data, free = whole.subset(kept, C), whole.subset(out, 1) if len(out) else None
    with closing(Progress("solver", config.solver.steps * len(kept))) as progress:
        solved = solve(data, wishes_of(config, data), config.seed, config.xla.compile, progress.advance)
    for decision in solved.decisions:
        log.info("solver: %s", decision)
    recon = recon_of(solved, data, free, config, began)
    if free is not None:
        solved, last = complete(solved, recon, whole, kept, out, config)
        recon = replace(last, without=recon, seconds=time.perf_counter() - began)
    ended = "converged" if solved.fit.converged else "not converged: solver.steps is too small"
    log.info("solver: %d steps at the end, %s", len(solved.fit.course) - 1, ended)
    findings = [replace(decision, what=f"solver: {decision.what}") for decision in solved.decisions]
    return replace(recon, converged=solved.fit.converged), solved, findings


def complete(
    solved: Solved, recon: Recon, whole: Dataset, kept: np.ndarray, out: np.ndarray, config: ScanRunConfig
) -> tuple[Solved, Recon]:
    """The fit of ``kept``, gone on with, with the patterns ``out`` as well."""
    f, count = solved.terms.likelihood.normalisation, len(whole.positions)
    state = State.of(whole, solved.state.object, normalisation=f)
    positions, flux = state.positions.copy(), np.ones(count, np.float32)
    for part, where in ((recon.data, kept), (recon.free, out)):
        if part is not None:
            positions[where] = part.positions
            flux[where] = 1 if part.flux is None else part.flux
    found = solved.state
    state = State(found.object, found.modes, positions, flux / np.sqrt(np.mean(flux**2)), found.background)
    likelihood = replace(solved.terms.likelihood, data=whole, advance=lambda patterns: None)
    terms = replace(solved.terms, likelihood=likelihood)
    last = fit_to_the_end(terms, state, solved.free, config.solver.steps)

    def part_of(indices: np.ndarray, size: int) -> Dataset:
        places = last.state.positions[indices], last.state.flux[indices]
        here = replace(last.state, positions=places[0], flux=places[1])
        return explained(whole.subset(indices, size), here, f, size)

    data, free = part_of(kept, config.patterns_in_group), part_of(out, 1)
    mask = covered(whole)
    image = Stitched(np.where(mask, last.state.object, 0).astype(np.complex64), mask)
    return replace(solved, state=last.state, fit=last, terms=terms), Recon(image, data, free, 0.0)


def continue_from(start: Recon, solved: Solved | None, config: ScanRunConfig) -> Recon:
    """The most likely object and beam near another object, under the solver's noise, prior and freedom."""
    began = time.perf_counter()
    data = start.data
    if solved is None:
        solved = solve(data, wishes_of(config, data), config.seed, config.xla.compile)
    terms = replace(solved.terms, likelihood=replace(solved.terms.likelihood, data=data))
    f = terms.likelihood.normalisation
    state = State.of(data, start.object.objects[0], normalisation=f)
    with closing(Progress("refinement", config.solver.steps * len(data.positions))) as progress:
        terms = replace(terms, likelihood=replace(terms.likelihood, advance=progress.advance))
        last = fit_to_the_end(terms, state, solved.free, max(config.solver.steps, 1))
    found = replace(solved, state=last.state, fit=last, terms=terms)
    recon = recon_of(found, data, start.free, config, began)
    return replace(recon, converged=last.converged)


def recon_of(
    solved: Solved, data: Dataset, free: Dataset | None, config: ScanRunConfig, began: float
) -> Recon:
    """A state as a reconstruction, with the positions and the flux of the free patterns."""
    likelihood, f = solved.terms.likelihood, solved.terms.likelihood.normalisation
    judging = None
    if free is not None:
        judge = Judge(replace(likelihood, data=free, advance=lambda patterns: None))
        judging = explained(free, judge.places(solved.state, solved.free), f, 1)
    seen = explained(data, solved.state, f, config.patterns_in_group)
    mask = covered(seen)
    image = Stitched(np.where(mask, solved.state.object, 0).astype(np.complex64), mask)
    return Recon(image, seen, judging, time.perf_counter() - began)


def half_object(solved: Solved, steps: int) -> Callable[[Dataset], Stitched]:
    """A function that reconstructs some of a reconstruction's patterns, with the beam as it was found."""

    def infer(part: Dataset) -> Stitched:
        likelihood = replace(
            solved.terms.likelihood,
            data=part,
            normalisation=part.normalisation,
            advance=lambda patterns: None,
        )
        terms = Terms(likelihood, solved.terms.prior)
        found = fit_object(terms, part, steps, NEARLY)
        mask = covered(part)
        return Stitched(np.where(mask, found, 0).astype(np.complex64), mask)

    return infer
