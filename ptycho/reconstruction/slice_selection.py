"""Decide whether a sample is thick: slices, some distance apart, are a hypothesis like a further mode.

The object of the core is replaced by two slices equal to its square root, half a depth of field ``5 dx²/λ``
apart, and object and probe are fitted for some steps. For a thin object the slices explain held-out patterns
worse (measured: by 3 to 60 %), because the fit must undo them; for a thick one better (by 20 to 75 %). Only
then, and if a further mode of the probe does not explain more, are the distance and the number of slices
selected: each distance is tried from the same slices, for as many steps, and each number has the thickness of
two slices at the best distance. The further mode must not explain as much at its end, either: motion during
the exposure looks like slices until enough modes describe it. With slices, no modes are selected. Later
hypotheses include the slices.

A thin object explains a sample that scatters strongly so badly that the probe and the positions refined with
it are wrong. Where the fit is poor, slices are therefore also tried from the first fit, under the initial
beam, at larger distances. More slices begin with fewer that were fitted: with the next smaller number where
it is selected, with half as many where it is specified.

The root is that of the amplitude and of the unwrapped phase. From constants, the fit takes more steps; a root
of wrapped phases ends in a wrong minimum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ptycho.config.waves import FreeSpace
from ptycho.reconstruction.estimate import Estimate, Refine, more_modes
from ptycho.reconstruction.holdout import HoldOut
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.selection import Selection
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.scan.comparison import REFINED, Rule, compare_shares


@dataclass(frozen=True)
class SliceOptions:
    """Options of the trials of slices."""

    steps: int = 20  # of a trial
    # depths of field between two slices that are tried under the initial beam, where the fit is poor
    far: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    steps_fewer: int = 60  # of each smaller number, the object alone, and of a specified one with the beam
    ratios: tuple[float, ...] = (1.6, 1.25, 1.1)  # of neighbouring distances, coarse first
    rounds: int = 6  # of distances at one ratio; a number of slices has so many times ``steps``
    numbers: tuple[int, ...] = (3, 4, 6, 8, 12, 16)  # of more slices, tried until one explains no more
    # rule of a larger number, which takes more time, and begins where the smaller one ended
    more: Rule = Rule(2.0, 0.1)
    least: float = 0.15  # depths of field between two slices; nearer ones stand for another error


@dataclass(frozen=True, eq=False)
class Layers:
    """Slices of the core."""

    kept: ScanLikelihood  # likelihood of what is fitted, with the free space between the slices
    holdout: HoldOut  # what is held out, with the same
    space: FreeSpace  # between neighbouring slices
    estimate: Estimate  # object ``(L, M, M)`` and beam
    scores: np.ndarray  # deviance per pixel of what is held out, ``(J,)``

    @property
    def depths(self) -> float:
        """Distance of neighbouring slices in depths of field, ``5 dx²/λ``."""
        return self.space.fresnel / 5

    @property
    def log_deviance(self) -> float:
        """Mean log-deviance of what is held out."""
        return float(np.log(self.scores).mean())


def try_slices(selection: Selection, limits: SliceOptions = SliceOptions()) -> bool:
    """Refine slices: as many as are specified, or as explain what is held out better than a thin object.

    A selection of which lengths are not known, or that has slices, stays as it is. Return whether a further
    mode explains as much as slices, or more.
    """
    space, options = selection.noise.data.between, selection.options
    if space is None or options.slices == 1 or selection.estimate.slices > 1:
        return False
    refine, thin = replace(selection.refine, probe=options.probe is not False), selection.estimate
    refine_first = replace(OBJECT_ALONE, probe=refine.probe)  # under the initial beam
    selection.forget("slices")
    if options.slices is not None:
        best = _fit_number(selection, thin, space, options.slices, refine, limits)
        if selection.first is not None and selection.refine != OBJECT_ALONE:
            other = _fit_number(selection, selection.first, space, options.slices, refine_first, limits)
            if other.log_deviance < best.log_deviance:
                best, refine = other, refine_first
        clearly = compare_shares(best.scores, selection.scores)
        why = f"specified; {selection.describe(clearly, True)}"
        why += "" if clearly.passes(REFINED) else "; one slice is enough"
        _take(selection, best, refine, why)
        return False
    best = _fit_slices(selection, divided(thin.object, 2), thin, space, refine, limits.steps)
    far, refine_thin = _far_apart(selection, space, refine_first, limits), refine
    if far is not None and compare_shares(far.scores, best.scores).passes(REFINED):
        best, refine = far, refine_first
    gain = compare_shares(best.scores, selection.scores)
    if not gain.passes(REFINED):
        selection.record("slices", "1", f"two: {selection.describe(gain, False)}")
        return False
    mode = None if options.modes is not None else _with_further_mode(selection, refine_thin)
    if mode is not None and compare_shares(mode[1], best.scores).passes(REFINED):
        # with the mode, slices near each other are tried again
        why = selection.describe(gain, False)
        selection.record("slices", "1", f"two: {why}; a further mode explains more")
        return True
    if not options.thickness_specified:
        best = _distance(selection, best, refine, limits)
        if best.depths < limits.least:
            near = f"less than {limits.least:g} depths of field apart"
            selection.record("slices", "1", f"two: {selection.describe(gain, False)}; {near}")
            return False
    best = _number(selection, best, refine, limits)
    why = selection.describe(compare_shares(best.scores, selection.scores), True)
    if mode is not None:  # at its end, as slices were fitted in many more steps
        mode = _fitted(selection, mode[0], refine_thin, options.steps)
        if not compare_shares(best.scores, mode[1]).passes(REFINED):
            selection.record("slices", "1", f"{best.estimate.slices}: {why}; a further mode explains as much")
            return True
    _take(selection, best, refine, f"{best.depths:.3g} depths of field apart; {why}")
    return False


def _with_further_mode(selection: Selection, refine: Refine) -> tuple[Estimate, np.ndarray]:
    """Return the fit of a thin object under one mode more, and its scores ``(J,)``."""
    thin = selection.estimate
    modes = more_modes(thin.modes, len(thin.modes) + 1)
    return _fitted(selection, replace(thin, modes=modes), refine)


def _fitted(
    selection: Selection, start: Estimate, refine: Refine, steps: int | None = None
) -> tuple[Estimate, np.ndarray]:
    estimate = selection.fit(start, refine, selection.prior, steps).estimate
    return estimate, selection.holdout.score(estimate, refine)


def divided(image: np.ndarray, count: int) -> np.ndarray:
    """Return slices ``(count, M, M)`` complex64 with the product and the total thickness of others.

    ``image``: ``(M, M)`` complex64, or slices ``(L, M, M)``. Logarithms of the amplitude and unwrapped phases
    are constant within each slice; a new slice takes the part that lies in it.
    """
    from skimage.restoration import unwrap_phase  # not at the start of the program

    slices = image.reshape(-1, *image.shape[-2:])
    edges, new = np.linspace(0, 1, len(slices) + 1), np.linspace(0, 1, count + 1)
    common = np.minimum.outer(new[1:], edges[1:]) - np.maximum.outer(new[:-1], edges[:-1])
    shares = np.clip(common, 0, None) * len(slices)  # of each slice in each new one
    phases = np.stack([unwrap_phase(np.angle(part), rng=0) for part in slices])
    logarithms = np.log(np.maximum(np.abs(slices), np.finfo(np.float32).tiny))
    parts = np.tensordot(shares, logarithms + 1j * phases, axes=1)
    return np.exp(parts).astype(np.complex64)


def fit_fewer_slices(
    objective: Objective, start: Estimate, count: int, most: int, steps: int = SliceOptions().steps_fewer
) -> np.ndarray:
    """Return ``count`` slices ``(count, M, M)`` to begin with, divided from half as many that were fitted.

    Those were divided from half as many, and so on from two. The likelihood's free space is that between
    ``count`` slices; fewer have the same thickness. The object alone is fitted, in so many ``steps``, or the
    ``most`` of a fit.
    """
    if count <= 2:
        return divided(start.object, count)
    space, fewer = objective.likelihood.data.between, (count + 1) // 2
    assert space is not None
    apart = replace(space, length=space.length * count / fewer)
    wider = replace(objective, likelihood=_apart(objective.likelihood, apart))
    first = replace(start, object=fit_fewer_slices(wider, start, fewer, most, steps))
    fitted = fit(wider, first, OBJECT_ALONE, min(steps, most), objective.options.preliminary)
    return divided(fitted.estimate.object, count)


def _take(selection: Selection, layers: Layers, refine: Refine, why: str) -> None:
    """Make slices the estimate, with a refined probe: a thin object may have hidden that it is wrong."""
    selection.record("slices", str(layers.estimate.slices), why)
    if refine.probe and not selection.refine.probe:
        selection.forget("probe")
        selection.record("probe", "refined", "as the object has slices")
    for part in ("positions", "flux", "point_spread"):
        if getattr(selection.refine, part) and not getattr(refine, part):  # to be tried again
            selection.forget(part)
            selection.refused[part] = np.inf
    selection.kept, selection.holdout = layers.kept, layers.holdout
    selection.noise = _apart(selection.noise, layers.space)
    selection.estimate, selection.refine = layers.estimate, refine
    selection.scores, selection.last = layers.scores, None


def _apart(likelihood: ScanLikelihood, space: FreeSpace) -> ScanLikelihood:
    """Return the same with this free space between slices."""
    return replace(likelihood, data=replace(likelihood.data, between=space))


def _objective(selection: Selection, kept: ScanLikelihood) -> Objective:
    return Objective(kept, selection.prior, selection.moves, selection.support)


def _fit_slices(
    selection: Selection, slices: np.ndarray, beam: Estimate, space: FreeSpace, refine: Refine, steps: int
) -> Layers:
    """Fit slices ``(L, M, M)`` that are ``space`` apart, and what is refined of the beam."""
    kept, out = (_apart(likelihood, space) for likelihood in (selection.kept, selection.holdout.likelihood))
    holdout = replace(selection.holdout, likelihood=out)
    objective = _objective(selection, kept)
    start = replace(beam, object=slices)
    estimate = fit(objective, start, refine, steps, objective.options.preliminary).estimate
    return Layers(kept, holdout, space, estimate, holdout.score(estimate, refine))


def _fit_number(
    selection: Selection, start: Estimate, space: FreeSpace, count: int, refine: Refine, limits: SliceOptions
) -> Layers:
    """Fit ``count`` slices that are ``space`` apart, from a thin object, and what is refined of the beam."""
    objective = _objective(selection, _apart(selection.kept, space))
    slices = fit_fewer_slices(objective, start, count, selection.options.steps, limits.steps_fewer)
    return _fit_slices(selection, slices, start, space, refine, limits.steps_fewer)


def _far_apart(selection: Selection, space: FreeSpace, refine: Refine, limits: SliceOptions) -> Layers | None:
    """Return two slices from the first fit, at the distance that explains the most under the initial beam.

    None: the nearest explain the most, or the distance is specified, photons are not counted, the thin object
    explains the patterns, or this was tried before further modes were.
    """
    start, depth = selection.first or selection.estimate, space.length * 5 / space.fresnel
    tried_before = len(selection.estimate.modes) > len(start.modes)
    if selection.options.thickness_specified or tried_before or not _is_poor(selection, selection.deviance):
        return None
    slices, tried = divided(start.object, 2), list[Layers]()
    for depths in limits.far:
        apart = replace(space, length=depths * depth)
        tried.append(_fit_slices(selection, slices, start, apart, OBJECT_ALONE, limits.steps))
    best = min(tried, key=lambda layers: layers.log_deviance)
    if best is tried[0]:
        return None
    return _fit_slices(selection, best.estimate.object, best.estimate, best.space, refine, limits.steps)


def _distance(selection: Selection, best: Layers, refine: Refine, limits: SliceOptions) -> Layers:
    """Return two slices at the distance that explains the most, or at one below the least."""
    for ratio in limits.ratios:
        for _ in range(limits.rounds):
            start, length = best.estimate, best.space.length
            spaces = [replace(best.space, length=length * factor) for factor in (1.0, 1 / ratio, ratio)]
            beam = start.object, start
            tried = [_fit_slices(selection, *beam, space, refine, limits.steps) for space in spaces]
            best = min(tried, key=lambda layers: layers.log_deviance)
            if best.depths < limits.least:
                return best
            if best is tried[0]:
                break
    return best


def _number(selection: Selection, two: Layers, refine: Refine, limits: SliceOptions) -> Layers:
    """Return as many slices as explain more, through the same thickness; more are divided from fewer.

    Where the fit is poor, a further slice behind those is tried, too: the sample may be thicker.
    """
    steps = limits.rounds * limits.steps
    best = _fit_slices(selection, two.estimate.object, two.estimate, two.space, refine, steps)
    for count in limits.numbers:
        beam, fewer = best.estimate, best.estimate.slices
        space = replace(best.space, length=best.space.length * fewer / count)
        tried = _fit_slices(selection, divided(beam.object, count), beam, space, refine, steps)
        if _is_poor(selection, tried.log_deviance):
            behind = np.concatenate([beam.object, np.ones_like(beam.object[:1])])
            thicker = _fit_slices(selection, behind, beam, best.space, refine, steps)
            tried = min(tried, thicker, key=lambda layers: layers.log_deviance)
        if not compare_shares(tried.scores, best.scores).passes(limits.more):
            break
        best = tried
    return best


def _is_poor(selection: Selection, log_deviance: float) -> bool:
    return bool(selection.noise.data.counts and np.exp(log_deviance) > selection.limits.poor_fit)
