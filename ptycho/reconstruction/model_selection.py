"""Select what is refined besides the object, by cross-validation on a scan's *core*.

The core is a set of neighbouring patterns in the middle of the scan. The object is fitted with the initial
beam: large patterns are downsampled first, and a sparse scan starts from a constant and the difference map.
Then :data:`HYPOTHESES` are tried, the simplest first; each is kept if the held-out patterns (or photons) are
explained better by the rule ``REFINED``: probe, positions, flux, further modes, background. Modes that a
background makes unnecessary are removed. At last the far field of the probe is limited to its pupil.
The regulariser follows (:mod:`~.regulariser_selection`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ptycho.networks.denoiser import WEIGHTS
from ptycho.reconstruction.cache import Cache, NoCache
from ptycho.reconstruction.difference_map import difference_map
from ptycho.reconstruction.estimate import Estimate, Refine, more_modes
from ptycho.reconstruction.holdout import HoldOut, hold_out, is_sparse
from ptycho.reconstruction.learned import Network, StoredNetwork
from ptycho.reconstruction.multiresolution import multiresolution_start
from ptycho.reconstruction.parameters import illuminated_pixels
from ptycho.reconstruction.prior import Prior, kind_of
from ptycho.reconstruction.probe_variation import add_variation
from ptycho.reconstruction.refinement import noise_unit
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.slice_selection import try_slices
from ptycho.reconstruction.solver import (
    FIT,
    OBJECT_ALONE,
    Fit,
    Objective,
    fit,
)
from ptycho.reconstruction.trial import Trial
from ptycho.scan.comparison import CLEAR, REFINED, Comparison, compare_shares
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.probe_support import ProbeSupport, pupil_of

Choice = bool | None
"""Refine it (True), do not (False), or select by cross-validation (None)."""


@dataclass(frozen=True)
class SelectionOptions:
    """Options of the fits that select a model."""

    core_pixels: int = 2**20  # of the patterns of the core,
    fewest: int = 100  # which has so many patterns at least,
    most_pixels: int = 2**23  # unless these have more pixels than this;
    least: int = 36  # then so many patterns
    first_steps: int = 120  # of the first fit, from a constant,
    steps: int = 60  # and of the others, at most
    poor_fit: float = 1.2  # deviance of a first fit under a known probe, from which a better start is sought
    core_steps: int = 150  # of all refined parameters, once the model is selected
    beam_pixels: int = 2**23  # of the patterns that give the beam of a scan that is fitted in blocks
    learned_rounds: int = 1  # of each weight of a learned prior
    next_kind: float = 0.3  # least λ of a second-order regulariser over the best edge-preserving (measured)
    depths: tuple[float, ...] = (10.0, 100.0, 1e3, 1e4)  # λ_z that are tried between slices
    modes: int = 3  # of the probe, at most, or one more than it has
    opr_modes: int = 3  # by which it varies, at most,
    pupil: float = 0.75  # share of the far field, from which on a pupil is no limit
    variation: float = 1.5  # tried from this score on (measured: 1.13 to 1.24 of constant probes, else 2.3)
    background_excess: float = 5.0  # times what an uncertain object alone would give: a background
    darkest: float = 0.02  # share of the pixels whose mean intensity is the start of a background,
    background_steps: int = 8  # of expectation maximisation from there
    noise_rounds: int = 8  # until the noise of amplitudes changes
    same_noise: float = 0.03  # by a smaller share
    again: float = 0.1  # fall of the log-deviance from which refused parts of the beam are tried again

    def count(self, N: int) -> int:
        """Return how many patterns of ``N × N`` the core has, at least."""
        return max(self.least, min(self.fewest, self.most_pixels // N**2))

    def core(self, data: Dataset) -> Dataset:
        """Return the patterns nearest to the middle of a scan; all, if they are not many more."""
        most = data.held_by(self.core_pixels, self.count(data.N))
        if len(data.positions) <= 1.5 * most:
            return data
        return data.cut_out(data.central(most))


@dataclass(frozen=True)
class ModelOptions:
    """Parts refined besides the object; None: selected by cross-validation.

    Attributes:
        probe, positions, flux, background: whether they are refined.
        modes: number of the probe's modes; None: one more than the probe has, if that helps.
        probe_variation: number of its OPR modes, by which it varies; None: as many as help.
        weight_waves: number of cosines over the scan, of which their weights consist; None: independent.
        slices: number of slices of the object; None: as many as help, where the distance between them or
            lengths are known (``Dataset.between``).
        thickness_specified: that is the distance between slices; else half a depth of field, where the search
            begins.
        moves: model of the position corrections.
        prior: kind of regulariser: of :data:`~.prior.PRIORS`, ``learned`` or ``none``.
        strength: its weight λ, or κ; None: selected.
        noise: of a pixel, or ``auto``.
        support: of the probe; None: everywhere.
        pupil: limit the far field of the probe to its pupil; None: selected.
        steps: of a fit, at most.
        weights: file of the denoiser; by default the one that comes with the program.
        selection: how much is fitted to select.
    """

    probe: Choice = None
    positions: Choice = None
    flux: Choice = None
    background: Choice = None
    modes: int | None = None
    probe_variation: int | None = None
    weight_waves: int | None = None
    slices: int | None = 1
    thickness_specified: bool = False
    moves: str = "independent"
    prior: str = "learned"
    strength: float | None = None
    noise: str = "auto"
    support: ProbeSupport | None = None
    pupil: Choice = None
    steps: int = 400
    weights: Path = WEIGHTS
    selection: SelectionOptions = SelectionOptions()

    @property
    def network(self) -> Network:
        """The denoiser of the learned prior; its weights are read when it is first used."""
        return StoredNetwork(self.weights)

    @property
    def learned(self) -> bool:
        """Whether the learned prior is specified."""
        return self.prior == "learned"

    @property
    def classical(self) -> tuple[str, ...]:
        """The regularisers of :data:`PRIORS` of which one is used, alone or beside the learned one."""
        return ("edge_preserving", "second_order") if self.learned else (self.prior,)

    @property
    def weak_prior(self) -> Prior:
        """The regulariser while a model is selected: the specified one, else the weakest of its kind.

        An object that is rough where it is poorly illuminated decides nothing.
        """
        if self.prior == "none":
            return Prior()
        kind, specified = self.classical[0], None if self.learned else self.strength
        return Prior(kind, kind_of(kind).strengths[0] if specified is None else specified)


@dataclass(eq=False)
class Selection:
    """The core while its model is selected.

    Attributes:
        noise: likelihood of the core.
        kept: likelihood of what is fitted of it.
        holdout: what is held out.
        options: what is specified.
        estimate, refine, last: the estimate, what is refined in it, and the fit that gave it.
        scores: deviance per pixel of the held-out patterns, ``(J,)``.
        projected: the object begins with the difference map.
        support: of the probe.
        decisions: in order; each is passed to ``on_decision``.
        tried: trials of regularisers.
        refused: the mean log-deviance at which a part of the beam was refused, by its name.
        explained: for each part that was taken, the mean log-deviance below which what was refined later
            has brought more than that part.
    """

    noise: ScanLikelihood
    kept: ScanLikelihood
    holdout: HoldOut
    options: ModelOptions
    estimate: Estimate
    refine: Refine = OBJECT_ALONE
    last: Fit | None = None
    projected: bool = False
    support: ProbeSupport | None = None
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))
    decisions: list[Finding] = field(default_factory=list)
    tried: list[Trial] = field(default_factory=list)
    refused: dict[str, float] = field(default_factory=dict)
    explained: dict[str, float] = field(default_factory=dict)
    on_decision: Callable[[Finding], object] = lambda decision: None

    def record(self, what: str, value: str, why: str) -> None:
        """Keep a decision, and pass it to ``on_decision``."""
        self.decisions.append(Finding(what, value, why))
        self.on_decision(self.decisions[-1])

    def forget(self, what: str) -> None:
        """Drop the decisions of this name: another one takes their place."""
        self.decisions = [finding for finding in self.decisions if finding.what != what]

    def fit(
        self,
        estimate: Estimate,
        refine: Refine,
        prior: Prior,
        steps: int | None = None,
        enough: float = FIT.preliminary,
        support: ProbeSupport | None = None,
    ) -> Fit:
        """Fit what is not held out; ``support``: None: that of the selection."""
        options, support = self.options, support or self.support
        objective = Objective(self.kept, prior, options.moves, support, weight_waves=options.weight_waves)
        return fit(objective, estimate, refine, min(steps or self.limits.steps, self.options.steps), enough)

    @property
    def limits(self) -> SelectionOptions:
        """The options of the selection."""
        return self.options.selection

    @property
    def prior(self) -> Prior:
        """The regulariser while the model is selected."""
        return self.options.weak_prior

    @property
    def deviance(self) -> float:
        """Mean log-deviance of what is held out."""
        return float(np.log(self.scores).mean())

    def take(self, fitted: Fit, refine: Refine, scores: np.ndarray | None = None) -> None:
        """Make a fit the estimate; ``scores (n,)``: log-deviances of the held-out patterns, if known."""
        self.estimate, self.refine, self.last = fitted.estimate, refine, fitted
        self.scores = self.holdout.score(fitted.estimate, refine) if scores is None else scores

    def try_model(
        self,
        what: str,
        start: Estimate,
        refine: Refine,
        specified: Choice,
        values: tuple[str, str] = ("refined", "not refined"),
        support: ProbeSupport | None = None,
        simpler: bool = False,
    ) -> None:
        """Try another model: it is taken if it is specified, or if it explains what is held out better.

        A ``simpler`` one is taken unless it explains that clearly worse.
        """
        if specified is False:
            return
        fitted = self.fit(start, refine, self.prior, support=support)
        scores = self.holdout.score(fitted.estimate, refine)
        gain = compare_shares(scores, self.scores)
        more_steps = self.last is not None and fitted.course[-1] >= self.last.reach
        if specified is None and not simpler and gain.passes(REFINED) and (more_steps or self.last is None):
            # as many steps without it: that they were more explains nothing
            self.take(self.fit(self.estimate, self.refine, self.prior, len(fitted.course)), self.refine)
            gain = compare_shares(scores, self.scores)
        apart = self._exceeds_errors(fitted.estimate)
        if simpler:
            taken = not Comparison(-gain.gain, gain.error).passes(REFINED)
        else:
            taken = bool(specified or (gain.passes(REFINED) and apart))
        why = self.describe(gain, taken)
        if not (taken or simpler) and gain.gain > 0:
            why += "; too little" if apart else "; errors of the object alone can cause so weak a background"
        self.record(what, values[not taken], why if specified is None else f"specified; {why}")
        if taken:
            self.take(fitted, refine, scores)
            self.support = support or self.support
            self.explained[what] = self.deviance - gain.gain
        elif specified is None:
            self.refused[what] = self.deviance

    def _exceeds_errors(self, estimate: Estimate) -> bool:
        """Return whether a background exceeds what errors of the object alone would produce.

        p parameters of the object leave a pattern's expectation uncertain by about p/J photons, and most
        where it is dark; there any intensity that is added predicts better.
        """
        photons = float(estimate.background.sum()) / self.noise.photon**2
        return (
            not photons
            or photons
            > self.limits.background_excess
            * 2
            * estimate.slices
            * illuminated_pixels(estimate)
            / len(estimate.positions)
        )

    def describe(self, gain: Comparison, taken: bool) -> str:
        """Return how the deviance of what is held out changes, as a line for the log."""
        middle = float(np.exp(self.deviance))
        after = middle * np.exp(-gain.gain)
        change = (("falls", "rises") if taken else ("would fall", "would rise"))[int(after >= middle)]
        return (
            f"deviance of held-out {self.holdout.kind} {change} {middle:.4f} → {after:.4f} ± "
            f"{after * gain.error:.4f}"
        )

    def learn_noise(self) -> None:
        """Take the noise from the residuals where photons are not known, once more is refined."""
        if self.noise.data.counts:
            return
        ratio = _noise_ratio(self.kept, self.estimate)
        self.noise = replace(self.noise, unit=self.noise.unit * ratio)
        self.kept = replace(self.kept, unit=self.kept.unit * ratio)
        likelihood = self.holdout.likelihood
        self.holdout = replace(self.holdout, likelihood=replace(likelihood, unit=likelihood.unit * ratio))
        self.scores = self.holdout.score(self.estimate, self.refine)
        change = 2 * np.log(ratio)
        self.refused = {what: before - change for what, before in self.refused.items()}
        self.explained = {what: before - change for what, before in self.explained.items()}
        self.last = None  # its objective is in other units


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


def _try_part(part: str) -> Callable[[Selection], None]:
    """Return the hypothesis that a part of the beam is to be refined."""

    def hypothesis(selection: Selection) -> None:
        refine = replace(selection.refine, **{part: True})
        selection.try_model(part, selection.estimate, refine, getattr(selection.options, part))

    return hypothesis


def _try_modes(selection: Selection) -> None:
    """Add one mode after the other, as long as that helps; or as many as are specified, always of slices."""
    wanted, limits = selection.options.modes, selection.limits
    if wanted is None and selection.estimate.slices > 1:
        return
    most = max(limits.modes, len(selection.kept.data.probe) + 1) if wanted is None else wanted
    while selection.refine.probe and (before := len(selection.estimate.modes)) < most:
        count = before + 1 if wanted is None else wanted
        start = replace(selection.estimate, modes=more_modes(selection.estimate.modes, count)[:count])
        specified = None if wanted is None else True
        selection.try_model("modes", start, selection.refine, specified, (str(count), str(before)))
        if len(selection.estimate.modes) == before:
            return


def _try_background(selection: Selection) -> None:
    if selection.options.background is not False:
        start = replace(
            selection.estimate,
            background=first_background(selection.kept, selection.estimate, selection.limits),
        )
        refine = replace(selection.refine, background=True)
        selection.try_model("background", start, refine, selection.options.background)


def _try_fewer_modes(selection: Selection) -> None:
    """Drop the weakest mode as long as that helps: a background can explain what it was added for."""
    known, refine = len(selection.kept.data.probe), selection.refine
    if selection.options.modes is not None or not refine.background:
        return
    while (count := len(selection.estimate.modes)) > known:
        start = replace(selection.estimate, modes=selection.estimate.modes[:-1])
        selection.try_model("modes", start, refine, None, (str(count - 1), str(count)))
        if len(selection.estimate.modes) == count:
            return


def _try_less_variation(selection: Selection) -> None:
    """Drop the weakest OPR mode as long as that helps: it may have stood for a background or positions."""
    if selection.options.probe_variation is not None:
        return
    while count := len(selection.estimate.opr_modes):
        kept = selection.estimate.opr_modes[:-1], selection.estimate.opr_weights[:, :-1]
        start = replace(selection.estimate, opr_modes=kept[0], opr_weights=kept[1])
        refine = replace(selection.refine, probe_variation=count > 1)
        selection.try_model("OPR modes", start, refine, None, (str(count - 1), str(count)))
        if len(selection.estimate.opr_modes) == count:
            return


def _try_pupil(selection: Selection) -> None:
    """Limit the far field of the probe to where it is bright, in far fields, if no support is specified.

    Weak modes, which then explain less of the noise, are tried again.
    """
    specified = selection.options.pupil
    near = selection.kept.data.fresnel is not None
    if near or not selection.refine.probe or selection.options.support is not None:
        return
    pupil = pupil_of(selection.estimate.modes)
    if specified or pupil.region.mean() < selection.limits.pupil:
        estimate, values = selection.estimate, ("limited", "not limited")
        start = replace(
            estimate, modes=pupil.project(estimate.modes), opr_modes=pupil.project(estimate.opr_modes)
        )
        selection.try_model("pupil", start, selection.refine, specified, values, pupil)
        if selection.support is pupil:
            _try_modes(selection)


def _try_slices_again(selection: Selection) -> None:
    """Try slices under further modes, without which they may have explained too little."""
    if len(selection.estimate.modes) > len(selection.kept.data.probe):
        try_slices(selection)


def _try_variation(selection: Selection) -> None:
    """Let the probe vary by one OPR mode more, as long as that helps; or by as many as are specified.

    Probe and flux are refined, too: the flux takes what varies along the probe itself.
    """
    wanted, limits = selection.options.probe_variation, selection.limits
    most = limits.opr_modes if wanted is None else wanted
    if selection.estimate.slices > 1:  # which have a constant probe
        return
    while selection.options.probe is not False and (before := len(selection.estimate.opr_modes)) < most:
        count = 1 if wanted is None else most - before
        start, strength = add_variation(selection.kept, selection.estimate, count)
        if wanted is None and strength < limits.variation:
            if not before:
                why = (
                    f"score test of a probe that varies {strength:.2f}; must be at least {limits.variation:g}"
                )
                selection.record("OPR modes", "0", why)
            return
        flux = selection.options.flux is not False
        refine = replace(selection.refine, probe=True, probe_variation=True, flux=flux)
        names, fixed = (str(before + count), str(before)), selection.refine
        selection.try_model("OPR modes", start, refine, None if wanted is None else True, names)
        if len(selection.estimate.opr_modes) == before:
            return
        for part in ("probe", "flux"):
            if getattr(refine, part) and not getattr(fixed, part):
                selection.forget(part)
                selection.record(part, "refined", "as the probe varies")


def _try_again(selection: Selection) -> None:
    """Try positions and flux again where they were refused under a beam that explained clearly less.

    A wrong probe hides errors of the positions.
    """
    for part in ("positions", "flux"):
        hidden = selection.refused.get(part, -np.inf) > selection.deviance + selection.limits.again
        if hidden and not getattr(selection.refine, part):
            selection.forget(part)
            _try_part(part)(selection)


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


HYPOTHESES = (
    _try_part("probe"),
    _try_part("positions"),
    _try_part("flux"),
    try_slices,
    _try_modes,
    _try_slices_again,
    _try_variation,
    _try_background,
    _try_fewer_modes,
    _try_nominal,
    _try_again,
    _try_less_variation,
    _try_pupil,
)
"""What is tried, in order; a new one is an entry."""


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
        ratio = _noise_ratio(noise, starts[0])
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


def _noise_ratio(likelihood: ScanLikelihood, estimate: Estimate) -> float:
    """Return √(deviance / degrees of freedom): by how much amplitudes are noisier than assumed."""
    measured = len(estimate.positions) * likelihood.pixels
    degrees_of_freedom = max(measured - 2 * estimate.slices * illuminated_pixels(estimate), measured // 10)
    return float(np.sqrt(likelihood.evaluate(estimate).deviance.sum() / degrees_of_freedom))


def first_background(likelihood: ScanLikelihood, estimate: Estimate, limits: SelectionOptions) -> np.ndarray:
    """Return ``(N, N)`` where the search for a background starts: dark pixels, then expectation maximisation.

    b ← b ⟨n/λ⟩ for each pixel, which never makes the likelihood worse. Normalised.
    """
    data, f = likelihood.data, likelihood.normalisation
    mean = data.amplitudes.statistics.mean_intensity
    counted = np.sort(mean.ravel() if data.good is None else mean[data.good])
    dark = counted[: max(1, round(limits.darkest * len(counted)))].mean()
    background = np.full((data.N, data.N), f**2 * (dark + 1e-6 * counted.mean()), np.float32)
    for _ in range(limits.background_steps):
        there = replace(estimate, background=background)
        slope = likelihood.evaluate(there, ("background",)).gradients["background"]
        excess = slope * np.float32(likelihood.photon**2) / len(estimate.positions)  # 1 − ⟨n/λ⟩
        background = background * (1 - np.minimum(excess, 0.9))
    return background
