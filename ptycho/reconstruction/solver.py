"""Maximum likelihood of object, probe modes, positions, flux and background of one scan.

    minimise  ½ Σ deviance(λ, n) + prior(O)

over the refined parameters, by :mod:`~ptycho.reconstruction.quasi_newton` in the units of
:mod:`~ptycho.reconstruction.parameters`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from ptycho.files.atomic import sha256
from ptycho.reconstruction.difference_map import difference_map
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.learned import Learned, StoredNetwork, denoiser_term
from ptycho.reconstruction.parameters import Parameters, illuminated_pixels
from ptycho.reconstruction.preconditioner import Preconditioner
from ptycho.reconstruction.prior import NO_PRIOR, Anchor, Prior
from ptycho.reconstruction.probe_variation import centre_variation
from ptycho.reconstruction.quasi_newton import SEARCH, minimise
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.scan.probe import ProbeSupport, orthogonal_modes

OBJECT_ALONE = Refine(False)
Watch = Callable[[Estimate, float], object]
"""Observer of estimate and objective after a step."""


def unwatched(estimate: Estimate, value: float) -> None:
    """Do nothing: a :data:`Watch` that sees nothing."""


@dataclass(frozen=True)
class FitOptions:
    """When fits end and renew their scales; gains are of −log p in a step, for each refined number."""

    enough: float = 1e-4  # gain below which a fit has converged
    preliminary: float = 1e-3  # the same of a beam, and of fits that others follow
    window: int = 5  # steps over which the gain is averaged
    restart: int = 100  # steps, after which curvatures are computed anew
    window_distance: float = 1.5  # pixels from a position to its window, beyond which windows are placed anew
    final_distance: float = 0.6  # the same where a fit would end; beyond it, the fit goes on
    renew: int = 10  # steps, after which the preconditioner is,
    same_factor: int = 5  # and its factor, under a regulariser
    first: int = 30  # steps of a fit from a constant,
    weaker: float = 0.1  # under so much of the regulariser
    rounds: int = 3  # of a learned prior,
    round_steps: int = 15  # and steps in each
    block_steps: int = 35  # of a block alone, before blocks are joined
    level_steps: int = 10  # of the whole scan, behind them
    short_steps: int = 6  # of a block that is nearly at its end
    holes: float = 10.0  # patterns on a pixel: with fewer, held-out patterns leave holes in the object


FIT = FitOptions()


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit found."""

    estimate: Estimate  # the best
    course: list[float]  # the objective at the start and after every step
    evaluations: int  # how often the likelihood and its gradient were computed
    converged: bool  # it ended because steps gained nothing more

    def arrays(self) -> dict[str, np.ndarray]:
        """Return it as a cache keeps it."""
        counts = np.array([self.evaluations, int(self.converged)])
        return dict(vars(self.estimate)) | {"course": np.array(self.course), "counts": counts}

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> Fit:
        """Return a fit from its :meth:`arrays`."""
        evaluations, converged = arrays["counts"].tolist()
        estimate = Estimate(**{part: arrays[part] for part in Estimate.__annotations__})
        return cls(estimate, arrays["course"].tolist(), evaluations, bool(converged))

    @property
    def reach(self) -> float:
        """What the objective could come to in as many steps more, if they gained as much as the last ones."""
        return self.course[-1] - (0.0 if self.converged else _rate(self.course) * len(self.course))


@dataclass(frozen=True, eq=False)
class Objective:
    """What a fit minimises: ½ Σ deviance + regularisation, within limits of probe and positions."""

    likelihood: ScanLikelihood  # of the fitted patterns
    prior: Prior = NO_PRIOR  # regulariser of the object
    moves: str = "independent"  # model of the position corrections
    support: ProbeSupport | None = None  # where the probe may be other than zero; None: everywhere
    # the denoiser of the last rounds of :func:`fit_to_the_end`, which begin where ``prior`` ends
    learned: Learned | None = None
    anchor: Anchor | None = None  # a known object, from which a quadratic penalty holds the object
    # number of cosines over the scan, of which OPR weights consist; None: independent
    weight_waves: int | None = None
    options: FitOptions = FIT  # when fits of it end

    def parameters(self, estimate: Estimate, refine: Refine) -> Parameters:
        """Return the refined parameters of an estimate within these limits."""
        held = 0.0 if self.anchor is None else self.anchor.weight
        photon, waves = self.likelihood.photon, self.weight_waves
        return Parameters.of(estimate, refine, photon, self.moves, self.support, held, waves)

    def penalty(self, image: np.ndarray) -> tuple[float, np.ndarray] | None:
        """Return what is added to −log p for an object ``(M, M)``, and its gradient; None: nothing is."""
        parts = [part(image) for part in (self.prior, self.anchor) if part is not None and part.active]
        if not parts:
            return None
        return float(sum(value for value, _ in parts)), np.sum([slope for _, slope in parts], axis=0)


def fit(
    objective: Objective,
    start: Estimate,
    refine: Refine,
    steps: int,
    enough: float | None = None,
    watch: Watch = unwatched,
) -> Fit:
    """Return the estimate after at most so many steps, or from which no step is clearly better.

    ``enough``: gain of a step for each refined number with which it ends; None: that of the options; where
    the patterns contradict the model, so many times that as a pixel's mean deviance is above the one that
    noise leaves (McCullagh & Nelder, Generalized Linear Models, section 9.2: dispersion). A fit that took
    some time is kept on the likelihood's cache, from where a stopped run goes on.
    """
    cache, enough = objective.likelihood.cache, objective.options.enough if enough is None else enough
    if cache is None:
        return _fit(objective, start, refine, steps, enough, watch)
    name = f"fit-{digest_of(objective, start, refine, steps, enough)}"
    if (kept := cache.get(name)) is not None:
        return Fit.of(kept)
    began = time.perf_counter()
    fitted = _fit(objective, start, refine, steps, enough, watch)
    if time.perf_counter() - began > cache.least_seconds:
        cache.put(name, fitted.arrays())
    return fitted


def _fit(
    objective: Objective, start: Estimate, refine: Refine, steps: int, enough: float, watch: Watch
) -> Fit:
    if refine == OBJECT_ALONE:
        objective = replace(objective, likelihood=objective.likelihood.under_beam_of(start))
    estimate, evaluations, power = start, 0, _power(start)
    course, between, options = list[float](), objective.likelihood.data.between, objective.options
    preconditioner = Preconditioner(objective.prior, objective.anchor, refine, start, between)
    search = replace(SEARCH, same_factor=options.same_factor) if objective.prior.active else SEARCH
    converged, limit = False, enough * _parameter_count(start, refine, objective)
    measured = int(objective.likelihood.pixels.sum())
    while len(course) <= steps and not converged:
        corners = objective.likelihood.places(estimate)[0]
        parameters = objective.parameters(estimate, refine)
        before, u = len(course), parameters.start()
        preconditioner.renew(parameters, estimate, before)
        function = _value_and_gradient(objective, parameters, power, corners)
        for point in minimise(function, u, preconditioner, search):
            u, evaluations = point.x, evaluations + point.evaluations
            course.append(point.value)
            present, done = parameters.estimate(u), len(course) - before
            watch(present, point.value)
            dispersion = max(1.0, 2 * course[-1] / measured)
            converged = done > 2 * options.window and _rate(course, options.window) < limit * dispersion
            distance = np.abs(present.positions - corners).max()
            ended = len(course) > steps or done > options.restart
            if converged or ended or distance > options.window_distance:
                converged = converged and distance < options.final_distance
                break
            if done == options.window or done % options.renew == 0:
                preconditioner.renew(parameters, present, len(course))
        else:
            converged = True
        estimate = normalise(parameters.estimate(u), power, refine)
    return Fit(estimate, course, evaluations, converged)


def fit_from_constant(objective: Objective, start: Estimate, steps: int, projected: bool = False) -> Fit:
    """Fit the object alone from a constant, first under a tenth of the regulariser.

    The whole of it would hold back the edges and slopes that a constant lacks. ``projected``: the difference
    map comes first; see :mod:`~.difference_map`. Other arguments: as :func:`fit`.
    """
    strength = objective.options.weaker * objective.prior.strength
    weak = replace(objective, prior=replace(objective.prior, strength=strength))
    if projected:
        start = difference_map(objective.likelihood, start)
    enough = objective.options.preliminary
    fitted = fit(weak, start, OBJECT_ALONE, min(steps, objective.options.first), enough)
    return _joined(fitted, fit(objective, fitted.estimate, OBJECT_ALONE, steps, enough))


def fit_to_the_end(
    objective: Objective, start: Estimate, refine: Refine, steps: int, watch: Watch = unwatched
) -> Fit:
    """Refine the selected parameters until the beam has converged, then the object alone until it has.

    The rounds of the learned prior follow, if there is one. Arguments: as :func:`fit`.
    """
    enough = None if refine == OBJECT_ALONE else objective.options.preliminary
    fitted = fit(objective, start, refine, steps, enough, watch)
    left = steps - len(fitted.course) + 1
    if refine != OBJECT_ALONE and left:
        fitted = _joined(fitted, fit(objective, fitted.estimate, OBJECT_ALONE, left, watch=watch))
    return _joined(fitted, fit_learned(objective, fitted.estimate, watch=watch))


def fit_further(
    objective: Objective, start: Estimate, steps: int, holes: bool = True, projected: bool = False
) -> Fit:
    """Fit the object under the beam as it is, from the end of a fit that lacked a few patterns.

    Where these left ``holes`` in the object, it is fitted to its end, and all rounds of the learned prior
    follow, as the denoiser has not seen what is there now; else one round suffices. ``projected``: try the
    difference map as a start, too, and keep the likelier end.
    """
    if objective.learned is not None and not holes:
        return fit_learned(objective, start, 1, steps=min(steps, objective.options.round_steps))
    starts = (start, difference_map(objective.likelihood, start)) if projected else (start,)
    fits = [fit(objective, initial, OBJECT_ALONE, steps) for initial in starts]
    fitted = min(fits, key=lambda fitted: fitted.course[-1])
    return _joined(fitted, fit_learned(objective, fitted.estimate))


def fit_learned(
    objective: Objective,
    start: Estimate,
    rounds: int | None = None,
    watch: Watch = unwatched,
    steps: int | None = None,
) -> Fit:
    """Fit the object near the output of the objective's network, in ``rounds`` of ``steps``.

    See :mod:`~.learned`. None: those of the options. The beam stays as it is; the rest as in :func:`fit`.
    Without a network nothing changes.
    """
    fitted, learned, options = Fit(start, [], 0, True), objective.learned, objective.options
    if learned is None:
        return fitted
    for _ in range(options.rounds if rounds is None else rounds):
        anchor = denoiser_term(learned, objective.likelihood, fitted.estimate)
        there, near = replace(fitted.estimate, object=anchor.target), replace(objective, anchor=anchor)
        count = options.round_steps if steps is None else steps
        fitted = _joined(fitted, fit(near, there, OBJECT_ALONE, count, watch=watch))
    return fitted


def _joined(first: Fit, then: Fit) -> Fit:
    """One fit after the other; whether the refined parts have converged is that of the first."""
    return Fit(
        then.estimate, first.course + then.course, first.evaluations + then.evaluations, first.converged
    )


def _rate(course: list[float], window: int = FIT.window) -> float:
    """Return the gain of a step, averaged over a ``window``; infinite of shorter courses."""
    return (course[-1 - window] - course[-1]) / window if len(course) > window else np.inf


def _value_and_gradient(
    objective: Objective, parameters: Parameters, power: float, corners: np.ndarray | None = None
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Return a function: half the deviance and the prior of the object, and their gradient.

    The prior is that of Q = αO, α² = Σ|P|²/power, so that no factor that moves from the object to the probe
    lowers it: ``∂/∂O = α g(Q)``, ``∂/∂P = ⟨g(Q), O⟩ α P / Σ|P|²``. Each of L slices takes ``α^(1/L)``.
    The windows stay at ``corners``: a probe that reaches the edge of its window would jump with it.
    """

    def function(u: np.ndarray) -> tuple[float, np.ndarray]:
        estimate = parameters.estimate(u)
        evaluation = objective.likelihood.evaluate(estimate, parameters.names, corners)
        gradients, value = dict(evaluation.gradients), evaluation.value
        current = _power(estimate)
        alpha = np.float32(np.sqrt(current / power) ** (1 / estimate.slices))
        if "object" in gradients and (penalty := objective.penalty(alpha * estimate.object)) is not None:
            more, slope = penalty
            value, gradients["object"] = value + more, gradients["object"] + alpha * slope
            if "modes" in gradients:
                along = float(np.vdot(slope, estimate.object).real)
                share = np.float32(along * alpha / current / estimate.slices)
                gradients["modes"] = gradients["modes"] + share * estimate.modes
        return value, parameters.gradient(u, gradients)

    return function


def _power(estimate: Estimate) -> float:
    return float(np.sum(np.abs(estimate.modes) ** 2, dtype=float))


def _parameter_count(estimate: Estimate, refine: Refine, objective: Objective) -> int:
    """Return how many real numbers the patterns determine: the illuminated object, and the refined beam."""
    count = 2 * estimate.slices * illuminated_pixels(estimate) if refine.object else 0
    count += 2 * (estimate.modes.size + estimate.opr_modes.size) * refine.probe
    count += (
        estimate.positions.size * refine.positions + 2 * estimate.opr_weights.size * refine.probe_variation
    )
    return max(count, 2 * len(estimate.positions))


def normalise(estimate: Estimate, power: float, refine: Refine) -> Estimate:
    """Return the same far fields with the power that the probe had and a mean flux of one; modes orthogonal.

    Flux that is refined under a fixed object and probe stays as it is: nothing could make up for its mean.
    """
    if not (refine.probe or refine.object):
        return estimate
    if refine.probe and refine.probe_variation and estimate.varies:
        estimate = centre_variation(estimate)
    modes, flux = estimate.modes, estimate.flux
    if refine.flux:
        mean = np.float32(np.sqrt(np.mean(flux**2)))
        flux, modes = flux / mean, modes * mean
    if refine.probe and len(modes) > 1:
        first = int(estimate.varies)  # which stays by itself: the others do not vary
        modes = np.concatenate([modes[:first], orthogonal_modes(modes[first:])[0]])
    if not (refine.probe or refine.flux):
        return estimate
    scale = np.float32(np.sqrt(power / _power(replace(estimate, modes=modes))))
    image = estimate.object / np.float32(scale ** (1 / estimate.slices))
    return replace(
        estimate, object=image, modes=scale * modes, flux=flux, opr_modes=scale * estimate.opr_modes
    )


def digest_of(objective: Objective, start: Estimate, refine: Refine, steps: int, *beside: object) -> str:
    """Return a hash of all that decides a fit: patterns, mask, start, objective, networks, and this program.

    ``beside``: further values that decide the fit: networks, or values with a unique representation.
    """
    noise, data, content = objective.likelihood, objective.likelihood.data, hashlib.sha256()
    anchor = () if objective.anchor is None else (objective.anchor.target, objective.anchor.weight)
    region = None if objective.support is None else objective.support.region
    for array in (*vars(start).values(), *anchor, data.good, data.amplitudes.shifts, region):
        content.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    patterns, of_patterns = data.amplitudes if noise.instead is None else noise.instead, hashlib.sha256()
    for first in range(0, len(data.positions), noise.chunk):
        of_patterns.update(np.ascontiguousarray(patterns[first : first + noise.chunk]).tobytes())
    content.update(of_patterns.digest())
    kind = (data.N, data.fresnel, data.between, noise.normalisation, noise.unit, noise.noise)
    others = [sha256(part.file) if isinstance(part, StoredNetwork) else repr(part) for part in beside]
    far, fits = objective.support is not None and objective.support.far_field, (refine, steps)
    settings = (far, objective.moves, objective.weight_waves, objective.prior, objective.options, *fits)
    content.update(repr((kind, settings, others, program_version())).encode())
    return content.hexdigest()[:24]


@cache
def program_version() -> str:
    """Return the version of the installed package; empty if it is not installed."""
    try:
        return version("ptychopinn")
    except PackageNotFoundError:
        return ""
