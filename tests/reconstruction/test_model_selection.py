"""What is refined is decided by held-out patterns: a simpler model is taken, and what it cost tried again."""

from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest

from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.model_selection import (
    _most_opr_modes,
    _try_again,
    _try_fewer_modes,
    _try_mode_beside_unrefined_probe,
    _try_nominal,
)
from ptycho.reconstruction.selection import ModelOptions, Selection

NOMINAL, FITTED = np.zeros((20, 2)), np.ones((20, 2))


class Scripted(Selection):
    """A selection whose fits keep the estimate, and whose deviances are those of a list, in order."""

    def __init__(self, before: float, deviances: list[float]) -> None:
        self.fitted: list[np.ndarray] = []
        beam = SimpleNamespace(flux=np.ones(20))
        known = {"counts": True, "fresnel": None}
        data = SimpleNamespace(positions=NOMINAL, beam=beam, probe=np.zeros((1, 8, 8)), **known)
        scores = iter(deviances)
        holdout = SimpleNamespace(kind="patterns", score=lambda estimate, refine: patterns(next(scores)))
        likelihood = SimpleNamespace(data=data, photon=1.0)
        empty = np.zeros((8, 8), np.complex64)
        estimate = Estimate(empty, empty[None], FITTED, np.ones(20), np.zeros((8, 8)))
        refine = Refine(positions=True)
        super().__init__(likelihood, likelihood, holdout, ModelOptions(), estimate, refine)
        self.scores = patterns(before)
        self.explained["positions"] = np.log(before) + 0.1  # what was refined later has explained more

    def fit(self, estimate, refine, prior, steps=None, enough=0.0, support=None, moves=None):
        self.fitted.append(estimate.positions)
        return SimpleNamespace(estimate=estimate, course=[0.0], reach=-np.inf)


def patterns(mean: float) -> np.ndarray:
    """Return deviances ``(20,)`` of this geometric mean; differences of two have standard error zero."""
    return np.full(20, mean)


@pytest.mark.parametrize(
    ("before", "nominal", "again", "kept"),
    [
        (1.100, 1.103, [1.05, 1.103], True),  # costs little: taken, and better from nominal positions
        (1.100, 1.103, [1.1025, 1.103], False),  # from there they explain too little
        (1.100, 1.099, [], False),  # costs nothing: not tried again
    ],
)
def test_positions_that_were_left_out_at_some_cost_are_tried_again(before, nominal, again, kept):
    selection = Scripted(before, [nominal, *again])
    _try_nominal(selection)
    assert not selection.refine.positions
    _try_again(selection)
    assert selection.refine.positions is kept
    assert all(np.array_equal(positions, NOMINAL) for positions in selection.fitted)
    assert [finding.what for finding in selection.decisions] == ["positions"]


@pytest.mark.parametrize(
    ("without", "kept"), [([1.05, 1.1, 1.02, 1.05], 1), ([1.05, 1.1, 1.06], 2), ([1.099], 3), ([1.2], 3)]
)
def test_modes_that_a_background_makes_needless_are_dropped(without, kept):
    """One after the other, as long as held-out patterns are explained clearly better without.

    ``without``: deviances of trials; after a better one that of as many steps with the mode.
    """
    selection = Scripted(1.1, without)
    modes = np.zeros((3, 8, 8), np.complex64)
    selection.estimate = replace(selection.estimate, modes=modes, positions=NOMINAL)
    selection.refine, selection.larger = Refine(background=True), True
    _try_fewer_modes(selection)
    assert len(selection.estimate.modes) == 3, "more patterns may determine what those of the core do not"
    selection.larger = False
    _try_fewer_modes(selection)
    assert len(selection.estimate.modes) == kept


@pytest.mark.parametrize(
    ("specified", "refined", "deviances", "modes", "names"),
    [
        # a third explains too little
        ({}, False, [0.9, 1.1, 0.899], 2, {"modes": "2", "probe": "refined"}),
        ({}, False, [1.099], 1, {"modes": "1", "probe": "not refined"}),
        ({}, False, [1.089, 1.1], 1, {"modes": "1", "probe": "not refined"}),  # nor does 1 %
        ({}, True, [], 1, {"probe": "not refined"}),  # beside a refined probe they were tried before
        ({"modes": 1}, False, [], 1, {"probe": "not refined"}),
        ({"modes": 3}, False, [1.3], 3, {"modes": "3", "probe": "refined"}),  # as specified
        ({"probe": False}, False, [], 1, {"probe": "not refined"}),
    ],
)
def test_a_mode_is_tried_beside_a_probe_that_needs_no_refinement(specified, refined, deviances, modes, names):
    """``deviances``: of trials; after a better one that of as many steps without it."""
    selection = Scripted(1.1, deviances)
    selection.options = ModelOptions(**specified)
    probe = np.random.default_rng(0).random((1, 8, 8)).astype(np.complex64)
    selection.estimate = replace(selection.estimate, modes=probe, positions=NOMINAL)
    selection.refine = Refine(refined)
    selection.record("probe", "not refined", "")
    _try_mode_beside_unrefined_probe(selection)
    assert len(selection.estimate.modes) == modes and selection.refine.probe == (refined or modes > 1)
    assert {finding.what: finding.value for finding in selection.decisions} == names


@pytest.mark.parametrize(
    ("deviances", "kept"),
    [  # of a step from 1.1; of both steps in the usual order, in the other
        ({"flux": 1.0, "flux, background": 0.9, "background": 0.8, "background, flux": 0.7}, 0.7),
        ({"flux": 1.0, "flux, background": 0.6, "background": 0.8, "background, flux": 0.7}, 0.6),
        # either refused: the other order would be the same
        ({"flux": 1.1, "background": 0.8}, 0.8),
        ({"flux": 1.0, "background": 1.2, "flux, background": 1.2}, 1.0),
    ],
)
def test_hypotheses_that_can_stand_for_each_other_are_tried_in_either_order(deviances, kept):
    tried, reported = [], []

    def hypothesis(part):
        def run(selection):
            way = ", ".join([*(finding.what for finding in selection.decisions if finding.value), part])
            tried.append(way)
            taken = deviances[way] < np.exp(selection.deviance) - 1e-9
            if taken:
                selection.scores = patterns(deviances[way])
                selection.refine = replace(selection.refine, **{part: True})
            selection.record(part, "refined" if taken else "", way)

        return run

    scripted = Scripted(1.1, [])
    selection = Selection(**{one.name: getattr(scripted, one.name) for one in fields(Selection)})
    selection.on_decision = reported.append
    selection.try_in_either_order(hypothesis("flux"), hypothesis("background"))
    assert np.exp(selection.deviance) == pytest.approx(kept)
    assert selection.decisions == reported and len(reported) == 2
    assert tried.count("flux") == 1 and tried.count("background") == 1
    assert ("background, flux" in tried) == ("background, flux" in deviances)
    assert reported[-1].what == ("flux" if kept == 0.7 else "background")


@pytest.mark.parametrize(
    ("constant", "now", "counts", "most"),
    [
        (35.3, 4.6, True, 6),  # the probe varies, and little else is wrong
        (2.0, 1.6, True, 3),  # it stands for something else, such as an object finer than its pixels
        (0.9, 0.8, True, 3),  # the deviance is no misfit
        (35.3, 4.6, False, 3),  # nor is it where the noise is estimated
    ],
)
def test_more_opr_modes_where_they_explain_most_of_the_misfit(constant, now, counts, most):
    selection = Scripted(now, [])
    selection.kept.data.counts = counts
    assert _most_opr_modes(selection, np.log(constant)) == most
