"""The solver on a measured scan: from the patterns, from another method's object, from halves."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from ptycho.config import ProbeConfig
from ptycho.config.sections import SolverConfig
from ptycho.methods.assessment import Recon
from ptycho.preparation.finding import Finding
from ptycho.progress import Progress
from ptycho.reconstruction.judge import Judge
from ptycho.reconstruction.maximum_likelihood import Solved, Wishes, fit_object, solve
from ptycho.reconstruction.solver import NEARLY, Terms, fit_to_the_end
from ptycho.reconstruction.state import State, explained
from ptycho.reconstruction.stitching import Stitched, covered_part
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import lit_part

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Settings:
    """How a scan is solved.

    Attributes:
        wishes: what may be found besides the object, and in how many steps.
        seed: of what is kept out of the decisions.
        compile_xla: compile with XLA.
        group_size: C of the datasets that come out.
        bar: a bar of progress; None: where there is a terminal.
    """

    wishes: Wishes
    seed: int = 0
    compile_xla: bool = True
    group_size: int = 1
    bar: bool | None = None


def wishes_of(wanted: SolverConfig, probe: ProbeConfig, N: int) -> Wishes:
    """What the sections ``solver`` and ``probe`` of a configuration ask the solver to find."""
    return Wishes(
        probe=probe.learn,
        positions=wanted.positions,
        flux=wanted.flux,
        background=wanted.background,
        modes=probe.modes,
        moves=wanted.position_model,
        prior=wanted.prior,
        strength=wanted.strength,
        noise=wanted.noise,
        lit=lit_part(probe, N),
        steps=wanted.steps,
    )


def reconstruct(
    whole: Dataset, kept: np.ndarray, out: np.ndarray, settings: Settings
) -> tuple[Recon, Solved, list[Finding]]:
    """The most likely object and beam of a scan; and what was decided on the way.

    All is decided and judged without the patterns ``out``; then they join, and the fit goes on with all.

    Args:
        whole: all patterns, with the beam as it is told.
        kept, out: indices of those that are fitted at first, and of those that judge.
    """
    began, wishes, C = time.perf_counter(), settings.wishes, settings.group_size
    data, free = whole.subset(kept, C), whole.subset(out, 1) if len(out) else None
    with closing(Progress("solver", wishes.steps * len(kept), bar=settings.bar)) as progress:
        solved = solve(data, wishes, settings.seed, settings.compile_xla, progress.advance)
    for decision in solved.decisions:
        log.info("solver: %s", decision)
    recon = recon_of(solved, data, free, C, began)
    if free is not None:
        solved, last = complete(solved, recon, whole, kept, out, settings)
        recon = replace(last, without=recon, seconds=time.perf_counter() - began)
    ended = "converged" if solved.fit.converged else "not converged: solver.steps is too small"
    log.info("solver: %d steps at the end, %s", len(solved.fit.course) - 1, ended)
    findings = [replace(decision, what=f"solver: {decision.what}") for decision in solved.decisions]
    return replace(recon, converged=solved.fit.converged), solved, findings


def complete(
    solved: Solved, recon: Recon, whole: Dataset, kept: np.ndarray, out: np.ndarray, settings: Settings
) -> tuple[Solved, Recon]:
    """The fit of ``kept``, gone on with, with the patterns ``out`` as well."""
    f = solved.terms.likelihood.normalisation
    state = State.of(whole, solved.state.object, normalisation=f)
    positions, flux = recon.places(state.positions, kept, out)
    found = solved.state
    state = State(found.object, found.modes, positions, flux / np.sqrt(np.mean(flux**2)), found.background)
    likelihood = replace(solved.terms.likelihood, data=whole, advance=lambda patterns: None)
    terms = replace(solved.terms, likelihood=likelihood)
    last = fit_to_the_end(terms, state, solved.free, settings.wishes.steps)

    def part_of(indices: np.ndarray, size: int) -> Dataset:
        places = last.state.positions[indices], last.state.flux[indices]
        here = replace(last.state, positions=places[0], flux=places[1])
        return explained(whole.subset(indices, size), here, f, size)

    data, free = part_of(kept, settings.group_size), part_of(out, 1)
    image = covered_part(last.state.object, whole)
    return replace(solved, state=last.state, fit=last, terms=terms), Recon(image, data, free, 0.0)


def continue_from(start: Recon, solved: Solved | None, settings: Settings) -> Recon:
    """The most likely object and beam near another object, under the solver's noise, prior and freedom."""
    began, steps = time.perf_counter(), settings.wishes.steps
    data = start.data
    if solved is None:
        solved = solve(data, settings.wishes, settings.seed, settings.compile_xla)
    terms = replace(solved.terms, likelihood=replace(solved.terms.likelihood, data=data))
    f = terms.likelihood.normalisation
    state = State.of(data, start.object.objects[0], normalisation=f)
    with closing(Progress("refinement", steps * len(data.positions), bar=settings.bar)) as progress:
        terms = replace(terms, likelihood=replace(terms.likelihood, advance=progress.advance))
        last = fit_to_the_end(terms, state, solved.free, max(steps, 1))
    found = replace(solved, state=last.state, fit=last, terms=terms)
    recon = recon_of(found, data, start.free, settings.group_size, began)
    return replace(recon, converged=last.converged)


def recon_of(solved: Solved, data: Dataset, free: Dataset | None, group_size: int, began: float) -> Recon:
    """A state as a reconstruction, with the positions and the flux of the free patterns."""
    likelihood, f = solved.terms.likelihood, solved.terms.likelihood.normalisation
    judging = None
    if free is not None:
        judge = Judge(replace(likelihood, data=free, advance=lambda patterns: None))
        judging = explained(free, judge.places(solved.state, solved.free), f, 1)
    seen = explained(data, solved.state, f, group_size)
    return Recon(covered_part(solved.state.object, seen), seen, judging, time.perf_counter() - began)


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
        return covered_part(fit_object(terms, part, steps, NEARLY)[0], part)

    return infer
