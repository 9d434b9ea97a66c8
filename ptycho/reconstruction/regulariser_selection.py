"""Select the regulariser and its weight by cross-validation, after the model: each is a trial at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.learned import STRENGTHS, Learned, Network
from ptycho.reconstruction.prior import Prior, kind_of
from ptycho.reconstruction.selection import Selection
from ptycho.reconstruction.solver import FIT, OBJECT_ALONE, Objective, fit_learned
from ptycho.reconstruction.trial import Trial, best_of
from ptycho.scan.comparison import CLEAR, EQUAL


@dataclass(frozen=True, eq=False)
class Regularisation:
    """A hypothesis: a regulariser, and the learned one beside it."""

    prior: Prior
    learned: Learned | None = None

    @property
    def name(self) -> str:
        planes = f"{self.prior.kind}, λ {self.prior.strength:g}" if self.prior.strength else "none"
        classical = f"{planes}, along depth λ {self.prior.depth:g}" if self.prior.depth else planes
        return f"learned, κ {self.learned.strength:g}, beside {classical}" if self.learned else classical

    @classmethod
    def of(cls, name: str, network: Network) -> Regularisation:
        """Return the hypothesis of a :attr:`name`; ``network`` is the denoiser.

        Raises:
            ValueError: it is no such name.
        """
        *learned, classical = name.split(", beside ")
        planes, _, depth = classical.partition(", along depth λ ")
        kind, _, strength = planes.partition(", λ ")
        prior = Prior(kind, 0.0 if planes == "none" else float(strength), float(depth or 0))
        strengths = [float(part.removeprefix("learned, κ ")) for part in learned]
        return cls(prior, Learned(network, *strengths) if strengths else None)


def select_regulariser(selection: Selection) -> Regularisation:
    """Select the regulariser under which the held-out patterns have the least deviance.

    None is taken unless another is clearly better; of nearly equal weights the strongest is
    taken. A learned one is tried beside the best of the others, and taken unless that is clearly better: it
    gains more in the rounds of the last fit than in the single one of its trial. The beam stays as it is.
    """
    options = selection.options
    if options.prior == "none":
        return Regularisation(Prior())
    if options.strength is not None and not options.learned:
        return Regularisation(options.weak_prior)
    none, *tried = _try_classical(selection)
    chosen = strongest_of_equals(lowest(none, tried), tried)
    learned = options.learned and selection.estimate.slices == 1  # the denoiser knows thin objects
    if learned and options.strength is None:
        beside = _try_learned(selection, chosen)
        tried, chosen = [*tried, *beside], unless_clearly_worse(lowest(none, beside), chosen)
    if selection.estimate.slices > 1:
        deep = _try_depth(selection, chosen)
        tried, chosen = [*tried, *deep], lowest(chosen, deep)
    selected: Regularisation = chosen.hypothesis
    compared = "; ".join(f"{trial.hypothesis.name}: {trial.mean_deviance:.4f}" for trial in (none, *tried))
    if learned and options.strength is not None:
        selected = replace(selected, learned=Learned(options.network, options.strength))
        compared = f"κ as specified; {compared}"
    selection.tried, selection.estimate = [none, *tried], chosen.estimate
    why = f"deviance of held-out {selection.holdout.kind}: {compared}"
    selection.record("regulariser", selected.name, why)
    return selected


def lowest(simplest: Trial, others: Sequence[Trial]) -> Trial:
    """Return the trial of lowest score, if it is clearly better than the simplest."""
    best = best_of(others)
    return best if best.gain_over(simplest).passes(CLEAR) else simplest


def unless_clearly_worse(learned: Trial, classical: Trial) -> Trial:
    """Return the trial of the learned regulariser, unless that of the classical one is clearly better."""
    return classical if classical.gain_over(learned).passes(CLEAR) else learned


def strongest_of_equals(best: Trial, others: Sequence[Trial]) -> Trial:
    """Return the trial of the largest λ that explains held-out patterns as well as the best of its kind.

    If they do not distinguish two weights, the stronger one leaves less noise. ``others``: of each kind, the
    weakest first.
    """
    kind = best.hypothesis.prior.kind
    same_kind = [trial for trial in others if trial.hypothesis.prior.kind == kind]
    equals = [trial for trial in same_kind if not best.gain_over(trial).passes(EQUAL)]
    return (equals or [best])[-1]


def _try_classical(selection: Selection) -> list[Trial]:
    """Try no regulariser, then each kind from the best estimate so far; λ rises while that helps.

    The end without a regulariser comes first, then edges: from there, sparse scans do not stay in a wrong
    minimum. λ of the next kind begins at ``SelectionOptions.next_kind`` times the best so far.
    """

    def attempt(estimate: Estimate, prior: Prior) -> Trial:
        estimate = selection.fit(estimate, OBJECT_ALONE, prior, selection.options.steps, FIT.enough).estimate
        return _trial(selection, Regularisation(prior), estimate)

    tried = [attempt(selection.estimate, Prior())]
    for kind in selection.options.classical:
        best = best_of(tried)
        least = selection.limits.next_kind * best.hypothesis.prior.strength
        estimate, score = best.estimate, np.inf
        for strength in kind_of(kind).strengths:
            if strength < least:
                continue
            tried.append(attempt(estimate, Prior(kind, strength)))
            if tried[-1].score > score:
                break
            estimate, score = tried[-1].estimate, tried[-1].score
    return tried


def _try_learned(selection: Selection, start: Trial) -> list[Trial]:
    """Try weights of the learned prior beside another, as long as a larger one explains more."""
    prior = start.hypothesis.prior
    estimate, tried = start.estimate, list[Trial]()
    for strength in STRENGTHS:
        learned = Learned(selection.options.network, strength)
        objective = Objective(selection.kept, prior, learned=learned)
        estimate = fit_learned(objective, estimate, selection.limits.learned_rounds).estimate
        tried.append(_trial(selection, Regularisation(prior, learned), estimate))
        if len(tried) > 1 and tried[-1].score > tried[-2].score:
            break
    return tried


def _try_depth(selection: Selection, start: Trial) -> list[Trial]:
    """Try weights λ_z of the differences of neighbouring slices beside the best regulariser of each slice.

    If the sample differs from slice to slice, even a small weight explains what is held out worse.
    """
    estimate, tried = start.estimate, list[Trial]()
    for depth in selection.limits.depths:
        prior = replace(start.hypothesis.prior, depth=depth)
        estimate = selection.fit(estimate, OBJECT_ALONE, prior, selection.options.steps, FIT.enough).estimate
        tried.append(_trial(selection, Regularisation(prior), estimate))
        if tried[-1].score > (tried[-2] if len(tried) > 1 else start).score:
            break
    return tried


def _trial(selection: Selection, hypothesis: Regularisation, estimate: Estimate) -> Trial:
    return Trial(hypothesis, estimate, np.zeros(0), selection.holdout.score(estimate, selection.refine))
