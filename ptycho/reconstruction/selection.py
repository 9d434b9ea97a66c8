"""The core of a scan while its model is selected: the estimate, what is refined, and its score."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np

from ptycho.networks.denoiser import WEIGHTS
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.holdout import HoldOut
from ptycho.reconstruction.learned import Network, StoredNetwork
from ptycho.reconstruction.parameters import illuminated_pixels
from ptycho.reconstruction.prior import Prior, kind_of
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.solver import FIT, OBJECT_ALONE, Fit, Objective, fit
from ptycho.reconstruction.trial import Trial
from ptycho.scan.comparison import REFINED, Comparison, Rule, compare_shares
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.probe import ProbeSupport
from ptycho.scan.ramp import flat_object

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
    steps: int = 60  # and of the others, at most,
    probe_steps: int = 200  # but for those of the probe and of the affine part of positions;
    early_steps: int = 10  # of the object alone, before the probe is refined with it,
    start_steps: int = 40  # of either start of that fit,
    clearly_lower: float = 0.85  # share of the other's objective below which this start is taken
    # deviance of a first fit under a known probe, from which a better start is sought; and of a thin object,
    # from which slices are tried far apart
    poor_fit: float = 1.2
    core_steps: int = 150  # of all refined parameters, once the model is selected
    beam_pixels: int = 2**23  # of the patterns that give the beam of a scan that is fitted in blocks
    learned_rounds: int = 1  # of each weight of a learned prior
    next_kind: float = 0.3  # least λ of a second-order regulariser over the best edge-preserving (measured)
    depths: tuple[float, ...] = (10.0, 100.0, 1e3, 1e4)  # λ_z that are tried between slices
    modes: int = 3  # of the probe, at most, or one more than it has,
    modes_beyond: int = 3  # and so many more where they explain what slices would
    opr_modes: int = 3  # by which it varies, at most,
    more_opr_modes: int = 6  # or so many, where those so far explain
    varies_mainly: float = 0.5  # a larger share than this of the deviance above one
    pupil: float = 0.75  # share of the far field, from which on a pupil is no limit
    variation: float = 1.5  # tried from this score on (measured: 1.13 to 1.24 of constant probes, else 2.3)
    # share of the deviance above one that OPR modes explain in the end, at least (measured: .3 to .95 of
    # probes that vary, .12 of an object finer than its pixels)
    variation_share: float = 0.15
    background_excess: float = 5.0  # times what an uncertain object alone would give: a background
    noise_rounds: int = 8  # until the noise of amplitudes changes
    same_noise: float = 0.03  # by a smaller share
    again: float = 0.1  # fall of the log-deviance from which refused parts of the beam are tried again

    def count(self, N: int) -> int:
        """Return how many patterns of ``N × N`` the core has, at least."""
        return max(self.least, min(self.fewest, self.most_pixels // N**2))

    def core(self, data: Dataset) -> Dataset:
        """Return the patterns nearest to the middle of a scan; all, if they are not many more."""
        most = data.held_by(self.core_pixels, self.count(data.N))
        return data if len(data.positions) <= 1.5 * most else data.cut_out(data.central(most))


@dataclass(frozen=True)
class ModelOptions:
    """Parts refined besides the object; None: selected by cross-validation."""

    # whether they are refined
    probe: Choice = None
    positions: Choice = None
    flux: Choice = None
    background: Choice = None
    point_spread: Choice = None  # of the detector
    modes: int | None = None  # number of the probe's modes; None: one more than the probe has, if that helps
    probe_variation: int | None = None  # number of its OPR modes, by which it varies; None: as many as help
    # number of cosines over the scan, of which their weights consist; None: independent
    weight_waves: int | None = None
    # number of slices of the object; None: as many as help, where the distance between them or lengths are
    # known (``Dataset.between``)
    slices: int | None = 1
    # that is the distance between slices; else half a depth of field, where the search begins
    thickness_specified: bool = False
    # model of the position corrections; None: with their affine part in a near field, or if that helps
    moves: str | None = None
    prior: str = "learned"  # kind of regulariser: of :data:`~.prior.PRIORS`, ``learned`` or ``none``
    strength: float | None = None  # its weight λ, or κ; None: selected
    noise: str = "auto"  # of a pixel, or ``auto``
    support: ProbeSupport | None = None  # of the probe; None: everywhere
    pupil: Choice = None  # limit the far field of the probe to its pupil; None: selected
    steps: int = 400  # of a fit, at most
    weights: Path = WEIGHTS  # file of the denoiser; by default the one that comes with the program
    selection: SelectionOptions = SelectionOptions()  # how much is fitted to select

    def start_object(self, data: Dataset, probe: np.ndarray | None = None) -> np.ndarray:
        """Return the object ``(M, M)`` that fits begin with, of amplitude one; ``probe``: another one.

        Under a probe that may be refined it has :func:`~ptycho.scan.ramp.flat_object`'s phase ramp. A known
        probe has the right zero frequency: then the phase where nothing lies in the beam is constant.
        """
        if self.probe is False:
            return np.ones((data.object_size,) * 2, np.complex64)
        return flat_object(data, probe)

    def moves_of(self, data: Dataset) -> str:
        """Return the model of the position corrections that a fit begins with.

        In a far field the probe takes on a part of an affine map, and the map of few patterns is uncertain.
        """
        return self.moves or ("independent" if data.fresnel is None else "affine_and_independent")

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
    """The core while its model is selected."""

    noise: ScanLikelihood  # likelihood of the core
    kept: ScanLikelihood  # likelihood of what is fitted of it
    holdout: HoldOut  # what is held out
    options: ModelOptions  # what is specified
    # estimate, refine, last: the estimate, what is refined in it, and the fit that gave it
    estimate: Estimate
    refine: Refine = OBJECT_ALONE
    larger: bool = False  # the scan has more patterns than its core
    last: Fit | None = None
    first: Estimate | None = None  # the fit of the object alone, under the initial beam
    moves: str = "independent"  # model of the position corrections
    projected: bool = False  # the object begins with the difference map
    support: ProbeSupport | None = None  # of the probe
    # deviance per pixel of the held-out patterns, ``(J,)``
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))
    decisions: list[Finding] = field(default_factory=list)  # in order; each is passed to ``on_decision``
    tried: list[Trial] = field(default_factory=list)  # trials of regularisers
    # the mean log-deviance at which a part of the beam was refused, by its name; infinite where a simpler
    # model, which explains less, took its place
    refused: dict[str, float] = field(default_factory=dict)
    # for each part that was taken, the mean log-deviance below which what was refined later has brought more
    # than that part
    explained: dict[str, float] = field(default_factory=dict)
    # probe modes and flux from before OPR modes, by the parts of the beam that are refined only beside these
    before_variation: dict[str, np.ndarray] = field(default_factory=dict)
    on_decision: Callable[[Finding], object] = lambda decision: None

    def record(self, what: str, value: str, why: str) -> None:
        """Keep a decision, and pass it to ``on_decision``."""
        self.decisions.append(Finding(what, value, why))
        self.on_decision(self.decisions[-1])

    def forget(self, what: str) -> None:
        """Drop the decisions of this name: another one takes their place."""
        self.decisions = [finding for finding in self.decisions if finding.what != what]

    def try_in_either_order(
        self, one: Callable[[Selection], None], other: Callable[[Selection], None]
    ) -> None:
        """Try two hypotheses that can stand for each other; if the first is taken, in the other order, too.

        The order that explains more is kept.
        """
        usual, reverse = self._branch(), self._branch()
        one(usual)
        if usual.refine != self.refine:
            other(reverse)
        other(usual)
        ways = [usual]
        if reverse.refine != self.refine:  # else what follows is the same
            one(reverse)
            ways.append(reverse)
        self._adopt(min(ways, key=lambda way: way.deviance))

    def _branch(self) -> Selection:
        """Return a copy whose decisions are not reported."""
        names = "decisions", "tried", "refused", "explained", "before_variation"
        own = {name: copy(getattr(self, name)) for name in names}
        return replace(self, **own, on_decision=lambda decision: None)

    def _adopt(self, branch: Selection) -> None:
        """Become a branch, and report what it decided."""
        new = [decision for decision in branch.decisions if decision not in self.decisions]
        for one in fields(self):
            if one.name != "on_decision":
                setattr(self, one.name, getattr(branch, one.name))
        for decision in new:
            self.on_decision(decision)

    def fit(
        self,
        estimate: Estimate,
        refine: Refine,
        prior: Prior,
        steps: int | None = None,
        enough: float = FIT.preliminary,
        support: ProbeSupport | None = None,
        moves: str | None = None,
    ) -> Fit:
        """Fit what is not held out; ``support`` and ``moves``: None: those of the selection."""
        options, support, moves = self.options, support or self.support, moves or self.moves
        objective = Objective(self.kept, prior, moves, support, weight_waves=options.weight_waves)
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
        moves: str | None = None,
        within: float = -np.inf,
        steps: int | None = None,
        rule: Rule = REFINED,
    ) -> None:
        """Try another model: it is taken if it is specified, or if it explains what is held out better.

        A ``simpler`` one is taken unless it explains that clearly worse. If it explains it worse at all, the
        part that it leaves out is to be tried again. ``within``: one is also taken if its mean log-deviance
        stays below. ``steps``: of its fit, at most; None: those of the options. ``rule``: of what is better.
        """
        if specified is False:
            return
        fitted = self.fit(start, refine, self.prior, steps, support=support, moves=moves)
        scores = self.holdout.score(fitted.estimate, refine)
        gain = compare_shares(scores, self.scores)
        more_steps = self.last is not None and fitted.course[-1] >= self.last.reach
        if specified is None and not simpler and gain.passes(rule) and (more_steps or self.last is None):
            # as many steps without it: that they were more explains nothing
            self.take(self.fit(self.estimate, self.refine, self.prior, len(fitted.course)), self.refine)
            gain = compare_shares(scores, self.scores)
        apart = self._exceeds_errors(fitted.estimate)
        if simpler:
            taken = not Comparison(-gain.gain, gain.error).passes(REFINED)
        else:
            taken = bool(specified or (gain.passes(rule) and apart))
        explains_little = not taken and self.deviance - gain.gain < within
        taken = taken or explains_little
        why = self.describe(gain, taken)
        if not (taken or simpler) and gain.gain > 0:
            why += "; too little" if apart else "; errors of the object alone can cause so weak a background"
        why += "; what is left out explains too little" if explains_little else ""
        self.record(what, values[not taken], why if specified is None else f"specified; {why}")
        if taken:
            self.take(fitted, refine, scores)
            self.support, self.moves = support or self.support, moves or self.moves
            if simpler and gain.gain < 0:
                self.refused[what] = np.inf
            self.explained[what] = self.deviance - gain.gain
        elif specified is None:
            self.refused[what] = self.deviance

    def _exceeds_errors(self, estimate: Estimate) -> bool:
        """Return whether a background exceeds what errors of the object alone would produce.

        p parameters of the object leave a pattern's expectation uncertain by about p/J photons, and most
        where it is dark; there any intensity that is added predicts better.
        """
        photons = float(estimate.background.sum()) / self.noise.photon**2
        numbers = self.limits.background_excess * 2 * estimate.slices * illuminated_pixels(estimate)
        return not photons or photons > numbers / len(estimate.positions)

    def describe(self, gain: Comparison, taken: bool) -> str:
        """Return how the deviance of what is held out changes, as a line for the log."""
        middle = float(np.exp(self.deviance))
        after = middle * np.exp(-gain.gain)
        change = (("falls", "rises") if taken else ("would fall", "would rise"))[int(after >= middle)]
        values = f"{middle:.4f} → {after:.4f} ± {after * gain.error:.4f}"
        return f"deviance of held-out {self.holdout.kind} {change} {values}"

    def learn_noise(self) -> None:
        """Take the noise from the residuals where photons are not known, once more is refined."""
        if self.noise.data.counts:
            return
        ratio = noise_ratio(self.kept, self.estimate)
        self.noise = replace(self.noise, unit=self.noise.unit * ratio)
        self.kept = replace(self.kept, unit=self.kept.unit * ratio)
        likelihood = self.holdout.likelihood
        self.holdout = replace(self.holdout, likelihood=replace(likelihood, unit=likelihood.unit * ratio))
        self.scores = self.holdout.score(self.estimate, self.refine)
        change = 2 * np.log(ratio)
        self.refused = {what: before - change for what, before in self.refused.items()}
        self.explained = {what: before - change for what, before in self.explained.items()}
        self.last = None  # its objective is in other units


def noise_ratio(likelihood: ScanLikelihood, estimate: Estimate) -> float:
    """Return √(deviance / degrees of freedom): by how much amplitudes are noisier than assumed."""
    measured = int(likelihood.pixels.sum())
    degrees_of_freedom = max(measured - 2 * estimate.slices * illuminated_pixels(estimate), measured // 10)
    return float(np.sqrt(likelihood.evaluate(estimate).deviance.sum() / degrees_of_freedom))
