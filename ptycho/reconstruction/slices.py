"""Slices of a thick sample: they follow the fit of a thin object, under the beam that it found.

The product of the slices begins as the object was: each is its L-th root, whose phase is unwrapped before it
is divided. From constants, steps take longer; a root of wrapped phases ends in a wrong minimum. All that was
refined is refined again with the slices, each of which is regularised as the object was. But λ was selected
where a thin object left a deviance of φ > 1 in a pixel, and the best λ grows with what is left: slices take
λ/φ (McCullagh & Nelder, Generalized Linear Models, section 9.2: dispersion). The learned prior knows thin
objects alone and is left out. The beam is refined to the end: what is left of its error would go into phases
of opposite sign in neighbouring slices. Patterns hardly see such phases where they are slow, and
:mod:`~ptycho.reconstruction.preconditioner` scales steps along them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ptycho.reconstruction.holdout import HoldOut
from ptycho.reconstruction.maximum_likelihood import Solved
from ptycho.reconstruction.solver import ENOUGH, fit
from ptycho.reconstruction.state import State
from ptycho.scan.comparison import REFINED, compare_shares
from ptycho.scan.finding import Finding


def fit_slices(
    solved: Solved,
    count: int,
    steps: int,
    weight_selected: bool = True,
    enough: float = ENOUGH / 5,
    watch: Callable[[State, float], object] = lambda state, value: None,
) -> Solved:
    """Return the fit of slices, from that of a thin object; see above.

    Args:
        solved: the thin object and its beam.
        count: L.
        steps: at most.
        weight_selected: λ was selected; if not, it stays.
        enough, watch: as for :func:`~ptycho.reconstruction.solver.fit`; slow phases are found by small gains.
    """
    terms = replace(solved.terms, learned=None)
    if weight_selected:
        measured = terms.likelihood.pixels * len(solved.state.positions)
        left = terms.likelihood.evaluate(solved.state).deviance.sum() / measured
        terms = replace(terms, prior=terms.prior.weaker(1 / max(left, 1.0)))
    start = replace(solved.state, object=root_of(solved.state.object, count))
    found = fit(terms, start, solved.free, steps, enough, watch)
    return replace(solved, state=found.state, terms=terms, fit=found)


def root_of(image: np.ndarray, count: int) -> np.ndarray:
    """Return slices ``(L, M, M)``, all alike, of an object ``(M, M)`` complex64, whose product it is."""
    from skimage.restoration import unwrap_phase  # not at the start of the program

    phase = unwrap_phase(np.angle(image), rng=0)
    one = np.abs(image) ** (1 / count) * np.exp(1j * phase / count)
    return np.stack([one.astype(np.complex64)] * count)


def compare_slices(thin: Solved, thick: Solved, holdout: HoldOut | None) -> Finding:
    """Return by how much slices lower the deviance of held-out patterns, if there are any."""
    count = thick.state.slices
    if holdout is None:
        return Finding("slices", str(count), "as specified; no patterns are held out to compare one slice by")
    one, several = (holdout.score(solved.state, solved.free) for solved in (thin, thick))
    gain = compare_shares(several, one)
    change = "falls" if gain.passes(REFINED) else "does not fall clearly: one slice is enough;"
    before, after = one.mean(), several.mean()
    why = f"specified; deviance of held-out patterns {change} {before:.4g} → {after:.4g}"
    return Finding("slices", str(count), why)
