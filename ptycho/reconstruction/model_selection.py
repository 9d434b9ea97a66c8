"""Select what is refined besides the object, by cross-validation on a scan's *core*.

The core is a set of neighbouring patterns in the middle of the scan. The object is fitted with the initial
beam: large patterns are downsampled first, and a sparse scan starts from a constant and the difference map.
Then the :mod:`~.hypotheses` are tried, the simplest first. Each is kept if the held-out patterns (or photons)
are explained better by the rule ``REFINED``. The regulariser follows (:mod:`~.regulariser_selection`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ptycho.reconstruction.cache import Cache, NoCache
from ptycho.reconstruction.difference_map import difference_map
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.holdout import hold_out, is_sparse
from ptycho.reconstruction.hypotheses import HYPOTHESES
from ptycho.reconstruction.model_options import ModelOptions
from ptycho.reconstruction.multiresolution import multiresolution_start
from ptycho.reconstruction.refinement import noise_unit
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.selection import Selection, noise_ratio
from ptycho.reconstruction.solver import FIT, OBJECT_ALONE, Fit, Objective, fit
from ptycho.scan.comparison import CLEAR, compare_shares
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding


def select_model(
    data: Dataset,
    options: ModelOptions,
    seed: int,
    compile_xla: bool,
    cache: Cache | None = None,
    on_decision: Callable[[Finding], object] = lambda decision: None,
    initial_object: np.ndarray | None = None,
) -> Selection:
    """Select what is refined, on the core of a scan; fits are kept in the ``cache``.

    ``initial_object``: an object ``(M, M)`` to begin with; None: a constant.
    """
    noise = first_noise(data, options, compile_xla, cache or NoCache())
    kept, held = hold_out(noise, seed)
    flat = np.ones((kept.data.object_size,) * 2)
    image = flat if initial_object is None else _core_of(initial_object, data, noise.data)
    estimate = Estimate.of(kept.data, image, normalisation=noise.normalisation)
    selection = Selection(
        noise, kept, held, options, estimate, support=options.support, on_decision=on_decision
    )
    first = (
        _begin(selection)
        if initial_object is None
        else selection.fit(estimate, OBJECT_ALONE, selection.prior)
    )
    selection.take(first, OBJECT_ALONE)
    selection.learn_noise()
    for hypothesis in HYPOTHESES:
        hypothesis(selection)
        selection.learn_noise()
    return selection


def _begin(selection: Selection) -> Fit:
    """Fit the object alone, from a constant, or from the difference map if that explains more.

    The latter is tried in sparse scans, and under a known probe where a constant leads to a poor fit. From a
    constant, large patterns begin downsampled.
    """
    objective, steps = Objective(selection.kept, selection.prior), selection.limits.first_steps
    start = multiresolution_start(objective, selection.estimate, steps) or selection.estimate
    fitted = selection.fit(start, OBJECT_ALONE, selection.prior, steps)
    selection.scores = selection.holdout.score(fitted.estimate, OBJECT_ALONE)
    known = selection.options.probe is False
    stuck = known and np.exp(selection.deviance) > selection.limits.poor_fit
    if selection.kept.data.fresnel is not None or (selection.holdout.kind == "patterns" and not stuck):
        return fitted
    projected = difference_map(selection.kept, selection.estimate)
    other = selection.fit(projected, OBJECT_ALONE, selection.prior, steps)
    scores = selection.holdout.score(other.estimate, OBJECT_ALONE)
    gain = compare_shares(scores, selection.scores)
    selection.projected = gain.passes(CLEAR) and other.course[-1] < fitted.course[-1]
    value = "by the difference map" if selection.projected else "a constant"
    selection.record("initial object", value, selection.describe(gain, selection.projected))
    return other if selection.projected else fitted


def first_noise(data: Dataset, options: ModelOptions, compile_xla: bool, cache: Cache) -> ScanLikelihood:
    """Return the core's likelihood under the specified noise; where photons are not known, its strength is
    that of the residuals of the object alone."""
    limits = options.selection
    part = limits.core(data)
    kind = options.noise if options.noise != "auto" else "poisson" if data.counts else "gaussian"
    unit = 1.0 if data.counts else noise_unit(part)
    noise = ScanLikelihood(part, data.normalisation, unit, kind, compile_xla=compile_xla, cache=cache)
    if data.counts:
        return noise
    start = Estimate.of(part, np.ones((part.object_size,) * 2), normalisation=data.normalisation)
    starts = [start]
    if is_sparse(part) and part.fresnel is None:  # residuals of a fit that is stuck are no noise
        starts.append(difference_map(noise, start))
    for _ in range(limits.noise_rounds):
        objective = Objective(noise, options.weak_prior)
        fits = [fit(objective, start, OBJECT_ALONE, limits.steps, FIT.preliminary) for start in starts]
        starts = [min(fits, key=lambda fitted: fitted.course[-1]).estimate]
        ratio = noise_ratio(noise, starts[0])
        noise = replace(noise, unit=noise.unit * ratio)
        if abs(ratio - 1) < limits.same_noise:
            break
    return noise


def _core_of(image: np.ndarray, data: Dataset, core: Dataset) -> np.ndarray:
    """Return the part of an object ``(M, M)`` on which the core of a scan lies."""
    if core is data:
        return image
    first = data.central(len(core.positions))[0]
    corner = np.rint(data.positions[first] - core.positions[0]).astype(int)
    side, margin = core.object_size, core.object_size
    padded = np.pad(image, margin, mode="edge")
    row, column = corner + margin
    return padded[row : row + side, column : column + side]
