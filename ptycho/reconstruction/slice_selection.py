"""Decide whether a sample is thick: slices, some distance apart, are a hypothesis like a further mode.

The object of the core is replaced by two slices equal to its square root, half a depth of field ``5 dx²/λ``
apart, and object and probe are fitted for some steps. For a thin object the slices explain held-out patterns
worse (measured: by 3 to 60 %), because the fit must undo them; for a thick one better (by 20 to 75 %). Only
then, and if a further mode of the probe does not explain more, are the distance and the number of slices
selected: each distance is tried from the same slices, for as many steps, and each number has the thickness of
two slices at the best distance. The further mode must not explain as much at its end, either: motion during
the exposure looks like slices until enough modes describe it. With slices, no modes are selected. Later
hypotheses include the slices.

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
from ptycho.reconstruction.solver import Objective, fit
from ptycho.scan.comparison import REFINED, compare_shares


@dataclass(frozen=True)
class SliceOptions:
    """Options of the trials of slices."""

    steps: int = 20  # of a trial
    ratios: tuple[float, ...] = (1.6, 1.25, 1.1)  # of neighbouring distances, coarse first
    rounds: int = 6  # of distances at one ratio; a number of slices has so many times ``steps``
    slices: int = 6  # at most
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


def try_slices(selection: Selection, limits: SliceOptions = SliceOptions()) -> bool:
    """Refine slices: as many as are specified, or as explain what is held out better than a thin object.

    A selection of which lengths are not known, or that has slices, stays as it is. Return whether a further
    mode explains as much as slices, or more.
    """
    space, options = selection.noise.data.between, selection.options
    if space is None or options.slices == 1 or selection.estimate.slices > 1:
        return False
    refine, thin = replace(selection.refine, probe=options.probe is not False), selection.estimate
    selection.forget("slices")
    if options.slices is not None:
        root, steps = root_of(thin.object, options.slices), 2 * limits.steps
        best = _fit_slices(selection, root, thin, space, refine, steps)
        clearly = compare_shares(best.scores, selection.scores)
        why = f"specified; {selection.describe(clearly, True)}"
        why += "" if clearly.passes(REFINED) else "; one slice is enough"
        _take(selection, best, refine, why)
        return False
    best = _fit_slices(selection, root_of(thin.object, 2), thin, space, refine, limits.steps)
    gain = compare_shares(best.scores, selection.scores)
    if not gain.passes(REFINED):
        selection.record("slices", "1", f"two: {selection.describe(gain, False)}")
        return False
    mode = None if options.modes is not None else _with_further_mode(selection, refine)
    if mode is not None and compare_shares(mode[1], best.scores).passes(REFINED):
        # with the mode, slices are tried again
        why = selection.describe(gain, False)
        selection.record("slices", "1", f"two: {why}; a further mode explains more")
        return True
    if not options.thickness_specified:
        best = _distance(selection, best, refine, limits)
        if best.depths < limits.least:
            near = f"less than {limits.least:g} depths of field apart"
            selection.record("slices", "1", f"two: {selection.describe(gain, False)}; {near}")
            return False
    best = _number(selection, thin, best, refine, limits)
    why = selection.describe(compare_shares(best.scores, selection.scores), True)
    if mode is not None:  # at its end, as slices were fitted in many more steps
        mode = _fitted(selection, mode[0], refine, options.steps)
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


def root_of(image: np.ndarray, count: int) -> np.ndarray:
    """Return slices ``(L, M, M)``, all alike, of an object ``(M, M)`` complex64, whose product it is."""
    from skimage.restoration import unwrap_phase  # not at the start of the program

    phase = unwrap_phase(np.angle(image), rng=0)
    root = np.abs(image) ** (1 / count) * np.exp(1j * phase / count)
    return np.stack([root.astype(np.complex64)] * count)


def _take(selection: Selection, layers: Layers, refine: Refine, why: str) -> None:
    """Make slices the estimate, with a refined probe: a thin object may have hidden that it is wrong."""
    selection.record("slices", str(layers.estimate.slices), why)
    if refine.probe and not selection.refine.probe:
        selection.forget("probe")
        selection.record("probe", "refined", "as the object has slices")
    selection.kept, selection.holdout = layers.kept, layers.holdout
    selection.noise = _apart(selection.noise, layers.space)
    selection.estimate, selection.refine = layers.estimate, refine
    selection.scores, selection.last = layers.scores, None


def _apart(likelihood: ScanLikelihood, space: FreeSpace) -> ScanLikelihood:
    """Return the same with this free space between slices."""
    return replace(likelihood, data=replace(likelihood.data, between=space))


def _fit_slices(
    selection: Selection, slices: np.ndarray, beam: Estimate, space: FreeSpace, refine: Refine, steps: int
) -> Layers:
    """Fit slices ``(L, M, M)`` that are ``space`` apart, and what is refined of the beam."""
    kept, out = (_apart(likelihood, space) for likelihood in (selection.kept, selection.holdout.likelihood))
    holdout = replace(selection.holdout, likelihood=out)
    objective = Objective(kept, selection.prior, selection.moves, selection.support)
    start = replace(beam, object=slices)
    estimate = fit(objective, start, refine, steps, objective.options.preliminary).estimate
    return Layers(kept, holdout, space, estimate, holdout.score(estimate, refine))


def _distance(selection: Selection, best: Layers, refine: Refine, limits: SliceOptions) -> Layers:
    """Return two slices at the distance that explains the most, or at one below the least."""
    for ratio in limits.ratios:
        for _ in range(limits.rounds):
            start, length = best.estimate, best.space.length
            spaces = [replace(best.space, length=length * factor) for factor in (1.0, 1 / ratio, ratio)]
            beam = start.object, start
            tried = [_fit_slices(selection, *beam, space, refine, limits.steps) for space in spaces]
            best = min(tried, key=lambda layers: float(np.log(layers.scores).mean()))
            if best.depths < limits.least:
                return best
            if best is tried[0]:
                break
    return best


def _number(
    selection: Selection, thin: Estimate, two: Layers, refine: Refine, limits: SliceOptions
) -> Layers:
    """Return as many slices as explain more, through the same thickness."""
    steps, best = limits.rounds * limits.steps, two
    for count in range(2, limits.slices + 1):
        space = replace(two.space, length=2 * two.space.length / count)
        tried = _fit_slices(selection, root_of(thin.object, count), two.estimate, space, refine, steps)
        if count > 2 and not compare_shares(tried.scores, best.scores).passes(REFINED):
            break
        best = tried
    return best
