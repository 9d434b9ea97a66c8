"""What of a scan is found besides its object, on its *core*: some neighbouring patterns in its middle.

The object is fitted to the beam as it is told: of large patterns from larger pixels on, in a sparse scan from
a constant and from a coarse one. Then one thing more is freed after the other, the simplest first, and kept
where patterns (or photons) that were kept out are explained better by more than chance: probe, positions,
flux, another mode, background. Then the strength of the classical prior is chosen in the same way, and that
of the learned one beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ptycho.networks.denoiser import WEIGHTS
from ptycho.reconstruction.judge import Judge, keep_out
from ptycho.reconstruction.larger_pixels import begin_at_larger_pixels
from ptycho.reconstruction.learned import STRENGTHS, Learned, Network, StoredNetwork
from ptycho.reconstruction.prior import Prior, kind_of
from ptycho.reconstruction.refinement import noise_unit
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.shelf import NoShelf, Shelf
from ptycho.reconstruction.solver import (
    ENOUGH,
    NEARLY,
    OBJECT_ALONE,
    Fit,
    Terms,
    coarse_to_fine,
    fit,
    fit_learned,
)
from ptycho.reconstruction.state import Freedom, State, more_modes
from ptycho.reconstruction.unknowns import lit_pixels
from ptycho.scan.comparison import Comparison, compare_shares
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding

CORE_PIXELS, FEWEST = 2**20, 100  # of the patterns that decide; and how many decide at least,
MOST_PIXELS, LEAST = 2**23, 36  # unless these have more pixels: then so many
DECIDING = 60  # steps of a fit that decides, at most
BEGINNING = 120  # steps of the first of them, from a constant
TRYING = 1  # rounds of each strength of a prior that was learned
MOST_MODES = 3
TELLING = 5.0  # times what an uncertain object passes for: a background
DARKEST = 0.02  # of the pixels, whose mean is what a background begins with
NOISE_ROUNDS, SAME_NOISE = 8, 0.03  # until the noise changes by less
EXPECTATIONS = 8  # steps of the first background

REFINED = "refined", "not refined"
Choice = bool | None
"""Refine it (True), do not (False), or select by cross-validation (None)."""


@dataclass(frozen=True)
class Wishes:
    """What may be found besides the object; None: the judge decides.

    Attributes:
        probe, positions, flux, background: whether they are free.
        modes: number of the probe's modes; None: one more than the probe has, if that helps.
        moves: model of the moves, ``free``, ``affine`` or ``all``.
        prior: kind of the prior: of :data:`PRIORS`, ``learned`` or ``none``.
        strength: its λ, or κ; None: chosen.
        noise: of a pixel, or ``auto``.
        lit: ``(N, N)`` bool, where the probe may be; None: everywhere.
        steps: of a fit, at most.
        weights: file of the network of a prior that was learned; by default the one that comes with the
            program.
    """

    probe: Choice = None
    positions: Choice = None
    flux: Choice = None
    background: Choice = None
    modes: int | None = None
    moves: str = "independent"
    prior: str = "learned"
    strength: float | None = None
    noise: str = "auto"
    lit: np.ndarray | None = None
    steps: int = 400
    weights: Path = WEIGHTS

    @property
    def network(self) -> Network:
        return StoredNetwork(self.weights)

    @property
    def learned(self) -> bool:
        return self.prior == "learned"

    @property
    def classical(self) -> tuple[str, ...]:
        """The regularisers of :data:`PRIORS` of which one is used, alone or beside the learned one."""
        return ("edge_preserving", "second_order") if self.learned else (self.prior,)


@dataclass(eq=False)
class Deciding:
    """The core while it is decided: its noise, what is fitted, what judges, what is free so far.

    ``coarse``: the object begins coarse; ``tried``: the regularisers that were compared.
    """

    noise: ScanLikelihood
    kept: ScanLikelihood
    judge: Judge
    wishes: Wishes
    state: State
    free: Freedom = OBJECT_ALONE
    last: Fit | None = None
    coarse: bool = False
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0))
    decisions: list[Finding] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    tell: Callable[[Finding], object] = lambda decision: None

    def note(self, what: str, value: str, why: str) -> None:
        """Keep a decision, and tell it."""
        self.decisions.append(Finding(what, value, why))
        self.tell(self.decisions[-1])

    def fitted(
        self, state: State, free: Freedom, prior: Prior, steps: int = DECIDING, enough: float = NEARLY
    ) -> Fit:
        terms = Terms(self.kept, prior, self.wishes.moves, self.wishes.lit)
        return fit(terms, state, free, min(steps, self.wishes.steps), enough)

    @property
    def prior(self) -> Prior:
        """While it is decided."""
        return weak_prior(self.wishes)

    def take(self, found: Fit, free: Freedom, scores: np.ndarray | None = None) -> None:
        self.state, self.free, self.last = found.state, free, found
        self.scores = self.judge.score(found.state, free) if scores is None else scores

    def offer(self, what: str, values: tuple[str, str], start: State, free: Freedom, wish: Choice) -> None:
        """Free something more: as it is wished, or where the judge says so."""
        if wish is False:
            return
        found = self.fitted(start, free, self.prior)
        scores = self.judge.score(found.state, free)
        gain = compare_shares(scores, self.scores)
        if wish is None and gain.matters and not (self.last and found.course[-1] < self.last.reach):
            # as many steps without it: that they were more explains nothing
            self.take(self.fitted(self.state, self.free, self.prior, len(found.course)), self.free)
            gain = compare_shares(scores, self.scores)
        apart = self.told_apart(found.state)
        taken = bool(wish or (gain.matters and apart))
        told = _told(gain, self.scores, self.judge.kind, taken)
        if not taken and gain.gain > 0:
            told += "; too little" if apart else "; errors of the object alone can cause so weak a background"
        why = told if wish is None else f"specified; {told}"
        self.note(what, values[not taken], why)
        if taken:
            self.take(found, free, scores)

    def told_apart(self, state: State) -> bool:
        """Whether a background is more than what makes up for an object that is not exactly known.

        p unknowns of the object leave a pattern's expectation uncertain by about p/J photons, and most where
        it is dark; there any light that is added predicts better.
        """
        light = float(state.background.sum()) / self.noise.photon**2
        return not light or light > TELLING * 2 * lit_pixels(state) / len(state.positions)


def weak_prior(wishes: Wishes) -> Prior:
    """While freedoms are decided: as much as is asked for, else a little.

    An object that is rough where little lights it tells nothing.
    """
    if wishes.prior == "none":
        return Prior()
    kind = wishes.classical[0]
    weakest = kind_of(kind).strengths[0]
    asked = None if wishes.learned else wishes.strength
    return Prior(kind, weakest if asked is None else asked)


def decide(
    data: Dataset,
    wishes: Wishes,
    seed: int,
    compile_xla: bool,
    shelf: Shelf | None = None,
    tell: Callable[[Finding], object] = lambda decision: None,
) -> Deciding:
    """What is free, on the core of a scan; fits are kept on the ``shelf``, decisions are told."""
    noise = _first_noise(data, wishes, compile_xla, shelf or NoShelf())
    kept, judge = keep_out(noise, seed)
    flat = np.ones((kept.data.object_size,) * 2)
    state = State.of(kept.data, flat, normalisation=noise.normalisation)
    deciding = Deciding(noise, kept, judge, wishes, state, tell=tell)
    deciding.take(_begin(deciding), OBJECT_ALONE)
    _learn_noise(deciding)
    deciding.offer("probe", REFINED, deciding.state, Freedom(True), wishes.probe)
    _learn_noise(deciding)
    deciding.offer(
        "positions", REFINED, deciding.state, replace(deciding.free, positions=True), wishes.positions
    )
    _learn_noise(deciding)
    deciding.offer("flux", REFINED, deciding.state, replace(deciding.free, flux=True), wishes.flux)
    if deciding.free.probe:
        _offer_modes(deciding)
    if wishes.background is not False:
        brighter = replace(deciding.state, background=_some_background(deciding.kept, deciding.state))
        free = replace(deciding.free, background=True)
        deciding.offer("background", REFINED, brighter, free, wishes.background)
        _learn_noise(deciding)
    return deciding


def _begin(deciding: Deciding) -> Fit:
    """The object alone, from a constant; in a sparse scan from a coarse one, if that explains more.

    Of large patterns, it begins at larger pixels.
    """
    terms = Terms(deciding.kept, deciding.prior)
    if begun := begin_at_larger_pixels(terms, deciding.state, BEGINNING):
        return deciding.fitted(begun, OBJECT_ALONE, deciding.prior, BEGINNING)
    found = deciding.fitted(deciding.state, OBJECT_ALONE, deciding.prior, BEGINNING)
    if deciding.judge.kind == "patterns" or not deciding.wishes.learned:
        return found
    coarse = coarse_to_fine(terms, deciding.state, deciding.wishes.network)
    other = deciding.fitted(coarse, OBJECT_ALONE, deciding.prior, BEGINNING)
    scores, before = (deciding.judge.score(one.state, OBJECT_ALONE) for one in (other, found))
    gain = compare_shares(scores, before)
    deciding.coarse = gain.clear and other.course[-1] < found.course[-1]
    value = "strongly denoised first" if deciding.coarse else "a constant"
    deciding.note("initial object", value, _told(gain, before, deciding.judge.kind, deciding.coarse))
    return other if deciding.coarse else found


def _offer_modes(deciding: Deciding) -> None:
    """One mode more than there are, as long as that helps; or as many as are asked for."""
    wanted = deciding.wishes.modes
    while wanted is None or len(deciding.state.modes) < wanted:
        count = len(deciding.state.modes) + 1 if wanted is None else wanted
        start = replace(deciding.state, modes=more_modes(deciding.state.modes, count)[:count])
        wish = None if wanted is None else True
        deciding.offer("modes", (str(count), str(len(deciding.state.modes))), start, deciding.free, wish)
        if wanted is None and (len(deciding.state.modes) < count or count >= MOST_MODES):
            return


def choose_prior(deciding: Deciding) -> tuple[Prior, Learned | None]:
    """The regulariser under which the held-out patterns have the least deviance; the beam stays as it is.

    None is taken unless another is clearly better. A learned one is tried beside the best of each other kind.
    """
    wishes = deciding.wishes
    if wishes.prior == "none":
        return Prior(), None
    if wishes.strength is not None and not wishes.learned:
        return weak_prior(wishes), None
    none, *tried = _try_classical(deciding)
    chosen = lowest(none, tried)
    if wishes.learned and wishes.strength is not None:
        chosen = chosen._replace(learned=Learned(wishes.network, wishes.strength))
    elif wishes.learned:
        kinds = [[one for one in tried if one.prior.kind == kind] for kind in wishes.classical]
        starts = [none] if chosen is none else [min(ones, key=lambda one: one.height) for ones in kinds]
        tried += [one for start in starts for one in _try_learned(deciding, start)]
        chosen = lowest(none, tried)
    compared = "; ".join(f"{one.name}: {_middle(one.scores):.4f}" for one in (none, *tried))
    if wishes.strength is not None:
        compared = f"κ as specified; {compared}"
    deciding.tried = [none, *tried]
    deciding.note("regulariser", chosen.name, f"deviance of held-out {deciding.judge.kind}: {compared}")
    deciding.state = chosen.state
    return chosen.prior, chosen.learned


class Tried(NamedTuple):
    """A regulariser: the deviance of the held-out patterns ``(J,)``, and the state that it is of."""

    prior: Prior
    scores: np.ndarray
    state: State
    learned: Learned | None = None

    @property
    def height(self) -> float:
        return float(np.log(self.scores).mean())

    @property
    def name(self) -> str:
        classical = f"{self.prior.kind}, λ {self.prior.strength:g}" if self.prior.active else "none"
        return f"learned, κ {self.learned.strength:g}, beside {classical}" if self.learned else classical


def lowest(simplest: Tried, others: Sequence[Tried]) -> Tried:
    """The one of least deviance, if it is clearly less than that of the simplest."""
    best = min(others, key=lambda one: one.height)
    return best if compare_shares(best.scores, simplest.scores).clear else simplest


def _try_classical(deciding: Deciding) -> list[Tried]:
    """No regulariser, then each kind from the best state so far; λ rises while that lowers the deviance."""

    def attempt(state: State, prior: Prior) -> Tried:
        state = deciding.fitted(state, OBJECT_ALONE, prior, deciding.wishes.steps, ENOUGH).state
        return Tried(prior, deciding.judge.score(state, deciding.free), state)

    tried = [attempt(deciding.state, Prior())]
    for kind in deciding.wishes.classical:
        state, height = min(tried, key=lambda one: one.height).state, np.inf
        for strength in kind_of(kind).strengths:
            tried.append(attempt(state, Prior(kind, strength)))
            if tried[-1].height > height:
                break
            state, height = tried[-1].state, tried[-1].height
    return tried


def _try_learned(deciding: Deciding, start: Tried) -> list[Tried]:
    """Strengths of the prior that was learned, beside another, as long as a stronger one explains more."""
    terms, state, tried = Terms(deciding.kept, start.prior), start.state, list[Tried]()
    for strength in STRENGTHS:
        learned = Learned(deciding.wishes.network, strength)
        state = fit_learned(terms, state, learned, TRYING).state
        tried.append(Tried(start.prior, deciding.judge.score(state, deciding.free), state, learned))
        if len(tried) > 1 and tried[-1].height > tried[-2].height:
            break
    return tried


def _first_noise(data: Dataset, wishes: Wishes, compile_xla: bool, shelf: Shelf) -> ScanLikelihood:
    """The core under the noise that is asked for; where photons are not known, of a strength that
    residuals of the object alone give."""
    part = core(data)
    kind = wishes.noise if wishes.noise != "auto" else "poisson" if data.counts else "gaussian"
    unit = 1.0 if data.counts else noise_unit(part)
    noise = ScanLikelihood(part, data.normalisation, unit, kind, compile_xla=compile_xla, shelf=shelf)
    if data.counts:
        return noise
    start = State.of(part, np.ones((part.object_size,) * 2), normalisation=data.normalisation)
    for _ in range(NOISE_ROUNDS):
        start = fit(Terms(noise, weak_prior(wishes)), start, OBJECT_ALONE, DECIDING, NEARLY).state
        ratio = _noise_ratio(noise, start)
        noise = replace(noise, unit=noise.unit * ratio)
        if abs(ratio - 1) < SAME_NOISE:
            break
    return noise


def _noise_ratio(likelihood: ScanLikelihood, state: State) -> float:
    """By how much the noise of amplitudes is more than it was taken for: √(deviance / degrees of freedom)."""
    measured = len(state.positions) * likelihood.pixels
    free = max(measured - 2 * lit_pixels(state), measured // 10)
    return float(np.sqrt(likelihood.evaluate(state).deviance.sum() / free))


def _learn_noise(deciding: Deciding) -> None:
    """Where photons are not known, the noise is what residuals leave, once more is free."""
    if deciding.noise.data.counts:
        return
    ratio = _noise_ratio(deciding.kept, deciding.state)
    deciding.noise = replace(deciding.noise, unit=deciding.noise.unit * ratio)
    deciding.kept = replace(deciding.kept, unit=deciding.kept.unit * ratio)
    likelihood = deciding.judge.likelihood
    deciding.judge = replace(deciding.judge, likelihood=replace(likelihood, unit=likelihood.unit * ratio))
    deciding.scores = deciding.judge.score(deciding.state, deciding.free)
    deciding.last = None  # its objective is in other units


def core(data: Dataset) -> Dataset:
    """The patterns nearest to the middle of a scan, so many; all, if they are not many more."""
    most = data.held_by(CORE_PIXELS, fewest(data.N))
    if len(data.positions) <= 1.5 * most:
        return data
    return data.cut_out(data.central(most))


def fewest(N: int) -> int:
    """How many patterns of N × N decide, at least."""
    return max(LEAST, min(FEWEST, MOST_PIXELS // N**2))


def _some_background(likelihood: ScanLikelihood, state: State) -> np.ndarray:
    """What the search for one starts from: the darkest pixels, then expectation maximisation; normalised.

    b ← b ⟨n/λ⟩ for each pixel, which never makes the likelihood worse.
    """
    data, f = likelihood.data, likelihood.normalisation
    mean = data.amplitudes.statistics.mean_intensity
    seen = np.sort(mean.ravel() if data.good is None else mean[data.good])
    dark = seen[: max(1, round(DARKEST * len(seen)))].mean()
    background = np.full((data.N, data.N), f**2 * (dark + 1e-6 * seen.mean()), np.float32)
    for _ in range(EXPECTATIONS):
        slope = likelihood.evaluate(replace(state, background=background), ("background",)).gradients[
            "background"
        ]
        excess = slope * np.float32(likelihood.photon**2) / len(state.positions)  # 1 − ⟨n/λ⟩
        background = background * (1 - np.minimum(excess, 0.9))
    return background


def _told(gain: Comparison, before: np.ndarray, kind: str, taken: bool) -> str:
    middle = _middle(before)
    after = middle * np.exp(-gain.gain)
    forms = ("falls", "rises") if taken else ("would fall", "would rise")
    change = forms[int(after >= middle)]
    return f"deviance of held-out {kind} {change} {middle:.4f} → {after:.4f} ± {after * gain.error:.4f}"


def _middle(deviance: np.ndarray) -> float:
    """Geometric mean."""
    return float(np.exp(np.log(deviance).mean()))
