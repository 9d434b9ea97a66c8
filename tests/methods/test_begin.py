"""What a run that begins from an earlier one refines, and under which regulariser."""

from types import SimpleNamespace

import numpy as np
import pytest

from ptycho.align.align_scan import Estimate
from ptycho.methods.solver import begin_of
from ptycho.reconstruction.model_selection import ModelOptions
from ptycho.reconstruction.state import Refine

LEARNED = "learned, κ 2, beside second_order, λ 10"
MODEL = {"probe": "refined", "positions": "not refined", "flux": "refined", "background": "not refined"}
MODEL |= {"modes": "2", "regulariser": LEARNED}
IMAGE = np.array([[0, 2], [2j, 2 + 2j]])


def begun(model, opr_modes=None, **options):
    data = SimpleNamespace(probe=np.ones((2, 4, 4)), beam=SimpleNamespace(opr_modes=opr_modes))
    return begin_of(Estimate(IMAGE, model), data, ModelOptions(**options))


def test_the_model_of_the_earlier_run_is_kept():
    begin = begun(MODEL)
    assert begin.refine == Refine(True, positions=False, flux=True, background=False)
    assert begin.regularisation.name == LEARNED
    assert {one.what: one.value for one in begin.decisions} == MODEL
    assert {one.why for one in begin.decisions} == {"as in the run that start names"}
    assert begin.object[0, 0] == np.mean(IMAGE[IMAGE != 0]), "where nothing is known"


@pytest.mark.parametrize("specified, count", [(None, 3), (1, 1), (0, 0)])  # more: selected anew
def test_a_probe_goes_on_to_vary(specified, count):
    assert begun(MODEL, np.ones((3, 4, 4)), probe_variation=4).refine is None
    begin = begun(MODEL, np.ones((3, 4, 4)), probe_variation=specified)
    assert begin.refine is not None and begin.refine.probe_variation == (count > 0)
    decided = {one.what: one.value for one in begin.decisions}
    assert decided.get("OPR modes") == (str(count) if count else None)


def test_what_is_specified_goes_before():
    begin = begun(MODEL, probe=False, prior="quadratic", strength=30.0)
    assert begin.refine == Refine(False, positions=False, flux=True, background=False)
    assert begin.regularisation.name == "quadratic, λ 30"
    assert {one.what for one in begin.decisions if one.why == "specified"} == {"probe", "regulariser"}


@pytest.mark.parametrize(
    "model, options",
    [({}, {}), (MODEL | {"regulariser": "smooth"}, {}), (MODEL, {"prior": "quadratic"})],
    ids=["unknown", "another name", "a weight that is to be selected"],
)
def test_what_is_not_known_is_selected(model, options):
    assert begun(model, **options).refine is None
