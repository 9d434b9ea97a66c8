"""Fit a scan: select what is refined and the regulariser, then find the most likely object and beam.

1. On the *core* the model and the regulariser are selected (:mod:`~ptycho.reconstruction.model_selection`).
2. On the whole scan the object begins as it did, under the beam of the core. All that is refined is fitted
   until steps gain nothing more; then come the rounds of the learned prior. A scan of more patterns than one
   block's is fitted in blocks, under a beam that is found on some thousand patterns in its middle. Of large
   patterns, it starts from downsampled ones (:mod:`~ptycho.reconstruction.blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ptycho.progress import Advance, silent
from ptycho.reconstruction.blocks import (
    FROM_DIFFERENCE_MAP,
    FROM_NOTHING,
    TO_THE_END,
    Blockwise,
    Stage,
    fit_in_blocks,
    multiresolution_start,
)
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.model_selection import first_background, first_noise, first_spread, select_model
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.probe_variation import weigh_variation
from ptycho.reconstruction.regulariser_selection import Regularisation, select_regulariser
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.selection import ModelOptions, Selection
from ptycho.reconstruction.slice_selection import divided, fit_fewer_slices
from ptycho.reconstruction.solver import OBJECT_ALONE, Fit, Objective, fit, fit_from_constant, fit_to_the_end
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.probe import pupil_of

Watch = Callable[[Estimate, float, Refine, ScanLikelihood], object]
"""Observer of estimate and objective after a step, with what is refined and the likelihood of the fit."""


@dataclass(frozen=True, eq=False)
class Solved:
    """The most likely estimate of a scan, what was refined, how it came to this, and the last fit."""

    estimate: Estimate
    refine: Refine
    objective: Objective
    decisions: tuple[Finding, ...]
    fit: Fit


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Start of a fit from an earlier result: ``object (M, M)`` complex64, and what was selected then.

    ``refine``: None: that is selected anew. ``pupil``: the far field of the probe is limited.
    """

    object: np.ndarray
    refine: Refine | None = None
    regularisation: Regularisation = field(default_factory=lambda: Regularisation(Prior()))
    pupil: bool = False
    decisions: tuple[Finding, ...] = ()


def solve(
    data: Dataset,
    options: ModelOptions,
    seed: int,
    compile_xla: bool = True,
    advance: Advance = silent,
    watch: Watch = lambda estimate, value, refine, likelihood: None,
    blockwise: Blockwise | None = None,
    on_decision: Callable[[Finding], object] = lambda decision: None,
    warm_start: WarmStart | None = None,
) -> Solved:
    """Return the most likely object and beam of a scan of one object; see the module's text.

    ``data`` are under the initial beam, or that of ``warm_start``. ``watch`` is called after every step on
    the whole scan, if it is one block; ``advance`` with a number of patterns after each chunk of them.
    """
    blockwise = blockwise or Blockwise()
    if blockwise.divides(data):
        options = replace(options, slices=1)
    if warm_start is not None and warm_start.refine is not None:
        noise = replace(first_noise(data, options, compile_xla, blockwise.cache), data=data, advance=advance)
        return _go_on(noise, options, warm_start, watch, blockwise)
    initial_object = None if warm_start is None else warm_start.object
    selection = select_model(data, options, seed, compile_xla, blockwise.cache, on_decision, initial_object)
    data = replace(data, between=selection.noise.data.between)
    whole = replace(selection.noise, data=data, advance=advance)
    chosen = select_regulariser(selection)
    support, waves = selection.support, options.weight_waves
    objective = Objective(whole, chosen.prior, selection.moves, support, chosen.learned, weight_waves=waves)
    if selection.refine != OBJECT_ALONE:  # steps are cheap there
        selection.estimate = selection.fit(
            selection.estimate, selection.refine, chosen.prior, options.selection.core_steps
        ).estimate
    beam = selection.estimate
    kept_share = selection.holdout.kept_share
    start = Estimate.of(data, options.start_object(data, beam.modes), len(beam.modes))
    background = beam.background / np.float32(kept_share)
    start = replace(start, modes=beam.modes, background=background, point_spread=beam.point_spread)
    varies = selection.refine.probe_variation
    start = start.varied_by(beam.opr_modes, None if varies else start.opr_weights)
    stages: tuple[Stage, ...] = TO_THE_END
    if initial_object is not None:
        start = replace(start, object=initial_object.astype(np.complex64))
    elif blockwise.divides(data):
        start = _beam_in_the_middle(selection, objective, start)
        stages = FROM_DIFFERENCE_MAP if selection.projected else FROM_NOTHING
        weak = replace(objective, prior=selection.prior)
        coarse = None if selection.projected else multiresolution_start(weak, start, options.steps, blockwise)
        if coarse is not None:
            start, stages = coarse, TO_THE_END
    elif len(selection.noise.data.positions) == len(data.positions):  # the core is the whole scan
        positions = selection.holdout.all_positions(beam, selection.refine)
        image = beam.object / np.float32(kept_share ** (0.5 / beam.slices))
        start = replace(start, object=image, positions=positions)
    else:
        start = _from_constant(selection, objective, start)
    if (count := beam.slices) > start.slices:
        start = replace(start, object=fit_fewer_slices(objective, start, count, options.steps))
    if varies and not blockwise.divides(data):
        start = weigh_variation(objective.likelihood, start)
    last = _finish(objective, start, selection.refine, options.steps, watch, blockwise, stages)
    return Solved(last.estimate, selection.refine, objective, tuple(selection.decisions), last)


def _go_on(
    noise: ScanLikelihood, options: ModelOptions, warm_start: WarmStart, watch: Watch, blockwise: Blockwise
) -> Solved:
    """Fit what was refined in an earlier run further, under its regulariser."""
    assert warm_start.refine is not None
    chosen = warm_start.regularisation
    start = Estimate.of(noise.data, warm_start.object, options.modes)
    support = pupil_of(start.modes) if warm_start.pupil else options.support
    objective = Objective(
        noise,
        chosen.prior,
        options.moves_of(noise.data),
        support,
        chosen.learned,
        weight_waves=options.weight_waves,
    )
    if noise.data.between is not None and (options.slices or 1) > 1:
        start = replace(start, object=divided(warm_start.object, options.slices or 1))
    if warm_start.refine.point_spread:  # no product holds it
        alone = Refine(False, object=False, point_spread=True)
        start = fit(objective, first_spread(noise, start)[0], alone, options.selection.steps).estimate
    if warm_start.refine.background:  # nor this
        start = replace(start, background=first_background(noise, start))
    kept = np.s_[: options.probe_variation]
    start = start.varied_by(start.opr_modes[kept], start.opr_weights[:, kept])
    last = _finish(objective, start, warm_start.refine, options.steps, watch, blockwise, TO_THE_END)
    return Solved(last.estimate, warm_start.refine, objective, warm_start.decisions, last)


def _finish(
    objective: Objective,
    start: Estimate,
    refine: Refine,
    steps: int,
    watch: Watch,
    blockwise: Blockwise,
    stages: Sequence[Stage],
) -> Fit:
    """Fit a whole scan to its end, in blocks where it is large; slices until gains are small."""
    likelihood = objective.likelihood

    def watched(estimate: Estimate, value: float) -> None:
        watch(estimate, value, refine, likelihood)

    if start.slices > 1:
        return fit(objective, start, refine, 2 * steps, objective.options.enough / 5, watched)
    if blockwise.divides(likelihood.data):
        return fit_in_blocks(objective, start, refine, steps, blockwise, stages, likelihood.advance)
    return fit_to_the_end(objective, start, refine, steps, watched)


def _from_constant(selection: Selection, objective: Objective, start: Estimate) -> Estimate:
    """Fit the object alone as it was fitted on the core: by the difference map, or downsampled first."""
    steps, weak = selection.options.steps, replace(objective, prior=selection.prior)
    if not selection.projected and (coarse := multiresolution_start(weak, start, steps)):
        return coarse
    return fit_from_constant(
        objective, start, min(steps, objective.options.first), selection.projected
    ).estimate


def _beam_in_the_middle(selection: Selection, objective: Objective, start: Estimate) -> Estimate:
    """Return the estimate with modes, background and affine map that explain the middle of a scan."""
    refine, data = selection.refine, objective.likelihood.data
    mapped = refine.positions and objective.moves in ("affine", "affine_and_independent")
    if not (refine.probe or refine.background or refine.point_spread or mapped):
        return start
    chosen = data.central(data.held_by(selection.limits.beam_pixels, selection.limits.count(data.N)))
    part = data.cut_out(chosen)
    likelihood = replace(objective.likelihood, data=part, advance=silent)
    some = replace(objective, likelihood=likelihood, learned=None)
    flat = selection.options.start_object(part, start.modes)
    there = Estimate.of(part, flat, len(start.modes), likelihood.normalisation)
    shared = "modes", "background", "point_spread"
    there = replace(there, **{part: getattr(start, part) for part in shared})
    there = there.varied_by(start.opr_modes, None if refine.probe_variation else there.opr_weights)
    first = objective.options.first
    there = multiresolution_start(some, there, first) or fit_from_constant(some, there, first).estimate
    if refine.probe_variation:
        there = weigh_variation(some.likelihood, there)
    fitted = fit(some, there, refine, selection.limits.core_steps, objective.options.preliminary).estimate
    start = replace(start, **{part: getattr(fitted, part) for part in (*shared, "opr_modes")})
    if not mapped:
        return start
    centre = start.positions[chosen].mean(axis=0)
    moved = fitted.positions - fitted.positions.mean(axis=0)
    matrix = np.linalg.lstsq(start.positions[chosen] - centre, moved, rcond=None)[0]
    farthest = np.subtract(start.object.shape, data.N)
    return replace(start, positions=np.clip((start.positions - centre) @ matrix + centre, 0, farthest))


def fit_object(objective: Objective, data: Dataset, image: np.ndarray, steps: int) -> np.ndarray:
    """Fit an object ``(M, M)`` complex64 under the beam of a dataset, from a flat ``image (M, M)``."""
    start = Estimate.of(data, image, normalisation=objective.likelihood.normalisation)
    if coarse := multiresolution_start(objective, start, steps):
        return fit(objective, coarse, OBJECT_ALONE, steps, objective.options.preliminary).estimate.object
    return fit_from_constant(objective, start, steps).estimate.object
