"""Options of the solver: of a run that starts from an earlier one, and of a near field."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ptycho.align.aligned import StartingPoint
from ptycho.config import OwnProbe
from ptycho.config.solver_config import SolverConfig
from ptycho.config.waves import Fresnel
from ptycho.methods.solver import options_for, warm_start_of
from ptycho.reconstruction.estimate import Refine
from ptycho.reconstruction.selection import ModelOptions

LEARNED = "learned, κ 2, beside second_order, λ 10"
MODEL = {"probe": "refined", "positions": "not refined", "flux": "refined", "background": "not refined"}
MODEL |= {"point_spread": "not refined", "modes": "2", "regulariser": LEARNED}
IMAGE = np.array([[0, 2], [2j, 2 + 2j]])


def warm_start(model, opr_modes=None, **options):
    data = SimpleNamespace(probe=np.ones((2, 4, 4)), beam=SimpleNamespace(opr_modes=opr_modes))
    return warm_start_of(StartingPoint(IMAGE, model), data, ModelOptions(**options))


def test_the_model_of_the_earlier_run_is_kept():
    start = warm_start(MODEL)
    assert start.refine == Refine(True, positions=False, flux=True, background=False)
    assert start.regularisation.name == LEARNED
    assert {one.what: one.value for one in start.decisions} == MODEL
    assert {one.why for one in start.decisions} == {"as in the run that start names"}
    assert start.object[0, 0] == np.mean(IMAGE[IMAGE != 0]), "where nothing is known"
    older = {part: value for part, value in MODEL.items() if part != "point_spread"}
    assert warm_start(older).refine == start.refine
    assert warm_start(MODEL | {"point_spread": "refined"}).refine == replace(start.refine, point_spread=True)


@pytest.mark.parametrize("specified, count", [(None, 3), (1, 1), (0, 0)])  # more: selected anew
def test_a_probe_goes_on_to_vary(specified, count):
    assert warm_start(MODEL, np.ones((3, 4, 4)), probe_variation=4).refine is None
    start = warm_start(MODEL, np.ones((3, 4, 4)), probe_variation=specified)
    assert start.refine is not None and start.refine.probe_variation == (count > 0)
    decided = {one.what: one.value for one in start.decisions}
    assert decided.get("OPR modes") == (str(count) if count else None)


def test_what_is_specified_goes_before():
    start = warm_start(MODEL, probe=False, prior="quadratic", strength=30.0)
    assert start.refine == Refine(False, positions=False, flux=True, background=False)
    assert start.regularisation.name == "quadratic, λ 30"
    assert {one.what for one in start.decisions if one.why == "specified"} == {"probe", "regulariser"}


@pytest.mark.parametrize(
    "model, options",
    [({}, {}), (MODEL | {"regulariser": "smooth"}, {}), (MODEL, {"prior": "quadratic"})],
    ids=["unknown", "another name", "a weight that is to be selected"],
)
def test_what_is_not_known_is_selected(model, options):
    assert warm_start(model, **options).refine is None


NEAR = Fresnel(12.0, 12.0)


@pytest.mark.parametrize(
    ("fresnel", "specified", "learn", "refined"),
    [
        (NEAR, False, None, True),
        (NEAR, False, False, False),
    ],
)
def test_a_missing_near_field_probe_is_refined_by_default(fresnel, specified, learn, refined):
    scan = SimpleNamespace(probe=np.ones((1, 16, 16)) if specified else None)
    prepared = SimpleNamespace(whole=SimpleNamespace(N=16, fresnel=fresnel), scan=scan)
    assert options_for(prepared, SolverConfig(), OwnProbe(learn=learn)).probe is refined
