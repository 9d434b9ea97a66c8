"""From a scan to its most likely object and beam: what is freed, what is smoothed, and the fit.

1. On the *core* it is decided what is free, and how the object is smoothed
   (:mod:`~ptycho.reconstruction.deciding`).
2. On the whole scan the object begins as it did, under the beam of the core, and all that was freed is fitted
   until steps gain nothing more; then come the rounds of the learned prior. A scan of more patterns than one
   block's is fitted in blocks, under a beam that is found on some thousand patterns in its middle. Of large
   patterns, it begins at larger pixels (:mod:`~ptycho.reconstruction.larger_pixels`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from ptycho.progress import Advance, silent
from ptycho.reconstruction.blocks import FROM_NOTHING, TO_THE_END, Blockwise, fit_in_blocks, from_coarse
from ptycho.reconstruction.deciding import Deciding, Wishes, choose_prior, decide, fewest
from ptycho.reconstruction.larger_pixels import begin_at_larger_pixels
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.solver import (
    ENOUGH,
    FIRST,
    NEARLY,
    OBJECT_ALONE,
    Fit,
    Terms,
    fit,
    fit_from_constant,
    fit_to_the_end,
)
from ptycho.reconstruction.state import Freedom, State
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding

BEAM_PIXELS = 2**23  # of the patterns that find the beam of a scan that is fitted in blocks
ON_THE_CORE = 150  # steps of all that is free, once it is decided


class Watch(Protocol):
    """Sees state and objective after a step, with what is free and the likelihood of what is fitted."""

    def __call__(
        self, state: State, value: float, /, free: Freedom, likelihood: ScanLikelihood
    ) -> object: ...


def unwatched(state: State, value: float, /, free: Freedom, likelihood: ScanLikelihood) -> None:
    """A :class:`Watch` that sees nothing."""


@dataclass(frozen=True, eq=False)
class Solved:
    """The most likely state of a scan.

    Attributes:
        state: object and beam.
        free: what was found.
        terms: of the last fit: noise, prior.
        decisions: how it came to this.
        fit: the last fit.
    """

    state: State
    free: Freedom
    terms: Terms
    decisions: tuple[Finding, ...]
    fit: Fit


def solve(
    data: Dataset,
    wishes: Wishes,
    seed: int,
    compile_xla: bool = True,
    advance: Advance = silent,
    watch: Watch = unwatched,
    how: Blockwise | None = None,
    tell: Callable[[Finding], object] = lambda decision: None,
) -> Solved:
    """The most likely object and beam of a scan of one object; see the module's text.

    Args:
        data: the patterns, with the beam as it is told.
        wishes: what is free, and how.
        seed: of what is kept out.
        compile_xla: compile with XLA.
        advance: called with the number of patterns after each chunk of them.
        watch: called after every step on the whole scan, if it is one block.
        how: it is fitted where it is more.
        tell: called with each decision when it is made.
    """
    how = how or Blockwise()
    deciding = decide(data, wishes, seed, compile_xla, how.shelf, tell)
    whole = replace(deciding.noise, data=data, advance=advance)
    prior, learned = choose_prior(deciding)
    terms = Terms(whole, prior, wishes.moves, wishes.lit, learned)
    if deciding.free != OBJECT_ALONE:  # steps are cheap there
        deciding.state = deciding.fitted(deciding.state, deciding.free, prior, ON_THE_CORE).state
    beam = deciding.state
    start = State.of(data, np.ones((data.object_size,) * 2), len(beam.modes))
    start = replace(
        start, modes=beam.modes, background=beam.background / np.float32(deciding.judge.kept_share)
    )
    if how.divides(data):
        start = _beam_in_the_middle(deciding, terms, start)
        stages = from_coarse(wishes.network) if deciding.coarse else FROM_NOTHING
        weak = replace(terms, prior=deciding.prior)
        begun = begin_at_larger_pixels(weak, start, wishes.steps, how)
        stages = TO_THE_END if begun else stages
        last = fit_in_blocks(terms, begun or start, deciding.free, wishes.steps, how, stages, advance)
        return Solved(last.state, deciding.free, terms, tuple(deciding.decisions), last)
    if deciding.noise.data is data:  # the core is the whole scan
        start = replace(start, object=deciding.state.object / np.float32(np.sqrt(deciding.judge.kept_share)))
    else:
        start = _from_constant(deciding, terms, start)
    seen = partial(watch, free=deciding.free, likelihood=whole)
    last = fit_to_the_end(terms, start, deciding.free, wishes.steps, seen)
    return Solved(last.state, deciding.free, terms, tuple(deciding.decisions), last)


def _from_constant(deciding: Deciding, terms: Terms, start: State) -> State:
    """Fit the object alone as it was fitted on the core: at larger pixels first, or strongly denoised."""
    wishes = deciding.wishes
    begun = begin_at_larger_pixels(replace(terms, prior=deciding.prior), start, wishes.steps)
    if begun and not deciding.coarse:
        return begun
    network = wishes.network if deciding.coarse else None
    return fit_from_constant(terms, begun or start, min(wishes.steps, FIRST), network).state


def _beam_in_the_middle(deciding: Deciding, terms: Terms, start: State) -> State:
    """The state with modes, background and affine map of the positions that explain the middle of a scan."""
    free, data = deciding.free, terms.likelihood.data
    mapped = free.positions and terms.moves in ("affine", "affine_and_independent")
    if not (free.probe or free.background or mapped):
        return start
    chosen = data.central(data.held_by(BEAM_PIXELS, fewest(data.N)))
    part = data.cut_out(chosen)
    some = replace(terms, likelihood=replace(terms.likelihood, data=part, advance=silent), learned=None)
    flat = np.ones((part.object_size,) * 2)
    there = State.of(part, flat, len(start.modes), terms.likelihood.normalisation)
    there = replace(there, modes=start.modes, background=start.background)
    there = begin_at_larger_pixels(some, there, FIRST) or fit_from_constant(some, there, FIRST).state
    found = fit(some, there, free, ON_THE_CORE, NEARLY).state
    start = replace(start, modes=found.modes, background=found.background)
    if not mapped:
        return start
    centre = start.positions[chosen].mean(axis=0)
    moved = found.positions - found.positions.mean(axis=0)
    matrix = np.linalg.lstsq(start.positions[chosen] - centre, moved, rcond=None)[0]
    farthest = np.subtract(start.object.shape, data.N)
    return replace(start, positions=np.clip((start.positions - centre) @ matrix + centre, 0, farthest))


def fit_object(terms: Terms, data: Dataset, steps: int, enough: float = ENOUGH) -> np.ndarray:
    """The most likely object ``(1, M, M)`` under the beam of a dataset, from a constant; see :func:`fit`."""
    start = State.of(data, np.ones((data.object_size,) * 2), normalisation=terms.likelihood.normalisation)
    start = begin_at_larger_pixels(terms, start, steps) or start
    return fit(terms, start, OBJECT_ALONE, steps, enough).state.object[None]
