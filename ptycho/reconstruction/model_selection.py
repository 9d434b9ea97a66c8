"""Select what is refined besides the object, by cross-validation on a scan's *core*.

The core is a set of neighbouring patterns in the middle of the scan. The object is fitted with the initial
beam: large patterns are downsampled first, and a sparse scan starts from a constant and the difference map.
Then the :data:`HYPOTHESES` are tried, the simplest first. Each is kept if the held-out patterns (or photons)
are explained better by its rule (:mod:`ptycho.scan.comparison`). The regulariser follows
(:mod:`~.regulariser_selection`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ptycho.reconstruction.blocks import multiresolution_start
from ptycho.reconstruction.difference_map import difference_map
from ptycho.reconstruction.estimate import Estimate, Refine, more_modes
from ptycho.reconstruction.holdout import hold_out, is_sparse
from ptycho.reconstruction.probe_variation import add_variation
from ptycho.reconstruction.scan_likelihood import Cache, ScanLikelihood, noise_unit
from ptycho.reconstruction.selection import ModelOptions, Selection, noise_ratio
from ptycho.reconstruction.slice_selection import try_slices
from ptycho.reconstruction.solver import FIT, OBJECT_ALONE, Fit, Objective, fit
from ptycho.scan.comparison import CLEAR, DRIFT, FIRST_MODE, REFINED, Rule, compare_shares
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.probe import pupil_of

POSITION_MODEL, POINT_SPREAD = "position model", "point_spread"  # what decisions are about


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
    noise = first_noise(data, options, compile_xla, cache)
    kept, held = hold_out(noise, seed)
    start = constant_start(kept, options)
    if initial_object is not None:
        start = replace(start, object=_core_of(initial_object, data, noise.data).astype(np.complex64))
    larger = len(data.positions) > len(noise.data.positions)
    selection = Selection(noise, kept, held, options, start, larger=larger, on_decision=on_decision)
    selection.moves, selection.support = options.moves_of(data), options.support
    if initial_object is None:
        first = _begin(selection)
    else:
        first = selection.fit(start, OBJECT_ALONE, selection.prior)
    selection.first = first.estimate
    selection.take(first, OBJECT_ALONE)
    selection.learn_noise()
    for hypothesis in HYPOTHESES:
        hypothesis(selection)
        selection.learn_noise()
    return selection


def constant_start(likelihood: ScanLikelihood, options: ModelOptions) -> Estimate:
    """Return a constant object under the initial beam."""
    image = options.start_object(likelihood.data)
    return Estimate.of(likelihood.data, image, normalisation=likelihood.normalisation)


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


def first_noise(
    data: Dataset, options: ModelOptions, compile_xla: bool, cache: Cache | None = None
) -> ScanLikelihood:
    """Return the core's likelihood; noise of unknown strength is that of the object's residuals alone."""
    limits = options.selection
    part = limits.core(data)
    kind = options.noise if options.noise != "auto" else "poisson" if data.counts else "gaussian"
    unit = 1.0 if data.counts else noise_unit(part)
    noise = ScanLikelihood(part, data.normalisation, unit, kind, compile_xla=compile_xla, cache=cache)
    if data.counts:
        return noise
    start = constant_start(noise, options)
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
    side = core.object_size
    row, column = corner + side
    return np.pad(image, side, mode="edge")[row : row + side, column : column + side]


def _try_part(part: str) -> Callable[[Selection], None]:
    """Return the hypothesis that a part of the beam is to be refined."""

    def hypothesis(selection: Selection) -> None:
        refine = replace(selection.refine, **{part: True})
        selection.try_model(part, selection.estimate, refine, getattr(selection.options, part))

    return hypothesis


def _try_probe(selection: Selection) -> None:
    """Refine the probe, from the fitted object or, if that is clearly lower, from one of a few steps.

    Under a wrong probe the fitted object has taken on its errors, and the fit of both may never lose them.
    What follows is decided under the refined probe, so that is fitted until it converges.
    """
    limits, refine = selection.limits, replace(selection.refine, probe=True)
    if selection.options.probe is False:
        return
    constant = constant_start(selection.kept, selection.options)
    early = selection.fit(constant, OBJECT_ALONE, selection.prior, limits.early_steps).estimate
    starts = selection.estimate, early
    fits = [selection.fit(start, refine, selection.prior, limits.start_steps) for start in starts]
    fitted, other = fits
    start = other if other.course[-1] < limits.clearly_lower * fitted.course[-1] else fitted
    selection.try_model("probe", start.estimate, refine, selection.options.probe, steps=limits.probe_steps)


def _try_affine_part(selection: Selection, rule: Rule = REFINED) -> None:
    """Refine the affine part of the position corrections, too, if the model lacks it.

    Random errors of few positions have such a part, and so has a drift: without it, a fit of the rest ends
    far from the right positions.
    """
    limits, specified = selection.limits, selection.options.moves is not None
    if not selection.refine.positions or specified or selection.moves == "affine_and_independent":
        return
    selection.forget(POSITION_MODEL)
    values, model = ("affine and independent", "independent"), "affine_and_independent"
    estimate, refine, steps = selection.estimate, selection.refine, limits.probe_steps
    selection.try_model(POSITION_MODEL, estimate, refine, None, values, moves=model, steps=steps, rule=rule)


def _try_drift(selection: Selection) -> None:
    """Refine the affine part before the rest of the beam if it explains much, as in a drift.

    A beam that lacks modes or a background lets it explain a little.
    """
    _try_affine_part(selection, DRIFT)


def _try_point_spread(selection: Selection) -> None:
    """Refine the width of the detector's point spread, if one explains the patterns as they are fitted.

    Before slices and modes, each of which would stand for it in part, and until it converges. In a near field
    only if that is specified.
    """
    specified, steps = selection.options.point_spread, selection.limits.probe_steps
    if specified is False or (specified is None and selection.kept.data.fresnel is not None):
        return
    start, lower = first_spread(selection.kept, selection.estimate)
    if lower or specified:
        refine = replace(selection.refine, point_spread=True)
        selection.try_model(POINT_SPREAD, start, refine, specified, steps=steps)
    beam = replace(selection.refine, positions=False, flux=False)
    one_mode = len(selection.estimate.modes) == len(selection.kept.data.probe)
    if beam == Refine(point_spread=True) and one_mode and selection.estimate.slices == 1:
        _fit_anew_with_point_spread(selection)


def _fit_anew_with_point_spread(selection: Selection) -> None:
    """Fit object and probe anew under a point spread as wide along both axes, if that explains more.

    Those of a fit without any have taken on a part of it, perhaps all of it along one axis.
    """
    estimate, refine, limits = selection.estimate, selection.refine, selection.limits
    sigma = np.full(2, np.abs(estimate.point_spread).max(), np.float32)
    constant = constant_start(selection.kept, selection.options)
    start = replace(constant, positions=estimate.positions, flux=estimate.flux, point_spread=sigma)
    early = selection.fit(start, OBJECT_ALONE, selection.prior, limits.early_steps).estimate
    fitted = selection.fit(early, refine, selection.prior, limits.probe_steps)
    if selection.last is not None and fitted.course[-1] < selection.last.course[-1]:
        selection.take(fitted, refine)


def first_spread(
    likelihood: ScanLikelihood, estimate: Estimate, widths: tuple[float, ...] = (0.3, 0.35, 0.4, 0.5, 1.0)
) -> tuple[Estimate, bool]:
    """Return an estimate with the best of some ``widths`` σ in pixels, and whether it is likelier so.

    The least ones spread .4 to 4 % of the intensity, which tests the slope: a fit without a point spread has
    taken on a part of it.
    """
    spread = [replace(estimate, point_spread=np.full(2, sigma, np.float32)) for sigma in widths]
    values = [likelihood.evaluate(there).value for there in (estimate, *spread)]
    return spread[int(np.argmin(values[1:]))], min(values) < values[0]


def _try_no_point_spread(selection: Selection) -> None:
    """Drop the point spread where it stood for modes, slices or a background that came later."""
    if selection.refine.point_spread and selection.options.point_spread is None:
        selection.forget(POINT_SPREAD)
        start = replace(selection.estimate, point_spread=np.zeros(2, np.float32))
        refine = replace(selection.refine, point_spread=False)
        values = "not refined", "refined"
        selection.try_model(POINT_SPREAD, start, refine, None, values, simpler=True)


def _try_modes(selection: Selection, beyond: int = 0) -> None:
    """Add one mode after the other, as long as that helps; or as many as are specified, always of slices.

    ``beyond``: modes that are allowed above the usual limit.
    """
    wanted, limits = selection.options.modes, selection.limits
    if wanted is None and selection.estimate.slices > 1:
        return
    most = max(limits.modes, len(selection.kept.data.probe) + 1) + beyond if wanted is None else wanted
    while selection.refine.probe and (before := len(selection.estimate.modes)) < most:
        count = before + 1 if wanted is None else wanted
        start = replace(selection.estimate, modes=more_modes(selection.estimate.modes, count)[:count])
        specified = None if wanted is None else True
        selection.try_model("modes", start, selection.refine, specified, (str(count), str(before)))
        if len(selection.estimate.modes) == before:
            return


def _try_background(selection: Selection) -> None:
    if selection.options.background is not False:
        background = first_background(selection.kept, selection.estimate)
        start = replace(selection.estimate, background=background)
        refine = replace(selection.refine, background=True)
        selection.try_model("background", start, refine, selection.options.background)


def first_background(likelihood: ScanLikelihood, estimate: Estimate, steps: int = 8) -> np.ndarray:
    """Return ``(N, N)`` where the search for a background starts: dark pixels, then expectation maximisation.

    b ← b ⟨n/λ⟩ for each pixel, in so many ``steps``, never makes the likelihood worse. Normalised.
    """
    data, f = likelihood.data, likelihood.normalisation
    statistics, good = data.amplitudes.statistics, data.good
    mean = statistics.mean_intensity.mean(where=True if good is None else good)
    background = np.full((data.N, data.N), f**2 * (statistics.darkest(good) + 1e-6 * mean), np.float32)
    for _ in range(steps):
        there = replace(estimate, background=background)
        slope = likelihood.evaluate(there, ("background",)).gradients["background"]
        excess = slope * np.float32(likelihood.photon**2) / len(estimate.positions)  # 1 − ⟨n/λ⟩
        background = background * (1 - np.minimum(excess, 0.9))
    return background


def _try_fewer_modes(selection: Selection) -> None:
    """Drop the weakest mode as long as that helps, where the core is the whole scan.

    A background or a wider point spread can explain what it was added for. The few patterns of a core may not
    determine a mode that all patterns determine.
    """
    known, refine = len(selection.kept.data.probe), selection.refine
    explained = refine.background or refine.point_spread
    if selection.options.modes is not None or not explained or selection.larger:
        return
    while (count := len(selection.estimate.modes)) > known:
        start = replace(selection.estimate, modes=selection.estimate.modes[:-1])
        selection.try_model("modes", start, refine, None, (str(count - 1), str(count)))
        if len(selection.estimate.modes) == count:
            return


def _try_less_variation(selection: Selection) -> None:
    """Drop all OPR modes if they explain little of the deviance above one, or the weakest if that helps.

    An object that is finer than its pixels looks a little as if the probe varied. Without any, probe and flux
    return to what they were before. A weak one may have stood for a background or positions. Where the
    deviance is no misfit, any goes without which the held-out deviance is lower.
    """
    count = len(selection.estimate.opr_modes)
    if selection.options.probe_variation is not None or not count:
        return
    share, deviance = selection.limits.variation_share, np.exp(selection.deviance)
    known = selection.kept.data.counts and deviance > 1  # where noise is estimated, deviance is no misfit
    within = np.log((deviance - share) / (1 - share)) if known else selection.deviance
    dropped = _drop_variation(selection, count, selection.before_variation, within)
    while not dropped and len(selection.estimate.opr_modes):
        if not _drop_variation(selection, 1, {}, -np.inf if known else selection.deviance):
            return


def _drop_variation(
    selection: Selection, count: int, before: Mapping[str, np.ndarray], within: float
) -> bool:
    """Try ``count`` OPR modes less, with probe and flux of ``before``; return whether they are dropped."""
    estimate, left = selection.estimate, len(selection.estimate.opr_modes) - count
    beam = {"modes" if part == "probe" else part: values for part, values in before.items()}
    kept = {"opr_modes": estimate.opr_modes[:left], "opr_weights": estimate.opr_weights[:, :left]}
    refine = replace(selection.refine, probe_variation=left > 0, **dict.fromkeys(before, False))
    names = str(left), str(left + count)
    selection.try_model("OPR modes", replace(estimate, **kept, **beam), refine, None, names, within=within)
    if len(selection.estimate.opr_modes) > left:
        return False
    for part in before:
        selection.forget(part)
        selection.record(part, "not refined", "as the probe does not vary")
    return True


def _try_pupil(selection: Selection) -> None:
    """Limit the far field of the probe to where it is bright, in far fields, if no support is specified.

    Weak modes, which then explain less of the noise, are tried again.
    """
    specified, estimate = selection.options.pupil, selection.estimate
    near = selection.kept.data.fresnel is not None
    if near or not selection.refine.probe or selection.options.support is not None:
        return
    pupil = pupil_of(estimate.modes)
    if specified or pupil.region.mean() < selection.limits.pupil:
        modes, opr_modes = pupil.project(estimate.modes), pupil.project(estimate.opr_modes)
        start, values = replace(estimate, modes=modes, opr_modes=opr_modes), ("limited", "not limited")
        selection.try_model("pupil", start, selection.refine, specified, values, pupil)
        if selection.support is pupil:
            _try_modes(selection)


def _try_slices_again(selection: Selection) -> None:
    """Try slices under further modes, without which they may have explained too little.

    Where slices explain something, but a mode beyond the usual limit explains it as well, it is a mode.
    """
    for beyond in range(1, selection.limits.modes_beyond + 1):
        before = len(selection.estimate.modes)
        if before == len(selection.kept.data.probe) or not try_slices(selection):
            return
        _try_modes(selection, beyond)
        if len(selection.estimate.modes) == before:
            return


def _try_variation(selection: Selection) -> None:
    """Let the probe vary by one OPR mode more, as long as that helps; or by as many as are specified.

    Probe and flux are refined, too: the flux takes what varies along the probe itself.
    """
    wanted, limits, constant = selection.options.probe_variation, selection.limits, selection.deviance
    if selection.estimate.slices > 1 or selection.options.probe is False:  # slices have a constant probe
        return
    while (before := len(selection.estimate.opr_modes)) < (most := _most_opr_modes(selection, constant)):
        count = 1 if wanted is None else most - before
        start, strength = add_variation(selection.kept, selection.estimate, count)
        if wanted is None and strength < limits.variation:
            if not before:
                least = f"must be at least {limits.variation:g}"
                selection.record(
                    "OPR modes", "0", f"score test of a probe that varies {strength:.2f}; {least}"
                )
            return
        flux = selection.options.flux is not False
        refine = replace(selection.refine, probe=True, probe_variation=True, flux=flux)
        names, fixed = (str(before + count), str(before)), selection.refine
        initial = {"probe": selection.estimate.modes, "flux": selection.estimate.flux}
        selection.try_model("OPR modes", start, refine, None if wanted is None else True, names)
        if len(selection.estimate.opr_modes) == before:
            return
        for part in ("probe", "flux"):
            if getattr(refine, part) and not getattr(fixed, part):
                selection.before_variation[part] = initial[part]
                selection.forget(part)
                selection.record(part, "refined", "as the probe varies")


def _most_opr_modes(selection: Selection, constant: float) -> int:
    """Return how many OPR modes there may be; ``constant``: the log-deviance under a constant probe."""
    if selection.options.probe_variation is not None:
        return selection.options.probe_variation
    limits, (before, now) = selection.limits, np.exp([constant, selection.deviance]) - 1
    mainly = selection.kept.data.counts and before - now > limits.varies_mainly * before > 0
    return limits.more_opr_modes if mainly else limits.opr_modes


def _try_variation_and_mode(selection: Selection) -> None:
    selection.try_in_either_order(_try_variation, _try_mode_beside_unrefined_probe)


def _try_mode_beside_unrefined_probe(selection: Selection) -> None:
    """Add a mode to a probe that is open, but was not refined: it may be right where others are missing.

    Or as many as are specified.
    """
    wanted, estimate = selection.options.modes, selection.estimate
    if selection.options.probe is not None or selection.refine.probe:
        return
    before, specified = len(estimate.modes), None if wanted is None else True
    count = before + 1 if wanted is None else wanted
    if count <= before or (wanted is None and estimate.slices > 1):
        return
    start = replace(estimate, modes=more_modes(estimate.modes, count)[:count])
    refine, values = replace(selection.refine, probe=True), (str(count), str(before))
    selection.try_model("modes", start, refine, specified, values, rule=FIRST_MODE)
    if selection.refine.probe:
        selection.forget("probe")
        selection.record("probe", "refined", "as it has further modes")
        _try_modes(selection)


def _try_again(selection: Selection) -> None:
    """Try positions, flux and point spread again where they were refused under a beam that explained less.

    A wrong probe hides errors of the positions. Also where nominal ones explain less than those that were
    refined: a fit of positions before that of the modes may end at a place from which it does not return.
    """
    again = {part: _try_part(part) for part in ("positions", "flux")} | {POINT_SPREAD: _try_point_spread}
    for part, hypothesis in again.items():
        hidden = selection.refused.get(part, -np.inf) > selection.deviance + selection.limits.again
        if hidden and not getattr(selection.refine, part):
            selection.forget(part)
            hypothesis(selection)


def _try_nominal(selection: Selection) -> None:
    """Return to nominal positions and flux where what was refined later brought more than they did.

    They may have stood for a mode or a background.
    """
    data, options = selection.kept.data, selection.options
    nominal = {"positions": data.positions.astype(np.float64), "flux": data.beam.flux}
    for part, values in nominal.items():
        needed = part == "flux" and selection.refine.probe_variation
        explained = selection.deviance < selection.explained.get(part, -np.inf)
        if explained and getattr(selection.refine, part) and getattr(options, part) is None and not needed:
            selection.forget(part)
            start = replace(selection.estimate, **{part: values})
            refine = replace(selection.refine, **{part: False})
            selection.try_model(part, start, refine, None, ("not refined", "refined"), simpler=True)
    if not selection.refine.positions:  # with which their model goes
        selection.forget(POSITION_MODEL)
        selection.moves = options.moves_of(data)


HYPOTHESES = (
    _try_probe,
    _try_part("positions"),
    _try_drift,
    _try_part("flux"),
    _try_point_spread,
    try_slices,
    _try_modes,
    _try_slices_again,
    _try_variation_and_mode,
    _try_background,
    _try_fewer_modes,
    _try_no_point_spread,
    _try_nominal,
    _try_again,
    _try_less_variation,
    _try_again,
    _try_affine_part,
    _try_pupil,
)
"""What is tried, in order; a new one is an entry."""
